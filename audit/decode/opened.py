"""The records inside a batch, compressed or not: only of the logs whose records the audit reads.

Source   Kafka DefaultRecordBatch.iterator; a compacted batch has fewer records than offsets.
"""

from typing import Final, NamedTuple

from fencepost.records.batch import DecodedRecord, batch_header, decode_records
from fencepost.records.batch_layout import COMPRESSION, HEADER_BYTES
from fencepost.records.compression import NONE, decompress
from fencepost.records.invariant import CorruptData

_LOG_APPEND_TIME: Final = 0x08
_CODEC_MAX: Final = 4
_INT64_END: Final = 2**63


class CannotDecompress(CorruptData):
    """The records of a sound batch cannot be unpacked: none of them is known."""


class Opening(NamedTuple):
    """What a batch's header says that its records cannot be read without."""

    attributes: int
    record_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int


def open_records(content: bytes, header: Opening | None = None) -> tuple[DecodedRecord, ...]:
    """The records of a batch whose checksum was found right; ``header`` if it was read already.

    Raises   CorruptData: they are not as long or as many as they say, or their offsets do not ascend within
             the batch's; CannotDecompress.
    """
    if header is None:
        read = batch_header(content)
        header = Opening(
            read.attributes,
            read.record_count,
            read.base_offset,
            read.last_offset_delta,
            read.base_timestamp_ms,
            read.max_timestamp_ms,
        )
    attributes, count, base_offset, last_delta, base_timestamp_ms, max_timestamp_ms = header
    if count < 0:
        raise CorruptData(f"{count} records")
    raw, position = content, HEADER_BYTES
    codec = attributes & COMPRESSION
    if codec != NONE:
        raw, position = _decompressed(codec, content), 0
    try:
        records = decode_records(raw, position, count, base_offset, base_timestamp_ms)
    except IndexError:
        raise CorruptData("a record ends past the batch") from None
    least, last = base_offset, base_offset + last_delta
    for each in records:
        if not least <= each.offset <= max(last, least):
            raise CorruptData(f"a record at offset {each.offset}, of a batch of {base_offset} to {last}")
        least = each.offset + 1
        if not -_INT64_END <= each.timestamp_ms < _INT64_END or each.offset >= _INT64_END:
            raise CorruptData(f"a record at offset {each.offset} of time {each.timestamp_ms}")
    if attributes & _LOG_APPEND_TIME:
        return tuple(each._replace(timestamp_ms=max_timestamp_ms) for each in records)
    return records


def _decompressed(codec: int, content: bytes) -> bytes:
    if codec > _CODEC_MAX:
        raise CannotDecompress(f"compression {codec}, expected 0 to {_CODEC_MAX}")
    try:
        return bytes(decompress(codec, content[HEADER_BYTES:]))
    except CorruptData as error:
        raise CannotDecompress(str(error)) from error
