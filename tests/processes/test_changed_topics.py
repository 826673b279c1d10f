"""librdkafka's admin changes topics of running nodes; every broker obeys without a restart, and after one."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.harness.nodes import Nodes, wait_for

pytestmark = pytest.mark.slow

SECONDS = 30.0
LARGE = b"x" * 1_000


@pytest.fixture
def admin(nodes: Nodes) -> AdminClient:
    return AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})


@pytest.fixture
def topic(nodes: Nodes, admin: AdminClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic with a partition on each node, of a name of its own: brokers learn of a deletion later."""
    name: str = request.node.name
    brokers = [[int(each)] for each in nodes.node_ids]
    created = admin.create_topics([NewTopic(name, len(brokers), replica_assignment=brokers)])
    created[name].result(SECONDS)
    yield name
    admin.delete_topics([name])[name].result(SECONDS)


def changed(admin: AdminClient, topic: str, how: AlterConfigOpType, name: str, value: str | None) -> None:
    entry = ConfigEntry(name, value, incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource], request_timeout=SECONDS).values()
    future.result(SECONDS)


def described(admin: AdminClient, topic: str) -> dict[str, Any]:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in future.result(SECONDS).items()}


def codes(nodes: Nodes, topic: str) -> set[int | None]:
    """The error of a large record on each of the topic's partitions."""
    found: list[int | None] = []
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "log_level": 0, "linger.ms": 0})
    for index in range(len(nodes.node_ids)):
        producer.produce(
            topic,
            LARGE,
            partition=index,
            callback=lambda error, _message: found.append(None if error is None else error.code()),
        )
    assert producer.flush(SECONDS) == 0
    return set(found)


def test_every_broker_obeys_a_changed_setting(nodes: Nodes, admin: AdminClient, topic: str) -> None:
    assert codes(nodes, topic) == {None}
    changed(admin, topic, AlterConfigOpType.SET, "max.message.bytes", "500")
    assert described(admin, topic)["max.message.bytes"] == "500"
    too_large = {KafkaError.MSG_SIZE_TOO_LARGE}
    wait_for("every broker refuses", lambda: codes(nodes, topic) == too_large)
    follower = nodes.followers()[0]
    nodes.kill(follower)
    nodes.start(follower)
    wait_for("it refuses after a restart", lambda: codes(nodes, topic) == too_large)
    changed(admin, topic, AlterConfigOpType.DELETE, "max.message.bytes", None)
    wait_for("every broker takes it", lambda: codes(nodes, topic) == {None})
    nodes.await_equal_images()


def test_every_broker_obeys_what_is_set_for_all_and_one_what_is_set_for_it(nodes: Nodes, topic: str) -> None:
    every, one = ("--broker-defaults",), ("--broker", nodes.followers()[0])
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    assert codes(nodes, topic) == {None}
    nodes.run("configs", "alter", *every, "--add-config", "message.max.bytes=500")
    wait_for("every broker refuses", lambda: codes(nodes, topic) == {too_large})
    nodes.run("configs", "alter", *one, "--add-config", "message.max.bytes=5000")
    wait_for("one takes it", lambda: codes(nodes, topic) == {too_large, None})
    nodes.kill(*nodes.node_ids)
    nodes.start(*nodes.node_ids)
    nodes.leader()
    wait_for("after a restart, too", lambda: codes(nodes, topic) == {too_large, None})
    nodes.run("configs", "alter", *every, "--add-config", "log.dirs=/tmp", status=1)
    for whose in (every, one):
        nodes.run("configs", "alter", *whose, "--delete-config", "message.max.bytes")
    wait_for("every broker takes it", lambda: codes(nodes, topic) == {None})
    nodes.await_equal_images()


def test_all_settings_at_once_and_what_is_refused(admin: AdminClient, topic: str) -> None:
    changed(admin, topic, AlterConfigOpType.SET, "retention.ms", "86400000")
    every = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "1048576"})
    with pytest.deprecated_call():
        (future,) = admin.alter_configs([every]).values()
    future.result(SECONDS)
    found = described(admin, topic)
    assert (found["segment.bytes"], found["retention.ms"]) == ("1048576", "604800000")
    with pytest.raises(KafkaException) as refused:
        changed(admin, topic, AlterConfigOpType.SET, "retention.ms", "soon")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    with pytest.raises(KafkaException) as unknown:
        changed(admin, "none-such", AlterConfigOpType.SET, "retention.ms", "1")
    assert unknown.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert described(admin, topic) == found


def test_producers_and_consumers_see_new_partitions(nodes: Nodes, admin: AdminClient, topic: str) -> None:
    """Those that were there before; one that is only validated is not created, and none is taken away."""
    watchful = {
        "bootstrap.servers": nodes.bootstrap,
        "log_level": 0,
        "topic.metadata.refresh.interval.ms": 200,
    }
    consumer = Consumer(
        {**watchful, "group.id": "watches", "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    )
    try:
        consumer.subscribe([topic])
        wait_for("the first partitions are assigned", lambda: consumer.poll(0.1) or consumer.assignment())
        before = len(nodes.node_ids)
        more(admin, topic, before + 2, validate_only=True)
        for fewer in (before, before - 1):
            with pytest.raises(KafkaException) as refused:
                more(admin, topic, fewer)
            assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
        assert len(admin.list_topics(topic).topics[topic].partitions) == before
        more(admin, topic, before + 2)
        assert len(admin.list_topics(topic).topics[topic].partitions) == before + 2
        for each in nodes.node_ids:  # asked for all topics a broker asks the controller
            server = ("--bootstrap-server", nodes.client_address(each))
            (seen,) = nodes.read("topics", "describe", "--topic", topic, *server)
            assert seen["partition_count"] == before + 2
        producer = Producer({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        for index in (before, before + 1):
            producer.produce(topic, b"new", partition=index)
        assert producer.flush(SECONDS) == 0
        read: set[int | None] = set()

        def all_read() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                read.add(message.partition())
            return read == {before, before + 1}

        wait_for("the new partitions are read", all_read)
    finally:
        consumer.close()
    nodes.await_equal_images()


def more(admin: AdminClient, topic: str, count: int, *, validate_only: bool = False) -> None:
    wanted = [NewPartitions(topic, count)]
    admin.create_partitions(wanted, validate_only=validate_only)[topic].result(SECONDS)


def test_deleted_records_are_gone_for_consumers_and_after_a_kill(
    nodes: Nodes, admin: AdminClient, topic: str
) -> None:
    assert codes(nodes, topic) == {None}
    assert codes(nodes, topic) == {None}
    first, second, third = (TopicPartition(topic, index, 1) for index in range(3))
    second.offset, third.offset = -1, 3
    results = [
        each.exception(SECONDS) or each.result(SECONDS).low_watermark
        for each in admin.delete_records([first, second, third]).values()
    ]
    assert results[:2] == [1, 2]
    assert isinstance(results[2], KafkaException)
    assert results[2].args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    nodes.kill(*nodes.node_ids)
    nodes.start(*nodes.node_ids)
    nodes.leader()
    for index, low in enumerate((1, 2, 0)):
        partition = TopicPartition(topic, index)
        wait_for("its leader is back", partial(begins, nodes, partition, low))


def begins(nodes: Nodes, partition: TopicPartition, low: int) -> bool:
    """The partition has records from ``low`` to 2; False while it cannot be asked.

    A new consumer each time: one that saw no leader goes on saying that the partition is unknown.
    """
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "log_level": 0, "group.id": "none"})
    try:
        return consumer.get_watermark_offsets(partition, SECONDS) == (low, 2)
    except KafkaException:
        return False
    finally:
        consumer.close()
