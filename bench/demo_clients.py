"""Real Kafka clients ask for their producer ids: kafka-python, confluent-kafka (librdkafka) and aiokafka.

Each is an idempotent producer made by its own library, as an application makes it, that has not sent
anything yet. The libraries show their ids nowhere but in their insides or their debug log, so that is
where they are read. They come with the ``test`` extra.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

TIMEOUT_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.01


def kafka_python(bootstrap: str) -> int:
    """The producer id of a kafka-python producer. Raises TimeoutError."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), enable_idempotence=True)
    try:
        transactions = producer._transaction_manager
        for _ in _attempts("kafka-python"):
            if transactions.has_producer_id():
                break
            time.sleep(POLL_SECONDS)
        return int(transactions.producer_id_and_epoch.producer_id)
    finally:
        producer.close(timeout=1)


class _LastLines(logging.Handler):
    """Keeps what a library logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def confluent_kafka(bootstrap: str) -> int:
    """The producer id of a librdkafka producer, from its ``eos`` debug log. Raises TimeoutError."""
    from confluent_kafka import Producer

    last_lines = _LastLines()
    logger = logging.Logger("librdkafka", logging.DEBUG)  # noqa: LOG001  (private to this function)
    logger.addHandler(last_lines)
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "debug": "eos"}
    producer = Producer(settings, logger=logger)
    for _ in _attempts("confluent-kafka"):
        producer.poll(POLL_SECONDS)
        acquired = re.search(r"Acquired PID\{Id:(\d+),", "\n".join(last_lines.lines))
        if acquired is not None:
            return int(acquired[1])
    raise TimeoutError("confluent-kafka")  # not reached: _attempts raises


def aiokafka(bootstrap: str) -> int:
    """The producer id of an aiokafka producer. Raises TimeoutError."""

    async def ask() -> int:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            transactions = producer._txn_manager
            await asyncio.wait_for(transactions.wait_for_pid(), TIMEOUT_SECONDS)
            return int(transactions.producer_id)
        finally:
            await producer.stop()

    return asyncio.run(ask())


CLIENTS: Final[Mapping[str, Callable[[str], int]]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
    "aiokafka": aiokafka,
}


def _attempts(name: str) -> Iterator[None]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        yield
    raise TimeoutError(f"{name} got no producer id in {TIMEOUT_SECONDS:.0f} s")
