"""Kafka record batches, format v2: what every log is made of.

Layout      records/batch_layout.py; records follow the header.
CRC         CRC-32C from attributes to the end. Base offset and leader epoch lie outside: a batch is
            stamped with them when it is committed, and its bytes are never encoded again.
Bounds      every length is checked against the bytes that are there and ``BATCH_BYTES_MAX``.
Source      Kafka DefaultRecordBatch and DefaultRecord; docs/kafka-notes.md G1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from fencepost.records.batch_layout import (
    CHECKED,
    CHECKED_AT,
    COMPRESSION,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    UNCHECKED,
    field,
    fields_of,
)
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.types import Offset, ProducerId, Term
from fencepost.records.varint import SIGNED, SIGNED_KNOWN, read_signed, signed

Buffer: TypeAlias = bytes | bytearray | memoryview

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Kafka's largest metadata batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES); a Raft entry holds half."""

COUNT_MAX: Final = 2**31 - 1  # records of a compressed batch, by its header
HEADERS_MAX: Final = 1024  # of one record; Kafka has no limit, its clients set a handful

_BASE_OFFSET: Final = field("base_offset")
_LEADER_EPOCH: Final = field("leader_epoch")
_CRC: Final = fields_of("crc")
_LAST_OFFSET_DELTA: Final = fields_of("last_offset_delta")
_MAX_TIMESTAMP: Final = fields_of("max_timestamp_ms")
_NULL: Final = signed(-1)

Header: TypeAlias = tuple[bytes, bytes | None]


class BatchRecord(NamedTuple):
    """A record to write. None is Kafka's null, which is not b""."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class DecodedRecord(NamedTuple):
    """A record as read, with its own offset and time."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class BatchHeader(NamedTuple):
    """What a batch says of itself. The CRC is not checked: do not believe it, only walk by it."""

    base_offset: Offset
    size: int  # bytes, the header included
    leader_epoch: Term
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    record_count: int
    producer_id: ProducerId = ProducerId(-1)
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def is_control(self) -> bool:
        """Its records are control records."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Its records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on its tombstones, or its marker, may be removed; None: no cleaner has set it."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None

    @property
    def compression(self) -> int:
        """Kafka's number of the codec that its records are compressed with: 0 is none."""
        return self.attributes & COMPRESSION

    @property
    def end(self) -> Offset:
        """The offset after the batch's last record."""
        return Offset(self.base_offset + self.last_offset_delta + 1)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch whose CRC was right."""

    base_offset: Offset
    leader_epoch: Term
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    records: tuple[DecodedRecord, ...]

    @property
    def is_control(self) -> bool:
        """Its records are control records: leader changes, snapshot marks, transaction markers."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Its records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def end(self) -> Offset:
        """The offset after the batch's last record."""
        return Offset(self.base_offset + self.last_offset_delta + 1)


RecordParts = tuple[bytes | None, bytes | None, Sequence[Header]]
"""Key, value, headers: what a BatchRecord is made of; a plain tuple is cheaper to make."""


