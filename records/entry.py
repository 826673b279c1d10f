"""The Raft entry: one decision, as it travels in the Raft log.

Layout   magic u8 | base_version u64 | controller_epoch u32 | proposer i32 | proposal u64 |
         count u8 | count x (log u8 | length u32 | Kafka record batch v2); big-endian.
         The batches carry base offset 0: they are stamped when they are applied.
Later    the layouts of later log levels begin with magic 0xFD | log level u16, whatever follows; this version
         knows none, and says so (LevelTooHigh) instead of taking it for damage.
Fence    (base_version, controller_epoch) must be the image's; (controller_epoch, proposer, proposal)
         is how a proposer recognises its own (docs/design.md 2).
Empty    no batch at all is a barrier: it applies, writes nothing, and lets answers leave.
"""

import struct
from typing import Final, TypeAlias

import msgspec

from fencepost.records.batch import Batch, decode_batch
from fencepost.records.batch_layout import CONTROL
from fencepost.records.control import ControlRecord, decode_control
from fencepost.records.invariant import CorruptData, InvariantViolation, invariant
from fencepost.records.levels import LEVEL_MAX, LevelTooHigh
from fencepost.records.logged import StateRecord, decode_metadata, decode_record
from fencepost.records.types import LOGS, ImageVersion, Log, NodeId, ProposalNumber, Term

ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024 - 4096
"""One entry must fit one append-entries message of the Raft core, with room for its frame."""

ENTRY_MAGIC: Final = 0xFE

LATER_MAGIC: Final = 0xFD

_LATER: Final = struct.Struct(">BH")
_LATER_BYTE: Final = bytes((LATER_MAGIC,))
_HEADER: Final = struct.Struct(">BQIiQB")
_BATCH: Final = struct.Struct(">BI")
_ATTRIBUTES_AT: Final = _HEADER.size + _BATCH.size + 22  # the low byte, in the header of the first batch

LoggedRecord: TypeAlias = StateRecord | ControlRecord


class Entry(msgspec.Struct, frozen=True):
    """A decision: what it was based on, who proposed it, and its batches, one per log, by ``Log``."""

    base_version: ImageVersion
    controller_epoch: Term
    proposer: NodeId
    proposal: ProposalNumber
    batches: tuple[tuple[Log, bytes], ...] = ()


class LoggedBatch(msgspec.Struct, frozen=True):
    """The records of one log in an entry, decoded. ``count`` offsets are used, unknown controls included."""

    log: Log
    control: bool
    records: tuple[LoggedRecord, ...]
    count: int


def encode_entry(entry: Entry) -> bytes:
    """Frame a decision for one Raft log entry.

    Size     26 bytes + 5 per batch + batches, at most ``ENTRY_BYTES_MAX`` (one append-entries message).
    Inverse  ``decode_entry(encode_entry(e)) == e`` for every e (test_entry.py).
    Raises   InvariantViolation if too large, a number does not fit, or its batches are not one per log in
             the order of ``Log``: ``decide`` bounds its records, so that is our bug.
    """
    logs = [log for log, _ in entry.batches]
    invariant(logs == sorted(set(logs)), "an entry has one batch per log, in order", logs=logs)
    numbers = (entry.base_version, entry.controller_epoch, entry.proposer, entry.proposal)
    try:
        parts = [_HEADER.pack(ENTRY_MAGIC, *numbers, len(logs))]
    except struct.error as error:
        raise InvariantViolation(f"an entry cannot be written: {error}: {numbers}") from error
    for log, batch in entry.batches:
        parts += (_BATCH.pack(log, len(batch)), batch)
    encoded = b"".join(parts)
    size = len(encoded)
    invariant(size <= ENTRY_BYTES_MAX, "an entry is too large", size=size, limit=ENTRY_BYTES_MAX)
    return encoded


def decode_entry(encoded: bytes) -> Entry:
    """Inverse of ``encode_entry``. The batches are not opened. Raises CorruptData, LevelTooHigh."""
    _require_readable(encoded)
    if not _HEADER.size <= len(encoded) <= ENTRY_BYTES_MAX:
        raise CorruptData(f"an entry of {len(encoded)} bytes, expected {_HEADER.size} to {ENTRY_BYTES_MAX}")
    magic, base_version, controller_epoch, proposer, proposal, count = _HEADER.unpack_from(encoded)
    if magic != ENTRY_MAGIC:
        raise CorruptData(f"entry magic {magic:#04x}, expected {ENTRY_MAGIC:#04x}")
    batches: list[tuple[Log, bytes]] = []
    position = _HEADER.size
    previous = -1
    for _ in range(count):
        if position + _BATCH.size > len(encoded):
            raise CorruptData(f"an entry of {len(encoded)} bytes ends inside a batch header at {position}")
        log, length = _BATCH.unpack_from(encoded, position)
        position += _BATCH.size
        if not previous < log < len(LOGS):
            raise CorruptData(f"log {log} after log {previous} in an entry")
        if position + length > len(encoded):
            raise CorruptData(f"a batch of {length} bytes at {position} in an entry of {len(encoded)} bytes")
        batches.append((LOGS[log], encoded[position : position + length]))
        position += length
        previous = log
    if position != len(encoded):
        raise CorruptData(f"{len(encoded) - position} bytes after the last batch of an entry")
    return Entry(base_version, controller_epoch, proposer, proposal, tuple(batches))


def holds_controls(encoded: bytes) -> bool:
    """An encoded entry's first batch is of control records, which only the metadata log has: a peek.

    One of a later level may be, so it must be decoded, which says that this node cannot.
    """
    return encoded[:1] == _LATER_BYTE or (
        len(encoded) > _ATTRIBUTES_AT
        and encoded[_HEADER.size] == Log.METADATA
        and bool(encoded[_ATTRIBUTES_AT] & CONTROL)
    )


def _require_readable(encoded: bytes) -> None:
    """Raises LevelTooHigh for an entry whose layout came with a log level above ``LEVEL_MAX``."""
    if encoded[:1] == _LATER_BYTE and len(encoded) >= _LATER.size:
        _, level = _LATER.unpack_from(encoded)
        if level > LEVEL_MAX:
            raise LevelTooHigh("an entry of the log", level)


def decode_records(entry: Entry) -> tuple[LoggedBatch, ...]:
    """Open an entry's batches, in their order. Raises CorruptData, naming the log."""
    return tuple(_decode_logged(log, raw) for log, raw in entry.batches)


def _decode_logged(log: Log, raw: bytes) -> LoggedBatch:
    try:
        batch, size = decode_batch(raw)
        if size != len(raw):
            raise CorruptData(f"{len(raw) - size} bytes after the batch")
        count = batch.last_offset_delta + 1
        if len(batch.records) != count:
            raise CorruptData(f"{len(batch.records)} records on {count} offsets")
        records = _decode_controls(batch) if batch.is_control else _decode_states(log, batch)
    except CorruptData as error:
        raise CorruptData(f"entry, {log.directory}: {error}") from error
    return LoggedBatch(log, batch.is_control, records, count)


def _decode_controls(batch: Batch) -> tuple[LoggedRecord, ...]:
    decoded = (decode_control(record.key, record.value) for record in batch.records)
    return tuple(record for record in decoded if record is not None)


def _decode_states(log: Log, batch: Batch) -> tuple[LoggedRecord, ...]:
    if log is Log.METADATA:
        return tuple(map(decode_metadata, [value for _, _, _, value, _ in batch.records]))
    return tuple([decode_record(log, key, value) for _, _, key, value, _ in batch.records])
