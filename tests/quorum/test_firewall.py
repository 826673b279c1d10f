"""Each way in which pysyncobj loses acknowledged writes (docs/raft-hazards.md), as a script that would hurt.

The names are the hazards': H1 conflict cut, H2 terms of acks, H3 voters, H4 stale resets, H11 forwarding,
L1 old terms, L5 the far behind. Real voters, real journals; only the order of frames is ours.
"""

from contextlib import nullcontext
from typing import Any

import pytest

import fencepost.quorum.journal
from fencepost.quorum.messages import Ack, AppendEntries, Behind, NewerTerm, RequestVote, TimeoutNow, Vote
from fencepost.quorum.raft_log import CANDIDATE, FOLLOWER, LEADER
from fencepost.records.entry import Entry, encode_entry
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import ImageVersion, LogIndex, NodeId, ProposalNumber, Term
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.transfers import catch_up


def entries_on_the_wire(rig: Rig, source: int, target: int) -> AppendEntries:
    """The oldest append that carries entries."""
    waiting = rig.frames[NodeId(source), NodeId(target)]
    while True:
        message = rig.take(source, target, AppendEntries)
        if message.entries:
            return message
        assert waiting, "no entries on the wire"


# -- H1: only a conflict cuts, and the commit index stays below what the message vouches for -----------


def test_h1_a_late_duplicate_does_not_cut_what_was_acknowledged_since(three: Rig) -> None:
    three.allocate(1)
    three.turn(1)
    early = entries_on_the_wire(three, 1, 2)
    three.deliver(1, 2, early)
    three.flow()
    for _ in range(3):
        three.allocate(1)
        three.turn(1)
        three.flow()
    three.settle()
    before = three.commands(2)
    three.deliver(1, 2, early)
    assert three.commands(2) == before
    assert three[2].raft.commit_index == three[1].raft.commit_index


def test_h1_the_ack_of_a_late_duplicate_says_only_what_it_vouched_for(three: Rig) -> None:
    three.allocate(1)
    three.turn(1)
    early = entries_on_the_wire(three, 1, 2)
    three.deliver(1, 2, early)
    three.flow()
    three.allocate(1)
    three.turn(1)
    three.flow()
    three.deliver(1, 2, early)
    ack = three.take(2, 1, Ack)
    assert (ack.success, ack.next_index) == (True, early.prev_index + len(early.entries) + 1)


def test_h1_an_overlapping_message_adds_only_what_is_new(three: Rig) -> None:
    for _ in range(2):
        three.allocate(1)
        three.turn(1)
        three.flow(1, 3)
    three.drop(1, 2)
    three.settle()
    journal = three[1].journal
    last = journal.last_index
    overlapping = AppendEntries(
        three[1].raft.term,
        last,
        last - 4,
        journal.term_at(last - 4) or 0,
        [entry for i in range(last - 3, last + 1) if (entry := journal.entry_at(i)) is not None],
    )
    three.deliver(1, 2, overlapping)
    assert three.commands(2) == three.commands(1)


def a_follower_with_junk(rig: Rig) -> None:
    """Node 1 leads and writes an entry that only node 2 gets; then node 3 is elected by the others.

    Node 2's journal ends with an entry that no other node has and that will never be committed.
    """
    rig.allocate(1)
    rig.turn(1)
    rig.deliver(1, 2, entries_on_the_wire(rig, 1, 2))
    rig.disconnect(1)
    rig.disconnect(2)
    rig.connect(3)
    for peer in (1, 2):  # it can be heard by 4 and 5 only
        rig.part(3, peer)
    rig.elect(3, 3, 4, 5)


