"""A record batch without some of its records, as the cleaner of a compacted log leaves it.

Kept        base offset, last offset delta, producer, epoch, sequence and leader epoch stay, so that offsets
            and sequences are what they were; records that stay keep their offsets, times and bytes.
Horizon     of a batch with tombstones, or of a marker, is its base timestamp, with an attribute that says
            so; times are deltas to it then. It is set once.
Empty       a batch without records is its header: 61 bytes, count 0.
Pure        batches are checked before: ``checked_header``.
Source      Kafka MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader; KIP-534.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from crc32c import crc32c

from fencepost.records.batch import BatchHeader
from fencepost.records.batch_layout import (
    CHECKED,
    COMPRESSION,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LENGTH_COUNTS_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    UNCHECKED,
)
from fencepost.records.compression import NONE, compress, decompress
from fencepost.records.invariant import CorruptData
from fencepost.records.varint import read_signed, signed

Keyed: TypeAlias = tuple[int, int, int, int, bytes | None, bool]
"""A record: where its bytes begin and end, offset delta, time delta, key, whether it has a value. Of a plain
tuple a million are made in half the time."""

_INT64: Final = 2**63
_NO_TIMESTAMP: Final = -1
_KEPT_EMPTY: Final = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL


def opened(batch: bytes, header: BatchHeader) -> bytes:
    """The bytes of the records of a batch, without compression. Raises CorruptData, KeyError."""
    body = batch[HEADER_BYTES:]
    return body if header.compression == NONE else bytes(decompress(header.compression, body))


def keyed_records(body: bytes, count: int) -> list[Keyed]:
    """The ``count`` records of ``opened``. Raises CorruptData."""
    records: list[Keyed] = []
    append = records.append
    position, size = 0, len(body)
    try:
        for _ in range(count):
            start = position
            length = body[position]
            if length < 0x80:
                end = position + 1 + ((length >> 1) ^ -(length & 1))
                position += 2
            else:
                length, position = read_signed(body, position)
                end = position + length
                position += 1
            time = body[position]
            if time < 0x80:
                time, position = (time >> 1) ^ -(time & 1), position + 1
            else:
                time, position = read_signed(body, position)
            delta = body[position]
            if delta < 0x80:
                delta, position = (delta >> 1) ^ -(delta & 1), position + 1
            else:
                delta, position = read_signed(body, position)
            length = body[position]
            if length < 0x80:
                length, position = (length >> 1) ^ -(length & 1), position + 1
            else:
                length, position = read_signed(body, position)
            key = None
            if length >= 0:
                key, position = body[position : position + length], position + length
            value = body[position]
            has_value = not value & 1 if value < 0x80 else read_signed(body, position)[0] >= 0
            if not position < end <= size:
                raise CorruptData(f"the record at byte {start} ends at byte {end} of {size}")
            append((start, end, delta, time, key, has_value))
            position = end
    except IndexError:
        raise CorruptData("a record ends past the batch") from None
    return records


def filtered_batch(
    header: BatchHeader, body: bytes, kept: Sequence[Keyed], delete_horizon_ms: int | None = None
) -> bytes:
    """The batch with these of its records only, at least one, compressed as it was.

    body                as ``opened`` gave it.
    delete_horizon_ms   to be set; a batch that has a horizon keeps its own. None: it gets none.
    """
    attributes, base_ms = header.attributes, header.base_timestamp_ms
    if attributes & LOG_APPEND_TIME:
        max_ms = header.max_timestamp_ms
    else:
        newest_ms = base_ms + max(time for _, _, _, time, _, _ in kept)
        max_ms = max(_NO_TIMESTAMP, min(newest_ms, header.max_timestamp_ms))  # a client may say anything
    if delete_horizon_ms is None or header.delete_horizon_ms is not None:
        records = b"".join([body[start:end] for start, end, _, _, _, _ in kept])
    else:
        shift = base_ms - delete_horizon_ms
        times = [time + shift for _, _, _, time, _, _ in kept]
        if not -_INT64 <= min(times) <= max(times) < _INT64:  # of an absurd time: it stays without a horizon
            return filtered_batch(header, body, kept)
        records = b"".join([_shifted(body[start:end], shift) for start, end, _, _, _, _ in kept])
        attributes, base_ms = attributes | DELETE_HORIZON, delete_horizon_ms
    if header.compression != NONE:
        records = compress(header.compression, records)
    return _encoded(header, attributes, base_ms, max_ms, len(kept), records)


def empty_batch(header: BatchHeader) -> bytes:
    """What is kept of a batch without records for the sake of its offsets and its producer's sequence."""
    return _encoded(header, header.attributes & _KEPT_EMPTY, _NO_TIMESTAMP, header.max_timestamp_ms, 0, b"")


def recompressed(batch: bytes, header: BatchHeader, codec: int, level: int | None = None) -> bytes:
    """The batch with its records compressed by another codec, or not at all. Raises CorruptData, KeyError."""
    records = opened(batch, header)
    if codec != NONE:
        records = compress(codec, records, level)
    attributes = header.attributes & ~COMPRESSION | codec
    base_ms, max_ms = header.base_timestamp_ms, header.max_timestamp_ms
    return _encoded(header, attributes, base_ms, max_ms, header.record_count, records)


def _shifted(record: bytes, shift: int) -> bytes:
    """The record with another time delta."""
    _, position = read_signed(record, 0)
    time, after = read_signed(record, position + 1)
    rest = b"".join((record[position : position + 1], signed(time + shift), record[after:]))
    return signed(len(rest)) + rest


def _encoded(
    header: BatchHeader, attributes: int, base_ms: int, max_ms: int, count: int, records: bytes
) -> bytes:
    checked = CHECKED.pack(
        attributes, header.last_offset_delta, base_ms, max_ms, header.producer_id, header.producer_epoch,
        header.base_sequence, count,
    )  # fmt: skip
    length = HEADER_BYTES + len(records) - LENGTH_COUNTS_FROM
    crc = crc32c(records, crc32c(checked))
    unchecked = UNCHECKED.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc)
    return b"".join((unchecked, checked, records))
