"""The client library against a real cluster: with librdkafka, across kills, as the proposals want."""

import asyncio
import itertools
import secrets
from collections.abc import Coroutine
from typing import Any

import confluent_kafka
import pytest

from fencepost.client import (
    AbortableError,
    Admin,
    Consumer,
    ConsumerRecord,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionTimedOut,
)
from tests.harness.nodes import Nodes

pytestmark = pytest.mark.slow
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SECONDS_MAX = 120


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, SECONDS_MAX))


def fresh(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"


async def read(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[ConsumerRecord]:
    """The topic's records from its beginning: ``count`` of them, and whatever else comes with the last."""
    async with Producer(bootstrap) as producer:
        partitions = [TopicPartition(topic, each) for each in await producer.partitions_for(topic)]
    found: list[ConsumerRecord] = []
    async with Consumer(bootstrap, isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while len(found) < count or {each: await consumer.position(each) for each in partitions} != ends:
            found += await consumer.poll(timeout_ms=100)
            ends = await consumer.end_offsets(partitions)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_the_producer_writes(bootstrap: str, codec: str) -> None:
    topic = fresh("ours")
    values = [b"%d" % number * 50 for number in range(300)]

    async def story() -> None:
        async with Producer(bootstrap, compression=codec, batch_size=4000) as producer:
            for value in values:
                await producer.send(topic, value, key=b"k", headers=((b"h", b"x"), (b"n", None)))

    run(story())
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < len(values):
        found += consumer.consume(500, 1.0)
    consumer.close()
    assert [each.value() for each in found] == values
    assert {each.key() for each in found} == {b"k"}
    assert found[0].headers() == [("h", b"x"), ("n", None)]


@pytest.mark.parametrize("codec", CODECS)
def test_the_consumer_reads_what_librdkafka_writes(bootstrap: str, codec: str) -> None:
    topic = fresh("theirs")
    values = [b"%d" % number * 50 for number in range(300)]
    settings = {"compression.type": codec, "enable.idempotence": True}  # or a retry may change the order
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, b"k", headers=[("h", b"x")])
    producer.flush(20)

    async def story() -> None:
        found = await read(bootstrap, topic, len(values))
        assert [each.value for each in found] == values
        assert {(each.key, each.headers) for each in found} == {(b"k", ((b"h", b"x"),))}

    run(story())


@pytest.mark.row("card.9")
def test_what_aborts_is_seen_by_none_that_reads_committed(bootstrap: str) -> None:
    topic = fresh("mixed")

    async def story() -> None:
        async with Producer(bootstrap, transactional_id=topic) as producer:
            for number in range(10):
                producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number, key=b"k")
                await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        seen = await read(bootstrap, topic, 5)
        assert [each.value for each in seen] == [b"%d" % number for number in range(1, 10, 2)]
        assert len(await read(bootstrap, topic, 10, "read_uncommitted")) == 10

    run(story())


@pytest.mark.row("588.3")
@pytest.mark.parametrize("first", ["commit", "abort", "produce"])
def test_a_timed_out_producer_goes_on(ours: str, first: str) -> None:
    topic = fresh("late")

    async def story() -> None:
        async with Producer(ours, transactional_id=topic, transaction_timeout_ms=500) as producer:
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"late")
            while await _state(ours, topic) != "CompleteAbort":
                await asyncio.sleep(0.1)
            if first == "commit":
                with pytest.raises(TransactionTimedOut):
                    await producer.commit_transaction()
            elif first == "produce":
                with pytest.raises(AbortableError):
                    await producer.send_and_wait(topic, b"too late")
            await producer.abort_transaction()
            while True:
                try:
                    async with producer.transaction():
                        await producer.send(topic, b"next")
                    break
                except AbortableError as error:  # a leader was away for longer than the timeout
                    if "timed out" not in str(error):
                        raise
        assert [each.value for each in await read(ours, topic, 1)] == [b"next"]

    run(story())


async def _state(bootstrap: str, transactional_id: str) -> str:
    async with Admin(bootstrap) as admin:
        return (await admin.describe_transaction(transactional_id)).state


