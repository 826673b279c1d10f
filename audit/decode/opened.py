"""The records inside a batch, compressed or not: only of the logs whose records the audit reads.

Source   Kafka DefaultRecordBatch.iterator; a compacted batch has fewer records than offsets.
"""

from typing import Final

from records.batch import HEADER_BYTES, DecodedRecord, batch_header, decode_records
from records.compression import NONE, decompress
from records.invariant import CorruptData

_LOG_APPEND_TIME: Final = 0x08
_CODEC_MAX: Final = 4


class CannotDecompress(CorruptData):
    """The records of a sound batch cannot be unpacked: none of them is known."""


def open_records(content: bytes) -> tuple[DecodedRecord, ...]:
    """The records of a batch whose checksum was found right.

    Raises   CorruptData: they are not as long or as many as they say; CannotDecompress.
    """
    header = batch_header(content)
    raw, position = content, HEADER_BYTES
    if header.compression > _CODEC_MAX:
        raise CannotDecompress(f"compression {header.compression}, expected 0 to {_CODEC_MAX}")
    if header.compression != NONE:
        try:
            raw, position = decompress(header.compression, content[HEADER_BYTES:]), 0
        except CorruptData as error:
            raise CannotDecompress(str(error)) from error
    try:
        records = decode_records(
            raw, position, header.record_count, header.base_offset, header.base_timestamp_ms
        )
    except IndexError:
        raise CorruptData("a record ends past the batch") from None
    if header.attributes & _LOG_APPEND_TIME:
        return tuple(each._replace(timestamp_ms=header.max_timestamp_ms) for each in records)
    return records