def test_h1_the_commit_index_does_not_reach_entries_that_the_leader_never_vouched_for(five: Rig) -> None:
    a_follower_with_junk(five)
    junk = five[2].journal.last_index
    # A heartbeat that matches before the junk, from a leader whose commit index is far beyond it.
    five.allocate(3)
    five.turn(3)
    five.flow(3, 4, 5)
    assert five[3].raft.commit_index > junk
    journal = five[3].journal
    five.deliver(
        3,
        2,
        AppendEntries(
            five[3].raft.term, five[3].raft.commit_index, junk - 1, journal.term_at(junk - 1) or 0, []
        ),
    )
    assert five[2].journal.last_index == junk, "a heartbeat cuts nothing"
    assert five[2].raft.commit_index == junk - 1
    assert five[2].raft.applied_index == junk - 1


def test_h1_a_heartbeat_below_junk_is_not_an_ack_of_the_junk(five: Rig) -> None:
    a_follower_with_junk(five)
    junk = five[2].journal.last_index
    journal = five[3].journal
    five.deliver(
        3, 2, AppendEntries(five[3].raft.term, junk - 1, junk - 1, journal.term_at(junk - 1) or 0, [])
    )
    assert five.take(2, 3, Ack).next_index == junk


def test_h1_a_conflict_does_cut(five: Rig) -> None:
    a_follower_with_junk(five)
    junk = five[2].journal.last_index
    five.meet(2, 3)
    five.join(2, 3)
    five.settle(2, 3, 4, 5)
    assert five.commands(2) == five.commands(3)
    assert five[2].journal.term_at(junk) == five[3].raft.term


# -- H2: an ack counts in the term that it was given in ---------------------------------------------------


def test_h2_an_ack_of_an_old_term_counts_for_nothing(three: Rig) -> None:
    last = three[1].journal.last_index
    three.allocate(1)
    three.turn(1)
    three.drop(1, 2)
    three.drop(1, 3)
    old = Ack(three[1].raft.term - 1, last + 2, reset=False, success=True)
    heard = three[1].raft.last_contact_s(NodeId(2))
    three.wait(0.01)
    three.deliver(2, 1, old)
    assert three[1].raft.match_index(NodeId(2)) == last
    assert three[1].raft.commit_index == last
    assert three[1].raft.last_contact_s(NodeId(2)) == heard, "it is no sign of life either"


def test_h2_an_ack_that_stalled_over_two_elections_does_not_commit_what_replaced_its_entry(five: Rig) -> None:
    """Five voters, pipes that stall but keep their order, no node crashes.

    Node 1 leads in term 1 and writes five entries that only node 2 gets; the ack for them stalls. Node 3
    leads in term 2, and its log replaces node 1's tail. Node 1 leads again in term 3 and writes at the same
    indexes: the stalled ack speaks of entries that are gone, and must not make a majority for the new ones.
    """
    rig = five
    for proposal in range(100, 107):  # more than the proposer would have in flight
        lost = Entry(ImageVersion(0), Term(1), NodeId(1), ProposalNumber(proposal))
        rig[1].raft.propose(encode_entry(lost))
    rig.turn(1)
    rig.deliver(1, 2)
    stalled = [frame for frame in rig.frames[NodeId(2), NodeId(1)] if isinstance(frame, Ack)][-1]
    rig.frames.clear()
    rig.disconnect(2)
    rig.elect(3, 3, 4, 5)
    rig.settle(1, 3, 4, 5)
    assert rig.commands(1) == rig.commands(3)
    rig.elect(1, 1, 4, 5)
    rig.settle(1, 4, 5)
    rig.connect(2)
    rig.frames.clear()

    told = rig.allocate(1)
    rig.turn(1)
    assert stalled.next_index == rig[1].journal.last_index + 1, "the ack would reach the new entry"
    rig.deliver(1, 4)
    rig.deliver(4, 1)
    rig.deliver(2, 1, stalled)
    assert told.codes == []

    rig.disconnect(1)
    rig.disconnect(4)
    rig.connect(2, 3, 5)
    for cut_off in (1, 4):
        for peer in (2, 3, 5):
            rig.part(cut_off, peer)
    rig.elect(5, 2, 3, 5)
    again = rig.allocate(5)
    rig.turn(5)
    rig.flow(2, 3, 5)
    assert again.codes == ["[0, 1000)"], "no client was given this block before"


