"""Two-phase commit (KIP-939): what a new instance keeps, which pair each request reads, and no timeout."""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionTimedOut,
    UnsupportedVersion,
)
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.transactions.pairs import client_pair, pair_before, transaction_pair
from fencepost.controller.transactions.states import (
    TWO_PHASE_TIMEOUT_MS,
    FenceCause,
    State,
)
from fencepost.records.transaction_log import Fence
from tests.controller.transactions.worlds import (
    DECADES_MS,
    ID,
    MAX_TIMEOUT_MS,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    opened,
    partitions,
    transaction,
)
from tests.together import table

CLOSED = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]


# -- keeping -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "kept"),
    [
        pytest.param(5, [(42, 6), (42, 7), (42, 8)], id="5"),
        pytest.param(32764, [(42, 32765), (42, 32766), (1000, 0)], id="32764"),
        pytest.param(32765, [(42, 32766), (1000, 0), (1000, 1)], id="32765"),
        pytest.param(32766, [(1000, 0), (1000, 1), (1000, 2)], id="32766"),
    ],
)
def test_each_new_instance_has_a_pair_of_its_own(epoch: int, kept: list[tuple[int, int]]) -> None:
    coordinator = opened(epoch)
    before = coordinator.row()
    for pair in kept:
        left = client_pair(coordinator.row())
        assert coordinator.keep(two_phase=True, client_id="restarted") == (*pair, 42, epoch)
        row = coordinator.row()
        assert (transaction_pair(row), client_pair(row), pair_before(row)) == ((42, epoch), pair, None)
        assert row.fences[-1] == Fence(NOW_MS, FenceCause.NEW_INSTANCE, *left, "restarted")
        assert (row.instance_epoch, row.init_version, row.previous_producer_id) == (pair[1], 6, -1)
        assert (row.state, row.partitions, row.started_ms) == (
            State.ONGOING,
            before.partitions,
            before.started_ms,
        )
    assert len(coordinator.claimed) == sum(pair[1] == 0 for pair in kept), "no producer id is wasted"


@pytest.mark.parametrize("state", CLOSED, ids=lambda state: state.wire_name)
def test_where_nothing_is_open_it_is_a_request_as_any_other(state: State) -> None:
    coordinator = Coordinator(transaction(state, epoch=5))
    assert coordinator.keep() == (42, 6, -1, -1)
    assert coordinator.row().state is State.EMPTY
    assert Coordinator().keep() == (1000, 0, -1, -1)


def test_keeping_waits_while_markers_are_written() -> None:
    coordinator = opened()
    coordinator.end(42, 5, committed=True, bumps_epoch=True)
    with pytest.raises(ConcurrentTransactions):
        coordinator.keep()
    coordinator.complete()
    assert coordinator.keep() == (42, 7, -1, -1)


@table(
    ("asked", "refusal"),
    [
        pytest.param({"given": (42, 5)}, InvalidRequest, id="a-pair-and-keep"),
        pytest.param({"given": (42, -1)}, InvalidRequest, id="half-a-pair"),
        pytest.param({"of": ""}, InvalidRequest, id="an-empty-id"),
        pytest.param({"timeout_ms": 0}, InvalidTransactionTimeout, id="no-time"),
        pytest.param({"timeout_ms": MAX_TIMEOUT_MS + 1}, InvalidTransactionTimeout, id="too-much-time"),
        pytest.param({"timeout_ms": TWO_PHASE_TIMEOUT_MS}, InvalidTransactionTimeout, id="no-timeout"),
        pytest.param({"timeout_ms": 0, "two_phase": True}, None, id="two-phase-commit-has-no-timeout"),
        pytest.param({"timeout_ms": -1, "two_phase": True}, None, id="a-negative-one-neither"),
    ],
)
def test_what_is_asked_for_is_checked(asked: dict[str, Any], refusal: type[ApiError] | None) -> None:
    coordinator = opened()
    before = coordinator.row()
    if refusal is None:
        assert coordinator.keep(**asked) == (42, 6, 42, 5)
        return
    with pytest.raises(refusal):
        coordinator.keep(**asked)
    assert (coordinator.row(), coordinator.written, coordinator.claimed) == (before, [], [])


@pytest.mark.parametrize(
    "ask", [Coordinator.keep, lambda c: c.init(two_phase=True)], ids=["keep", "two-phase"]
)
def test_below_its_log_level_it_is_refused(ask: Callable[[Coordinator], object]) -> None:
    """A leader that knows nothing of it would take the transaction's pair for the client's."""
    coordinator = opened()
    coordinator.view.put(FEATURES, LOG_LEVEL, FeatureLevel(3))
    with pytest.raises(UnsupportedVersion, match="--log-level 4"):
        ask(coordinator)
    assert coordinator.written == []


# -- which pair each request reads -------------------------------------------------------------------------

