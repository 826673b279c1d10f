"""Transactions: what is known of each transactional id, and the only ways it may change.

Invariant   a client's (producer id, epoch) that an id once left is never current again (I6; which pair that
            is: pairs.py); a transaction ends in exactly one outcome (I7): PrepareCommit and PrepareAbort each
            lead to their own CompleteX alone.
Indexes     follow the row, so that timers and recovery never scan: DEADLINES has every Ongoing id, PREPARED
            every id whose markers are not all written, UPDATES every id that may expire.
Source      Kafka TransactionMetadata, TransactionState; KIP-360, KIP-588, KIP-890; docs/kafka-notes.md B1.
"""

import enum
from typing import Final

import msgspec

from fencepost.controller.transactions import assignments
from fencepost.controller.transactions.pairs import client_pair, has_two
from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.transaction_log import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT,
    Fence,
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
)
from fencepost.records.types import ImageVersion, Log, ProducerId, Term

TRANSACTIONAL_ID_BYTES_MAX: Final = 400  # UTF-8; with a time before it, it is still a key of the image
EPOCH_MAX: Final = 32767  # int16; reserved, so that the coordinator can always fence
CLIENT_EPOCH_MAX: Final = EPOCH_MAX - 1  # the highest that a producer is ever given
TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that an external coordinator ends (KIP-939), as Kafka writes it: none."""
TWO_PHASE_INIT_VERSION: Final = 6  # InitProducerId's, from which on it can be requested
NEVER_MS: Final = 2**62  # the deadline of such a transaction: past every other
TRANSACTIONS_V2: Final = 2  # ClientTransactionVersion of a client that bumps its epoch at each end (KIP-890)


class State(enum.IntEnum):
    """Kafka's states with their ids. The last two never reach the log: Kafka's own pending states."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """As DescribeTransactions and ListTransactions spell it."""
        return _WIRE_NAMES[self]


_ONGOING: Final = State.ONGOING  # a global is found sooner than a member of an enumeration
_STATES: Final = tuple(State)  # by number, as their ids are: EnumType.__call__ takes six times as long
_WIRE_NAMES: Final = {state: state.name.title().replace("_", "") for state in State}
STATE_OF_NAME: Final = {name: state for state, name in _WIRE_NAMES.items()}

TRANSITIONS: Final[dict[State | None, frozenset[State]]] = {
    None: frozenset({State.EMPTY}),  # the id is new
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT}),
}
"""From each state the legal next ones. PrepareAbort of nothing is a V2 client's alone (KIP-890)."""

