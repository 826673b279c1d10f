"""Real clients keep their place in groups: assigned by hand, committed, read again, and in transactions.

The loop reads, processes and writes in transactions while the leader is killed: each output is there once,
and what is committed is what was read.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.stories import Killed
from tests.clients.unclosed import freed_sockets
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow

RECORDS = 10
LOOP_RECORDS = 240
AT_ONCE = 10
PARTITIONS = 3
SECONDS_MAX = 120.0
KILLS = (("produced", 40), ("offsets sent", 100), ("committed", 160))
"""At which step of a transaction the leader is killed, once so many records are committed."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("offsets") / "cluster") as started:
        yield started


def topic(cluster: Nodes, name: str, partitions: int = 1, records: int = RECORDS) -> str:
    """A topic with numbered records, spread over its partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_topics([NewTopic(name, partitions, 1)]).values()
    created.result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(records):
        producer.produce(name, str(number).encode(), partition=number % partitions)
    assert producer.flush(60) == 0
    return name


def consumer(cluster: Nodes, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def values(reader: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    until = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < until:
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    return found


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"0"), ("latest", b"new")])
def test_librdkafka_assigned_without_an_offset_starts_by_its_reset(
    cluster: Nodes, reset: str, first: bytes
) -> None:
    """An error in the place of "nothing committed" ends its process."""
    name = topic(cluster, f"assign-{reset}")
    reader = consumer(cluster, f"assign-{reset}", auto_offset_reset=reset)
    reader.assign([TopicPartition(name, 0)])
    if reset == "latest":
        wanted: list[bytes] = []
        writer = Producer({"bootstrap.servers": cluster.bootstrap})
        until = time.monotonic() + SECONDS_MAX
        while not wanted and time.monotonic() < until:
            writer.produce(name, b"new")
            writer.flush(30)
            message = reader.poll(1.0)
            wanted += [] if message is None or message.error() else [message.value() or b""]
    else:
        wanted = values(reader, 1)
    assert wanted == [first]
    reader.close()


def test_librdkafka_goes_on_where_it_committed(cluster: Nodes) -> None:
    name = topic(cluster, "goes-on")
    partition = TopicPartition(name, 0)
    reader = consumer(cluster, "goes-on")
    reader.assign([partition])
    assert values(reader, 4) == [b"0", b"1", b"2", b"3"]
    reader.commit(offsets=[TopicPartition(name, 0, 4, metadata="half")], asynchronous=False)
    reader.close()
    again = consumer(cluster, "goes-on")
    (committed,) = again.committed([partition], timeout=30)
    assert (committed.offset, committed.metadata) == (4, "half")
    again.assign([partition])
    assert values(again, 2) == [b"4", b"5"]
    again.close()


def test_kafka_python_goes_on_where_it_committed(cluster: Nodes) -> None:
    name = topic(cluster, "kafka-python")
    partition = kafka.TopicPartition(name, 0)

    def made() -> Any:
        return kafka.KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id="kafka-python",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=1,
        )

    reader = made()
    reader.assign([partition])
    assert reader.committed(partition) is None
    assert next(reader).value == b"0"
    reader.commit({partition: kafka.OffsetAndMetadata(1, "one", -1)})
    assert reader.committed(partition) == 1
    reader.close()
    again = made()
    again.assign([partition])
    assert next(again).value == b"1"
    again.close()


def test_aiokafka_goes_on_where_it_committed(cluster: Nodes) -> None:
    name = topic(cluster, "aiokafka")
    partition = AioPartition(name, 0)

    async def story() -> None:
        for first, committed in ((0, None), (1, 1)):
            reader = AIOKafkaConsumer(
                bootstrap_servers=cluster.bootstrap,
                group_id="aiokafka",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
            await reader.start()
            try:
                reader.assign([partition])
                assert await reader.committed(partition) == committed
                record = await asyncio.wait_for(reader.getone(), SECONDS_MAX)
                assert record.value == str(first).encode()
                await reader.commit({partition: first + 1})
            finally:
                await reader.stop()

    asyncio.run(story())


@pytest.mark.row("447.3")
def test_a_consumer_waits_for_the_end_of_a_transaction_with_its_offset(cluster: Nodes) -> None:
    name = topic(cluster, "waits")
    reader = consumer(cluster, "waits", isolation_level="read_committed")
    reader.assign([TopicPartition(name, 0)])
    writer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "waits"})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.send_offsets_to_transaction([TopicPartition(name, 0, 3)], reader.consumer_group_metadata(), 60)
    with pytest.raises(KafkaException):  # it asks again and again until its time is over
        reader.committed([TopicPartition(name, 0)], timeout=2)
    writer.commit_transaction(60)
    (committed,) = reader.committed([TopicPartition(name, 0)], timeout=30)
    assert committed.offset == 3
    reader.close()


def kafka_python_transacts(cluster: Nodes, name: str, offset: int, *, commits: bool) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), transactional_id=f"{name}-{offset}"
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(name, b"output", partition=0)
    offsets = {kafka.TopicPartition(name, 0): kafka.OffsetAndMetadata(offset, "", -1)}
    producer.send_offsets_to_transaction(offsets, name)
    producer.commit_transaction() if commits else producer.abort_transaction()
    producer.close()


def aiokafka_transacts(cluster: Nodes, name: str, offset: int, *, commits: bool) -> None:
    async def story() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=f"{name}-{offset}")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(name, b"output", partition=0)
            await producer.send_offsets_to_transaction({AioPartition(name, 0): offset}, name)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(story())


@pytest.mark.parametrize("transacts", [kafka_python_transacts, aiokafka_transacts])
def test_offsets_of_a_transaction_are_committed_with_it_or_not_at_all(
    cluster: Nodes, transacts: Callable[..., None]
) -> None:
    """These two name no generation, as an old client does: the group has no members."""
    name = topic(cluster, transacts.__name__.replace("_", "-"))
    transacts(cluster, name, 5, commits=True)
    transacts(cluster, name, 2, commits=False)
    reader = consumer(cluster, name, isolation_level="read_committed")
    (committed,) = reader.committed([TopicPartition(name, 0)], timeout=30)
    assert committed.offset == 5
    reader.close()


# -- the loop ----------------------------------------------------------------------------------------------


class Loop:
    """Reads, processes and writes in transactions; after a failure it begins anew from what is committed."""

    def __init__(self, cluster: Nodes, source: str, target: str, *, subscribes: bool) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self._subscribes = subscribes
        self.committed = 0
        self.aborted = 0
        self._begin()

    def _begin(self) -> None:
        self._reader = consumer(self._cluster, self._target, isolation_level="read_committed")
        if self._subscribes:
            self._reader.subscribe([self._source])
        else:
            self._reader.assign([TopicPartition(self._source, each) for each in range(PARTITIONS)])
        self._writer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "transactional.id": self._target,
                "transaction.timeout.ms": 10_000,
            }
        )
        self._writer.init_transactions(60)

    def run(self, count: int, at: Callable[[str, int], None]) -> None:
        """Until so many records are committed. ``at`` is called with each step, and their number."""
        until = time.monotonic() + SECONDS_MAX
        while self.committed < count:
            assert time.monotonic() < until, f"{self.committed} of {count} after {SECONDS_MAX} s"
            try:
                self._transact(at)
            except KafkaException as failure:
                self.aborted += 1
                self._recover(failure)
        self.close()

    def close(self) -> None:
        self._reader.close()

    def _transact(self, at: Callable[[str, int], None]) -> None:
        messages = [each for each in self._reader.consume(AT_ONCE, 1.0) if each.error() is None]
        if not messages:
            return
        self._writer.begin_transaction()
        ends: dict[int, int] = {}
        for each in messages:
            partition, offset = each.partition(), each.offset()
            assert partition is not None
            assert offset is not None
            self._writer.produce(self._target, each.value(), partition=partition)
            ends[partition] = offset + 1
        at("produced", self.committed)
        self._writer.send_offsets_to_transaction(
            [TopicPartition(self._source, partition, end) for partition, end in ends.items()],
            self._reader.consumer_group_metadata(),
            30,
        )
        at("offsets sent", self.committed)
        self._writer.commit_transaction(30)
        self.committed += len(messages)
        at("committed", self.committed)

    def _recover(self, failure: KafkaException) -> None:
        """A commit whose outcome is not known counts by what the group has; then begin anew."""
        error = failure.args[0]
        if error.txn_requires_abort():
            with contextlib.suppress(KafkaException):
                self._writer.abort_transaction(30)
        self._reader.close()
        self._begin()
        partitions = [TopicPartition(self._source, each) for each in range(PARTITIONS)]
        self.committed = sum(max(0, each.offset) for each in self._reader.committed(partitions, timeout=60))


@pytest.mark.row("447.1", "447.6", "beyond.1")
@pytest.mark.parametrize("subscribes", [False, True], ids=["assigned", "in-a-group"])
def test_a_loop_writes_each_output_once_while_the_leader_is_killed(cluster: Nodes, subscribes: bool) -> None:
    source = topic(cluster, f"source-{subscribes}", PARTITIONS, LOOP_RECORDS)
    target = topic(cluster, f"target-{subscribes}", PARTITIONS, 0)
    kills = list(KILLS)

    def at(step: str, committed: int) -> None:
        if kills and kills[0][0] == step and committed >= kills[0][1]:
            kills.pop(0)
            Killed(cluster).restart()

    loop = Loop(cluster, source, target, subscribes=subscribes)
    loop.run(LOOP_RECORDS, at)
    assert not kills
    reader = consumer(cluster, f"check-{subscribes}", isolation_level="read_committed")
    reader.assign([TopicPartition(target, each, 0) for each in range(PARTITIONS)])
    found = values(reader, LOOP_RECORDS)
    assert reader.poll(2.0) is None
    assert sorted(map(int, found)) == list(range(LOOP_RECORDS))
    reader.close()
    checker = consumer(cluster, target)
    partitions = [TopicPartition(source, each) for each in range(PARTITIONS)]
    assert [each.offset for each in checker.committed(partitions, timeout=30)] == [
        LOOP_RECORDS // PARTITIONS
    ] * PARTITIONS
    checker.close()
    cluster.await_equal_images()


def of_confluent(cluster: Nodes, name: str, move: Callable[[], None]) -> list[int]:
    reader = consumer(cluster, name)
    partition = TopicPartition(name, 0)
    reader.assign([partition])
    reader.commit(offsets=[TopicPartition(name, 0, 3)], asynchronous=False)
    move()
    (found,) = reader.committed([partition], timeout=60)
    reader.commit(offsets=[TopicPartition(name, 0, 4)], asynchronous=False)
    (again,) = reader.committed([partition], timeout=60)
    reader.close()
    return [found.offset, again.offset]


@freed_sockets()
def of_kafka_python(cluster: Nodes, name: str, move: Callable[[], None]) -> list[int]:
    reader: Any = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","), group_id=name, enable_auto_commit=False
    )
    partition = kafka.TopicPartition(name, 0)
    reader.assign([partition])
    reader.commit({partition: kafka.OffsetAndMetadata(3, "", -1)})
    move()
    found = reader.committed(partition)
    reader.commit({partition: kafka.OffsetAndMetadata(4, "", -1)})
    again = reader.committed(partition)
    reader.close()
    return [found, again]


def of_aiokafka(cluster: Nodes, name: str, move: Callable[[], None]) -> list[int]:
    partition = AioPartition(name, 0)

    async def story() -> list[int]:
        reader = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, group_id=name, enable_auto_commit=False
        )
        await reader.start()
        try:
            reader.assign([partition])
            reader.pause(partition)  # its stop() raises CancelledError while a fetch waits to be repeated
            await reader.commit({partition: 3})
            await asyncio.to_thread(move)
            found = await reader.committed(partition)
            await reader.commit({partition: 4})
            return [found, await reader.committed(partition)]
        finally:
            await reader.stop()

    return asyncio.run(story())


@pytest.mark.parametrize("library", [of_confluent, of_kafka_python, of_aiokafka])
def test_a_consumer_finds_its_offsets_where_the_coordinator_is_now(
    cluster: Nodes, library: Callable[[Nodes, str, Callable[[], None]], list[int]]
) -> None:
    """The node that it knew runs again, and coordinates no more: it closes what asks it for offsets."""
    name = topic(cluster, f"moved-{library.__name__.replace('_', '-')}")

    def move() -> None:
        killed = cluster.leader()
        Killed(cluster).restart()
        assert cluster.leader() != killed

    assert library(cluster, name, move) == [3, 4]
