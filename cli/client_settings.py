"""What ``produce`` and ``consume`` share: librdkafka's settings, ``KEY=VALUE`` options, its errors' meaning.

Both are confluent-kafka (librdkafka), as most Python applications are: compression, partitioners, retries and
read_committed are not written here a second time, and what these commands show is what an application sees.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from fencepost.cli.broker_contact import BrokerTarget
from fencepost.cli.contact import hint_of
from fencepost.cli.output import Failed, NotAuthorized, Unreadable

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
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    )
)


def settings_of(target: BrokerTarget) -> dict[str, Any]:
    """Where the cluster is, and who asks."""
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


def pairs(context: click.Context, option: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Reads a repeated ``KEY=VALUE``. The value may be empty, and hold a ``=``."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {value!r}", context, option)
        found[key] = rest
    return found


def require_known(given: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """``known`` (key to default) with what was given. Raises click.BadParameter, which names the keys."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise click.BadParameter(f"--property: {', '.join(unknown)} not known; known are {', '.join(known)}")
    return {**known, **given}


def is_true(value: str) -> bool:
    """As Kafka's console tools read a boolean property."""
    return value.strip().lower() == "true"


def unescaped(value: str) -> str:
    r"""A separator as typed: ``\t`` and ``\n`` mean what they say."""
    return value.replace("\\t", "\t").replace("\\n", "\n")


def partitions_of(client: Producer | Consumer, topic: str, target: BrokerTarget) -> list[int]:
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


def explained(error: KafkaError, target: BrokerTarget) -> click.ClickException:
    """A librdkafka error, with the exit status it deserves."""
    text = f"{error.str()} ({error.name()})"
    if error.code() in NOT_AUTHORIZED:
        return NotAuthorized(text)
    if error.code() in UNKNOWN_OUTCOME:
        return Unreadable(f"{target.name}: {text}{hint_of(target.cluster)}")
    return Failed(text)
