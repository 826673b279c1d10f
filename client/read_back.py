"""What a consumer sees of a topic, from its first record to its end, at an isolation level.

End         of a partition: the high watermark when reading began. Only when no transaction is open before
            it does a read_committed consumer get there; markers follow the answer to a commit, so it waits.
No group    partitions are assigned by hand; librdkafka wants a group.id nevertheless, and commits nothing.
"""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)
NONE: Final[Mapping[str, str]] = MappingProxyType({})
GROUP_ID: Final = "fencepost-cli"
ASK_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.05
AGAIN_SECONDS: Final = 0.2
FETCH_WAIT_MS: Final = 50  # a consumer that waits for the end fetches often
BATCH_MAX: Final = 10_000
PASSING: Final = frozenset(  # a broker that is gone may come back before the time is up
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._DESTROY_BROKER,  # librdkafka gave up a connection that it no longer needs
        KafkaError._UNKNOWN_PARTITION,  # what a partition without a leader is to librdkafka
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    )
)


class NotReadToEnd(Exception):
    """A partition's end was not reached in time: records are missing, or a transaction is still open."""


class Seen(NamedTuple):
    """A record, as a consumer got it."""

    partition: int
    offset: int
    value: bytes


def consumer_settings(bootstrap: str, isolation: str, access: Mapping[str, str] = NONE) -> dict[str, Any]:
    """What every consumer here is made with. ``access``: librdkafka's settings of how brokers are reached."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP_ID,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        "log_level": 0,
        **access,
    }


def partitions_of(consumer: Consumer, topic: str) -> list[int]:
    """The topic's partitions. Raises KafkaException."""
    found = consumer.list_topics(topic, timeout=ASK_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def read_topic(
    bootstrap: str, topic: str, isolation: str, *, timeout_s: float, access: Mapping[str, str] = NONE
) -> Iterator[Seen]:
    """Every record up to the end, partition by partition in order. Raises NotReadToEnd, KafkaException."""
    deadline = time.monotonic() + timeout_s
    ends = _ends(bootstrap, topic, deadline, access)
    consumer = Consumer(consumer_settings(bootstrap, isolation, access))
    try:
        # Assigned before it knows the leaders, the library asks again half a second later.
        partitions_of(consumer, topic)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in ends])
        while ends:
            if time.monotonic() > deadline:
                raise NotReadToEnd(f"{topic}: not read to {ends} (partition: end) in {timeout_s:.0f} s")
            for message in consumer.consume(BATCH_MAX, POLL_SECONDS):
                error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None:
                    yield Seen(partition, offset, message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    if offset >= ends.get(partition, 0):
                        ends.pop(partition, None)
                elif error.code() not in PASSING:
                    raise KafkaException(error)
    finally:
        consumer.close()


def _ends(bootstrap: str, topic: str, deadline: float, access: Mapping[str, str]) -> dict[int, int]:
    """The high watermarks, open transactions and markers included; empty partitions are left out."""
    consumer = Consumer(consumer_settings(bootstrap, READ_UNCOMMITTED, access))
    try:
        watermarks = {
            each: _watermarks(consumer, TopicPartition(topic, each), deadline)
            for each in partitions_of(consumer, topic)
        }
    finally:
        consumer.close()
    return {each: high for each, (low, high) in watermarks.items() if high > low}


def _watermarks(consumer: Consumer, partition: TopicPartition, deadline: float) -> tuple[int, int]:
    """(low, high), once the partition has a leader. Raises KafkaException."""
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=ASK_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_SECONDS)
