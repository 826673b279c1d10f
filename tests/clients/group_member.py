"""One member of a consumer group, as a process: writes its partitions as a JSON list whenever they change.

Usage   python -m tests.clients.group_member LIBRARY BOOTSTRAP GROUP TOPIC
Ends    with SIGTERM: it closes its consumer, which leaves the group.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable

SESSION_MS = 6_000
HEARTBEAT_MS = 500


class Ended(Exception):
    """SIGTERM has come."""


def main(library: str, bootstrap: str, group: str, topic: str) -> None:
    """Take part until SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    try:
        {"confluent-kafka": _confluent, "kafka-python": _kafka_python, "aiokafka": _aiokafka}[library](
            bootstrap, group, topic
        )
    except Ended:
        pass


def _end(_number: int, _frame: object) -> None:
    raise Ended


class Said:
    """Writes what is new."""

    def __init__(self) -> None:
        self._last: list[int] | None = None

    def say(self, partitions: Iterable[int]) -> None:
        now = sorted(partitions)
        if now != self._last:
            self._last = now
            sys.stdout.write(json.dumps(now) + "\n")
            sys.stdout.flush()


def _confluent(bootstrap: str, group: str, topic: str) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "reconnect.backoff.max.ms": 200,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    said = Said()
    try:
        while True:
            consumer.poll(0.1)
            said.say(each.partition for each in consumer.assignment())
    finally:
        consumer.close()


def _kafka_python(bootstrap: str, group: str, topic: str) -> None:
    import kafka

    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
    )
    said = Said()
    try:
        while True:
            consumer.poll(100)
            said.say(each.partition for each in consumer.assignment())
    finally:
        consumer.close()


def _aiokafka(bootstrap: str, group: str, topic: str) -> None:
    asyncio.run(_run_aiokafka(bootstrap, group, topic))


async def _run_aiokafka(bootstrap: str, group: str, topic: str) -> None:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    said = Said()
    await consumer.start()
    try:
        while not ended.is_set():
            await consumer.getmany(timeout_ms=100)
            said.say(each.partition for each in consumer.assignment())
    finally:
        await consumer.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