def test_a_newer_producer_fences_the_older_one(bootstrap: str) -> None:
    topic = fresh("fence")

    async def story() -> None:
        async with (
            Producer(bootstrap, transactional_id=topic) as old,
            Producer(bootstrap, transactional_id=topic) as new,
        ):
            with pytest.raises((ProducerFenced, AbortableError)):
                async with old.transaction():
                    await old.send_and_wait(topic, b"zombie")
            with pytest.raises(ProducerFenced):
                await old.abort_transaction()
            async with new.transaction():
                await new.send(topic, b"new")
        assert [each.value for each in await read(bootstrap, topic, 1)] == [b"new"]

    run(story())


async def _copy(bootstrap: str, source: str, target: str, group: str, name: str, count: int) -> None:
    """One instance of KIP-447's loop, until all instances together have committed ``count`` records."""
    partitions = [TopicPartition(source, each) for each in range(3)]
    async with (
        Consumer(
            bootstrap, group_id=group, isolation_level="read_committed", auto_offset_reset="earliest",
            session_timeout_ms=10_000, heartbeat_interval_ms=500,
        ) as consumer,
        Producer(bootstrap, transactional_id=f"{group}-{name}") as producer,
    ):  # fmt: skip
        consumer.subscribe([source])
        while True:
            records = await consumer.poll(timeout_ms=300, max_records=50)
            if not records:
                done = await consumer.committed(partitions)
                if sum(each.offset for each in done.values()) >= count:
                    return
                continue
            producer.begin_transaction()
            try:
                for record in records:
                    await producer.send(target, record.value)
                offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                await producer.commit_transaction()
            except AbortableError:
                await producer.abort_transaction()
                for partition, committed in (await consumer.committed(consumer.assignment())).items():
                    consumer.seek(partition, committed.offset)
                missing = set(consumer.assignment()) - set(await consumer.committed(consumer.assignment()))
                if missing:
                    await consumer.seek_to_beginning(*missing)


@pytest.mark.row("447.6")
def test_read_process_write_is_exactly_once_while_leaders_die(nodes: Nodes) -> None:
    source, target, group = fresh("in"), fresh("out"), fresh("group")
    bootstrap, count = nodes.bootstrap, 600

    async def kill_leaders() -> None:
        for _ in range(3):
            await asyncio.sleep(1.5)
            leader = await asyncio.to_thread(nodes.leader)
            await asyncio.to_thread(nodes.kill, leader)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(nodes.start, leader)

    async def story() -> None:
        async with Producer(bootstrap, batch_size=500) as producer:
            for number in range(count):
                await producer.send(source, b"%d" % number, partition=number % 3)
        copies = [_copy(bootstrap, source, target, group, name, count) for name in "ab"]
        await asyncio.gather(kill_leaders(), *copies)
        seen = [int(each.value or b"") for each in await read(bootstrap, target, count)]
        assert sorted(seen) == list(range(count))

    run(story())


def test_writing_survives_the_kill_of_every_node_in_turn(nodes: Nodes) -> None:
    topic = fresh("kills")
    done = asyncio.Event()

    async def kill_all() -> None:
        for node_id in nodes.node_ids:
            await asyncio.to_thread(nodes.kill, node_id)
            await asyncio.to_thread(nodes.start, node_id)
        done.set()

    async def story() -> None:
        written = 0
        async with Producer(nodes.bootstrap) as producer:
            killing = asyncio.create_task(kill_all())
            for number in itertools.count():
                await producer.send(topic, b"%d" % number, partition=number % 3)
                written += 1
                await asyncio.sleep(0.001)
                if done.is_set():
                    break
            await killing
            await producer.flush()
        seen = [int(each.value or b"") for each in await read(nodes.bootstrap, topic, written)]
        for partition in range(3):
            assert [each for each in seen if each % 3 == partition] == list(range(partition, written, 3))

    run(story())


def test_members_share_partitions_and_a_static_one_keeps_its_own(bootstrap: str) -> None:
    topic, group = fresh("shared"), fresh("group")

    async def story() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=3)
        settings: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 200}
        async with Consumer(bootstrap, group_instance_id="i", **settings) as first:
            first.subscribe([topic])
            while len(first.assignment()) < 3:
                await first.poll(timeout_ms=200)
            async with Consumer(bootstrap, **settings) as second:
                second.subscribe([topic])
                while not second.assignment() or len(first.assignment()) == 3:
                    await asyncio.gather(first.poll(timeout_ms=200), second.poll(timeout_ms=200))
                both = sorted(first.assignment() + second.assignment())
                assert both == [TopicPartition(topic, each) for each in range(3)]

    run(story())
