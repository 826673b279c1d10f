"""One principal's work by a library of Python: ``privileged LIBRARY DOOR``. Verbs: see least_privilege.py."""

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from tests.clients.players import CONFLUENT

TIMEOUT_S = 15.0
PARTITION = 0
Door = Mapping[str, str]


def _confluent_settings(door: Door) -> dict[str, Any]:
    login = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": door.get("user"),
        "sasl.password": door.get("password"),
    }
    own = {"ssl.certificate.location": door.get("key"), "ssl.key.location": door.get("key")}
    return {
        "bootstrap.servers": door["bootstrap"],
        "security.protocol": "SASL_SSL" if "user" in door else "SSL",
        "ssl.ca.location": door["ca"],
        **(login if "user" in door else own),
    }


class Confluent:
    """confluent-kafka: librdkafka."""

    def __init__(self, door: Door) -> None:
        self._settings = _confluent_settings(door)

    def produce(self, topic: str, value: str) -> None:
        from confluent_kafka import Producer

        errors: list[Any] = []
        producer = Producer({**self._settings, "enable.idempotence": True, "message.timeout.ms": 5_000})
        producer.produce(topic, value, partition=PARTITION, on_delivery=lambda error, _: errors.append(error))
        producer.flush(TIMEOUT_S)
        if not errors or any(each is not None for each in errors):  # of librdkafka's, == None raises
            raise RuntimeError(errors)

    def transact(self, name: str, topic: str, value: str, group: str, source: str, offset: str) -> None:
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        errors: list[Any] = []
        producer = Producer({**self._settings, "transactional.id": name, "error_cb": errors.append})
        reader = Consumer({**self._settings, "group.id": group})
        try:
            producer.init_transactions(5)
            producer.begin_transaction()
            offsets = [TopicPartition(source, PARTITION, int(offset))]
            producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), TIMEOUT_S)
            producer.produce(
                topic, value, partition=PARTITION, on_delivery=lambda error, _: errors.append(error)
            )
            producer.flush(TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(5)
            raise RuntimeError([*(each for each in errors if each is not None), *error.args]) from error
        finally:
            reader.close()

    def consume(self, group: str, topic: str) -> None:
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(
            {
                **self._settings,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        try:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError("no record came")
            if message.error():
                raise KafkaException(message.error())
            consumer.commit(message=message, asynchronous=False)
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, door: Door) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": door["bootstrap"].split(","),
            "security_protocol": "SASL_SSL" if "user" in door else "SSL",
            "ssl_cafile": door["ca"],
        }
        if "user" in door:
            self._settings |= {
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_plain_username": door["user"],
                "sasl_plain_password": door["password"],
            }
        else:
            self._settings |= {"ssl_certfile": door["key"], "ssl_keyfile": door["key"]}

    def produce(self, topic: str, value: str) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(**self._settings, enable_idempotence=True, max_block_ms=5_000)
        try:
            producer.send(topic, value.encode(), partition=PARTITION).get(TIMEOUT_S)
        finally:
            producer.close(timeout=1)

    def transact(self, name: str, topic: str, value: str, group: str, source: str, offset: str) -> None:
        from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition

        producer = KafkaProducer(**self._settings, transactional_id=name, max_block_ms=5_000)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            at = {TopicPartition(source, PARTITION): OffsetAndMetadata(int(offset), "", -1)}
            producer.send_offsets_to_transaction(at, group)
            producer.send(topic, value.encode(), partition=PARTITION).get(TIMEOUT_S)
            producer.commit_transaction()
        except Exception:
            with contextlib.suppress(Exception):
                producer.abort_transaction()
            raise
        finally:
            producer.close(timeout=1)

    def consume(self, group: str, topic: str) -> None:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            **self._settings,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(TIMEOUT_S * 1000),
            max_poll_records=1,
        )
        try:
            next(consumer)
            consumer.commit()
        finally:
            consumer.close(autocommit=False)


class Aiokafka:
    """aiokafka."""

    def __init__(self, door: Door) -> None:
        from aiokafka.helpers import create_ssl_context

        own = {} if "user" in door else {"certfile": door["key"], "keyfile": door["key"]}
        self._settings: dict[str, Any] = {
            "bootstrap_servers": door["bootstrap"].split(","),
            "security_protocol": "SASL_SSL" if "user" in door else "SSL",
            "ssl_context": create_ssl_context(cafile=door["ca"], **own),
        }
        if "user" in door:
            self._settings |= {
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_plain_username": door["user"],
                "sasl_plain_password": door["password"],
            }

    def produce(self, topic: str, value: str) -> None:
        async def work() -> None:
            from aiokafka import AIOKafkaProducer

            async with AIOKafkaProducer(**self._settings, enable_idempotence=True) as producer:
                await producer.send_and_wait(topic, value.encode(), partition=PARTITION)

        _run(work())

    def transact(self, name: str, topic: str, value: str, group: str, source: str, offset: str) -> None:
        async def work() -> None:
            from aiokafka import AIOKafkaProducer, TopicPartition

            producer = AIOKafkaProducer(**self._settings, transactional_id=name)
            async with producer, producer.transaction():
                at = {TopicPartition(source, PARTITION): int(offset)}
                await producer.send_offsets_to_transaction(at, group)
                await producer.send_and_wait(topic, value.encode(), partition=PARTITION)

        _run(work())

    def consume(self, group: str, topic: str) -> None:
        async def work() -> None:
            from aiokafka import AIOKafkaConsumer

            consumer = AIOKafkaConsumer(
                topic,
                **self._settings,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_records=1,
            )
            await consumer.start()
            try:
                await consumer.getone()
                await consumer.commit()
            finally:
                await consumer.stop()

        _run(work())


def _run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


LIBRARIES: Mapping[str, Callable[[Door], Any]] = {
    CONFLUENT: Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def main(library: str, door: str) -> None:
    """Answer each line of standard input, until it ends."""
    logging.basicConfig(level=logging.ERROR)  # to stderr: what a library says there alone
    principal = LIBRARIES[library](json.loads(door))
    _answer("ok", version(library))
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        try:
            getattr(principal, verb)(*words)
            _answer("ok")
        except Exception as error:  # noqa: BLE001  (each library has its own)
            said = f"{error!r} {error.__cause__!r}"  # of librdkafka's, raised in the midst of a report
            _answer("error", " ".join(said.split()))


def _answer(*words: str) -> None:
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
