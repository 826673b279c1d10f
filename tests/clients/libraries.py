"""Three Kafka libraries behind one face: a producer, transactional or not, and a reader of one partition.

Each call is what an application of that library would do. An error is the library's own exception.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

TIMEOUT_S = 30.0
QUIET_S = 3.0  # nothing came for so long: there is no more
PARTITION = 0


class Producer(Protocol):
    """Made with ``begin`` and the rest usable only if it has a transactional id."""

    def begin(self) -> None: ...
    def send(self, topic: str, *values: str) -> None:
        """Returns when the broker has acknowledged all of them."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class ConfluentProducer:
    """confluent-kafka: librdkafka."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any]) -> None:
        import confluent_kafka

        # By default it may wait ten seconds before it connects again to a broker that was killed and is back.
        soon = {"reconnect.backoff.max.ms": 100}
        self._producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **soon, **settings})
        if "transactional.id" in settings:
            self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: str) -> None:
        # No delivery reports: a fatal error is raised in the midst of them. A batch that failed fails the
        # commit, and what is read shows the rest.
        for value in values:
            self._producer.produce(topic, value.encode(), partition=PARTITION)
        left = self._producer.flush(TIMEOUT_S)
        if left:
            raise TimeoutError(f"{left} messages are left")

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


def confluent_read(bootstrap: str, topic: str, count: int, isolation: str) -> list[str]:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, PARTITION, 0)])
    values: list[str] = []
    try:
        while len(values) < count:
            message = consumer.poll(QUIET_S)
            if message is None:
                break
            if message.error():
                raise confluent_kafka.KafkaException(message.error())
            values.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return values


class KafkaPythonProducer:
    """kafka-python."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        named = {key.replace(".", "_"): value for key, value in settings.items()}
        idempotent = named.pop("enable_idempotence", True)
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), enable_idempotence=idempotent, **named
        )
        if "transactional_id" in named:
            self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: str) -> None:
        sent = [self._producer.send(topic, each.encode(), partition=PARTITION) for each in values]
        for each in sent:
            each.get(TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


def kafka_python_read(bootstrap: str, topic: str, count: int, isolation: str) -> list[str]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(QUIET_S * 1000),
        isolation_level=isolation,
    )
    consumer.assign([TopicPartition(topic, PARTITION)])
    values: list[str] = []
    try:
        for message in consumer:
            values.append((message.value or b"").decode())
            if len(values) == count:
                break
    finally:
        consumer.close()
    return values


class AiokafkaProducer:
    """aiokafka, on a loop that runs during the calls."""

    def __init__(self, bootstrap: str, settings: Mapping[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            from aiokafka import AIOKafkaProducer

            named = {key.replace(".", "_"): value for key, value in settings.items()}
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **named)
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, *values: str) -> None:
        async def send() -> None:
            sent = [await self._producer.send(topic, each.encode(), partition=PARTITION) for each in values]
            for outcome in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

        self._run(send())

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._run(self._producer.stop())
        finally:
            self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, TIMEOUT_S))


def aiokafka_read(bootstrap: str, topic: str, count: int, isolation: str) -> list[str]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[str]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
        )
        await consumer.start()
        values: list[str] = []
        try:
            consumer.assign([TopicPartition(topic, PARTITION)])
            while len(values) < count:
                message = await asyncio.wait_for(consumer.getone(), QUIET_S)
                values.append(message.value.decode())
        except TimeoutError:
            pass
        finally:
            await consumer.stop()
        return values

    return asyncio.run(read())


Make = Callable[[str, Mapping[str, Any]], Producer]
Read = Callable[[str, str, int, str], list[str]]

LIBRARIES: Mapping[str, tuple[Make, Read]] = {
    "confluent-kafka": (ConfluentProducer, confluent_read),
    "kafka-python": (KafkaPythonProducer, kafka_python_read),
    "aiokafka": (AiokafkaProducer, aiokafka_read),
}
