"""Voters: whose directory is bound, and what a leadership writes about it."""

import uuid

import pytest

from fencepost.controller import voters
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.records.control import ControlRecord, KRaftVersion, LeaderChange, Voters
from fencepost.records.types import NodeId
from tests.controller.worlds import image

ONE, TWO, NEW = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=9)
BOTH = {NodeId(1): ONE, NodeId(2): TWO}


def after(*records: ControlRecord) -> Overlay:
    view = image()
    for record in records:
        replay_record(view, record)
    return view


BOUND = voters.voters_record(BOTH)


def test_before_the_first_leader_nobody_is_bound() -> None:
    assert voters.bindings(image()) == {}


def test_the_first_leader_writes_the_voters() -> None:
    change, version, written = voters.decide_leader_change(image(), NodeId(2), BOTH, 0)
    assert isinstance(change, LeaderChange)
    assert [voter.voter_id for voter in change.voters] == [1, 2]
    assert (change.leader_id, version) == (2, KRaftVersion(k_raft_version=1))
    assert isinstance(written, Voters)
    assert voters.bindings(after(change, version, written)) == BOTH


def test_a_later_leader_does_not_and_believes_the_image() -> None:
    (change,) = voters.decide_leader_change(after(BOUND), NodeId(1), {NodeId(1): NEW, NodeId(2): NEW}, 0)
    assert isinstance(change, LeaderChange)
    assert [voter.voter_directory_id for voter in change.voters] == [ONE, TWO]


def test_a_new_directory_is_bound_in_the_end_and_only_that_node_changes() -> None:
    view = after(BOUND)
    for _ in range(3):
        records = voters.decide_bind(view, NodeId(2), NEW)
        if not records:
            break
        before = voters.bindings(view)
        for record in records:
            replay_record(view, record)
        now = voters.bindings(view)
        assert {n for n in BOTH if before.get(n) != now.get(n)} == {2}, "one voter at a time"
    assert voters.bindings(view) == {NodeId(1): ONE, NodeId(2): NEW}


def test_who_is_bound_already_stays() -> None:
    assert voters.decide_bind(after(BOUND), NodeId(2), TWO) == ()


def test_a_voter_without_a_directory_is_bound_to_nobody() -> None:
    record = voters.voters_record(BOTH)
    nameless = Voters(voters=(*record.voters[:1], type(record.voters[1])(voter_id=NodeId(2))))
    assert voters.bound_by(nameless) == {1: ONE}


@pytest.mark.parametrize("level", [0, 1])
def test_the_kraft_version_is_kept_beside_the_voters(level: int) -> None:
    view = after(BOUND, KRaftVersion(k_raft_version=level))
    quorum = view.get(voters.QUORUM, 0)
    assert quorum is not None
    assert quorum.kraft_version == level
    assert voters.bindings(view) == BOTH
