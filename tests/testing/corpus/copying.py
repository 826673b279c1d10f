"""Read, process, write with confluent-kafka: one right application, and wrong ones that differ in one step.

Test    the application crashes at each place of its loop in turn, and is started again.
"""

import contextlib
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, TopicPartition

from tests.testing.corpus.world import ORDERS, WAIT_S, Case, Crash, World

PLACES: Final = ("produced", "offsets", "committed")
ATTEMPTS_MAX: Final = 5


class Copier:
    """Copies a topic to another one, each record in a transaction that has its offset."""

    isolation = "read_committed"
    autocommit = False

    def __init__(self, world: World, source: str, sink: str, group: str) -> None:
        self.world = world
        self.sink = sink
        self.partition = TopicPartition(source, 0, OFFSET_STORED)
        settings = {
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "enable.auto.commit": self.autocommit,
            "auto.commit.interval.ms": 50,
            "auto.offset.reset": "earliest",
            "isolation.level": self.isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
        self.consumer: Any = confluent_kafka.Consumer(settings)
        self.producer: Any = confluent_kafka.Producer(
            {"bootstrap.servers": world.bootstrap, "transactional.id": group, "linger.ms": 0}
        )
        self.producer.init_transactions(WAIT_S)

    def run(self) -> None:
        """To the end of the topic."""
        self.consumer.assign([self.partition])
        while (record := self.consumer.poll(WAIT_S)) is not None:
            if record.error() is not None:
                assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                return
            self.world.at("read")
            self.one(record)
        raise AssertionError("nothing comes any more")

    def one(self, record: Any) -> None:
        """A record's effect, and that it was read, or neither."""
        self.producer.begin_transaction()
        self.write(record)
        self.producer.send_offsets_to_transaction(
            [self.next_of(record)], self.consumer.consumer_group_metadata(), WAIT_S
        )
        self.world.at("offsets")
        self.producer.commit_transaction(WAIT_S)
        self.world.at("committed")

    def write(self, record: Any) -> None:
        """The record's effect."""
        self.producer.produce(self.sink, record.value(), key=record.key())
        self.world.at("produced")

    def next_of(self, record: Any) -> TopicPartition:
        """Where a reader goes on after the record."""
        return TopicPartition(record.topic(), record.partition(), record.offset() + 1)

    def close(self) -> None:
        """As the end of its process does it."""
        self.consumer.close()


class OffsetsFirst(Copier):
    """The offset is committed before the record is written."""

    def one(self, record: Any) -> None:
        self.consumer.commit(offsets=[self.next_of(record)], asynchronous=False)
        self.world.at("offsets")
        self.producer.begin_transaction()
        self.write(record)
        self.producer.commit_transaction(WAIT_S)


class OffsetsOutside(Copier):
    """Offsets are committed by the consumer, outside the transaction."""

    def one(self, record: Any) -> None:
        self.producer.begin_transaction()
        self.write(record)
        self.producer.commit_transaction(WAIT_S)
        self.world.at("committed")
        self.consumer.commit(offsets=[self.next_of(record)], asynchronous=False)


class LastOffset(Copier):
    """The offset of the last record is committed, not the next one."""

    def next_of(self, record: Any) -> TopicPartition:
        return TopicPartition(record.topic(), record.partition(), record.offset())


class AutoCommit(Copier):
    """Auto-commit is on beside transactions."""

    autocommit = True

    def one(self, record: Any) -> None:
        time.sleep(0.15)  # the work; the consumer commits meanwhile
        self.producer.begin_transaction()
        self.write(record)
        self.producer.commit_transaction(WAIT_S)


class NoTransaction(Copier):
    """Records are written by a plain producer, and offsets are committed after it."""

    def __init__(self, world: World, source: str, sink: str, group: str) -> None:
        super().__init__(world, source, sink, group)
        self.producer = confluent_kafka.Producer({"bootstrap.servers": world.bootstrap, "linger.ms": 0})

    def one(self, record: Any) -> None:
        self.write(record)
        self.producer.flush(WAIT_S)
        self.world.at("offsets")
        self.consumer.commit(offsets=[self.next_of(record)], asynchronous=False)


def started_again(world: World, kind: type[Copier], source: str, sink: str) -> None:
    """Run it until it gets to the end; it may crash once."""
    group = world.name("group")
    for _ in range(ATTEMPTS_MAX):
        app = kind(world, source, sink, group)
        try:
            app.run()
        except Crash:
            continue
        finally:
            app.close()
        return
    raise AssertionError(f"not at the end after {ATTEMPTS_MAX} starts")


def crashes(world: World, kind: type[Copier]) -> None:
    """The application crashes at each place in turn, and starts again."""
    for place in PLACES:
        source, sink = world.filled(), world.topic("out")
        started_again(world.crashing_at(place), kind, source, sink)
        world.check(ORDERS, sink)


class Retrying(Copier):
    """Aborts when a record cannot be processed, reads it again, and goes on."""

    failed = False

    def one(self, record: Any) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.sink, record.value(), key=record.key())
        if record.value() == ORDERS[2] and not self.failed:
            self.failed = True
            self.on_failure(record)
            return
        self.producer.send_offsets_to_transaction(
            [self.next_of(record)], self.consumer.consumer_group_metadata(), WAIT_S
        )
        self.producer.commit_transaction(WAIT_S)

    def on_failure(self, record: Any) -> None:
        """A service that the work needs does not answer."""
        self.producer.abort_transaction(WAIT_S)
        self.consumer.seek(TopicPartition(record.topic(), record.partition(), record.offset()))


