"""The epoch of an abort that was not the producer's own: refused until it is given out."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from fencepost.controller.errors import ApiError, ConcurrentTransactions, ErrorCode, ProducerFenced
from fencepost.controller.transactions.states import TWO_PHASE_TIMEOUT_MS, State
from tests.controller.transactions.test_given_out import NONE, Pair
from tests.controller.transactions.worlds import ORDERS, TIMEOUT_MS, Coordinator, partitions, transaction
from tests.together import table


def aborted_by(cause: str) -> Coordinator:
    """A transaction of (42, 5) was aborted at epoch 6, its markers written; no producer has asked since."""
    coordinator = Coordinator(transaction(State.ONGOING, instance_epoch=3))
    if cause == "timeout":
        coordinator.time_out(TIMEOUT_MS)
    else:
        with pytest.raises(ConcurrentTransactions):
            coordinator.init(*((42, 5) if cause == "same-instance" else NONE))
    assert coordinator.complete()
    assert coordinator.pair() == (42, 6)
    coordinator.written.clear()
    return coordinator


@table("cause", ["timeout", "same-instance", "new-instance"])
def test_the_epoch_of_an_abort_is_refused_until_it_is_given_out(cause: str) -> None:
    asks: tuple[Callable[[Coordinator], Any], ...] = (
        lambda at: at.add(42, 6),
        lambda at: at.verify(42, 6, partitions(ORDERS, 0)),
        lambda at: at.end(42, 6, committed=False),
        lambda at: at.end(42, 6, committed=True, knows_abortable=False),
        lambda at: at.end(42, 6, committed=False, bumps_epoch=True),
        lambda at: at.init(42, 6),
    )
    for ask in asks:
        coordinator = aborted_by(cause)
        with pytest.raises(ApiError) as refused:
            ask(coordinator)
        assert refused.value.code == ErrorCode.PRODUCER_FENCED
        assert coordinator.written == []


@table("given", [(42, 5), (42, 3)], ids=["the-last-epoch", "an-older-one-of-the-instance"])
@table("cause", ["timeout", "same-instance"])
def test_once_asked_for_it_is_the_producers(cause: str, given: Pair) -> None:
    coordinator = aborted_by(cause)
    assert coordinator.init(*given, timeout_ms=7000) == (42, 6)
    assert (coordinator.row().state, coordinator.row().transaction_timeout_ms) == (State.EMPTY, 7000)
    written = len(coordinator.written)
    assert coordinator.init(*given) == (42, 6), "the answer was lost"
    assert len(coordinator.written) == written, "a retry leaves everything as it is"
    coordinator.add(42, 6)
    assert coordinator.init(*given) == (42, 6), "a late duplicate leaves the open transaction alone"
    coordinator.end(42, 6, committed=False)
    coordinator.complete()
    coordinator.add(42, 6)
    coordinator.end(42, 6, committed=True)


def test_an_end_of_v2_that_is_tried_again_after_a_timeout_gives_out_the_epoch() -> None:
    coordinator = aborted_by("timeout")
    for _ in range(2):
        assert coordinator.end(42, 5, committed=False, bumps_epoch=True) == (42, 6)
    assert coordinator.row().init_version == 3, "it can recover as one that asked for it"
    coordinator.add(42, 6)


def test_an_end_of_v2_that_is_tried_again_after_a_timeout_at_32766_has_a_new_producer_id() -> None:
    """It was answered with 32767."""
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766, instance_epoch=3))
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    for _ in range(2):
        assert coordinator.end(42, 32766, committed=False, bumps_epoch=True) == (1000, 0)
    assert coordinator.claimed == [1000]
    coordinator.add(1000, 0)


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_the_pair_after_a_rotation_waits_for_the_markers(committed: bool) -> None:
    """A V2 end answers with it before they are written; it was refused as unknown or fenced."""
    coordinator = Coordinator(transaction(State.ONGOING, epoch=32766))
    following = coordinator.end(42, 32766, committed=committed, bumps_epoch=True)
    for ask in (
        lambda: coordinator.add(*following),
        lambda: coordinator.init(*following),
        lambda: coordinator.end(*following, committed=True, bumps_epoch=True),
    ):
        with pytest.raises(ConcurrentTransactions):
            ask()
    coordinator.complete()
    coordinator.add(*following)


def test_kafkas_own_row_counts_as_given_out_until_its_transaction_times_out() -> None:
    """It says neither where its instance began nor which InitProducerId it knew."""
    coordinator = Coordinator(transaction(State.ONGOING, instance_epoch=-1, init_version=-1))
    coordinator.add(42, 5, partitions(ORDERS, 3))
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    with pytest.raises(ApiError):
        coordinator.add(42, 6)
    assert coordinator.init(42, 5) == (42, 6)
    coordinator.add(42, 6)


@pytest.mark.parametrize(("epoch", "then"), [(5, (42, 7)), (32765, (1000, 0))])
def test_who_went_on_after_its_timeout_is_not_late_any_more(epoch: int, then: tuple[int, int]) -> None:
    """Past the pair that it was given its earlier ones are stale: 59 and a retry are for the first."""
    coordinator = Coordinator(transaction(State.ONGOING, epoch=epoch))
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    assert coordinator.init(42, epoch) == (42, epoch + 1)
    assert coordinator.init(42, epoch + 1) == then
    for committed, bumps_epoch in product((True, False), repeat=2):
        with pytest.raises(ProducerFenced):
            coordinator.end(42, epoch + 1, committed=committed, bumps_epoch=bumps_epoch)


def test_an_end_of_two_phase_commit_that_is_tried_again_stays_of_two_phases() -> None:
    row = transaction(
        State.ONGOING, instance_epoch=3, transaction_timeout_ms=TWO_PHASE_TIMEOUT_MS, init_version=6
    )
    coordinator = Coordinator(row)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(42, 5, two_phase=True, init_version=6)
    assert coordinator.complete()
    assert coordinator.end(42, 5, committed=False, bumps_epoch=True) == (42, 6)
    assert coordinator.row().init_version == 6
    assert coordinator.row().is_two_phase
