"""What a producer sends, checked as Kafka checks it, before any of it is in the log.

Order    size, layout, CRC; then what a client may claim; then its records; compressed ones are opened for
         it and stored as they came.
Kafka    demands exactly one batch of a producer since Produce v3. Here several are taken, but only without
         a producer id: sequences are checked and answered one batch at a time.
Source   Kafka UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

import struct
from typing import Final

from crc32c import crc32c

from broker.log.shapes import NO_TIMESTAMP, LogConfig
from controller.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from records.batch import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    BatchHeader,
    batch_header,
    checked_header,
    stamp,
)
from records.compression import NONE, ZSTD, decompress
from records.invariant import CorruptData
from records.record_walk import check_records
from records.types import Offset, Term

RECORDS_MAX: Final = 100_000
"""Of one batch: they are walked one by one. librdkafka's default ``batch.num.messages`` is 10,000."""

BATCHES_MAX: Final = 1024  # of one append

LOG_APPEND_TIME: Final = 0x08
"""The attribute of a batch whose records all have its max timestamp as their time."""

_MAGIC: Final = 2
_MAGIC_AT: Final = 16
_LENGTH: Final = struct.Struct(">i")
_LENGTH_COUNTS_FROM: Final = 12
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")


def check_produced(produced: bytes, config: LogConfig, now_ms: int) -> tuple[BatchHeader, ...]:
    """The headers of a producer's batches, in order, everything in them checked.

    Raises   CorruptMessage, InvalidRecord, MessageTooLarge, InvalidTimestamp, UnsupportedCompressionType.
    """
    headers: list[BatchHeader] = []
    position = 0
    while position < len(produced):
        header = _check_batch(produced, position, config, now_ms)
        headers.append(header)
        position += header.size
        if len(headers) > BATCHES_MAX:
            raise MessageTooLarge(f"more than {BATCHES_MAX} batches at once")
    if not headers:
        raise InvalidRecord("there is no record batch")
    if len(headers) > 1 and any(header.producer_id >= 0 for header in headers):
        raise InvalidRecord(f"{len(headers)} batches: a producer with an id sends one at a time")
    return tuple(headers)


def placed_batches(
    produced: bytes, headers: tuple[BatchHeader, ...], base: Offset, leader_epoch: Term, append_time_ms: int
) -> tuple[bytes, tuple[BatchHeader, ...]]:
    """Checked batches and their headers, with the offsets that they get from ``base`` on.

    ``append_time_ms`` becomes the time of all records, unless it is NO_TIMESTAMP.
    """
    placed: list[bytes] = []
    placed_headers: list[BatchHeader] = []
    end, position = base, 0
    for header in headers:
        batch = stamp(produced[position : position + header.size], end, leader_epoch)
        if append_time_ms == NO_TIMESTAMP:  # the rest is as the producer said, and read already
            placed_headers.append(BatchHeader(end, header.size, leader_epoch, *header[3:]))
        else:
            batch = _with_append_time(batch, append_time_ms)
            placed_headers.append(batch_header(batch))
        placed.append(batch)
        position += header.size
        end = placed_headers[-1].end
    return b"".join(placed), tuple(placed_headers)


def opened_records(batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
    """The bytes of a batch's records, and where they begin in them. Raises CorruptData, KeyError."""
    if header.compression == NONE:
        return batch, HEADER_BYTES
    return decompress(header.compression, batch[HEADER_BYTES:]), 0


def _check_batch(produced: bytes, position: int, config: LogConfig, now_ms: int) -> BatchHeader:
    there = len(produced) - position
    if there < HEADER_BYTES:
        raise CorruptMessage(f"{there} bytes, a batch has at least {HEADER_BYTES}")
    if produced[position + _MAGIC_AT] != _MAGIC:
        raise InvalidRecord(f"record format {produced[position + _MAGIC_AT]}, expected {_MAGIC}")
    size = _LENGTH.unpack_from(produced, position + 8)[0] + _LENGTH_COUNTS_FROM
    if size > config.message_bytes_max or size > BATCH_BYTES_MAX:
        limit = min(config.message_bytes_max, BATCH_BYTES_MAX)
        raise MessageTooLarge(f"a batch of {size} bytes, max.message.bytes is {limit}")
    try:
        header = checked_header(produced, position)
    except CorruptData as error:
        raise CorruptMessage(str(error)) from error
    _check_claims(header, config, now_ms)
    batch = produced if size == len(produced) else produced[position : position + size]
    try:
        body, start = opened_records(batch, header)
        check_records(body, start, header.record_count)
    except CorruptData as error:
        raise InvalidRecord(str(error)) from error
    return header


def _check_claims(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """What no client may claim, whatever its records are."""
    count = header.record_count
    if header.base_offset != 0:
        raise InvalidRecord(f"a producer's batch begins at offset {header.base_offset}, expected 0")
    if count != header.last_offset_delta + 1 or count == 0:
        raise InvalidRecord(f"{count} records, but the last offset delta is {header.last_offset_delta}")
    if count > RECORDS_MAX:
        raise MessageTooLarge(f"{count} records in a batch, at most {RECORDS_MAX} are taken")
    if header.is_control:
        raise InvalidRecord("a client may not write control records")
    if header.compression > ZSTD:
        raise UnsupportedCompressionType(f"no codec has number {header.compression}")
    if header.producer_id < 0:
        if header.is_transactional:
            raise InvalidRecord("a transactional batch without a producer id")
    elif header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and "
            f"sequence {header.base_sequence}"
        )
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer does not set the time of the append")
    ahead = header.max_timestamp_ms - now_ms
    if not config.log_append_time and ahead > config.timestamp_after_ms_max:
        if header.max_timestamp_ms != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"a record's time is {ahead} ms ahead, message.timestamp.after.max.ms is "
                f"{config.timestamp_after_ms_max}"
            )


def _with_append_time(batch: bytes, append_time_ms: int) -> bytes:
    stamped = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(stamped, 21)
    _ATTRIBUTES.pack_into(stamped, 21, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(stamped, 35, append_time_ms)
    _CRC.pack_into(stamped, 17, crc32c(memoryview(stamped)[21:]))
    return bytes(stamped)
