"""librdkafka's settings for a target, and what its errors mean to a command."""

from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from fencepost.cluster.console import Failed, NotAuthorized, Unreadable
from fencepost.cluster.target import Target, hint_of

METADATA_SECONDS: Final = 10.0
UNKNOWN_OUTCOME: Final = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.REQUEST_TIMED_OUT,
    )
)
NOT_AUTHORIZED: Final = frozenset(
    (
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    )
)


def settings_of(target: Target) -> dict[str, Any]:
    """Settings of a librdkafka client: the cluster's addresses and the client's credentials."""
    settings: dict[str, Any] = {
        "bootstrap.servers": target.name,
        "client.id": "fencepost-cli",
        "log_level": 0,
    }
    if target.sasl is not None:
        user, password = target.sasl
        settings |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        settings |= {"sasl.username": user, "sasl.password": password}
    return settings


def partitions_of(client: Producer | Consumer, topic: str, target: Target) -> list[int]:
    """The topic's partitions. A producer's question creates the topic where that is allowed."""
    try:
        found = client.list_topics(topic, timeout=METADATA_SECONDS).topics[topic]
    except KafkaException as error:
        raise explained(error.args[0], target) from error
    if found.error is not None and found.error.code() != KafkaError.LEADER_NOT_AVAILABLE:
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise Failed(f"there is no topic {topic}; 'fencepost topics create --topic {topic}' makes it")
        raise explained(found.error, target)
    return sorted(found.partitions)


def explained(error: KafkaError, target: Target) -> click.ClickException:
    """A librdkafka error, with the exit status it deserves."""
    text = f"{error.str()} ({error.name()})"
    if error.code() in NOT_AUTHORIZED:
        return NotAuthorized(text)
    if error.code() in UNKNOWN_OUTCOME:
        return Unreadable(f"{target.name}: {text}{hint_of(target.cluster)}")
    return Failed(text)
