"""The records of a fetched partition, as an isolation level shows them.

Aborted     an answer lists aborted transactions by producer and first offset; from there to the producer's
            ABORT marker its transactional batches are left out (read committed).
Partial     the last batch may be cut off: it is fetched again. Records before the wanted offset are left out.
Source      Kafka CompletedFetch.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.client.types import ConsumerRecord, TopicPartition
from fencepost.records import compression
from fencepost.records.batch import BatchHeader, batch_header, checked_header, decode_records
from fencepost.records.batch_layout import HEADER_BYTES, LENGTH_COUNTS_FROM, LOG_APPEND_TIME
from fencepost.records.invariant import CorruptData
from fencepost.wire.k01_fetch import AbortedTransaction

_ABORT_KEY: Final = b"\0\0\0\0"  # version 0, type 0


class Shown(NamedTuple):
    """Records to be given to the application, and the offset to fetch from next."""

    records: list[ConsumerRecord]
    next_offset: int


def shown(
    partition: TopicPartition, raw: bytes, offset: int, aborted: Sequence[AbortedTransaction] | None
) -> Shown:
    """The records from ``offset`` on. ``aborted`` None: read uncommitted.

    Raises CorruptData: a checksum is wrong, or a batch is not what it says.
    """
    records: list[ConsumerRecord] = []
    waiting = sorted(aborted or (), key=lambda each: each.first_offset, reverse=True)
    hidden: set[int] = set()
    position = 0
    while len(raw) - position >= HEADER_BYTES:
        header = batch_header(raw, position)
        if position + header.size > len(raw):
            break
        checked_header(raw, position)
        body_at, position = position + HEADER_BYTES, position + header.size
        while waiting and waiting[-1].first_offset < header.end:
            hidden.add(waiting.pop().producer_id)
        if header.is_control:
            if _is_abort(raw, body_at, position, header):
                hidden.discard(header.producer_id)
        elif header.end > offset and not (header.is_transactional and header.producer_id in hidden):
            _add(records, partition, raw[body_at:position], header, offset)
        offset = max(offset, header.end)
    return Shown(records, offset)


def first_batch_bytes(raw: bytes) -> int:
    """Bytes of the first batch, which may be larger than what was fetched; 0 if its length is not there."""
    if len(raw) < LENGTH_COUNTS_FROM:
        return 0
    return int.from_bytes(raw[LENGTH_COUNTS_FROM - 4 : LENGTH_COUNTS_FROM], "big") + LENGTH_COUNTS_FROM


def _is_abort(raw: bytes, start: int, end: int, header: BatchHeader) -> bool:
    found = decode_records(raw[start:end], 0, header.record_count, header.base_offset, 0)
    return bool(found) and (found[0].key or b"")[:4] == _ABORT_KEY


def _add(
    records: list[ConsumerRecord], partition: TopicPartition, body: bytes, header: BatchHeader, offset: int
) -> None:
    if header.compression:
        try:
            body = bytes(compression.decompress(header.compression, body))
        except KeyError as error:
            raise CorruptData(f"{partition}: no codec has number {header.compression}") from error
    base_ms = header.base_timestamp_ms
    try:
        found = decode_records(body, 0, header.record_count, header.base_offset, base_ms)
    except IndexError as error:
        raise CorruptData(f"{partition}: a record ends past the batch at {header.base_offset}") from error
    topic, number = partition
    is_append_time = bool(header.attributes & LOG_APPEND_TIME)
    of_batch = (is_append_time, header.producer_id, header.producer_epoch)
    for each in found:
        if each.offset >= offset:
            at_ms = header.max_timestamp_ms if is_append_time else each.timestamp_ms
            records.append(
                ConsumerRecord(
                    topic, number, each.offset, at_ms, each.key, each.value, each.headers, *of_batch
                )
            )
