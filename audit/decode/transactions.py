"""``__transaction_state``: how every transactional id stood, one row per record.

Key      version 0; of another version the record is skipped, as Kafka skips it.
Value    version 0 (up to Kafka 3.x), 1 (flexible), or null: a tombstone. A later one is a fault.
Source   Kafka TransactionLogKey.json, TransactionLogValue.json, TransactionState; records/transaction_log.py.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.chunks import Chunk
from fencepost.audit.decode.classic import Cursor, UnknownVersion
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Found, Named, Rows, readable_rows, records_of, rows_of_table
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import (
    TransactionForgotten,
    TransactionStateRecord,
    decode_transaction,
)

TOPIC: Final = "__transaction_state"

STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
)  # fmt: skip
"""A state's name by its number, as DescribeTransactions spells it."""

CAUSES: Final = ("a new instance", "its timeout", "its own InitProducerId", "another member of its group")
"""What took an epoch away, by the number in fencepost's records."""

PARTITIONS_MAX: Final = 1_000_000  # of one transaction, of a value v0: more than a cluster has
_VERSION: Final = struct.Struct(">h")


class _Value0(NamedTuple):
    """TransactionLogValue v0, with what v1 adds at its defaults."""

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    status: int
    partitions: list[tuple[str, int]]
    updated_ms: int
    started_ms: int


def decode_states(
    path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """TRANSACTION_STATES of a segment of the log; faults come of ``tables.decode_log``. Raises OSError."""
    return rows_of_table("transaction_states", read_chunk, path, where, start, end, files)


def read_chunk(where: Where, chunk: Chunk) -> Named:
    """TRANSACTION_STATES and RECORD_FAULTS of a chunk of the log."""
    states, faults = Rows("transaction_states", where), Rows("record_faults", where)
    for found in records_of(chunk, readable_rows(chunk), faults):
        try:
            _add(states, found)
        except CorruptData as error:
            kind = "version" if isinstance(error, UnknownVersion) else "record"
            faults.add(found.position, found.record.offset, kind, str(error))
    yield from states.batches()
    yield from faults.batches()


def _add(states: Rows, found: Found) -> None:
    record = found.record
    at = (found.position, record.offset, found.leader_epoch, record.timestamp_ms)
    version = None if record.value is None or len(record.value) < 2 else _VERSION.unpack_from(record.value)[0]
    if version == 0:
        is_known, transactional_id = _key(record.key)
        if is_known:
            states.add(*at, transactional_id, False, *_columns0(_read_value0(record.value or b"")))
        return
    if version is not None and version != 1 and _key(record.key)[0]:
        raise UnknownVersion(f"transaction value version {version}, expected 0 or 1")
    state = decode_transaction(record.key, record.value)
    if isinstance(state, TransactionForgotten):
        states.add(*at, state.transactional_id, True, *(None,) * 14)
    elif state is not None:
        states.add(*at, state.transactional_id, False, *_columns(state))


def _columns(state: TransactionStateRecord) -> tuple[object, ...]:
    partitions = [(topic.topic, number) for topic in state.partitions or () for number in topic.partition_ids]
    fences = [
        (fence.at_ms, _cause(fence.cause), fence.producer_id, fence.epoch, fence.by) for fence in state.fences
    ]
    return (
        _state(state.status), state.producer_id, state.producer_epoch, state.transaction_timeout_ms,
        state.updated_ms, state.started_ms, state.previous_producer_id, state.next_producer_id,
        state.next_producer_epoch, state.client_transaction_version, state.last_producer_epoch,
        state.timed_out, partitions, fences,
    )  # fmt: skip


def _columns0(value: _Value0) -> tuple[object, ...]:
    return (
        _state(value.status), value.producer_id, value.producer_epoch, value.transaction_timeout_ms,
        value.updated_ms, value.started_ms, -1, -1, -1, 0, -1, False, value.partitions, [],
    )  # fmt: skip


def _cause(cause: int) -> str:
    return CAUSES[cause] if 0 <= cause < len(CAUSES) else f"cause {cause}"


def _state(status: int) -> str:
    if 0 <= status < len(STATES):
        return STATES[status]
    raise CorruptData(f"transaction state {status}, expected 0 to {len(STATES) - 1}")


def _key(key: bytes | None) -> tuple[bool, str]:
    """Whether the key's version is known, and the transactional id."""
    cursor = Cursor(key or b"")
    if cursor.int16() != 0:
        return False, ""
    transactional_id = cursor.string()
    cursor.end()
    return True, transactional_id


def _read_value0(raw: bytes) -> _Value0:
    cursor = Cursor(raw, 2)
    head = (cursor.int64(), cursor.int16(), cursor.int32(), cursor.int8())
    partitions: list[tuple[str, int]] = []
    for _ in range(cursor.count()):
        topic = cursor.string()
        partitions += ((topic, cursor.int32()) for _ in range(cursor.count()))
        if len(partitions) > PARTITIONS_MAX:
            raise CorruptData(f"more than {PARTITIONS_MAX} partitions in a transaction")
    value = _Value0(*head, partitions, cursor.int64(), cursor.int64())
    cursor.end()
    return value
