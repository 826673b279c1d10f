"""Where the header of a Kafka record batch, format v2, has its fields. No other module writes these numbers.

Header   baseOffset i64 | batchLength i32 | partitionLeaderEpoch i32 | magic i8 = 2 | crc u32 |
         attributes i16 | lastOffsetDelta i32 | baseTimestamp i64 | maxTimestamp i64 |
         producerId i64 | producerEpoch i16 | baseSequence i32 | count i32; big-endian. Records follow.
Length   counts the bytes after itself: the batch's size is batchLength + ``LENGTH_COUNTS_FROM``.
CRC      CRC-32C from the attributes to the end.
Source   Kafka DefaultRecordBatch; docs/kafka-notes.md G1.
"""

import struct
from itertools import accumulate
from typing import Final

FIELDS: Final = (  # name, and the code of its type in ``struct``
    ("base_offset", "q"),
    ("length", "i"),
    ("leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp_ms", "q"),
    ("max_timestamp_ms", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
)
_CODES: Final = "".join(code for _, code in FIELDS)
_ENDS: Final = tuple(accumulate(struct.calcsize(f">{code}") for code in _CODES))
AT: Final = dict(zip((name for name, _ in FIELDS), (0, *_ENDS), strict=False))
"""Where each field begins, by name."""

HEADER: Final = struct.Struct(f">{_CODES}")
HEADER_BYTES: Final = HEADER.size
"""61: where the records begin."""

LENGTH_AT: Final = AT["length"]
LENGTH_COUNTS_FROM: Final = AT["leader_epoch"]
LEADER_EPOCH_AT: Final = AT["leader_epoch"]
MAGIC_AT: Final = AT["magic"]
CRC_AT: Final = AT["crc"]
CHECKED_AT: Final = AT["attributes"]
"""The first byte that the CRC covers."""
ATTRIBUTES_AT: Final = AT["attributes"]
MAX_TIMESTAMP_AT: Final = AT["max_timestamp_ms"]

_FIRST_CHECKED: Final = [name for name, _ in FIELDS].index("attributes")
UNCHECKED: Final = struct.Struct(f">{_CODES[:_FIRST_CHECKED]}")  # base offset to CRC
CHECKED: Final = struct.Struct(f">{_CODES[_FIRST_CHECKED:]}")  # attributes to record count

MAGIC: Final = 2
COMPRESSION: Final = 0x07
"""The bits of the attributes that number the codec."""
LOG_APPEND_TIME: Final = 0x08
"""The attribute of a batch whose records all have its max timestamp as their time."""
TRANSACTIONAL: Final = 0x10
"""The attribute of a batch that belongs to a transaction."""
CONTROL: Final = 0x20
"""The attribute of a batch of control records."""
DELETE_HORIZON: Final = 0x40
"""The attribute of a batch whose base timestamp is when its tombstones, or its marker, may go (KIP-534)."""


def field(name: str) -> struct.Struct:
    """Reads and writes one field, from where it begins."""
    return struct.Struct(f">{dict(FIELDS)[name]}")


def fields_of(*names: str) -> struct.Struct:
    """Reads these fields, named in the header's order, from where a batch begins; the others are passed over.

    Not for writing: it would write zeros between them. Raises KeyError for what is no field.
    """
    codes, position = "", 0
    for name in names:
        codes += f"{AT[name] - position}x{dict(FIELDS)[name]}"
        position = AT[name] + field(name).size
    return struct.Struct(f">{codes}")


LENGTH: Final = fields_of("length")


def size_at(batches: bytes | bytearray | memoryview, position: int) -> int:
    """The size of the batch at ``position``, by its own word. struct.error: its length is not there."""
    length: int = LENGTH.unpack_from(batches, position)[0]
    return length + LENGTH_COUNTS_FROM
