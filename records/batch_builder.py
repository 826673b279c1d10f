"""A producer's record batch, filled record by record, then written with its producer's pair and sequence.

Time      the first record's time is the batch's base; the others are deltas to it, negative ones included.
Size      ``size`` is what the batch takes uncompressed; a batch of ours is bounded by who fills it.
Inverse   ``batch_header`` and ``decode_records`` of records/batch.py.
Source    Kafka DefaultRecordBatch and DefaultRecord.
"""

from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from fencepost.records.batch import Header
from fencepost.records.batch_layout import (
    CHECKED,
    HEADER_BYTES,
    LENGTH_COUNTS_FROM,
    MAGIC,
    TRANSACTIONAL,
    UNCHECKED,
)
from fencepost.records.compression import NONE, compress
from fencepost.records.varint import SIGNED, SIGNED_KNOWN, signed

RECORD_OVERHEAD_BYTES_MAX: Final = 32
"""What a record takes beside its key, value and headers: length, attributes, deltas, three lengths."""

HEADER_OVERHEAD_BYTES_MAX: Final = 10  # of one header of a record: two lengths
_NULL: Final = signed(-1)
_SMALL_BYTES: Final = SIGNED_KNOWN - RECORD_OVERHEAD_BYTES_MAX


class BatchBuilder:
    """The records of one batch to be. ``size``: bytes that it takes now, uncompressed."""

    __slots__ = ("_first_ms", "_max_ms", "_parts", "count", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._first_ms = 0
        self._max_ms = 0
        self.count = 0
        self.size = HEADER_BYTES

    @property
    def max_timestamp_ms(self) -> int:
        """The largest time of a record in it."""
        return self._max_ms

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_ms: int
    ) -> int:
        """Add a record. Returns its index in the batch, which is its offset delta."""
        delta = self.count
        if delta == 0:
            self._first_ms = self._max_ms = timestamp_ms
        elif timestamp_ms > self._max_ms:
            self._max_ms = timestamp_ms
        after_ms = timestamp_ms - self._first_ms
        if (
            value is None
            or headers
            or delta >= SIGNED_KNOWN
            or not 0 <= after_ms < SIGNED_KNOWN
            or len(value) + len(key or b"") >= _SMALL_BYTES
        ):
            part = _record(delta, after_ms, key, value, headers)
        else:
            time, offset, size = SIGNED[after_ms], SIGNED[delta], SIGNED[len(value)]
            sized_key = _NULL if key is None else SIGNED[len(key)] + key
            length = len(time) + len(offset) + len(sized_key) + len(size) + len(value) + 2
            part = b"%b\0%b%b%b%b%b\0" % (SIGNED[length], time, offset, sized_key, size, value)
        self._parts.append(part)
        self.count = delta + 1
        self.size += len(part)
        return delta

    def body(self, codec: int = NONE) -> bytes:
        """The records, compressed by ``codec`` (records/compression.py)."""
        records = b"".join(self._parts)
        return compress(codec, records) if codec != NONE else records

    def build(
        self,
        body: bytes,
        *,
        codec: int = NONE,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """The batch around ``body``, as ``body(codec)`` gave it. It has at least one record."""
        attributes = codec | (TRANSACTIONAL if transactional else 0)
        last = self.count - 1
        checked = CHECKED.pack(
            attributes,
            last,
            self._first_ms,
            self._max_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            last + 1,
        )
        length = HEADER_BYTES + len(body) - LENGTH_COUNTS_FROM
        crc = crc32c(body, crc32c(checked))
        return b"".join((UNCHECKED.pack(0, length, -1, MAGIC, crc), checked, body))


def size_max(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Bytes that a record takes in a batch at most."""
    size = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES_MAX + len(name) + len(content or b"")
    return size


def _record(
    delta: int, after_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    parts = [b"\0", signed(after_ms), signed(delta), _sized(key), _sized(value), signed(len(headers))]
    for name, content in headers:
        parts += (_sized(name), _sized(content))
    return b"".join((signed(sum(map(len, parts))), *parts))


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else signed(len(content)) + content
