"""pysyncobj behind its seams: what was switched off stays off, and who campaigns when."""

import pysyncobj.syncobj
import pytest

from fencepost.quorum import raft_log
from fencepost.quorum.journal import NO_OP, REGULAR
from fencepost.quorum.messages import AppendEntries, RequestVote
from fencepost.quorum.raft_log import CANDIDATE, FOLLOWER, LEADER, RANK_JITTER_S, RANK_STEP_S, RETRY_S
from fencepost.records.entry import ENTRY_BYTES_MAX
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import LogIndex, NodeId
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.test_messages import entry_of


def test_a_changed_library_is_noticed_at_the_start(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raft_log, "REACHED", (*raft_log.REACHED, "raftNewName"))
    with pytest.raises(InvariantViolation, match="pysyncobj changed"):
        make_rig(1)


def test_h14_pickle_is_out_of_reach(three: Rig) -> None:
    core = pysyncobj.syncobj
    with pytest.raises(InvariantViolation, match=r"reached for pickle\.loads"):
        core.pickle.loads(b"")
    assert three[1].raft.is_leader


def test_h7_nothing_is_dumped_or_compacted_by_it(three: Rig) -> None:
    raft = three[1].raft
    raft.forceLogCompaction()
    three.turn(1)
    assert three[1].journal.first_index == 1


def test_h15_the_largest_entry_reaches_a_follower_whole(three: Rig) -> None:
    """pysyncobj would cut what is larger than its batches into chunks, and loses some of those."""
    payload = entry_of(ENTRY_BYTES_MAX)
    index = three[1].raft.propose(payload)
    three.step(1)
    entries = three.take(1, 2, AppendEntries).entries
    assert entries == [(REGULAR + payload, index, three[1].raft.term)]


def test_a_new_term_begins_with_an_entry_of_its_own(three: Rig) -> None:
    assert next(command for command, _, term in three[1].journal if term == 1) == NO_OP


def test_a_lone_voter_leads_without_waiting_for_a_leaders_silence(make_rig: MakeRig) -> None:
    rig = make_rig(1)
    rig.wait(0.001)
    rig.turn()
    assert (rig[1].raft.role, rig[1].raft.term) == (LEADER, 1)


def test_the_lowest_rank_of_a_new_cluster_campaigns_once_all_are_connected(make_rig: MakeRig) -> None:
    rig = make_rig(3)
    rig.turn()
    assert {rig[node].raft.role for node in (1, 2, 3)} == {FOLLOWER}
    for node in (1, 2, 3):
        rig[node].connected_peers.clear()
    for distance, roles in ((1, {FOLLOWER}), (2, {CANDIDATE, FOLLOWER})):
        for node in (1, 2, 3):
            peer = NodeId((node + distance - 1) % 3 + 1)
            rig.carry_out(NodeId(node), rig.drivers[NodeId(node)].connected(peer, may_elect=True))
        rig.wait(RANK_STEP_S / 2)
        rig.turn()
        assert {rig[node].raft.role for node in (1, 2, 3)} == roles
    assert rig[1].raft.role == CANDIDATE


def test_a_cluster_that_was_led_waits_for_its_leaders_silence(three: Rig) -> None:
    for node in (2, 3):
        three.carry_out(NodeId(node), three.drivers[NodeId(node)].connected(NodeId(1), may_elect=True))
    three.wait(RANK_STEP_S * 3)
    three.turn()
    assert [three[node].raft.role for node in (1, 2, 3)] == [LEADER, FOLLOWER, FOLLOWER]


# -- the leader's connection closes ------------------------------------------------------------------------


def test_the_lower_ranks_campaign_first_when_the_leaders_connection_closes(five: Rig) -> None:
    five.crash(1)
    five.wait(RANK_JITTER_S)
    five.turn()
    assert [five[node].raft.role for node in (2, 3, 4, 5)] == [CANDIDATE, FOLLOWER, FOLLOWER, FOLLOWER]


def test_the_next_rank_follows_if_the_first_is_silent(five: Rig) -> None:
    five.crash(1)
    five.crash(2)
    five.wait(RANK_STEP_S + RANK_JITTER_S)
    five.turn()
    assert [five[node].raft.role for node in (3, 4, 5)] == [CANDIDATE, FOLLOWER, FOLLOWER]


def test_a_vote_that_fails_after_that_is_tried_again_soon(five: Rig) -> None:
    five.crash(1)
    five.wait(RANK_JITTER_S)
    five.turn(2)
    term = five[2].raft.term
    five.frames.clear()
    five.wait(RETRY_S[1])
    five.turn(2)
    assert (five[2].raft.role, five[2].raft.term) == (CANDIDATE, term + 1)


def test_another_peers_connection_says_nothing(five: Rig) -> None:
    five.crash(3)
    five.wait(RANK_STEP_S * 5)
    five.turn()
    assert [five[node].raft.role for node in (1, 2, 4, 5)] == [LEADER, FOLLOWER, FOLLOWER, FOLLOWER]


def test_nobody_campaigns_who_is_connected_to_nobody(make_rig: MakeRig) -> None:
    rig = make_rig(3, connected=False)
    rig.campaign(1)
    assert rig[1].raft.role == FOLLOWER


def test_a_committed_entry_that_is_gone_halts(three: Rig) -> None:
    three[2].raft._SyncObj__raftCommitIndex = LogIndex(three[2].journal.last_index + 1)
    with pytest.raises(InvariantViolation, match="is not in the journal"):
        three.turn(2)


# -- votes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "granted"),
    [
        pytest.param((0, 0), True, id="the-same-log"),
        pytest.param((1, 0), True, id="a-longer-log"),
        pytest.param((-1, 1), True, id="a-later-term"),
        pytest.param((-1, 0), False, id="a-shorter-log"),
        pytest.param((5, -1), False, id="an-earlier-term"),
    ],
)
def test_a_vote_needs_a_log_that_is_up_to_date(three: Rig, last: tuple[int, int], granted: bool) -> None:
    """Raft §5.4.1."""
    journal = three[2].journal
    term = journal.term_at(journal.last_index) or 0
    three.deliver(3, 2, RequestVote(9, journal.last_index + last[0], term + last[1]))
    assert bool(three.frames[NodeId(2), NodeId(3)]) == granted
    assert three[2].raft.term == 9, "the term is learned either way"


def test_h9_a_vote_is_given_once_in_a_term(three: Rig) -> None:
    journal = three[2].journal
    for candidate in (3, 1):
        three.deliver(candidate, 2, RequestVote(9, journal.last_index, 1))
    assert three.frames[NodeId(2), NodeId(3)]
    assert not three.frames[NodeId(2), NodeId(1)]


def test_a_candidate_that_lost_campaigns_again(three: Rig) -> None:
    """Its leader's connection closed, so it hurried, and no vote came: the next deadline comes, too."""
    three.crash(1)
    began = three[2].raft.term
    for _ in range(200):
        three.now += 0.05
        three.turn(2)
        three.frames.clear()
    assert three[2].raft.term >= began + 2