Ask = Callable[[Coordinator, int, int], object]
ASKS: dict[str, Ask] = {
    "add": lambda c, *pair: c.add(*pair, partitions(ORDERS, 3)),
    "add-what-is-in": lambda c, *pair: c.add(*pair, partitions(ORDERS, 0)),
    "add-v2": lambda c, *pair: c.add(*pair, partitions(ORDERS, 3), for_client=True),
    "verify": lambda c, *pair: c.verify(*pair, partitions(ORDERS, 0)),
    "commit": lambda c, *pair: c.end(*pair, committed=True),
    "abort": lambda c, *pair: c.end(*pair, committed=False),
    "commit-v2": lambda c, *pair: c.end(*pair, committed=True, bumps_epoch=True),
    "abort-v2": lambda c, *pair: c.end(*pair, committed=False, bumps_epoch=True),
}


@table("ask", ASKS.values(), ids=ASKS)
@table(
    "pair",
    [
        pytest.param((42, 32764), id="the-transactions"),
        pytest.param((42, 32765), id="an-instance-that-kept-it-before"),
        pytest.param((42, 32766), id="another"),
        pytest.param((42, 32767), id="the-epoch-of-its-markers"),
        pytest.param((1000, 0), id="the-one-before-the-last"),
        pytest.param((1000, 2), id="one-of-the-future"),
    ],
)
def test_every_pair_but_the_clients_is_fenced(ask: Ask, pair: tuple[int, int]) -> None:
    coordinator = opened(32764)
    for _ in range(4):
        kept = coordinator.keep(two_phase=True)
    assert kept == (1000, 1, 42, 32764)
    before = coordinator.row()
    written = len(coordinator.written)
    with pytest.raises(ProducerFenced):
        ask(coordinator, *pair)
    with pytest.raises(ProducerFenced):
        coordinator.init(*pair)
    assert (coordinator.row(), len(coordinator.written)) == (before, written)


@pytest.mark.parametrize("name", ["add", "add-what-is-in", "add-v2", "verify"])
def test_what_is_kept_takes_nothing_more(name: str) -> None:
    coordinator = opened()
    producer_id, epoch, _, _ = coordinator.keep()
    with pytest.raises(InvalidTxnState):
        ASKS[name](coordinator, producer_id, epoch)
    assert coordinator.row().partitions == (partitions(ORDERS, 0, 1),)
    coordinator.end(producer_id, epoch, committed=True)
    coordinator.complete()
    assert coordinator.add(producer_id, epoch) is not None, "the next transaction is the instance's own"


@table("committed", [True, False], ids=["commit", "abort"])
@table(
    ("epoch", "keeps", "prepared", "answer"),
    [
        # (ProducerEpoch, PreviousProducerId, NextProducerId, NextProducerEpoch) of PrepareX
        pytest.param(5, 1, (6, -1, 42, 7), (42, 7), id="5"),
        pytest.param(5, 3, (6, -1, 42, 9), (42, 9), id="5-kept-three-times"),
        pytest.param(32763, 1, (32764, -1, 42, 32765), (42, 32765), id="32763"),
        pytest.param(32764, 1, (32765, -1, 42, 32766), (42, 32766), id="32764"),
        pytest.param(32764, 2, (32765, -1, 1000, 0), (1000, 0), id="32764-rotates-at-the-end"),
        pytest.param(32765, 1, (32766, -1, 1000, 0), (1000, 0), id="32765-rotates-at-the-end"),
        pytest.param(32765, 2, (32766, 1000, 1000, 1), (1000, 1), id="32765-rotates-when-kept"),
        pytest.param(32766, 1, (32767, 1000, 1000, 1), (1000, 1), id="32766-rotates-when-kept"),
    ],
)
def test_an_end_of_v2(
    epoch: int, keeps: int, prepared: tuple[int, ...], answer: tuple[int, int], committed: bool
) -> None:
    coordinator = opened(epoch)
    for _ in range(keeps):
        *client, _, _ = coordinator.keep(two_phase=True)
    assert coordinator.end(*client, committed=committed, bumps_epoch=True) == answer
    row = coordinator.row()
    assert row.state is (State.PREPARE_COMMIT if committed else State.PREPARE_ABORT)
    assert (
        row.producer_epoch,
        row.previous_producer_id,
        row.next_producer_id,
        row.next_producer_epoch,
    ) == prepared
    assert (row.producer_id, row.last_producer_epoch) == (42, client[1])
    for pair in (client, answer):
        with pytest.raises(ConcurrentTransactions):
            coordinator.end(*pair, committed=committed, bumps_epoch=True)
    with pytest.raises(ProducerFenced):
        coordinator.end(42, epoch, committed=committed, bumps_epoch=True)
    assert coordinator.complete()
    row = coordinator.row()
    assert (transaction_pair(row), client_pair(row), pair_before(row)) == (answer, answer, tuple(client))
    assert row.previous_producer_id == client[0]
    for _ in range(2):
        assert coordinator.end(*client, committed=committed, bumps_epoch=True) == answer, "a retry"
    with pytest.raises(InvalidTxnState):
        coordinator.end(*client, committed=not committed, bumps_epoch=True)
    assert coordinator.init(*client) == answer, "InitProducerId recognises it, too"
    assert coordinator.row() == row
    coordinator.add(*answer)


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(("epoch", "client"), [(5, (42, 6)), (32766, (1000, 0))])
def test_an_end_of_v1_leaves_the_clients_pair_as_it_is(
    epoch: int, client: tuple[int, int], committed: bool
) -> None:
    coordinator = opened(epoch)
    assert coordinator.keep() == (*client, 42, epoch)
    assert coordinator.end(*client, committed=committed) is None
    row = coordinator.row()
    assert transaction_pair(row) == (42, epoch + 1), "its markers fence the instance that began it"
    assert client_pair(row) == client
    with pytest.raises(ConcurrentTransactions):
        coordinator.end(*client, committed=committed)
    with pytest.raises(InvalidTxnState):
        coordinator.end(*client, committed=not committed)
    coordinator.complete()
    assert coordinator.pair() == client
    assert coordinator.end(*client, committed=committed) is None, "a retry"
    coordinator.add(*client)
    assert coordinator.end(*client, committed=True) is None


