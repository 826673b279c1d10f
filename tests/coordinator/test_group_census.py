"""Groups are counted by their state, in slices: what is shown is a walk that reached the end."""

import pytest

from fencepost.controller.decision import Decision
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.coordinator.groups import group_census
from fencepost.coordinator.groups.group_census import SLICE_PAUSE_S, WALK_PAUSE_S
from fencepost.records.offset_commit import OffsetCommitRecord
from tests.coordinator.group_bench import GROUP, Groups
from tests.node.conftest import MakeStage

WALK_S = WALK_PAUSE_S + 3 * SLICE_PAUSE_S  # of a few groups: a slice of each kind, and the pause before it
LONG_MS = 60_000


@pytest.fixture
def groups(make_stage: MakeStage) -> Groups:
    """A coordinator that leads, with an initial delay of 0."""
    return Groups(make_stage()).lead()


def commit(groups: Groups, group_id: str) -> None:
    record = OffsetCommitRecord(group_id=group_id, topic="orders", partition=0, offset=7, committed_ms=1)
    groups.submit(lambda _view, _now_ms: Decision((record,), None), lambda _outcome, _ms: None)
    groups.settle()


def test_each_group_counts_in_its_state(groups: Groups) -> None:
    (alice,) = groups.stable("alice", session_timeout_ms=LONG_MS)
    empty = groups.join(client="bob", group_id="empty").answered().member_id
    groups.request(groups.server.leave, LeaveGroup("empty", (Leaver(empty),)))
    groups.join(client="carol", group_id="completing", session_timeout_ms=LONG_MS)
    commit(groups, "simple")
    commit(groups, GROUP)  # a group with members and offsets is one group
    groups.wait(WALK_S)
    assert groups.server.census.states == {"Stable": 1, "Empty": 2, "CompletingRebalance": 1}
    groups.join(client="dave", session_timeout_ms=LONG_MS)
    groups.wait(WALK_S)
    assert groups.server.census.states == {"PreparingRebalance": 1, "Empty": 2, "CompletingRebalance": 1}
    groups.join(alice, session_timeout_ms=LONG_MS)
    groups.wait(WALK_S)
    assert groups.server.census.states == {"Empty": 2, "CompletingRebalance": 2}


def test_a_node_that_does_not_coordinate_counts_none(groups: Groups) -> None:
    groups.stable("alice")
    groups.wait(WALK_S)
    assert groups.server.census.states == {"Stable": 1}
    groups.carry_out(groups.driver.resume(groups.server.deposed))
    assert groups.server.census.states == {}


def test_a_walk_goes_on_where_its_last_slice_ended(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_census, "SLICE_ROWS_MAX", 2)
    groups.depose()
    for number in range(5):
        groups.join(client="alice", group_id=f"group-{number}")
        commit(groups, f"simple-{number}")
    shown = []
    for _ in range(7):
        groups.wait(SLICE_PAUSE_S)
        shown.append(sum(groups.server.census.states.values()))
    assert shown == [0, 0, 0, 0, 0, 10, 10], "slices of 2, 2, 1 groups and of 2, 2, 1 with offsets alone"