def test_h2_an_ack_beyond_the_log_is_dropped(three: Rig) -> None:
    three.allocate(1)
    three.turn(1)
    three.frames.clear()
    commit, last = three[1].raft.commit_index, three[1].journal.last_index
    three.deliver(2, 1, Ack(three[1].raft.term, last + 2, reset=False, success=True))
    assert (three[1].raft.commit_index, three[1].raft.match_index(NodeId(2))) == (commit, commit)


def test_h2_an_ack_of_a_later_term_deposes(three: Rig) -> None:
    three.deliver(2, 1, Ack(three[1].raft.term + 3, 2, reset=False, success=True))
    assert (three[1].raft.role, three[1].raft.term) == (FOLLOWER, three[2].raft.term + 3)


# -- H3: voters are counted, not votes -------------------------------------------------------------------


def test_h3_a_vote_that_arrives_twice_counts_once(make_rig: MakeRig) -> None:
    rig = make_rig(5)
    rig.flow()
    rig.campaign(1)
    rig.deliver(1, 2)
    vote = rig.take(2, 1, Vote)
    rig.deliver(2, 1, vote, vote, vote)
    assert rig[1].raft.role == CANDIDATE
    rig.deliver(1, 3)
    rig.deliver(3, 1, rig.take(3, 1, Vote))
    assert rig[1].raft.role == LEADER


def test_h3_a_vote_of_an_earlier_candidacy_does_not_count(make_rig: MakeRig) -> None:
    rig = make_rig(5)
    rig.flow()
    rig.campaign(1)
    rig.deliver(1, 2)
    old = rig.take(2, 1, Vote)
    rig.campaign(1)
    rig.deliver(1, 3)
    rig.deliver(3, 1, rig.take(3, 1, Vote))
    rig.deliver(2, 1, old)
    assert rig[1].raft.role == CANDIDATE


# -- H4: a refusal that is late does not send a follower back ---------------------------------------------


def test_h4_a_late_refusal_does_not_move_the_next_index_below_what_was_acknowledged(three: Rig) -> None:
    peer = NodeId(2)
    before = three[1].raft.next_index(peer)
    assert three[1].raft.match_index(peer) == before - 1
    three.deliver(2, 1, Ack(three[1].raft.term, 2, reset=True, success=False))
    assert three[1].raft.next_index(peer) == before


def test_h4_a_refusal_that_is_news_does(three: Rig) -> None:
    three.allocate(1)
    three.turn(1)
    three.frames.clear()
    peer = NodeId(2)
    match = three[1].raft.match_index(peer)
    three.receive(1, peer, Ack(three[1].raft.term, match + 1, reset=True, success=False))
    assert three[1].raft.next_index(peer) == match + 1


