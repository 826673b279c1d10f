"""Producers and sinks with confluent-kafka: what a lost answer or another instance does to them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final

import confluent_kafka
from confluent_kafka import KafkaException

from fencepost.testing import assert_exactly_once
from tests.testing.corpus.copying import CONFLUENT
from tests.testing.corpus.world import ORDERS, WAIT_S, Case, World


class Sender:
    """Sends orders, each in a transaction; a commit whose outcome is unknown is asked for again."""

    def __init__(self, world: World, topic: str, transactional_id: str) -> None:
        self.world, self.topic, self.transactional_id = world, topic, transactional_id
        self.producer = self.fresh()

    def fresh(self) -> Any:
        """A producer of the id."""
        settings = {"bootstrap.servers": self.world.bootstrap, "transactional.id": self.transactional_id}
        producer: Any = confluent_kafka.Producer({**settings, "linger.ms": 0})
        producer.init_transactions(WAIT_S)
        return producer

    def send(self, order: bytes) -> None:
        """One order, once."""
        self.producer.begin_transaction()
        self.producer.produce(self.topic, order)
        for _ in range(10):
            try:
                self.producer.commit_transaction(1)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return
        raise AssertionError("its outcome stays unknown")


class TakesTimeoutForFailure(Sender):
    """A commit that timed out is taken for a failure, and the order is sent again."""

    def send(self, order: bytes) -> None:
        for _ in range(3):
            self.producer.begin_transaction()
            self.producer.produce(self.topic, order)
            try:
                self.producer.commit_transaction(1)
            except KafkaException:
                self.producer = self.fresh()
            else:
                return


class IgnoresUnknownOutcome(Sender):
    """A commit that timed out is taken for done."""

    def send(self, order: bytes) -> None:
        self.producer.begin_transaction()
        self.producer.produce(self.topic, order)
        try:
            self.producer.commit_transaction(1)
        except KafkaException:
            self.producer = self.fresh()


def lost_answers(world: World, kind: type[Sender]) -> None:
    """Answers to commits are lost for a while; they were done."""
    topic, name = world.topic("orders"), world.name("sender")
    app = kind(world, topic, name)
    for number, order in enumerate(ORDERS):
        faults = world.cluster.faults
        with (
            faults.drop_answer("EndTxn", match={"transactional_id": name}) if number == 1 else calm() as armed
        ):
            ended = threading.Timer(1.5, armed.clear)
            ended.start()
            app.send(order)
            ended.join()
    world.check(ORDERS, topic)


def delayed_commits(world: World, kind: type[Sender]) -> None:
    """A commit reaches its coordinator late."""
    topic, name = world.topic("orders"), world.name("sender")
    app = kind(world, topic, name)
    for number, order in enumerate(ORDERS):
        faults = world.cluster.faults
        match = {"transactional_id": name}
        with faults.delay("EndTxn", 1500, match=match, times=1) if number == 1 else calm():
            app.send(order)
    world.check(ORDERS, topic)


@contextlib.contextmanager
def calm() -> Iterator[Any]:
    """No fault."""

    class Calm:
        def clear(self) -> None:
            """Nothing was armed."""

    yield Calm()


class Plain:
    """Sends orders without transactions, by an idempotent producer, and sees to it that each is delivered."""

    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, world: World, topic: str) -> None:
        self.topic = topic
        settings = {"bootstrap.servers": world.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        self.producer: Any = confluent_kafka.Producer({**settings, **self.settings})

    def send(self, orders: list[bytes]) -> None:
        """All of them."""
        for order in orders:
            self.deliver(order)

    def deliver(self, order: bytes) -> None:
        """Until the cluster has it; an order that was refused is sent again."""
        for _ in range(3):
            self.errors: list[Any] = []
            self.producer.produce(self.topic, order, on_delivery=self.delivered)
            assert self.producer.flush(WAIT_S) == 0
            if all(each is None for each in self.errors):
                return
        raise AssertionError("it is refused")

    def delivered(self, error: Any, _record: Any) -> None:
        """The delivery report."""
        self.errors.append(error)


class NotIdempotent(Plain):
    """The producer is not idempotent, and retries."""

    settings: ClassVar[dict[str, Any]] = {"enable.idempotence": False, "retries": 5}


class ResendsTimeouts(Plain):
    """A delivery that failed is produced again, as another record."""

    settings: ClassVar[dict[str, Any]] = {"enable.idempotence": False, "retries": 0}


class NoReport(Plain):
    """Delivery reports are not looked at."""

    def deliver(self, order: bytes) -> None:
        self.producer.produce(self.topic, order)
        self.producer.flush(WAIT_S)


class NoFlush(Plain):
    """The program ends without a flush."""

    settings: ClassVar[dict[str, Any]] = {"linger.ms": 1000}

    def deliver(self, order: bytes) -> None:
        self.producer.produce(self.topic, order)


def lost_produce_answer(world: World, kind: type[Plain]) -> None:
    """The answer to a Produce is lost."""
    topic = world.topic("orders")
    app = kind(world, topic)
    with world.cluster.faults.drop_answer("Produce", match={"topic": topic}, times=1):
        app.send(ORDERS)
    world.check(ORDERS, topic)


def lost_produce_answers(world: World, kind: type[Plain]) -> None:
    """The answers to a Produce are lost for two seconds."""
    topic = world.topic("orders")
    app = kind(world, topic)
    with world.cluster.faults.drop_answer("Produce", match={"topic": topic}) as lost:
        timer = threading.Timer(2.0, lost.clear)
        timer.start()
        app.send(ORDERS)
        timer.join()
    world.check(ORDERS, topic)


def refused(world: World, kind: type[Plain]) -> None:
    """One Produce is refused for good."""
    topic = world.topic("orders")
    app = kind(world, topic)
    with world.cluster.faults.fail("Produce", "MESSAGE_TOO_LARGE", match={"topic": topic}, times=1):
        app.send(ORDERS)
    world.check(ORDERS, topic)


def ended(world: World, kind: type[Plain]) -> None:
    """The program ends."""
    topic = world.topic("orders")
    app = kind(world, topic)
    app.send(ORDERS)
    del app.producer
    time.sleep(0.2)
    world.check(ORDERS, topic)


class Worker(Sender):
    """One of several instances, each with a transactional id of its own; fenced, it begins anew."""

    def __init__(self, world: World, topic: str, transactional_id: str, number: int) -> None:
        super().__init__(world, topic, self.id_of(transactional_id, number))

    def id_of(self, stem: str, number: int) -> str:
        """The transactional id of an instance."""
        return f"{stem}-{number}"

    def send(self, order: bytes) -> None:
        try:
            super().send(order)
        except KafkaException:
            self.failed(order)

    def failed(self, order: bytes) -> None:
        """Whatever it is, the transaction is not committed: a new producer sends it."""
        self.producer = self.fresh()
        super().send(order)


class SharedId(Worker):
    """Two instances have one transactional id, and one that is fenced gives its order up."""

    def id_of(self, stem: str, number: int) -> str:
        return stem

    def failed(self, order: bytes) -> None:
        """Logged."""


class GoesOnFenced(Worker):
    """A producer that is fenced is used again, until the application gives up."""

    def failed(self, order: bytes) -> None:
        for _ in range(3):
            with contextlib.suppress(KafkaException):
                Sender.send(self, order)


def two_instances(world: World, kind: Callable[..., Worker]) -> None:
    """Two instances run beside each other."""
    topic, name = world.topic("orders"), world.name("worker")
    workers = [kind(world, topic, name, number) for number in range(2)]
    for number, order in enumerate(ORDERS):
        workers[number % 2].send(order)
    world.check(ORDERS, topic)


def fenced_once(world: World, kind: Callable[..., Worker]) -> None:
    """Another instance with its id starts, and ends: as a rolling restart does it."""
    topic, name = world.topic("orders"), world.name("worker")
    worker = kind(world, topic, name, 1)
    worker.send(ORDERS[0])
    worker.fresh()
    for order in ORDERS[1:]:
        worker.send(order)
    world.check(ORDERS, topic)


class Sink:
    """Keeps each record once: what it has seen it knows by partition and offset."""

    def identity(self, record: Any) -> Any:
        """By which it knows a record again."""
        return record.partition, record.offset

    def stored(self, records: list[Any]) -> list[bytes]:
        """What is in its table at the end; records come again after a restart."""
        return list({self.identity(each): each.value for each in [*records, *records]}.values())


class ByOffset(Sink):
    """A sink knows records by their offset, whatever the partition."""

    def identity(self, record: Any) -> Any:
        return record.offset


class ByTimestamp(Sink):
    """A sink knows records by their timestamp."""

    def identity(self, record: Any) -> Any:
        return record.timestamp_ms


def partitions(world: World, kind: type[Sink]) -> None:
    """A topic of three partitions, written within a moment."""
    topic = world.topic("in", 3)
    producer: Any = confluent_kafka.Producer({"bootstrap.servers": world.bootstrap})
    now_ms = int(time.time() * 1000)
    for number, order in enumerate(ORDERS):
        producer.produce(topic, order, partition=number % 3, timestamp=now_ms + number // 2)
    assert producer.flush(WAIT_S) == 0
    assert_exactly_once(ORDERS, kind().stored(world.cluster.read(topic)))


PRODUCING: Final = (
    Case("timeout-is-failure", CONFLUENT, TakesTimeoutForFailure, Sender, lost_answers),
    Case("unknown-ignored", CONFLUENT, IgnoresUnknownOutcome, Sender, delayed_commits),
    Case("not-idempotent", CONFLUENT, NotIdempotent, Plain, lost_produce_answer),
    Case("resends-timeouts", CONFLUENT, ResendsTimeouts, Plain, lost_produce_answers),
    Case("no-report", CONFLUENT, NoReport, Plain, refused),
    Case("no-flush", CONFLUENT, NoFlush, Plain, ended),
    Case("shared-id", CONFLUENT, SharedId, Worker, two_instances),
    Case("goes-on-fenced", CONFLUENT, GoesOnFenced, Worker, fenced_once),
    Case("by-offset", CONFLUENT, ByOffset, Sink, partitions),
    Case("by-timestamp", CONFLUENT, ByTimestamp, Sink, partitions),
)
