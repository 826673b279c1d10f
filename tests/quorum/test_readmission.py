"""A wiped voter that goes away before it is readmitted, is always a little behind, or has a slow quorum."""

from typing import Final

import pytest

from fencepost.quorum.messages import RequestVote, Vote
from fencepost.records.types import LogIndex, NodeId
from tests.quorum.rig import Rig
from tests.quorum.test_electorate import NEW, bound, lose_directory, readmit, to_be_readmitted
from tests.wire.stage import capturing_log

STEPS: Final = ("voter_unbound", "voter_readmitted")


def test_one_that_went_away_is_readmitted_when_it_is_back(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    assert three[1].firewall.learner_match[NodeId(2)] >= three[1].raft.commit_index
    three.disconnect(2)
    for _ in range(5):
        three.maintenance_tick(1)
        three.flow(1, 3)
    assert bound(three, 1) != NEW
    three.connect(2)
    readmit(three)
    assert bound(three, 1) == NEW


def test_each_step_is_logged_as_what_it_is_also_where_entries_take_long(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next step is due already while the last one is in flight."""
    log, events = capturing_log()
    monkeypatch.setattr(three[1]._readmission, "_log", log)
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    for _ in range(3):
        three.maintenance_tick(1)
        three.turn(1)
        assert three[1].proposer.in_flight
    readmit(three)
    assert bound(three, 1) == NEW
    assert [each["event"] for each in events if each["event"] in STEPS] == list(STEPS)


def test_one_whose_last_ack_is_always_older_than_the_last_commit_is_readmitted(three: Rig) -> None:
    """A voter with a slower disk, under load that never pauses."""
    catch_up(three)
    for _ in range(10):
        commit_without_2(three)
        assert learned(three) < three[1].raft.commit_index
        three.maintenance_tick(1)
        three.flow()
    assert bound(three, 1) == NEW


def test_one_that_falls_further_and_further_behind_is_not(three: Rig) -> None:
    catch_up(three)
    commit_without_2(three)
    for _ in range(10):
        commit_without_2(three)
        three.maintenance_tick(1)
        three.flow(1, 3)
    assert bound(three, 1) == 0xD2


def test_one_that_fell_behind_before_this_leadership_is_not(three: Rig) -> None:
    """What was committed when node 1 led before is no measure: far more is by now."""
    catch_up(three)
    three.disconnect(2)
    three.maintenance_tick(1)
    three.elect(3, 1)
    for _ in range(3):
        three.allocate(3)
        three.turn(3)
        three.flow(1, 3)
    three.elect(1, 3)
    three.connect(2)
    three.turn(1)
    three[1].firewall.learner_match[NodeId(2)] = LogIndex(three[1].raft.commit_index - 1)
    three.maintenance_tick(1)
    three.flow(1, 3)
    assert bound(three, 1) == 0xD2


def test_a_candidate_with_an_equal_log_knows_nothing_that_makes_a_voter(three: Rig) -> None:
    to_be_readmitted(three)
    journal, directory = three[2].journal, three.directories[NodeId(2)]
    _, index, term = journal[-1]
    for more in (0, 1):
        three.deliver(3, 2, RequestVote(9, index + more, term, directory))
        assert any(isinstance(each, Vote) for each in three.frames[NodeId(2), NodeId(3)]) is bool(more)


def catch_up(rig: Rig) -> None:
    """Node 2 comes back with an empty directory, and holds what is committed."""
    lose_directory(rig, 2)
    rig.connect(2)
    rig.settle()


def commit_without_2(rig: Rig) -> None:
    """An entry that nodes 1 and 3 know to be committed, and that is on the wire to node 2."""
    rig.allocate(1)
    rig.turn(1)
    rig.flow(1, 3)
    rig.heartbeat(1, 3)
    rig.flow(1, 3)


def learned(rig: Rig) -> int:
    """How far node 1 knows node 2, which does not count, to be."""
    return rig[1].firewall.learner_match[NodeId(2)]