PREPARED_STATES: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
EXPIRABLE_STATES: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class FenceCause(enum.IntEnum):
    """Why an instance lost its epoch."""

    NEW_INSTANCE = 0  # InitProducerId without an epoch
    TIMEOUT = 1  # the transaction was open for longer than its timeout
    SAME_INSTANCE = 2  # InitProducerId with the current epoch while the transaction was open
    NEW_OWNER = 3  # a group-aware InitProducerId: another member of the group has one of its partitions


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """The row of one transactional id: its last record, and what the log says about that record.

    ``prepared_version``   image version of the entry of the PrepareX; 0 in any other state.
    ``started_epoch``      controller epoch in which the transaction began: its clock gave ``started_ms``.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    transaction_timeout_ms: int
    state: State
    partitions: tuple[TopicPartitions, ...] = ()
    updated_ms: int = -1
    started_ms: int = -1
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    client_transaction_version: int = 0
    next_producer_epoch: int = NO_EPOCH
    instance_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    init_version: int = -1
    fences: tuple[Fence, ...] = ()
    timed_out: bool = False
    prepared_version: ImageVersion = ImageVersion(0)
    started_epoch: Term = Term(0)

    @property
    def is_two_phase(self) -> bool:
        """Its transactions never time out. Below version 6 that timeout is one as any other: 25 days."""
        if self.transaction_timeout_ms != TWO_PHASE_TIMEOUT_MS:
            return False
        return self.init_version >= TWO_PHASE_INIT_VERSION

    @property
    def deadline_ms(self) -> int:
        """When it times out, by the clock of the leader under which it began; NEVER_MS: it does not."""
        if self.is_two_phase:
            return NEVER_MS
        return max(0, self.started_ms) + self.transaction_timeout_ms


def _encode_timed_key(key: tuple[int, str]) -> bytes:
    return encode_int_key(key[0]) + key[1].encode()


def _decode_timed_key(key: bytes) -> tuple[int, str]:
    return decode_int_key(key[:8]), key[8:].decode()


TRANSACTIONS: Final[Table[str, Transaction]] = Table(
    "transactions", Transaction, str.encode, bytes.decode, log=Log.TRANSACTION_STATE
)
DEADLINES: Final[Table[tuple[int, str], int]] = Table(
    "transaction_deadlines", int, _encode_timed_key, _decode_timed_key, log=Log.TRANSACTION_STATE
)
"""When each open transaction times out; the value is when it began."""
UPDATES: Final[Table[tuple[int, str], bool]] = Table(
    "transaction_updates", bool, _encode_timed_key, _decode_timed_key, log=Log.TRANSACTION_STATE
)
PREPARED: Final[Table[str, ImageVersion]] = Table(
    "transactions_prepared", ImageVersion, str.encode, bytes.decode, log=Log.TRANSACTION_STATE
)
KEPT_TIMEOUTS: Final[Table[str, int]] = Table(
    "transactions_kept", int, str.encode, bytes.decode, log=Log.TRANSACTION_STATE
)
"""The timeout, in ms, of the transactions that follow one that was kept, if that one has another."""
TRANSACTION_TABLES: Final = (
    TRANSACTIONS,
    DEADLINES,
    UPDATES,
    PREPARED,
    KEPT_TIMEOUTS,
    *assignments.ASSIGNMENT_TABLES,
)


def get(view: View, transactional_id: str) -> Transaction | None:
    """The row of an id, or None. Any text may be given."""
    if not is_key(transactional_id):
        return None
    return view.get(TRANSACTIONS, transactional_id)


def is_key(transactional_id: str) -> bool:
    """It can be a key of the image, and so an id: 1 to TRANSACTIONAL_ID_BYTES_MAX bytes of UTF-8."""
    if len(transactional_id) > TRANSACTIONAL_ID_BYTES_MAX:
        return False
    try:
        return 0 < len(transactional_id.encode()) <= TRANSACTIONAL_ID_BYTES_MAX
    except UnicodeEncodeError:
        return False


# -- what a decision writes ------------------------------------------------------------------------------


def record_of(row: Transaction) -> TransactionStateRecord:
    """The record that makes ``row`` so. Inverse of ``replay``, up to what the log itself says."""
    return TransactionStateRecord(
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        transaction_timeout_ms=row.transaction_timeout_ms,
        status=row.state,
        partitions=None if row.state is State.EMPTY else row.partitions,
        updated_ms=row.updated_ms,
        started_ms=row.started_ms,
        previous_producer_id=row.previous_producer_id,
        next_producer_id=row.next_producer_id,
        client_transaction_version=row.client_transaction_version,
        next_producer_epoch=row.next_producer_epoch,
        instance_epoch=row.instance_epoch,
        last_producer_epoch=row.last_producer_epoch,
        init_version=row.init_version,
        fences=row.fences,
        timed_out=row.timed_out,
    )


# -- replay ----------------------------------------------------------------------------------------------


def replay(view: MutableView, record: TransactionStateRecord) -> None:
    """Total. Only legal transitions are in the log, and no pair comes back."""
    before = view.get(TRANSACTIONS, record.transactional_id)
    _require_legal(before, record)
    state = _STATES[record.status]
    version, started_epoch = ImageVersion(0), Term(0)
    if state in PREPARED_STATES:
        version = ImageVersion(view.header.version + 1)  # the entry's: the header is still the one before it
    if record.started_ms >= 0:
        began = before is None or before.started_ms < 0 or before.state in EXPIRABLE_STATES
        started_epoch = view.header.controller_epoch if before is None or began else before.started_epoch
    # By position, for both have the same fields in the same order: a third of the time of 19 keywords.
    whose, pid, epoch, timeout_ms, _, partitions, *times_and_tags, kept, given = msgspec.structs.astuple(
        record
    )
    tail = (*times_and_tags, version, started_epoch)
    row = Transaction(whose, pid, epoch, timeout_ms, state, partitions or (), *tail)
    if before is not None:
        _unindex(view, before)
    view.put(TRANSACTIONS, row.transactional_id, row)
    _index(view, row)
    if kept != NO_TIMEOUT:
        view.put(KEPT_TIMEOUTS, row.transactional_id, kept)
    elif before is not None and has_two(before) and state not in PREPARED_STATES:
        view.delete(KEPT_TIMEOUTS, row.transactional_id)
    if given is not None:
        takes = state is not State.PREPARE_ABORT  # that one is of a producer that lost them
        assignments.replay(view, row.transactional_id, given, takes=takes)


def replay_forgotten(view: MutableView, record: TransactionForgotten) -> None:
    """Total. Only an id without a transaction is forgotten."""
    before = view.get(TRANSACTIONS, record.transactional_id)
    if before is None or before.state not in EXPIRABLE_STATES:
        invariant(False, "an id was forgotten that cannot be", record=record, before=before)
        return
    _unindex(view, before)
    view.delete(TRANSACTIONS, record.transactional_id)
    assignments.replay(view, record.transactional_id, (), takes=False)


def _require_legal(before: Transaction | None, record: TransactionStateRecord) -> None:
    came_from = None if before is None else before.state
    if record.status not in TRANSITIONS[came_from]:  # an IntEnum equals its number
        invariant(False, "an illegal transition of a transaction", came_from=came_from, record=record)
    if before is not None and before.producer_id == record.producer_id:
        forward = record.producer_epoch >= before.producer_epoch
        invariant(forward, "a producer epoch went back", before=before, record=record)
    if before is not None and (has_two(before) or has_two(record)):
        mine, its = client_pair(before), client_pair(record)
        onward = its.producer_id != mine.producer_id or its.epoch >= mine.epoch
        invariant(onward, "a client's epoch went back", before=before, record=record)


def _index(view: MutableView, row: Transaction) -> None:
    if row.state is _ONGOING:
        view.put(DEADLINES, (row.deadline_ms, row.transactional_id), row.started_ms)
    elif row.state in PREPARED_STATES:
        view.put(PREPARED, row.transactional_id, row.prepared_version)
    else:
        view.put(UPDATES, (max(0, row.updated_ms), row.transactional_id), True)


def _unindex(view: MutableView, row: Transaction) -> None:
    if row.state is _ONGOING:
        view.delete(DEADLINES, (row.deadline_ms, row.transactional_id))
    elif row.state in PREPARED_STATES:
        view.delete(PREPARED, row.transactional_id)
    else:
        view.delete(UPDATES, (max(0, row.updated_ms), row.transactional_id))