# -- other ends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "aborted", "then"),
    [
        pytest.param(5, ((42, 6), (42, 7)), (42, 8), id="5"),
        pytest.param(32765, ((42, 32766), (42, 32767)), (1000, 0), id="32765"),
        pytest.param(32766, ((42, 32767), (1000, 1)), (1000, 2), id="32766"),
    ],
)
def test_an_instance_that_does_not_keep_aborts(
    epoch: int, aborted: tuple[tuple[int, int], tuple[int, int]], then: tuple[int, int]
) -> None:
    """So does `fencepost transactions force-terminate`: also what has no timeout."""
    coordinator = opened(epoch)
    *client, _, _ = coordinator.keep(two_phase=True)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init()
    row = coordinator.row()
    assert row.state is State.PREPARE_ABORT
    assert (transaction_pair(row), client_pair(row)) == aborted
    for pair in (client, aborted[1]):
        with pytest.raises(ProducerFenced):
            coordinator.end(*pair, committed=True, bumps_epoch=True)
    coordinator.complete()
    assert coordinator.init() == then
    with pytest.raises(ProducerFenced):
        coordinator.init(*client)
    assert coordinator.row().transaction_timeout_ms == TIMEOUT_MS
    assert not coordinator.row().is_two_phase


@pytest.mark.parametrize(("epoch", "then"), [(5, (42, 7)), (32765, (1000, 0)), (32766, (1000, 1))])
def test_the_same_instance_may_ask_for_its_next_pair(epoch: int, then: tuple[int, int]) -> None:
    coordinator = opened(epoch)
    *client, _, _ = coordinator.keep(two_phase=True)
    for _ in range(2):
        with pytest.raises(ConcurrentTransactions):
            coordinator.init(*client, two_phase=True, init_version=6)
    coordinator.complete()
    for _ in range(2):
        assert coordinator.init(*client, two_phase=True, init_version=6) == then
    assert coordinator.row().is_two_phase
    coordinator.add(*then)
    assert coordinator.time_out(DECADES_MS) == ()


@pytest.mark.parametrize(
    ("epoch", "markers", "then"),
    [(5, (42, 6), (42, 7)), (32765, (42, 32766), (1000, 0)), (32766, (42, 32767), (1000, 1))],
)
def test_what_is_kept_without_two_phase_commit_times_out(
    epoch: int, markers: tuple[int, int], then: tuple[int, int]
) -> None:
    """Its deadline is what it was; the instance that kept it is late, and goes on (KIP-588)."""
    coordinator = opened(epoch, two_phase=False)
    deadline_ms = coordinator.row().deadline_ms
    coordinator.now_ms += 10
    *client, _, _ = coordinator.keep(timeout_ms=MAX_TIMEOUT_MS)
    assert coordinator.row().deadline_ms == deadline_ms
    assert coordinator.time_out(deadline_ms - coordinator.now_ms - 1) == ()
    assert coordinator.time_out(1) == (ID,)
    assert transaction_pair(coordinator.row()) == markers
    for ask in (ASKS["commit"], ASKS["commit-v2"], ASKS["add"], ASKS["verify"]):
        with pytest.raises(TransactionTimedOut):
            ask(coordinator, *client)
    with pytest.raises(ProducerFenced):
        coordinator.end(42, epoch, committed=True)
    coordinator.complete()
    assert coordinator.row().transaction_timeout_ms == MAX_TIMEOUT_MS, "the instance's own"
    assert coordinator.end(*client, committed=False, bumps_epoch=True) == then
    assert coordinator.init(*client) == then
