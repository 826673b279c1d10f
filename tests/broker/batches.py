"""Record batches as producers send them, and requests with them."""

import time
from typing import Any

from fencepost.records.batch import encode_batch
from fencepost.wire.k00_produce import PartitionData, Produce
from fencepost.wire.k01_fetch import Fetch, FetchPartition
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers

TOPIC = "orders"


def batch(*values: bytes, **fields: Any) -> bytes:
    """One batch with these values, not compressed."""
    return encode_batch([(None, value, ()) for value in values], timestamp_ms=now_ms(), **fields)


def from_producer(*values: bytes, sequence: int, epoch: int = 0, transactional: bool = False) -> bytes:
    """A batch of producer 7."""
    return batch(
        *values, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def produce(*batches: bytes | None, topic: str = TOPIC, transactional_id: str | None = None) -> Produce:
    """One batch for each partition from 0 on."""
    data = tuple(PartitionData(topic, index, records) for index, records in enumerate(batches))
    return Produce(transactional_id, -1, 5_000, data)


def fetch(
    offset: int,
    *,
    committed: bool = False,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    topic: Any = TOPIC,
    partitions: int = 1,
    epoch: int = -1,
) -> Fetch:
    """From partitions 0 and on, by name or by id."""
    name, topic_id = (topic, None) if isinstance(topic, str) else (None, topic)
    asked = tuple(
        FetchPartition(name, topic_id, index, epoch, offset, -1, -1, max_bytes) for index in range(partitions)
    )
    return Fetch(-1, wait_ms, min_bytes, max_bytes, int(committed), 0, -1, asked)


def marker(
    *, committed: bool, epoch: int = 0, version: int = 0, coordinator_epoch: int = 1
) -> WriteTxnMarkers:
    """For producer 7 on partition 0."""
    topics = ((TOPIC, (0,)),)
    return WriteTxnMarkers(
        (TxnMarker(7, epoch, committed, topics, coordinator_epoch, image_version=version),)
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
