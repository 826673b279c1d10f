"""Markers: which are pending, in slices, and the end when all are written."""

import msgspec
import pytest

from fencepost.controller.transactions.markers import Marker, decide_complete, marker_of, pending_markers
from fencepost.controller.transactions.states import State
from fencepost.records.types import ImageVersion, ProducerId, Term
from tests.controller.transactions.worlds import (
    AUDIT,
    ID,
    NOW_MS,
    ORDERS,
    Coordinator,
    partitions,
    transaction,
)
from tests.together import table

LOGGED = list(State)[:6]


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_marker_carries_what_a_partition_needs(committed: bool) -> None:
    coordinator = Coordinator()
    pair = coordinator.init()
    coordinator.add(*pair, partitions(ORDERS, 0, 2), partitions(AUDIT, 0))
    version = coordinator.view.header.version + 1
    coordinator.end(*pair, committed=committed)
    marker = Marker(
        ID,
        ProducerId(1000),
        0,
        committed,
        (partitions(AUDIT, 0), partitions(ORDERS, 0, 2)),
        Term(3),
        ImageVersion(version),
    )
    assert marker_of(coordinator.view, ID) == marker
    assert pending_markers(coordinator.view, None, 10) == (marker,)


def test_after_a_failover_it_carries_the_new_coordinators_epoch_and_the_same_version() -> None:
    coordinator = Coordinator(transaction(State.PREPARE_COMMIT))
    before = marker_of(coordinator.view, ID)
    header = msgspec.structs.replace(coordinator.view.header, controller_epoch=Term(9))
    coordinator.view.header = header
    after = marker_of(coordinator.view, ID)
    assert before is not None
    assert after is not None
    assert (before.coordinator_epoch, after.coordinator_epoch) == (3, 9)
    assert before.version == after.version


def test_pending_markers_come_in_slices() -> None:
    coordinator = Coordinator()
    for number in range(5):
        pair = coordinator.init(of=f"p-{number}")
        coordinator.add(*pair, of=f"p-{number}")
        if number != 2:
            coordinator.end(*pair, committed=True, of=f"p-{number}")
    first = pending_markers(coordinator.view, None, 3)
    assert [marker.transactional_id for marker in first] == ["p-0", "p-1", "p-3"]
    second = pending_markers(coordinator.view, first[-1].transactional_id, 3)
    assert [marker.transactional_id for marker in second] == ["p-4"]
    assert pending_markers(coordinator.view, "p-4", 3) == ()


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_the_end(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    ends = {
        State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
        State.PREPARE_ABORT: State.COMPLETE_ABORT,
    }
    before = coordinator.row()
    assert coordinator.complete() is (state in ends)
    after = coordinator.row()
    if state not in ends:
        assert (after, coordinator.written) == (before, [])
        return
    assert after == msgspec.structs.replace(
        before, state=ends[state], partitions=(), updated_ms=NOW_MS, prepared_version=ImageVersion(0)
    )


@pytest.mark.parametrize("difference", [-1, 1])
def test_another_transactions_markers_do_not_end_this_one(difference: int) -> None:
    """A late answer of an earlier PrepareX, or one that no node wrote."""
    coordinator = Coordinator(transaction(State.PREPARE_COMMIT))
    version = ImageVersion(coordinator.row().prepared_version + difference)
    assert coordinator.applied(decide_complete(coordinator.view, ID, version, now_ms=NOW_MS)) is False
    assert coordinator.row().state is State.PREPARE_COMMIT


def test_an_id_that_there_is_not() -> None:
    coordinator = Coordinator()
    assert marker_of(coordinator.view, "nobody") is None
    assert not coordinator.complete("nobody")
