"""Whose votes and acks count: directories, bindings, voters that lost theirs (docs/design.md 4, KIP-853)."""

import uuid

import pytest

import fencepost.quorum.snapshotter
from fencepost.controller import voters
from fencepost.quorum.messages import Ack, AppendEntries, RequestVote, TimeoutNow, Vote
from fencepost.quorum.raft_log import CANDIDATE, FOLLOWER, LEADER
from fencepost.records.types import NodeId
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

NEW = 0xBEEF
NEWER = 0xCAFE


def lose_directory(rig: Rig, node: int, directory: int = NEW) -> None:
    """Kill a node, wipe it, format it again, start it. It is not connected yet."""
    rig.crash(node)
    rig.frames.clear()
    rig.wipe(node, directory)
    rig.start(node)


def readmit(rig: Rig, leader: int = 1) -> None:
    """Time for a leader to readmit who came back."""
    for _ in range(5):
        rig.settle()
        rig.maintenance_tick(leader)
        rig.flow()
    rig.settle()


def bound(rig: Rig, at: int, node: int = 2) -> int | None:
    """To which directory a node is bound, by the image of another."""
    directory = voters.bindings(rig[at].image).get(NodeId(node))
    return None if directory is None else directory.int


# -- first start ---------------------------------------------------------------------------------------------


