"""EndTxn: the tables of B4, each cell, for V1 clients and for those of transactions V2."""

import pytest

from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    TransactionTimedOut,
)
from fencepost.controller.transactions.end_txn import EndTxn, decide_end_txn, needs_producer_id_at_end
from fencepost.controller.transactions.states import State
from fencepost.records.types import ProducerId
from tests.controller.transactions.worlds import ID, NOW_MS, Coordinator, transaction
from tests.together import table

COMMIT, ABORT = True, False
WAITS, WRONG, FENCED = ConcurrentTransactions, InvalidTxnState, ProducerFenced
Outcome = State | None | type[ApiError]
"""The state that is written, None for success without a record, or the refusal."""

V1: dict[State, tuple[Outcome, Outcome]] = {
    State.ONGOING: (State.PREPARE_COMMIT, State.PREPARE_ABORT),
    State.PREPARE_COMMIT: (WAITS, WRONG),
    State.PREPARE_ABORT: (WRONG, WAITS),
    State.COMPLETE_COMMIT: (None, WRONG),
    State.COMPLETE_ABORT: (WRONG, None),
    State.EMPTY: (WRONG, WRONG),
}


@table("knows_abortable", [False, True], ids=["v3", "v4"])
@table("committed", [COMMIT, ABORT], ids=["commit", "abort"])
@table("state", V1, ids=lambda state: state.wire_name)
def test_the_table_of_v1(state: State, committed: bool, knows_abortable: bool) -> None:
    expected = V1[state][0 if committed else 1]
    coordinator = Coordinator(transaction(state))
    before = coordinator.row()
    if isinstance(expected, type):
        with pytest.raises(expected):
            coordinator.end(42, 5, committed=committed, knows_abortable=knows_abortable)
        assert coordinator.written == []
        return
    assert coordinator.end(42, 5, committed=committed, knows_abortable=knows_abortable) is None
    after = coordinator.row()
    if expected is None:
        assert coordinator.written == []
        return
    assert (after.state, after.updated_ms) == (expected, NOW_MS)
    assert (after.producer_id, after.producer_epoch) == (42, 5), "V1 never bumps at an end"
    assert (after.partitions, after.started_ms) == (before.partitions, before.started_ms)
    assert (after.previous_producer_id, after.next_producer_id, after.client_transaction_version) == (
        -1,
        -1,
        0,
    )


TIMED_OUT = {"epoch": 6, "instance_epoch": 3, "last_producer_epoch": 5, "timed_out": True}


@table("state", V1, ids=lambda state: state.wire_name)
@table(
    ("row", "given", "refusal"),
    [
        pytest.param({}, (42, 4), FENCED, id="an-older-epoch"),
        pytest.param({}, (42, 6), FENCED, id="a-newer-epoch"),
        pytest.param({}, (7, 5), InvalidProducerIdMapping, id="another-producer-id"),
        pytest.param({"previous_producer_id": 7}, (7, 32766), FENCED, id="the-id-before-a-rotation"),
        pytest.param(TIMED_OUT, (42, 5), TransactionTimedOut, id="the-epoch-that-timed-out"),
        pytest.param({**TIMED_OUT, "init_version": 1}, (42, 5), FENCED, id="which-could-not-recover"),
    ],
)
def test_a_pair_that_is_not_current(
    row: dict[str, int], given: tuple[int, int], refusal: type[ApiError], state: State
) -> None:
    """Rows 588.2 and 588.4."""
    coordinator = Coordinator(transaction(state, **row))
    for committed in (COMMIT, ABORT):
        with pytest.raises(refusal) as refused:
            coordinator.end(*given, committed=committed, knows_abortable=False)
        assert type(refused.value) is refusal
    assert coordinator.written == []


@table("state", V1, ids=lambda state: state.wire_name)
def test_an_abort_after_the_timeout_is_done_already(state: State) -> None:
    """The Java client's, from version 4 on; a commit is answered with what happened, whatever its version."""
    coordinator = Coordinator(transaction(state, **TIMED_OUT))
    if state is State.PREPARE_ABORT:
        with pytest.raises(ConcurrentTransactions):
            coordinator.end(42, 5, committed=ABORT)
    else:
        assert coordinator.end(42, 5, committed=ABORT) is None
    with pytest.raises(TransactionTimedOut):
        coordinator.end(42, 5, committed=COMMIT)
    assert coordinator.written == []


@pytest.mark.row("588.2", "588.6")
@pytest.mark.parametrize("state", V1, ids=lambda state: state.wire_name)
def test_a_commit_of_transactions_v2_after_the_timeout_says_so(state: State) -> None:
    """Not that its state is wrong, which ends the Java client; its abort then gets the next pair."""
    coordinator = Coordinator(transaction(state, **TIMED_OUT))
    with pytest.raises(TransactionTimedOut):
        coordinator.end(42, 5, committed=COMMIT, bumps_epoch=True)
    assert coordinator.written == []


@pytest.mark.parametrize("bumps_epoch", [False, True], ids=["v4", "v5"])
def test_an_id_that_there_is_not(bumps_epoch: bool) -> None:
    coordinator = Coordinator(transaction())
    with pytest.raises(InvalidRequest):
        coordinator.end(42, 5, committed=COMMIT, of="", bumps_epoch=bumps_epoch)
    with pytest.raises(InvalidProducerIdMapping):
        coordinator.end(42, 5, committed=COMMIT, of="unknown", bumps_epoch=bumps_epoch)


