"""Applications with aiokafka, kafka-python and the client of this package."""

import asyncio
import contextlib
import threading
from typing import Any, ClassVar, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka import KafkaProducer

from fencepost.client import NotReachable, Producer, RequestTimedOut
from tests.testing.corpus.world import ORDERS, WAIT_S, Case, World

AIOKAFKA: Final = "aiokafka"
KAFKA_PYTHON: Final = "kafka-python"
OURS: Final = "fencepost.client"


class Pairs:
    """Writes each order and its invoice in a transaction; one whose work fails is aborted and done again."""

    async def run(self, world: World, topic: str) -> None:
        """All orders; the work of one of them fails once."""
        producer = AIOKafkaProducer(
            bootstrap_servers=world.bootstrap, transactional_id=world.name("pairs"), linger_ms=0
        )
        await producer.start()
        self.failed = False
        try:
            for order in ORDERS:
                await self.write(producer, topic, order)
        finally:
            await producer.stop()

    async def write(self, producer: Any, topic: str, order: bytes) -> None:
        """Both, or neither and again."""
        while True:
            try:
                async with producer.transaction():
                    await self.both(producer, topic, order)
            except RuntimeError:
                continue
            return

    async def both(self, producer: Any, topic: str, order: bytes) -> None:
        """Raises RuntimeError once, between the two."""
        await producer.send_and_wait(topic, order)
        if order == ORDERS[2] and not self.failed:
            self.failed = True
            raise RuntimeError("the invoice cannot be made")
        await producer.send_and_wait(topic, order + b"-invoice")


class Swallows(Pairs):
    """An exception is logged inside the transaction, which commits what was written before it."""

    async def write(self, producer: Any, topic: str, order: bytes) -> None:
        async with producer.transaction():
            with contextlib.suppress(RuntimeError):
                await self.both(producer, topic, order)


class AbortNotAwaited(Pairs):
    """The abort is not awaited, and what fails because of it is logged."""

    async def write(self, producer: Any, topic: str, order: bytes) -> None:
        with contextlib.suppress(RuntimeError, KafkaError, AssertionError):
            await producer.begin_transaction()
            try:
                await self.both(producer, topic, order)
            except RuntimeError:
                self.aborting = asyncio.ensure_future(producer.abort_transaction())
            else:
                await producer.commit_transaction()


def failing_invoice(world: World, kind: type[Pairs]) -> None:
    """The work of one order fails once."""
    topic = world.topic("orders")
    asyncio.run(asyncio.wait_for(kind().run(world, topic), 2 * WAIT_S))
    world.check([each for order in ORDERS for each in (order, order + b"-invoice")], topic)


class Acknowledged:
    """Sends orders and waits for all replicas."""

    settings: ClassVar[dict[str, Any]] = {"acks": "all", "enable_idempotence": True}

    def run(self, world: World, topic: str) -> None:
        """All orders; each is waited for."""
        producer = KafkaProducer(bootstrap_servers=world.bootstrap.split(","), **self.settings)
        try:
            for order in ORDERS:
                self.send(producer, topic, order)
        finally:
            producer.close(timeout=WAIT_S)

    def send(self, producer: Any, topic: str, order: bytes) -> None:
        """Raises KafkaError if it is not delivered."""
        producer.send(topic, order).get(timeout=WAIT_S)


class NoAcks(Acknowledged):
    """Nothing is acknowledged: acks=0."""

    settings: ClassVar[dict[str, Any]] = {"acks": 0, "enable_idempotence": False}


class Retries(Acknowledged):
    """The producer is not idempotent, and retries."""

    settings: ClassVar[dict[str, Any]] = {"acks": "all", "enable_idempotence": False, "retries": 5}


def lost_connection(world: World, kind: type[Acknowledged]) -> None:
    """A connection ends with a Produce that was not done."""
    topic = world.topic("orders")
    with world.cluster.faults.disconnect("Produce", match={"topic": topic}, times=1):
        kind().run(world, topic)
    world.check(ORDERS, topic)


def lost_answer(world: World, kind: type[Acknowledged]) -> None:
    """The answer to a Produce is lost."""
    topic = world.topic("orders")
    with world.cluster.faults.drop_answer("Produce", match={"topic": topic}, times=1):
        kind().run(world, topic)
    world.check(ORDERS, topic)


class Asking:
    """Sends orders, each in a transaction; where the outcome is unknown it is asked for, not guessed."""

    async def run(self, world: World, topic: str, name: str) -> None:
        """All orders."""
        self.world, self.topic, self.name = world, topic, name
        self.producer = await self.fresh()
        try:
            for order in ORDERS:
                await self.send(order)
        finally:
            await self.producer.close()

    async def fresh(self) -> Producer:
        """A producer of the id."""
        producer = Producer(self.world.bootstrap, transactional_id=self.name, max_block_ms=1000)
        await producer.start()
        await producer.init_transactions()
        return producer

    async def send(self, order: bytes) -> None:
        """One order, once."""
        self.producer.begin_transaction()
        await self.producer.send(self.topic, order)
        while True:
            try:
                await self.producer.commit_transaction()
            except (RequestTimedOut, NotReachable):
                continue
            return


class Guessing(Asking):
    """A commit whose outcome is unknown is taken for a failure, and the order is sent again."""

    async def send(self, order: bytes) -> None:
        while True:
            self.producer.begin_transaction()
            await self.producer.send(self.topic, order)
            try:
                await self.producer.commit_transaction()
            except (RequestTimedOut, NotReachable):
                await self.producer.close()
                self.producer = await self.fresh()
                continue
            return


def unknown_outcome(world: World, kind: type[Asking]) -> None:
    """Answers to commits are lost for a while; they were done."""
    topic, name = world.topic("orders"), world.name("asking")
    with world.cluster.faults.drop_answer("EndTxn", match={"transactional_id": name}) as lost:
        timer = threading.Timer(3.0, lost.clear)
        timer.start()
        asyncio.run(asyncio.wait_for(kind().run(world, topic, name), 2 * WAIT_S))
        timer.join()
    world.check(ORDERS, topic)


OTHERS: Final = (
    Case("swallows", AIOKAFKA, Swallows, Pairs, failing_invoice),
    Case("abort-not-awaited", AIOKAFKA, AbortNotAwaited, Pairs, failing_invoice),
    Case("no-acks", KAFKA_PYTHON, NoAcks, Acknowledged, lost_connection),
    Case("retries", KAFKA_PYTHON, Retries, Acknowledged, lost_answer),
    Case("outcome-guessed", OURS, Guessing, Asking, unknown_outcome),
)
