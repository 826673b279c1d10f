"""States: Kafka's ids and names, the legal transitions and no others, and the indexes that follow the row."""

import msgspec
import pytest

from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.states import (
    DEADLINES,
    EXPIRABLE_STATES,
    PREPARED,
    PREPARED_STATES,
    STATE_OF_NAME,
    TRANSACTIONAL_ID_BYTES_MAX,
    TRANSACTIONS,
    TRANSITIONS,
    UPDATES,
    State,
    Transaction,
    get,
    record_of,
)
from fencepost.controller.view import KEY_BYTES_MAX
from fencepost.records.invariant import InvariantViolation
from fencepost.records.transaction_log import TransactionForgotten
from fencepost.records.types import Term
from tests.controller.transactions.worlds import ID, NOW_MS, TIMEOUT_MS, Coordinator, transaction
from tests.together import table

LOGGED = [state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)]
KAFKAS = {
    State.EMPTY: (0, "Empty"),
    State.ONGOING: (1, "Ongoing"),
    State.PREPARE_COMMIT: (2, "PrepareCommit"),
    State.PREPARE_ABORT: (3, "PrepareAbort"),
    State.COMPLETE_COMMIT: (4, "CompleteCommit"),
    State.COMPLETE_ABORT: (5, "CompleteAbort"),
    State.DEAD: (6, "Dead"),
    State.PREPARE_EPOCH_FENCE: (7, "PrepareEpochFence"),
}
LEGAL_BEFORE: dict[State, set[State | None]] = {
    State.EMPTY: {None, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.ONGOING: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
}
"""docs/kafka-notes.md B1: for each state, the ones that it may follow."""


def test_states_have_kafkas_ids_and_names() -> None:
    assert {state: (state.value, state.wire_name) for state in State} == KAFKAS
    assert {name: state for state, (_, name) in KAFKAS.items()} == STATE_OF_NAME


@table("after", LOGGED, ids=lambda state: f"to-{state.wire_name}")
@table(
    "before", [None, *LOGGED], ids=lambda state: f"from-{state.wire_name if state is not None else 'nothing'}"
)
def test_only_legal_transitions_apply(before: State | None, after: State) -> None:
    """A record that is none halts its leader before it is proposed."""
    coordinator = Coordinator(*([] if before is None else [transaction(before)]))
    legal = before in LEGAL_BEFORE[after]
    assert legal == (after in TRANSITIONS[before])
    if legal:
        replay_record(coordinator.view, record_of(transaction(after)))
        assert coordinator.row().state is after
    else:
        with pytest.raises(InvariantViolation, match="illegal transition"):
            replay_record(coordinator.view, record_of(transaction(after)))


def test_an_epoch_that_goes_back_is_our_bug() -> None:
    coordinator = Coordinator(transaction(epoch=5))
    with pytest.raises(InvariantViolation, match="went back"):
        replay_record(coordinator.view, record_of(transaction(epoch=4)))
    replay_record(coordinator.view, record_of(transaction(producer_id=43, epoch=0)))


@pytest.mark.parametrize("state", [6, 7, 8, -1])
def test_a_pending_or_unknown_state_in_the_log_is_our_bug(state: int) -> None:
    coordinator = Coordinator(transaction())
    record = record_of(transaction())
    spoilt = msgspec.structs.replace(record, status=state)
    with pytest.raises(InvariantViolation, match="illegal transition"):
        replay_record(coordinator.view, spoilt)


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_the_indexes_follow_the_row(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    row = coordinator.row()
    deadlines = [((NOW_MS - 1000 + TIMEOUT_MS, ID), NOW_MS - 1000)] if state is State.ONGOING else []
    assert list(coordinator.view.items(DEADLINES)) == deadlines
    prepared = [(ID, 8)] if state in PREPARED_STATES else []
    assert list(coordinator.view.items(PREPARED)) == prepared
    updates = [((NOW_MS - 1000, ID), True)] if state in EXPIRABLE_STATES else []
    assert list(coordinator.view.items(UPDATES)) == updates
    assert row.prepared_version == (8 if prepared else 0), "the header is still the one before the entry"


@table("now_ms", [NOW_MS, 0])
def test_a_transaction_remembers_the_leadership_under_which_it_began(now_ms: int) -> None:
    """Its clock gave the start: a later leader's may go otherwise."""
    coordinator = Coordinator()
    coordinator.now_ms = now_ms
    pair = coordinator.init()
    assert coordinator.row().started_epoch == 0
    coordinator.add(*pair)
    assert coordinator.row().started_epoch == 3
    coordinator.view.header = msgspec.structs.replace(coordinator.view.header, controller_epoch=Term(9))
    coordinator.add(*pair, *coordinator.row().partitions)
    coordinator.end(*pair, committed=True)
    coordinator.complete()
    assert coordinator.row().started_epoch == 3
    coordinator.add(*pair)
    assert coordinator.row().started_epoch == 9


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_only_an_id_without_a_transaction_is_forgotten(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    if state in EXPIRABLE_STATES:
        replay_record(coordinator.view, TransactionForgotten(ID))
        assert list(coordinator.view.items(TRANSACTIONS)) == []
        assert list(coordinator.view.items(UPDATES)) == []
    else:
        with pytest.raises(InvariantViolation, match="cannot be"):
            replay_record(coordinator.view, TransactionForgotten(ID))


def test_an_unknown_id_is_not_forgotten() -> None:
    with pytest.raises(InvariantViolation, match="cannot be"):
        replay_record(Coordinator().view, TransactionForgotten(ID))


@pytest.mark.parametrize(
    "text",
    ["", "x" * (TRANSACTIONAL_ID_BYTES_MAX + 1), "ä" * 201, "\ud800"],
    ids=["empty", "one-too-long", "too-many-bytes", "no-utf-8"],
)
def test_any_text_may_be_looked_for(text: str) -> None:
    assert get(Coordinator().view, text) is None


def test_the_longest_id_is_a_key_of_every_table() -> None:
    longest = "x" * TRANSACTIONAL_ID_BYTES_MAX
    assert len(DEADLINES.encode_key((2**63 - 1, longest))) <= KEY_BYTES_MAX
    assert DEADLINES.decode_key(DEADLINES.encode_key((7, "ä"))) == (7, "ä")


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_a_row_is_stored_and_read_back(state: State) -> None:
    coordinator = Coordinator(transaction(state, epoch=3))
    row = coordinator.row()
    assert TRANSACTIONS.decode_value(TRANSACTIONS.encode_value(row)) == row
    assert isinstance(TRANSACTIONS.decode_value(TRANSACTIONS.encode_value(row)), Transaction)