def encode_batch(
    records: Sequence[RecordParts],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
    control: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Encode at least one record, all of the same time, with consecutive offsets, not compressed.

    Size     61 bytes + the records, at most ``BATCH_BYTES_MAX``.
    Inverse  ``decode_batch``.
    Raises   InvariantViolation if empty or too large: who builds a batch bounds it.
    """
    invariant(len(records) > 0, "a batch has at least one record")
    attributes = (CONTROL if control else 0) | (TRANSACTIONAL if transactional else 0)
    last = len(records) - 1
    checked = CHECKED.pack(
        attributes, last, timestamp_ms, timestamp_ms, producer_id, producer_epoch, base_sequence, last + 1
    )
    body = _encode_records(records)
    size = CHECKED_AT + len(checked) + len(body)
    invariant(size <= BATCH_BYTES_MAX, "a batch is too large", size=size, limit=BATCH_BYTES_MAX)
    length = size - LENGTH_COUNTS_FROM
    crc = crc32c(body, crc32c(checked))
    return b"".join((UNCHECKED.pack(base_offset, length, leader_epoch, MAGIC, crc), checked, body))


def decode_batch(buffer: Buffer, position: int = 0) -> tuple[Batch, int]:
    """Read one batch, checking its CRC and every length in it.

    Returns  the batch and its size in bytes; ``position + size`` is where the next begins.
    Raises   CorruptData: truncated, wrong magic, wrong CRC, compressed, absurd or inconsistent lengths.
    """
    size = checked_header(buffer, position).size
    raw = bytes(buffer[position : position + size])
    (base_offset, _, leader_epoch, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, base_sequence, count) = HEADER.unpack_from(raw)  # fmt: skip
    codec = attributes & COMPRESSION
    if codec:
        raise CorruptData(f"batch at position {position}: compression {codec} is not supported")
    try:
        records = decode_records(raw, HEADER_BYTES, count, base_offset, base_timestamp)
    except (CorruptData, IndexError) as error:
        said = error if isinstance(error, CorruptData) else "a record ends past the batch"
        raise CorruptData(f"batch at position {position}: {said}") from error
    if records and last_offset_delta < records[-1].offset - base_offset:
        raise CorruptData(f"batch at position {position}: last offset delta {last_offset_delta} is too small")
    batch = Batch(
        base_offset, leader_epoch, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, records,
    )  # fmt: skip
    return batch, size


def iter_batches(buffer: Buffer) -> Iterator[Batch]:
    """Every batch of ``buffer``, from its beginning to its end. Raises CorruptData, as ``decode_batch``."""
    position = 0
    while position < len(buffer):
        batch, size = decode_batch(buffer, position)
        yield batch
        position += size


def batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read a batch's 61 bytes of header only: cheap, without the CRC. Its body need not be there.

    Raises   CorruptData if the header is truncated, or its magic or a length is absurd.
    """
    there = len(buffer) - position
    if there < HEADER_BYTES:
        raise CorruptData(f"batch at position {position}: {there} bytes, a header takes {HEADER_BYTES}")
    (base_offset, length, leader_epoch, magic, _, attributes, last_offset_delta, base_timestamp,
     max_timestamp, producer_id, epoch, sequence, count) = HEADER.unpack_from(buffer, position)  # fmt: skip
    if magic != MAGIC:
        raise CorruptData(f"batch at position {position}: magic {magic}, expected {MAGIC}")
    size: int = length + LENGTH_COUNTS_FROM
    if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
        raise CorruptData(
            f"batch at position {position}: {size} bytes, expected {HEADER_BYTES} to {BATCH_BYTES_MAX}"
        )
    most = COUNT_MAX if attributes & COMPRESSION else size  # compressed, a record may be less than a byte
    if not 0 <= count <= most or last_offset_delta < 0:
        raise CorruptData(
            f"batch at position {position}: {count} records in {size} bytes, last delta {last_offset_delta}"
        )
    return BatchHeader(
        base_offset, size, leader_epoch, attributes, last_offset_delta, base_timestamp, max_timestamp, count,
        producer_id, epoch, sequence,
    )  # fmt: skip


def checked_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a batch that is there whole and whose CRC is right; its records are not opened.

    Raises   CorruptData, as ``decode_batch`` does.
    """
    header = batch_header(buffer, position)
    end = position + header.size
    if end > len(buffer):
        there = len(buffer) - position
        raise CorruptData(f"batch at position {position}: {header.size} bytes, only {there} are there")
    crc: int = _CRC.unpack_from(buffer, position)[0]
    computed = crc32c(memoryview(buffer)[position + CHECKED_AT : end])
    if computed != crc:
        raise CorruptData(f"batch at position {position}: CRC {crc:#010x}, computed {computed:#010x}")
    return header


def stamped_ms(batch: bytes) -> int:
    """``max_timestamp_ms`` of a batch that was decoded before."""
    return int(_MAX_TIMESTAMP.unpack_from(batch)[0])


def record_count(batch: bytes) -> int:
    """How many offsets a batch takes that was decoded before, or that this node encoded."""
    return int(_LAST_OFFSET_DELTA.unpack_from(batch)[0]) + 1


def stamp(batch: bytes, base_offset: Offset, leader_epoch: Term) -> bytes:
    """The same batch at another place in a log, under another leader. Neither is under the CRC."""
    return b"".join(
        (
            _BASE_OFFSET.pack(base_offset),
            batch[LENGTH_AT:LEADER_EPOCH_AT],
            _LEADER_EPOCH.pack(leader_epoch),
            batch[MAGIC_AT:],
        )
    )


def stamp_into(batches: bytearray, position: int, base_offset: Offset, leader_epoch: Term) -> None:
    """As ``stamp``, of the batch at ``position``, in place."""
    _BASE_OFFSET.pack_into(batches, position, base_offset)
    _LEADER_EPOCH.pack_into(batches, position + LEADER_EPOCH_AT, leader_epoch)


def _encode_records(records: Sequence[RecordParts]) -> bytes:
    parts: list[bytes] = []
    append = parts.append
    varints = SIGNED
    for delta, (key, value, headers) in enumerate(records):
        if value is None or headers or delta >= SIGNED_KNOWN or len(value) + len(key or b"") >= 8000:
            parts += _record_parts(delta, key, value, headers)
            continue
        # attributes and timestamp delta, both 0; key; value; no headers
        offset, size = varints[delta], varints[len(value)]
        sized_key = _NULL if key is None else varints[len(key)] + key
        length = len(offset) + len(sized_key) + len(size) + len(value) + 3
        append(b"%b\0\0%b%b%b%b\0" % (varints[length], offset, sized_key, size, value))
    return b"".join(parts)


def _record_parts(
    delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> list[bytes]:
    """The bytes of one record, in parts: a value of megabytes is copied where the batch is joined alone."""
    size = _NULL if value is None else signed(len(value))
    parts = [b"\0\0", signed(delta), _sized(key), size, value or b"", signed(len(headers))]
    for name, content in headers:
        parts += (_sized(name), _sized(content))
    return [signed(sum(map(len, parts))), *parts]


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else signed(len(content)) + content


def decode_records(
    raw: bytes, position: int, count: int, base_offset: int, base_timestamp: int
) -> tuple[DecodedRecord, ...]:
    """The ``count`` records from ``position`` of a batch's uncompressed bytes to their very end.

    Raises   CorruptData, or IndexError: they end past the bytes.
    """
    records: list[DecodedRecord] = []
    append, new = records.append, tuple.__new__  # a third of what the call of a NamedTuple costs
    previous = -1
    value: bytes | None
    for _ in range(count):
        length = raw[position]
        if length < 0x80:
            length = (length >> 1) ^ -(length & 1)
            position += 1
        else:
            length, position = read_signed(raw, position)
        end = position + length
        size = raw[position + 3]
        if raw[position + 1] == 0 and raw[position + 2] < 0x80 > size and (size == 1 or not size & 1):
            # The same time, a delta of one byte, and no key or a short one, as almost always.
            time_delta, delta = 0, (raw[position + 2] >> 1) ^ -(raw[position + 2] & 1)
            position += 4
            if size == 1:
                key = None
            else:
                key, position = raw[position : position + (size >> 1)], position + (size >> 1)
        else:
            time_delta, position = read_signed(raw, position + 1)
            delta, position = read_signed(raw, position)
            key, position = _decode_sized(raw, position)
        size = raw[position]
        if size < 0x80 and not size & 1:
            value, position = raw[position + 1 : position + 1 + (size >> 1)], position + 1 + (size >> 1)
        else:
            value, position = _decode_sized(raw, position)
        headers: tuple[Header, ...] = ()
        if raw[position] == 0:
            position += 1
        else:
            headers, position = _decode_headers(raw, position)
        if position != end:
            raise CorruptData(f"the record at byte {position} is not as long as it says")
        if delta <= previous:
            raise CorruptData(f"offset delta {delta} follows {previous}")
        previous = delta
        append(new(DecodedRecord, (base_offset + delta, base_timestamp + time_delta, key, value, headers)))
    if position != len(raw):
        raise CorruptData(f"{len(raw) - position} bytes after the last record")
    return tuple(records)


def _decode_sized(raw: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = read_signed(raw, position)
    end = start + length
    if length < 0 or end > len(raw):
        if length == -1:
            return None, start
        raise CorruptData(f"length {length} at byte {position}, {len(raw) - start} bytes are there")
    return raw[start:end], end


def _decode_headers(raw: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_signed(raw, position)
    if not 0 <= count <= HEADERS_MAX:
        raise CorruptData(f"{count} headers before byte {position}, expected 0 to {HEADERS_MAX}")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _decode_sized(raw, position)
        content, position = _decode_sized(raw, position)
        if name is None:
            raise CorruptData(f"a header without a name before byte {position}")
        headers.append((name, content))
    return tuple(headers), position