def test_the_first_start_binds_what_format_wrote(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    assert rig[2].electorate.bound() == rig.directories
    assert rig[2].electorate.may_vote


def test_without_it_the_voters_bind_each_other_once_all_of_them_met(make_rig: MakeRig) -> None:
    rig = make_rig(3, initial_voters=False)
    assert [r.electorate.bound() for r in rig.replicas.values()] == [rig.directories] * 3


def test_until_then_nobody_votes_or_campaigns(make_rig: MakeRig) -> None:
    rig = make_rig(3, initial_voters=False, connected=False)
    rig.meet(1, 2)
    rig.join(1, 2)
    for node in (1, 2):
        assert not rig[node].electorate.may_vote
        rig.campaign(node)
    rig.deliver(1, 2, RequestVote(1, 1, 0))
    assert [rig[node].raft.role for node in (1, 2)] == [FOLLOWER, FOLLOWER]
    assert not rig.frames[NodeId(2), NodeId(1)]


def test_a_single_voter_binds_itself(make_rig: MakeRig) -> None:
    rig = make_rig(1, initial_voters=False)
    rig.campaign(1)
    rig.turn()
    assert rig[1].proposer.active


def test_a_first_binding_is_remembered(make_rig: MakeRig) -> None:
    rig = make_rig(3, initial_voters=False)
    rig.campaign(1)
    rig.flow()
    rig.crash(2)
    rig.start(2)
    assert rig[2].electorate.bound() == rig.directories


def test_who_knows_this_very_directory_is_believed(make_rig: MakeRig) -> None:
    """A binding that names our directory proves that nothing of it was forgotten: it was made with us."""
    rig = make_rig(3, initial_voters=False, connected=False)
    rig.met(2, NodeId(1), rig.directories[NodeId(1)], rig.directories, 0)
    assert rig[2].electorate.bound() == rig.directories


def test_who_knows_another_directory_of_ours_is_not(make_rig: MakeRig) -> None:
    rig = make_rig(3, initial_voters=False, connected=False)
    rig.met(2, NodeId(1), rig.directories[NodeId(1)], rig.directories | {NodeId(2): uuid.UUID(int=NEW)}, 0)
    assert rig[2].electorate.bound() == {}
    assert not rig[2].electorate.may_vote


def test_empty_voters_do_not_found_a_second_cluster_beside_one_that_is_bound(make_rig: MakeRig) -> None:
    rig = make_rig(3, initial_voters=False)
    rig.elect(1)
    lose_directory(rig, 2)
    lose_directory(rig, 3, NEWER)
    rig.connect()
    assert [rig[node].electorate.bound() for node in (2, 3)] == [{}, {}]


# -- a voter that lost its directory -------------------------------------------------------------------------


def test_a_wiped_voter_does_not_vote(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    three.deliver(3, 2, RequestVote(9, 99, 9))
    assert three[2].raft.term < 9
    assert not [m for m in three.frames[NodeId(2), NodeId(3)] if isinstance(m, Vote)]


def test_a_wiped_voter_that_caught_up_does_not_vote_before_it_is_readmitted(three: Rig) -> None:
    """It knows every voter's binding by now, and that its own names another directory."""
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    assert three[2].electorate.counts(NodeId(3))
    three.deliver(3, 2, RequestVote(9, 99, 9))
    assert not [m for m in three.frames[NodeId(2), NodeId(3)] if isinstance(m, Vote)]


def test_a_wiped_voter_does_not_campaign(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    three.campaign(2)
    three.receive(2, 1, TimeoutNow(three[1].raft.term))
    three.turn(2)
    assert three[2].raft.role == FOLLOWER


def test_a_wiped_voter_is_heard_by_nobody_who_votes(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    before, journal = three[3].raft.term, three[3].journal
    last_term = journal.term_at(journal.last_index) or 0
    three.deliver(2, 3, RequestVote(before + 5, journal.last_index, last_term))
    assert three[3].raft.term == before, "its log says no more than ours about who counts"


def test_a_vote_that_says_it_is_of_a_wiped_voter_is_not_counted(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    lose_directory(rig, 2)
    rig.connect(2)
    rig.campaign(3)
    rig.deliver(2, 3, Vote(rig[3].raft.term))
    assert rig[3].raft.role == CANDIDATE


def test_the_acks_of_a_wiped_voter_commit_nothing(three: Rig) -> None:
    three.disconnect(3)
    lose_directory(three, 2)
    three.connect(2)
    answers = three.allocate(1)
    three.turn(1)
    for _ in range(4):
        three.heartbeat()
        three.flow(1, 2)
    assert three.commands(2) == three.commands(1)
    assert answers.codes == []


def test_a_leader_forgets_what_a_wiped_voter_had_acknowledged(three: Rig) -> None:
    """Else it takes its refusals for late ones (H4), and the voter stays empty while this leader leads."""
    assert three[1].raft.match_index(NodeId(2)) > 1
    lose_directory(three, 2)
    three.connect(2)
    assert three[1].raft.match_index(NodeId(2)) == 0
    three.settle()
    assert three.commands(2) == three.commands(1)


def test_a_wiped_voter_is_readmitted_once_it_holds_what_is_committed(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    assert not three[2].electorate.may_vote
    readmit(three)
    assert bound(three, 3) == NEW
    assert all(three[node].electorate.counts(NodeId(2)) for node in (1, 2, 3))
    three.elect(2)


def test_it_is_readmitted_also_while_there_is_always_something_in_flight(three: Rig) -> None:
    """Under load the moments without an entry in flight are too short for the slow timer to meet."""
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    for _ in range(10):
        three.allocate(1)
        three.turn(1)
        assert three[1].proposer.in_flight
        three.maintain(1)
        three.flow()
    three.settle()
    assert bound(three, 1) == NEW


def test_it_is_not_readmitted_before(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    for _ in range(5):
        three.drop(1, 2)
        three.maintenance_tick(1)
        three.flow(1, 3)
    assert bound(three, 1) != NEW


def test_what_an_earlier_directory_held_does_not_readmit_a_later_one(three: Rig) -> None:
    """Wiped, caught up, and wiped again before it was readmitted: the third directory is empty."""
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    assert three[1].firewall.learner_match[NodeId(2)] >= three[1].raft.commit_index
    lose_directory(three, 2, NEWER)
    three.connect(2)
    for _ in range(5):
        three.drop(1, 2)
        three.maintenance_tick(1)
        three.flow(1, 3)
    assert bound(three, 1) not in (NEW, NEWER)


def test_its_readmission_is_committed_without_it(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    three.disconnect(3)
    for _ in range(5):
        three.maintenance_tick(1)
        three.settle(1, 2)
    assert three.commands(2) == three.commands(1), "node 2 has the Voters record"
    assert three[1].raft.commit_index < three[1].journal.last_index, "but its ack does not commit it"
    assert bound(three, 1) == 0xD2


def test_a_readmission_that_is_in_the_log_already_unbinds_the_old_directory(three: Rig) -> None:
    """Node 3 has the Voters record, not applied: from now on neither directory of node 2 counts there."""
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    three.maintenance_tick(1)
    three.deliver(1, 3)
    assert three[3].journal.last_index > three[3].raft.applied_index
    assert not three[3].electorate.counts(NodeId(2))
    three[3].electorate.directories[NodeId(2)] = uuid.UUID(int=0xD2)
    assert not three[3].electorate.counts(NodeId(2))
    assert three[3].electorate.counts(NodeId(1))


def test_a_readmission_in_the_log_is_found_also_in_the_place_of_another_entry(three: Rig) -> None:
    """Same applied index, same end of the log, other contents: what was found before does not count."""
    three.allocate(1)
    three.turn(1)
    three.deliver(1, 3)
    three.disconnect(3)
    assert three[3].electorate.counts(NodeId(2)), "scanned: no Voters record"
    tail = three[3].journal.last_index
    record = three[1].electorate.bound() | {NodeId(2): uuid.UUID(int=NEW)}
    entry = three.voters_entry(record)
    three.deliver(
        1,
        3,
        AppendEntries(2, tail - 1, tail - 1, three[3].journal.term_at(tail - 1) or 0, [(entry, tail, 2)]),
    )
    assert three[3].journal.last_index == tail
    assert not three[3].electorate.counts(NodeId(2))


def to_be_readmitted(rig: Rig) -> None:
    """Node 2 lost its directory and caught up; the old one is unbound. The next record binds the new one."""
    lose_directory(rig, 2)
    rig.connect(2)
    rig.settle()
    rig.maintenance_tick(1)
    rig.flow()
    rig.settle()
    assert bound(rig, 1) is None


def test_who_was_readmitted_votes_even_if_only_the_candidate_knows_it(three: Rig) -> None:
    """The record that binds 2 again was committed by 1 and 3, and 1 is gone: no other voter can elect 3."""
    to_be_readmitted(three)
    three.maintenance_tick(1)
    three.deliver(1, 3)
    three.deliver(3, 1)
    assert bound(three, 1) == NEW
    three.crash(1)
    assert not three[2].electorate.may_vote
    three.elect(3, 2)
    assert three[2].electorate.may_vote


def test_who_was_readmitted_is_elected_even_by_those_who_do_not_know_it(three: Rig) -> None:
    """It was committed by 1 and 2 itself, and 1 is gone: 3 votes for a node that its own log unbinds."""
    to_be_readmitted(three)
    three.maintenance_tick(1)
    three.deliver(1, 2)
    three.deliver(2, 1)
    assert bound(three, 1) == NEW
    three.crash(1)
    assert not three[3].electorate.counts(NodeId(2))
    three.elect(2, 3)
    assert three[3].electorate.counts(NodeId(2))


def test_what_a_candidate_says_of_another_directory_does_not_make_a_voter(three: Rig) -> None:
    to_be_readmitted(three)
    for directory in (None, uuid.UUID(int=0xD2), uuid.UUID(int=NEWER)):
        three.deliver(3, 2, RequestVote(9, 99, 9, directory))
    assert not [m for m in three.frames[NodeId(2), NodeId(3)] if isinstance(m, Vote)]


def test_a_wiped_voter_that_needs_a_snapshot_gets_one_and_is_readmitted(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=5)
    rig.elect(1)
    rig.register(1)
    for _ in range(8):
        rig.allocate(1)
        rig.turn(1)
        rig.flow()
    rig.maintenance_tick(1)
    rig.work()
    assert rig[1].journal.first_index > 5
    lose_directory(rig, 2)
    rig.connect(2)
    for _ in range(15):
        rig.heartbeat()
        rig.flow()
        rig.maintenance_tick()
        rig.flow()
    assert rig.images() == {1: 8000, 2: 8000, 3: 8000}
    assert rig[2].electorate.may_vote
    assert rig[2].journal.first_index > 1


def test_a_leader_that_is_behind_is_told_once_not_without_end(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pysyncobj repeats the message until a heartbeat period has passed: here time stands still."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=5)
    rig.elect(1)
    rig.register(1)
    for _ in range(8):
        rig.read(1)
        rig.turn(1)
        rig.flow()
    rig.maintenance_tick(1)
    rig.work()
    lose_directory(rig, 2)
    rig.connect(2)
    rig.heartbeat(1)
    rig.deliver(1, 2)
    rig.deliver(2, 1)
    rig.heartbeat(1)
    assert 1 <= len(rig.frames[NodeId(1), NodeId(2)]) <= 3


def test_one_node_down_and_one_wiped_of_three_leaves_nobody_to_decide(three: Rig) -> None:
    lose_directory(three, 2)
    three.crash(3)
    three.connect(2)
    answers = three.allocate(1)
    three.turn(1)
    for _ in range(4):
        three.settle(1, 2)
        three.maintenance_tick(1)
    assert answers.codes == []
    three.start(3)
    three.connect(3)
    three.settle()
    assert answers.codes == ["[0, 1000)"]


def test_an_ack_of_a_peer_that_was_never_met_counts_for_nothing(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.elect(1)
    del rig[1].electorate.directories[NodeId(2)]
    rig.disconnect(3)
    rig.frames.clear()
    answers = rig.read(1)
    rig.turn(1)
    rig.receive(1, NodeId(2), Ack(rig[1].raft.term, rig[1].journal.last_index + 1, reset=False, success=True))
    rig.turn(1)
    assert (answers.codes, rig[1].raft.role) == ([], LEADER)