@pytest.mark.parametrize("committed", [COMMIT, ABORT], ids=["commit", "abort"])
def test_ended_once_ended_for_ever(committed: bool) -> None:
    """I7: after the PrepareX no request gets the other outcome, before or after the markers."""
    coordinator = Coordinator(transaction(State.ONGOING))
    coordinator.end(42, 5, committed=committed)
    for _ in range(2):
        with pytest.raises(InvalidTxnState):
            coordinator.end(42, 5, committed=not committed)
        coordinator.complete()
    assert coordinator.row().state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert coordinator.end(42, 5, committed=committed) is None


# -- transactions V2: the row is of an instance that has ended a transaction, so that a retry has epoch 4 ----

V2: dict[State, tuple[Outcome, Outcome, Outcome, Outcome]] = {
    # abort retry, abort current, commit retry, commit current
    State.EMPTY: (FENCED, State.PREPARE_ABORT, FENCED, WRONG),
    State.ONGOING: (FENCED, State.PREPARE_ABORT, FENCED, State.PREPARE_COMMIT),
    State.PREPARE_COMMIT: (WRONG, WAITS, WAITS, WAITS),
    State.PREPARE_ABORT: (WAITS, WAITS, WRONG, WAITS),
    State.COMPLETE_COMMIT: (WRONG, State.PREPARE_ABORT, None, WRONG),
    State.COMPLETE_ABORT: (None, State.PREPARE_ABORT, WRONG, WRONG),
}
COLUMNS = [(ABORT, 4), (ABORT, 5), (COMMIT, 4), (COMMIT, 5)]


@table("column", range(4), ids=["abort-retry", "abort", "commit-retry", "commit"])
@table("state", V2, ids=lambda state: state.wire_name)
def test_the_table_of_v2(state: State, column: int) -> None:
    expected = V2[state][column]
    committed, epoch = COLUMNS[column]
    coordinator = Coordinator(transaction(state, instance_epoch=3, last_producer_epoch=4))
    before = coordinator.row()
    if isinstance(expected, type):
        with pytest.raises(expected):
            coordinator.end(42, epoch, committed=committed, bumps_epoch=True)
        assert coordinator.written == []
        return
    answer = coordinator.end(42, epoch, committed=committed, bumps_epoch=True)
    after = coordinator.row()
    if expected is None:
        assert (answer, coordinator.written) == ((42, 5), [])
        return
    assert answer == (42, 6)
    assert (after.state, after.producer_epoch, after.last_producer_epoch) == (expected, 6, 5)
    assert (after.client_transaction_version, after.instance_epoch) == (2, 3)
    assert after.started_ms == (before.started_ms if state is State.ONGOING else NOW_MS)
    assert after.partitions == before.partitions


@table(
    ("epoch", "answer", "prepared", "completed"),
    [
        pytest.param(32764, (42, 32765), (42, 32765, -1, -1), (42, 32765, -1), id="32764"),
        pytest.param(32765, (42, 32766), (42, 32766, -1, -1), (42, 32766, -1), id="32765"),
        pytest.param(32766, (1000, 0), (42, 32767, 1000, 0), (1000, 0, 42), id="32766-rotates"),
    ],
)
@table("committed", [COMMIT, ABORT], ids=["commit", "abort"])
def test_an_end_of_v2_at_the_last_epochs(
    committed: bool,
    epoch: int,
    answer: tuple[int, int],
    prepared: tuple[int, ...],
    completed: tuple[int, ...],
) -> None:
    coordinator = Coordinator(transaction(State.ONGOING, epoch=epoch))
    assert coordinator.end(42, epoch, committed=committed, bumps_epoch=True) == answer
    row = coordinator.row()
    assert (row.producer_id, row.producer_epoch, row.next_producer_id, row.next_producer_epoch) == prepared
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(42, epoch, committed=committed, bumps_epoch=True)
    assert coordinator.complete()
    row = coordinator.row()
    assert (row.producer_id, row.producer_epoch, row.previous_producer_id) == completed
    assert (row.next_producer_id, row.next_producer_epoch) == (-1, -1)
    assert coordinator.end(42, epoch, committed=committed, bumps_epoch=True) == answer, "the answer was lost"
    assert len(coordinator.claimed) == (1 if epoch == 32766 else 0)


def test_a_rotation_without_a_fresh_producer_id_is_told_to_come_back() -> None:
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766))
    request = EndTxn(ID, ProducerId(42), 32766, COMMIT, bumps_epoch=True)
    assert needs_producer_id_at_end(coordinator.view, request)
    with pytest.raises(CoordinatorLoadInProgress):
        decide_end_txn(coordinator.view, request, now_ms=NOW_MS, fresh=None)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(EndTxn(ID, ProducerId(42), 32766, COMMIT), id="v1-never-rotates"),
        pytest.param(EndTxn(ID, ProducerId(42), 32765, COMMIT, bumps_epoch=True), id="a-refused-one"),
        pytest.param(EndTxn("nobody", ProducerId(42), 32766, COMMIT, bumps_epoch=True), id="an-unknown-id"),
    ],
)
def test_who_needs_no_producer_id(request_: EndTxn) -> None:
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766))
    assert not needs_producer_id_at_end(coordinator.view, request_)


@pytest.mark.parametrize(
    "row", [{"epoch": 6, "instance_epoch": 6}, {"producer_id": 85, "epoch": 0, "previous_producer_id": 42}]
)
def test_who_was_fenced_by_a_new_instance_retries_nothing(row: dict[str, int]) -> None:
    """The bump was another's: Kafka's rule would hand it the epoch of the abort."""
    coordinator = Coordinator(transaction(State.COMPLETE_ABORT, **row))
    for epoch in (5, 32766):
        with pytest.raises(ProducerFenced):
            coordinator.end(42, epoch, committed=ABORT, bumps_epoch=True)
