"""The highest producer id that record batches on disk show, in Kafka's own log directories.

Read        every ``*.log`` below the given folders: of data partitions, whose batches carry the id of their
            producer, and of ``__transaction_state``, whose records carry ids that have sent nothing yet.
Checked     each batch's CRC: a flipped bit must not raise the floor by 2^60. The end of the last segment of a
            partition may be torn (a crash, or a broker that is writing): it is left out and said.
Old         message sets of magic 0 and 1 carry no ids and are passed over; compression does not matter, a
            batch's own id stands outside of what is compressed.

Source      Kafka DefaultRecordBatch, TransactionLogValue; docs/kafka-notes.md G1, B1.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.batch import BATCH_BYTES_MAX, checked_header, decode_batch
from fencepost.records.batch_layout import COMPRESSION, CONTROL, HEADER_BYTES, MAGIC_AT, fields_of
from fencepost.records.invariant import CorruptData
from fencepost.records.types import PRODUCER_ID_MAX

NO_ID: Final = -1
FILES_MAX: Final = 1_000_000
TRANSACTION_LOG: Final = "__transaction_state-"

_START: Final = fields_of("base_offset", "length")  # of every magic
_NOT_THERE: Final = 2**63
_CARRIED: Final = fields_of("attributes", "producer_id")
_TXN_KEYS: Final = (b"\0\0",)  # TransactionLogKey: its version, then the transactional id
_TXN_VALUE: Final = struct.Struct(">hq")  # version, producer id


class Seen(NamedTuple):
    """What was found. ``producer_id`` is -1 if no batch carries one."""

    producer_id: int
    file: Path | None  # in which the highest was found
    files: int
    batches: int
    remarks: tuple[str, ...]  # what was left out, and why that is no harm


def highest_producer_id(folders: Sequence[Path], show: Callable[[str], None]) -> Seen:
    """Look into every segment below ``folders``.

    Raises   CorruptData naming file and position, for bytes that are not a torn end; OSError, also for a
             folder that is not there or has no segment.
    """
    best, where, count, batches = NO_ID, None, 0, 0
    remarks: list[str] = []
    for folder in folders:
        segments = sorted(folder.rglob("*.log"))
        if not segments:
            folder.stat()  # a better error for one that is not there
            raise FileNotFoundError(f"{folder}: no *.log file below it; expected one of Kafka's log.dirs")
        last_of = {path.parent: path for path in segments}
        for path in segments[:FILES_MAX]:
            count += 1
            show(f"{count} files, highest producer id {best}: {path}")
            for producer_id in _ids(path, is_last=last_of[path.parent] == path, remarks=remarks):
                batches += 1
                if producer_id > best:
                    best, where = producer_id, path
    return Seen(best, where, count, batches, tuple(remarks))


def _ids(path: Path, *, is_last: bool, remarks: list[str]) -> Iterator[int]:
    """The ids in one segment, batch by batch; -1 for a batch without one."""
    is_transactions = path.parent.name.startswith(TRANSACTION_LOG)
    length, position = path.stat().st_size, 0
    with path.open("rb") as file:
        while position < length:
            raw = file.read(HEADER_BYTES)
            left = length - position
            if not raw.strip(b"\0") and raw:
                remarks.append(f"{path}: {left} bytes from {position} on are preallocated, not written")
                return
            size = _size(raw)
            if size > left or len(raw) < min(HEADER_BYTES, size):
                if not is_last:
                    raise CorruptData(f"{path}: batch at position {position}: {size} bytes, {left} are there")
                remarks.append(f"{path}: torn at {position}, its last {left} bytes are left out")
                return
            if size > BATCH_BYTES_MAX:
                raise CorruptData(f"{path}: batch at position {position}: {size} bytes")
            raw = raw[:size] + file.read(max(0, size - len(raw)))
            try:
                yield _highest(raw, is_transactions=is_transactions)
            except CorruptData as error:
                raise CorruptData(f"{path}: at {position}: {error}") from error
            position += size
            file.seek(position)


def _size(raw: bytes) -> int:
    """Of the batch that begins with these bytes; more than any file if not even its length is there."""
    if len(raw) < _START.size:
        return _NOT_THERE
    return int(_START.unpack_from(raw)[1]) + _START.size


def _highest(raw: bytes, *, is_transactions: bool) -> int:
    """The highest id in a whole batch. Raises CorruptData."""
    if len(raw) > MAGIC_AT and raw[MAGIC_AT] in (0, 1):
        return NO_ID
    checked_header(raw)
    attributes, producer_id = _CARRIED.unpack_from(raw)
    found = _in_range(producer_id)
    if not is_transactions or attributes & (CONTROL | COMPRESSION):  # Kafka never compresses that log
        return found
    for record in decode_batch(raw)[0].records:
        key, value = record.key, record.value
        if key is not None and key[:2] in _TXN_KEYS and value and len(value) >= _TXN_VALUE.size:
            found = max(found, _in_range(_TXN_VALUE.unpack_from(value)[1]))
    return found


def _in_range(producer_id: int) -> int:
    if not NO_ID <= producer_id <= PRODUCER_ID_MAX:
        raise CorruptData(f"producer id {producer_id}")
    return producer_id
