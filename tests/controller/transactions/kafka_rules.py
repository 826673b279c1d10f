"""What Kafka answers about a transactional id, written down from docs/kafka-notes.md B2 to B4, B9 and C.

The rules look at what Kafka would know of the id: its log's fields, and the pairs that clients were answered.
No decision of the product is called. What fencepost answers otherwise is in ``ours.py``, with its reason.
"""

from typing import Final, NamedTuple

from fencepost.controller.transactions.states import State

Pair = tuple[int, int]
NONE: Final[Pair] = (-1, -1)
FRESH: Final = 9000
"""The producer id that a decision gets if it needs one."""
EXHAUSTED: Final = 32766
TOP: Final = 32767

INVALID_REQUEST: Final = 42
WRONG_STATE: Final = 48
UNKNOWN_ID: Final = 49
CONCURRENT: Final = 51
FENCED: Final = 90

PREPARED: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class Known(NamedTuple):
    """What is known of a transactional id. ``state`` None: nothing is.

    transaction     the pair of its batches and markers, as the log has it
    client          what its producer presents: another pair if the transaction was kept
    previous        the log's PreviousProducerId
    last            the client's pair before the bump that it requested itself, None if another bump followed
    instance        the pairs that the newest instance was answered, the oldest first
    is_given        the client's pair is one of these; else it is of an abort that the coordinator decided
    late            the pair whose transaction timed out, until its instance bumps past it
    unnamed         the same of a row that Kafka wrote, which does not say whether its client could name it
    remembered      producer ids that the row names
    """

    state: State | None = None
    transaction: Pair = NONE
    client: Pair = NONE
    previous: int = -1
    last: Pair | None = None
    instance: tuple[Pair, ...] = ()
    is_given: bool = True
    late: Pair | None = None
    unnamed: Pair | None = None
    remembered: frozenset[int] = frozenset()

    @property
    def is_kept(self) -> bool:
        """An instance keeps what another one left open."""
        return self.state is State.ONGOING and self.client != self.transaction


class Outcome(NamedTuple):
    """An answer, and what is written: the state with the transaction's and the client's pair."""

    code: int = 0
    answer: tuple[int, ...] | None = None
    written: tuple[State, Pair, Pair] | None = None


def refused(code: int) -> Outcome:
    """Nothing is written."""
    return Outcome(code)


def up(pair: Pair) -> Pair:
    """The next epoch; the last one stays."""
    return pair[0], min(pair[1] + 1, TOP)


def next_client(pair: Pair) -> Pair:
    """What a client is given after ``pair``: 32767 is given to none."""
    return (FRESH, 0) if pair[1] >= EXHAUSTED else (pair[0], pair[1] + 1)


def init_producer_id(row: Known, given: Pair, *, keeps: bool) -> Outcome:
    """B2 in its order; KeepPreparedTxn as B9 says."""
    if (given[0] == -1) != (given[1] == -1) or (keeps and given != NONE):
        return refused(INVALID_REQUEST)
    if row.state is None:
        return Outcome(0, (FRESH, 0), (State.EMPTY, (FRESH, 0), (FRESH, 0)))
    rotated = given[0] == row.previous and given[1] >= EXHAUSTED
    if given != NONE and given[0] != row.client[0] and not rotated:
        return refused(FENCED)
    if row.state in PREPARED:
        return refused(CONCURRENT)
    if row.state is State.ONGOING:
        if not keeps:
            return Outcome(CONCURRENT, None, (State.PREPARE_ABORT, up(row.transaction), up(row.client)))
        kept = next_client(row.client)
        return Outcome(0, (*kept, *row.transaction), (State.ONGOING, row.transaction, kept))
    if given == NONE or given[1] == row.client[1]:
        new = next_client(row.client)
        return Outcome(0, new, (State.EMPTY, new, new))
    return Outcome(0, row.client) if given == row.last else refused(FENCED)


_ENDS_V1: Final = {
    # of a commit, of an abort; 0: done before
    State.EMPTY: (WRONG_STATE, WRONG_STATE),
    State.PREPARE_COMMIT: (CONCURRENT, WRONG_STATE),
    State.PREPARE_ABORT: (WRONG_STATE, CONCURRENT),
    State.COMPLETE_COMMIT: (0, WRONG_STATE),
    State.COMPLETE_ABORT: (WRONG_STATE, 0),
}


def end_v1(row: Known, pair: Pair, *, committed: bool) -> Outcome:
    """EndTxn below version 5: B4's first table. A kept transaction's markers are an epoch further."""
    if row.state is None or pair[0] != row.client[0]:
        return refused(UNKNOWN_ID)
    if pair[1] != row.client[1]:
        return refused(FENCED)
    if row.state is not State.ONGOING:
        return refused(_ENDS_V1[row.state][0 if committed else 1])
    state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    marked = up(row.transaction) if row.is_kept else row.transaction
    return Outcome(0, None, (state, marked, row.client))


_BUMP: Final = -1
_ENDS_V2: Final = {
    # of an abort: with the pair before the last bump, with the current one; of a commit: the same
    State.EMPTY: (FENCED, _BUMP, FENCED, WRONG_STATE),
    State.ONGOING: (FENCED, _BUMP, FENCED, _BUMP),
    # Kafka 4.0 answers 90 to the current pair here; a client has it only after this very end (trunk: 51).
    State.PREPARE_COMMIT: (WRONG_STATE, CONCURRENT, CONCURRENT, CONCURRENT),
    State.PREPARE_ABORT: (CONCURRENT, CONCURRENT, WRONG_STATE, CONCURRENT),
    State.COMPLETE_COMMIT: (WRONG_STATE, _BUMP, 0, WRONG_STATE),
    State.COMPLETE_ABORT: (0, _BUMP, WRONG_STATE, WRONG_STATE),
}


def end_v2(row: Known, pair: Pair, *, committed: bool) -> Outcome:
    """EndTxn from version 5 on: B4's second table."""
    if row.state is None:
        return refused(UNKNOWN_ID)
    before = row.transaction[0] if row.previous == -1 else row.previous
    rotated = before != row.client[0] and pair == (before, EXHAUSTED) and row.client[1] == 0
    if pair[0] != row.client[0] and not rotated:
        return refused(UNKNOWN_ID)
    is_retry = rotated or pair[1] == row.client[1] - 1
    if not is_retry and pair[1] != row.client[1]:
        return refused(FENCED)
    said = _ENDS_V2[row.state][(2 if committed else 0) + (0 if is_retry else 1)]
    if said == 0:
        return Outcome(0, row.client)
    if said != _BUMP:
        return refused(said)
    state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    new = next_client(row.client)
    return Outcome(0, new, (state, up(row.transaction), new))


def add_partitions(row: Known, pair: Pair, *, is_in: bool) -> Outcome:
    """AddPartitionsToTxn, by a client or for one of V2: B3. ``is_in``: the open transaction has them all."""
    if row.state is None:
        return refused(UNKNOWN_ID)
    if row.is_kept and pair == row.client:
        return refused(WRONG_STATE)
    holder = row.transaction if row.is_kept else row.client
    if pair[0] not in (holder[0], row.client[0]):
        return refused(UNKNOWN_ID)
    if pair != holder:
        return refused(FENCED)
    if row.state in PREPARED:
        return refused(CONCURRENT)
    if row.state is State.ONGOING and is_in:
        return Outcome()
    return Outcome(0, None, (State.ONGOING, row.transaction, row.client))