class NoRewind(Retrying):
    """After an abort the consumer goes on behind the records of the aborted transaction."""

    def on_failure(self, record: Any) -> None:
        self.producer.abort_transaction(WAIT_S)


class CommitsAnyway(Retrying):
    """An exception is swallowed in the middle, and the transaction committed."""

    def on_failure(self, record: Any) -> None:
        self.producer.commit_transaction(WAIT_S)
        self.consumer.seek(TopicPartition(record.topic(), record.partition(), record.offset()))


def failing_work(world: World, kind: type[Copier]) -> None:
    """One record's processing fails once."""
    source, sink = world.filled(), world.topic("out")
    started_again(world, kind, source, sink)
    world.check(ORDERS, sink)


class ReadUncommitted(Copier):
    """The consumer reads what is not committed."""

    isolation = "read_uncommitted"


def filled_with_an_aborted(world: World) -> str:
    """A topic with all orders, and a record of an aborted transaction between them."""
    source = world.topic("in")
    producer: Any = confluent_kafka.Producer(
        {"bootstrap.servers": world.bootstrap, "transactional.id": world.name("input")}
    )
    producer.init_transactions(WAIT_S)
    for orders, end in (
        (ORDERS[:2], producer.commit_transaction),
        ([b"never"], producer.abort_transaction),
        (ORDERS[2:], producer.commit_transaction),
    ):
        producer.begin_transaction()
        for order in orders:
            producer.produce(source, order)
        producer.flush(WAIT_S)
        end(WAIT_S)
    return source


def aborted_input(world: World, kind: type[Copier]) -> None:
    """The input has an aborted transaction."""
    source, sink = filled_with_an_aborted(world), world.topic("out")
    started_again(world, kind, source, sink)
    world.check(ORDERS, sink)


class Member:
    """A member of a group: it reads a batch, is slow, and commits it with the group's metadata."""

    def __init__(self, world: World, source: str, sink: str, group: str) -> None:
        self.sink, self.group, self.bootstrap = sink, group, world.bootstrap
        settings = {
            "bootstrap.servers": world.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 1500,
            "heartbeat.interval.ms": 300,
            "max.poll.interval.ms": 1500,
            "fetch.wait.max.ms": 50,
        }
        self.consumer: Any = confluent_kafka.Consumer(settings)
        self.producer: Any = confluent_kafka.Producer(
            {"bootstrap.servers": world.bootstrap, "transactional.id": world.name("member")}
        )
        self.producer.init_transactions(WAIT_S)
        self.consumer.subscribe([source])
        self.records: list[Any] = []

    def read(self) -> None:
        """All of it."""
        deadline = time.monotonic() + WAIT_S
        while len(self.records) < len(ORDERS):
            assert time.monotonic() < deadline, "it is given nothing"
            record = self.consumer.poll(0.1)
            if record is not None and record.error() is None:
                self.records.append(record)
        self.metadata = self.metadata_of()

    def metadata_of(self) -> Any:
        """Who the member is, in which generation."""
        return self.consumer.consumer_group_metadata()

    def write(self) -> None:
        """The batch, in a transaction. One that lost its partitions is refused, and leaves it."""
        last = self.records[-1]
        self.producer.begin_transaction()
        for record in self.records:
            self.producer.produce(self.sink, record.value())
        try:
            offset = TopicPartition(last.topic(), last.partition(), last.offset() + 1)
            self.producer.send_offsets_to_transaction([offset], self.metadata, WAIT_S)
            self.producer.commit_transaction(WAIT_S)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self.producer.abort_transaction(WAIT_S)

    def close(self) -> None:
        """Leave the group first, and serve what it calls back: docs/how-to-python.md says why."""
        self.consumer.unsubscribe()
        deadline = time.monotonic() + WAIT_S
        while self.consumer.poll(0.1) is not None or self.consumer.assignment():
            assert time.monotonic() < deadline, "it keeps its partitions"
        self.consumer.close()


class NoMetadata(Member):
    """Offsets are sent to the transaction without the member's id and generation."""

    def metadata_of(self) -> Any:
        other: Any = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        return other.consumer_group_metadata()


def slow_member(world: World, kind: type[Member]) -> None:
    """A member stops polling, another one takes its partitions over, and then the first goes on."""
    source, sink, group = world.filled(), world.topic("out"), world.name("group")
    slow = kind(world, source, sink, group)
    slow.read()
    quick = kind(world, source, sink, group)
    quick.read()
    quick.write()
    slow.write()
    for each in (slow, quick):
        with contextlib.suppress(KafkaException):
            each.close()
    world.check(ORDERS, sink)


CONFLUENT: Final = "confluent-kafka"
COPYING: Final = (
    Case("offsets-first", CONFLUENT, OffsetsFirst, Copier, crashes),
    Case("offsets-outside", CONFLUENT, OffsetsOutside, Copier, crashes),
    Case("last-offset", CONFLUENT, LastOffset, Copier, crashes),
    Case("auto-commit", CONFLUENT, AutoCommit, Copier, crashes),
    Case("no-transaction", CONFLUENT, NoTransaction, Copier, crashes),
    Case("no-rewind", CONFLUENT, NoRewind, Retrying, failing_work),
    Case("commits-anyway", CONFLUENT, CommitsAnyway, Retrying, failing_work),
    Case("read-uncommitted", CONFLUENT, ReadUncommitted, Copier, aborted_input),
    Case("no-metadata", CONFLUENT, NoMetadata, Member, slow_member),
)
