"""A member of a group, as a process: it joins, says so, and commits one offset when it is given a line.

Usage   python -m tests.clients.late_committer LIBRARY BOOTSTRAP GROUP TOPIC OFFSET
Writes  ``joined``, then what its commit led to: ``committed``, or ``refused`` and the library's error. What
        the Python libraries log goes to stderr.
"""

import asyncio
import logging
import sys
from typing import Any

SESSION_MS = 6_000
HEARTBEAT_MS = 500


def main(library: str, bootstrap: str, group: str, topic: str, offset: str) -> None:
    """Join, wait, commit."""
    logging.basicConfig(level=logging.INFO)
    {"confluent-kafka": _confluent, "kafka-python": _kafka_python, "aiokafka": _aiokafka}[library](
        bootstrap, group, topic, int(offset)
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _confluent(bootstrap: str, group: str, topic: str, offset: int) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    _say("joined")
    sys.stdin.readline()
    try:
        rows: Any = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        errors = [row.error for row in rows if row.error is not None]
        _say(f"refused {errors}" if errors else "committed")
    except KafkaException as refused:
        _say(f"refused {refused}")


def _kafka_python(bootstrap: str, group: str, topic: str, offset: int) -> None:
    import kafka

    consumer: Any = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    # Else 3.0.12 joins before it knows the topic, is assigned nothing and joins again; and if metadata comes
    # meanwhile it may never send SyncGroup: 1 of 65 times on a busy machine.
    consumer.partitions_for_topic(topic)
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(100)
    _say("joined")
    sys.stdin.readline()
    try:
        consumer.commit({kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)})
        _say("committed")
    except kafka.errors.KafkaError as refused:
        _say(f"refused {refused!r}")


def _aiokafka(bootstrap: str, group: str, topic: str, offset: int) -> None:
    asyncio.run(_run_aiokafka(bootstrap, group, topic, offset))


async def _run_aiokafka(bootstrap: str, group: str, topic: str, offset: int) -> None:
    import aiokafka
    from aiokafka.errors import KafkaError

    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=100)
    _say("joined")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    try:
        await consumer.commit({aiokafka.TopicPartition(topic, 0): offset})
        _say("committed")
    except KafkaError as refused:
        _say(f"refused {refused!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
