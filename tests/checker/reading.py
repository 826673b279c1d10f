"""Read a topic to its end, as a read_committed reader may, and the offsets of a group."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.checker.settings import CLIENT

ASK_SECONDS: Final = 5.0
ASKS_MAX: Final = 20
POLL_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 0.5


class NotRead(Exception):
    """The end was not reached in time."""


def consumer(bootstrap: str, **settings: Any) -> Any:
    """Reads what is committed, and only by ``assign``: it joins no group."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    fixed = {"isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "error"}
    unused = {"group.id": "checker-unused"}
    return confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **CLIENT, **fixed, **unused, **named})


def read_to_end(
    bootstrap: str, topic: str, partitions: Sequence[int], seconds_max: float
) -> Iterator[tuple[int, int, bytes]]:
    """(partition, offset, value) of all that lies below the high watermarks of this moment.

    Waits for transactions that are open there. Raises NotRead.
    """
    reader = consumer(bootstrap, enable_partition_eof=True)
    deadline = time.monotonic() + seconds_max
    try:
        ends = {each: _end(reader, TopicPartition(topic, each)) for each in partitions}
        left = {each for each, end in ends.items() if end}
        reader.assign([TopicPartition(topic, each, 0) for each in sorted(left)])
        while left:
            if time.monotonic() > deadline:
                raise NotRead(f"partitions {sorted(left)} of {topic} were not read to {ends}")
            message = reader.poll(POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message.partition(), message.offset(), message.value()
            elif error.code() != KafkaError._PARTITION_EOF:
                if not error.retriable():
                    raise KafkaException(error)
            elif message.offset() >= ends[message.partition()]:
                left.discard(message.partition())
    finally:
        reader.close()


def committed(asker: Any, partitions: Sequence[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Rows of (topic, partition, offset), -1 for none; partitions with an error are left out."""
    asked = [TopicPartition(topic, each) for topic, each in partitions]
    rows = asker.committed(asked, timeout=ASK_SECONDS)
    return [(row.topic, row.partition, max(row.offset, -1)) for row in rows if row.error is None]


def begin_at_zero(bootstrap: str, group: str, partitions: Sequence[tuple[str, int]]) -> None:
    """Commit the offset 0 for a group without members, so that none is ever missing. Raises NotRead."""
    committer = consumer(bootstrap, group_id=group)
    offsets = [TopicPartition(topic, each, 0) for topic, each in partitions]
    try:
        for _ in range(ASKS_MAX):
            try:
                rows = committer.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                rows = None
            if rows is not None and all(row.error is None for row in rows):
                return
            time.sleep(AGAIN_SECONDS)
    finally:
        committer.close()
    raise NotRead(f"the offsets of {group} were not committed")


def _end(reader: Any, partition: TopicPartition) -> int:
    for _ in range(ASKS_MAX):
        try:
            return int(reader.get_watermark_offsets(partition, timeout=ASK_SECONDS)[1])
        except KafkaException as error:
            last = error
            time.sleep(AGAIN_SECONDS)
    raise NotRead(f"the end of {partition} is not known: {last}")