def test_a_follower_with_a_conflict_far_behind_catches_up(five: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes several messages. The first is refused at the conflict, the others because they begin after
    the follower's end: their refusals must not move the leader forward again (simulation seed 22 of 400).
    """
    monkeypatch.setattr(fencepost.quorum.journal, "SLICE_MAX", 3)
    a_follower_with_junk(five)
    for _ in range(12):
        five.allocate(3)
        five.turn(3)
        five.flow(3, 4, 5)
    five.elect(4, 3, 5)  # it begins at its own end, and has to find the conflict
    five.meet(2, 4)
    five.join(2, 4)
    five.settle(2, 4)
    five.settle(2, 4)
    assert five.commands(2) == five.commands(4)


def test_an_ack_never_moves_the_next_index_back(three: Rig) -> None:
    """It would send everything again, twice over (H1)."""
    peer = NodeId(2)
    for _ in range(2):
        three.allocate(1)
        three.turn(1)
    sent = three[1].raft.next_index(peer)
    three.deliver(1, 2, entries_on_the_wire(three, 1, 2))
    three.receive(1, peer, three.take(2, 1, Ack))
    assert three[1].raft.next_index(peer) == sent


# -- H11, H13, H14: what pysyncobj must not send ------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"type": "apply_command", "command": b"\0x"}, id="forwarding"),
        pytest.param({"type": "apply_command_response", "request_id": 1}, id="answer-to-forwarding"),
        pytest.param(
            {"type": "append_entries", "transmission": "start", "data": b"", "term": 1, "commit_index": 1},
            id="chunked-entry",
        ),
    ],
)
def test_what_was_switched_off_halts_if_it_is_sent_after_all(three: Rig, message: Any) -> None:
    with pytest.raises(InvariantViolation):
        three[1].firewall.outgoing(NodeId(2), message)


# -- L1, L4, L5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(AppendEntries(1, 1, 1, 0, []), id="append"),
        pytest.param(Behind(1, 5), id="behind"),
        pytest.param(RequestVote(1, 9, 1), id="vote"),
        pytest.param(TimeoutNow(1), id="timeout-now"),
    ],
)
def test_l1_a_frame_of_an_old_term_is_answered_with_ours(
    three: Rig, message: AppendEntries | Behind | RequestVote | TimeoutNow
) -> None:
    three.elect(2)
    three.frames.clear()
    before = three.commands(3)
    three.deliver(1, 3, message)
    assert three.take(3, 1, NewerTerm).term == three[3].raft.term == 2
    assert three.commands(3) == before


def test_l1_a_leader_that_hears_of_a_later_term_steps_down_and_rests(three: Rig) -> None:
    three.deliver(3, 1, NewerTerm(7))
    assert (three[1].raft.role, three[1].raft.term) == (FOLLOWER, 7)
    three.turn(1)
    assert three[1].raft.term == 7, "L4: it does not campaign at once"


def test_l4_a_leader_that_lost_its_followers_rests_before_it_campaigns(make_rig: MakeRig) -> None:
    rig = make_rig(3, election_s=(0.3, 0.6))
    rig.elect(1)
    term = rig[1].raft.term
    for _ in range(7):
        rig.wait(0.1)
        rig.turn(1)
    assert rig[1].raft.role == FOLLOWER
    rig.turn(1)
    assert (rig[1].raft.role, rig[1].raft.term) == (FOLLOWER, term)


def test_l3_a_voter_that_was_away_does_not_campaign_at_once(make_rig: MakeRig) -> None:
    rig = make_rig(3, election_s=(0.3, 0.6))
    rig.elect(1)
    rig.wait(20.0)
    rig.turn(2)
    assert (rig[2].raft.role, rig[2].raft.term) == (FOLLOWER, rig[1].raft.term)


def test_two_leaders_in_one_term_halt(three: Rig) -> None:
    with pytest.raises(InvariantViolation, match="two leaders"):
        three.receive(1, 2, AppendEntries(three[1].raft.term, 1, 1, 0, []))


def test_l5_a_follower_that_is_behind_keeps_its_leader_alive(three: Rig) -> None:
    """No ack at all would let the leader fall back in the middle of a snapshot."""
    three.deliver(1, 2, Behind(three[1].raft.term, LogIndex(3)))
    ack = three.take(2, 1, Ack)
    assert (ack.success, ack.reset) == (False, False)
    heard = three[1].raft.last_contact_s(NodeId(2)) or 0.0
    three.wait(0.5)
    three.receive(1, 2, ack)
    assert (three[1].raft.last_contact_s(NodeId(2)) or 0.0) > heard


def test_entries_that_end_with_another_one_than_the_snapshot_does_are_refused(behind: Rig) -> None:
    catch_up(behind)
    first, term = behind[3].journal.first_index, behind[1].raft.term
    assert behind[3].journal.term_at(first) == term
    for last_term in (term, term + 1):
        entries = [(b"", first - 1, int(term)), (b"", int(first), last_term)]
        message = AppendEntries(term, first, first - 2, term, entries)
        refused = pytest.raises(InvariantViolation, match="below our snapshot")
        with nullcontext() if last_term == term else refused:
            behind.receive(3, 1, message)
