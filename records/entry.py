"""The Raft entry: one decision, as it travels in the Raft log.

Layout   magic u8 | base_version u64 | controller_epoch u32 | proposer i32 | proposal u64 |
         count u8 | count x (log u8 | length u32 | Kafka record batch v2); big-endian; at most one batch of
         each log. The batches carry base offset 0: they are stamped when they are applied.
Level 2  magic 0xFD | log level u16 = 2 | base_version to proposal as above | count u16 | count x as above:
         any number of batches of ``__consumer_offsets``, in the order of their decisions, and at least one.
         An entry without any keeps the first layout.
Later    the layouts of later log levels begin with magic 0xFD | log level u16, whatever follows; this version
         does not know them, and says so (LevelTooHigh) instead of taking them for damage.
Order    batches lie in the order of ``Log``; those of one log get consecutive offsets.
Fence    (base_version, controller_epoch) must be the image's; (controller_epoch, proposer, proposal)
         is how a proposer recognises its own (docs/design.md 2).
Empty    no batch at all is a barrier: it applies, writes nothing, and lets answers leave.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from fencepost.records.batch import Batch, decode_batch, record_count
from fencepost.records.batch_layout import CONTROL
from fencepost.records.control import ControlRecord, decode_control
from fencepost.records.group_log import UnknownGroupRecord, decode_group_batch
from fencepost.records.invariant import CorruptData, InvariantViolation, invariant
from fencepost.records.levels import GROUP_LOG, LEVEL_MAX, LevelTooHigh
from fencepost.records.logged import StateRecord, decode_metadata, decode_record
from fencepost.records.types import LOGS, ImageVersion, Log, NodeId, Offset, ProposalNumber, Term

ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024 - 4096
"""One entry must fit one append-entries message of the Raft core, with room for its frame."""

ENTRY_MAGIC: Final = 0xFE

LATER_MAGIC: Final = 0xFD

_LATER: Final = struct.Struct(">BH")
_LATER_BYTE: Final = bytes((LATER_MAGIC,))
_GROUP_LOG_PREFIX: Final = _LATER.pack(LATER_MAGIC, GROUP_LOG)
_HEADER: Final = struct.Struct(">BQIiQB")
_GROUP_LOG_HEADER: Final = struct.Struct(">BHQIiQH")
_NUMBERS: Final = struct.Struct(">xQIiQB")
_GROUP_LOG_NUMBERS: Final = struct.Struct(">3xQIiQH")
_BATCH: Final = struct.Struct(">BI")
_ATTRIBUTES_AT: Final = _BATCH.size + 22  # the low byte, from where the header of a batch begins

_GROUPS: Final = Log.CONSUMER_OFFSETS

LoggedRecord: TypeAlias = StateRecord | ControlRecord | UnknownGroupRecord


class Entry(msgspec.Struct, frozen=True):
    """A decision: what it was based on, who proposed it, and its batches, in the order of ``Log``.

    Several of one log, ``__consumer_offsets`` alone, are in the order of what was decided.
    """

    base_version: ImageVersion
    controller_epoch: Term
    proposer: NodeId
    proposal: ProposalNumber
    batches: tuple[tuple[Log, bytes], ...] = ()


class LoggedBatch(msgspec.Struct, frozen=True):
    """The records of one batch in an entry, decoded. ``count`` offsets are used, also by unknown controls."""

    log: Log
    control: bool
    records: tuple[LoggedRecord, ...]
    count: int


def encode_entry(entry: Entry) -> bytes:
    """Frame a decision for one Raft log entry.

    Size     26 bytes (29 in the layout of level 2) + 5 per batch + batches, at most ``ENTRY_BYTES_MAX`` (one
             append-entries message). So there are never more batches than their count can say.
    Inverse  ``decode_entry(encode_entry(e)) == e`` for every e (test_entry.py).
    Raises   InvariantViolation if too large, a number does not fit, or its batches are not in the order of
             ``Log``, one of each but ``__consumer_offsets``: who decides sees to that, so it is our bug.
    """
    logs = [log for log, _ in entry.batches]
    _require_order(logs)
    numbers = (entry.base_version, entry.controller_epoch, entry.proposer, entry.proposal, len(logs))
    try:
        if logs and logs[-1] is _GROUPS:
            parts = [_GROUP_LOG_HEADER.pack(LATER_MAGIC, GROUP_LOG, *numbers)]
        else:
            parts = [_HEADER.pack(ENTRY_MAGIC, *numbers)]
    except struct.error as error:
        raise InvariantViolation(f"an entry cannot be written: {error}: {numbers}") from error
    for log, batch in entry.batches:
        parts += (_BATCH.pack(log, len(batch)), batch)
    encoded = b"".join(parts)
    size = len(encoded)
    invariant(size <= ENTRY_BYTES_MAX, "an entry is too large", size=size, limit=ENTRY_BYTES_MAX)
    return encoded


def _require_order(logs: Sequence[Log]) -> None:
    previous = -1
    for log in logs:
        if log < previous or (log == previous and log is not _GROUPS):
            invariant(False, "an entry has its batches by log, one of each but the last", logs=logs)
        previous = log


def decode_entry(encoded: bytes) -> Entry:
    """Inverse of ``encode_entry``. The batches are not opened. Raises CorruptData, LevelTooHigh."""
    later = encoded[:1] == _LATER_BYTE
    if later:
        _require_readable(encoded)
    header = _GROUP_LOG_NUMBERS if later else _NUMBERS
    position = header.size
    if not position <= len(encoded) <= ENTRY_BYTES_MAX:
        raise CorruptData(f"an entry of {len(encoded)} bytes, expected {position} to {ENTRY_BYTES_MAX}")
    if encoded[0] != ENTRY_MAGIC and not later:
        raise CorruptData(f"entry magic {encoded[0]:#04x}, expected {ENTRY_MAGIC:#04x}")
    base_version, controller_epoch, proposer, proposal, count = header.unpack_from(encoded)
    batches: list[tuple[Log, bytes]] = []
    previous = -1
    for _ in range(count):
        if position + _BATCH.size > len(encoded):
            raise CorruptData(f"an entry of {len(encoded)} bytes ends inside a batch header at {position}")
        log, length = _BATCH.unpack_from(encoded, position)
        position += _BATCH.size
        if not previous < log < len(LOGS) and not (log == previous == _GROUPS):
            raise CorruptData(f"log {log} after log {previous} in an entry")
        if position + length > len(encoded):
            raise CorruptData(f"a batch of {length} bytes at {position} in an entry of {len(encoded)} bytes")
        batches.append((LOGS[log], encoded[position : position + length]))
        position += length
        previous = log
    if position != len(encoded):
        raise CorruptData(f"{len(encoded) - position} bytes after the last batch of an entry")
    if later != (previous == _GROUPS):
        raise CorruptData(f"an entry with magic {encoded[0]:#04x} whose last batch is of log {previous}")
    return Entry(base_version, controller_epoch, proposer, proposal, tuple(batches))


def holds_controls(encoded: bytes) -> bool:
    """An encoded entry's first batch is one of control records of the metadata log: a peek.

    One of a later level may be, so it must be decoded, which says that this node cannot.
    """
    first = _HEADER.size
    if encoded[:1] == _LATER_BYTE:
        if not encoded.startswith(_GROUP_LOG_PREFIX):
            return True
        first = _GROUP_LOG_HEADER.size
    return (
        len(encoded) > first + _ATTRIBUTES_AT
        and encoded[first] == Log.METADATA
        and bool(encoded[first + _ATTRIBUTES_AT] & CONTROL)
    )


def _require_readable(encoded: bytes) -> None:
    """Raises LevelTooHigh for an entry whose layout came with a log level above ``LEVEL_MAX``."""
    if len(encoded) >= _LATER.size:
        _, level = _LATER.unpack_from(encoded)
        if level > LEVEL_MAX:
            raise LevelTooHigh("an entry of the log", level)
        if level != GROUP_LOG:
            raise CorruptData(f"an entry with the layout of log level {level}, which has none of its own")


def placed(entry: Entry, log_ends: Sequence[int]) -> Iterator[tuple[Log, Offset, bytes]]:
    """The batches with the base offset of each, where the logs end at ``log_ends`` before the entry."""
    last, end = -1, 0
    for log, batch in entry.batches:
        base = end if log == last else log_ends[log]
        last, end = log, base + record_count(batch) if log is _GROUPS else base
        yield log, Offset(base), batch


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
        records: tuple[LoggedRecord, ...]
        if log is _GROUPS:
            records = decode_group_batch(batch)
        else:
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
