"""Answers: when they leave, what they say, and what is never said.

An answer leaves when an entry of its batch is applied; a refusal of leadership only for what is definitely
not done; what cannot be known is said to be unknown (docs/design.md 2).
H11, H12, H16 of docs/raft-hazards.md.
"""

import pytest

import fencepost.quorum.draft
import fencepost.quorum.proposer
import fencepost.quorum.snapshotter
from fencepost.quorum.linger import Linger
from fencepost.quorum.messages import AppendEntries, NewerTerm
from fencepost.quorum.proposer import OUTCOME_WAIT_S, PATIENCE_S
from fencepost.quorum.raft_log import FOLLOWER
from fencepost.records.control import LeaderChange
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import NodeId
from tests.quorum.clients import Answers
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

# -- group commit ----------------------------------------------------------------------------------------


def test_requests_that_wait_are_decided_together_each_on_the_one_before(three: Rig) -> None:
    first = three.allocate(1)
    three.turn(1)
    waiting = [three.allocate(1) for _ in range(3)]
    last = three[1].journal.last_index
    three.turn(1)
    assert three[1].journal.last_index == last, "one entry in flight"
    three.flow()
    assert first.codes == ["[0, 1000)"]
    assert [w.codes for w in waiting] == [["[1000, 2000)"], ["[2000, 3000)"], ["[3000, 4000)"]]
    assert three[1].journal.last_index == last + 1, "one entry for the three"


def test_control_records_are_an_entry_of_their_own_before_what_waits(three: Rig) -> None:
    waits = three.allocate(1)
    sound = LeaderChange(leader_id=NodeId(1))
    assert three[1].proposer.submit_control(lambda _image: (sound,))
    last = three[1].journal.last_index
    three.turn(1)
    assert three[1].journal.last_index == last + 1, "one entry in flight"
    three.flow()
    assert waits.codes == ["[0, 1000)"]
    assert three[1].journal.last_index == last + 2


def test_an_entry_holds_so_many_decisions_and_no_more(three: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.draft, "DECISIONS_MAX", 2)
    last = three[1].journal.last_index
    answers = [three.allocate(1) for _ in range(5)]
    three.turn(1)
    three.flow()
    assert [a.codes for a in answers] == [[f"[{n * 1000}, {n * 1000 + 1000})"] for n in range(5)]
    assert three[1].journal.last_index == last + 3


def test_an_hour_of_a_leadership_has_as_many_milliseconds(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposer = three[1].proposer
    began_ms = proposer.now_ms()
    clock = proposer._clock
    monkeypatch.setattr(proposer, "_clock", lambda: clock() + 3600)
    assert abs(proposer.now_ms() - began_ms - 3_600_000) <= 1


# -- deferrable ------------------------------------------------------------------------------------------


def ask_patiently(rig: Rig) -> Answers:
    answers = Answers()
    rig.submit(1, rig.decide_allocate(1), answers, deferrable=True)
    return answers


def test_a_patient_request_goes_with_the_next_entry_before_what_came_after_it(three: Rig) -> None:
    last = three[1].journal.last_index
    deferrable = ask_patiently(three)
    three.turn(1)
    assert three[1].journal.last_index == last
    assert not three[1].proposer.lingering, "it is not urgent: the next tick is soon enough"
    other = three.allocate(1)
    three.turn(1)
    three.flow()
    assert (deferrable.codes, other.codes) == (["[0, 1000)"], ["[1000, 2000)"])
    assert three[1].journal.last_index == last + 1


def test_patience_ends(three: Rig) -> None:
    last = three[1].journal.last_index
    deferrable = ask_patiently(three)
    three.wait(PATIENCE_S * 0.8)
    later = ask_patiently(three)  # one more does not prolong it
    three.turn(1)
    assert three[1].journal.last_index == last
    three.wait(PATIENCE_S * 0.2 + 1e-9)
    three.turn(1)
    three.flow()
    assert (deferrable.codes, later.codes) == (["[0, 1000)"], ["[1000, 2000)"])
    assert three[1].journal.last_index == last + 1


def test_a_patient_request_that_waits_behind_others_has_no_time_of_its_own(three: Rig) -> None:
    first = three.allocate(1)
    three.turn(1)
    answers = [three.allocate(1), ask_patiently(three)]
    three.flow()
    assert [each.codes for each in (first, *answers)] == [["[0, 1000)"], ["[1000, 2000)"], ["[2000, 3000)"]]


def test_a_patient_request_of_a_deposed_leader_is_told_so(three: Rig) -> None:
    deferrable = ask_patiently(three)
    three.turn(1)
    three.receive(1, 2, NewerTerm(9))
    assert deferrable.codes == ["NotController"]


def test_nobody_is_expected_back_after_a_patient_request(three: Rig) -> None:
    ask_patiently(three)
    three.wait(PATIENCE_S)
    three.turn(1)
    three.flow()
    now = three.now
    answers = three.allocate(1)
    three.turn(1)
    assert three.now == now, "proposed at once"
    three.flow()
    assert answers.codes == ["[1000, 2000)"]


def test_an_entry_ends_with_the_decision_that_fills_it(three: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.draft, "ENTRY_COST_MAX", 1)
    last = three[1].journal.last_index
    for _ in range(2):
        three.allocate(1)
    three.turn(1)
    three.flow()
    assert three[1].journal.last_index == last + 2


def test_one_request_too_many_is_sent_away_and_nothing_is_done(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.quorum.proposer, "PENDING_MAX", 2)
    taken = [three.allocate(1) for _ in range(2)]
    assert three.allocate(1).codes == ["NotController"]
    three.turn(1)
    three.flow()
    assert [len(each.all) for each in taken] == [1, 1]


# -- answers ride on an entry ------------------------------------------------------------------------------


def ask_everything(rig: Rig, node: int) -> dict[str, Answers]:
    """A success that writes, a refusal that depends on the image, and a read."""
    return {
        "allocate": rig.allocate(node),
        "refusal": rig.allocate(node, epoch=99),
        "read": rig.read(node),
    }


def test_every_answer_waits_for_its_entry(three: Rig) -> None:
    asked = ask_everything(three, 1)
    three.turn(1)
    assert {name: answers.codes for name, answers in asked.items()} == {
        "allocate": [],
        "refusal": [],
        "read": [],
    }
    three.flow()
    assert {name: answers.codes for name, answers in asked.items()} == {
        "allocate": ["[0, 1000)"],
        "refusal": ["StaleBrokerEpoch"],
        "read": ["1000"],
    }


def test_a_read_alone_waits_for_an_entry_too(three: Rig) -> None:
    answers = three.read(1)
    three.turn(1)
    assert answers.codes == []
    three.flow()
    assert answers.codes == ["0"]


def test_h16_a_deposed_leader_tells_nobody_anything_about_the_image(three: Rig) -> None:
    """It does not know it yet: the others elected node 2 and gave out a block that node 1 never saw."""
    for peer in (2, 3):
        three.part(1, peer)
    three.elect(2, 3)
    three.allocate(2)
    three.turn(2)
    three.flow(2, 3)
    assert three[1].proposer.active
    asked = ask_everything(three, 1)
    three.turn(1)
    assert [answers.codes for answers in asked.values()] == [[], [], []]
    three.connect(1)
    three.settle()
    assert {name: answers.codes for name, answers in asked.items()} == {
        "allocate": ["NotController"],
        "refusal": ["NotController"],
        "read": ["NotController"],
    }
    assert three.images() == {1: 1000, 2: 1000, 3: 1000}


# -- the outcome is learned at apply -----------------------------------------------------------------------


def reach_only_node_2(rig: Rig) -> Answers:
    """Node 1 proposes an allocation that reaches node 2; then no node hears node 1 any more."""
    answers = rig.allocate(1)
    rig.turn(1)
    rig.deliver(1, 2)
    rig.disconnect(1)
    return answers


def test_an_entry_that_outlives_its_leadership_is_answered_with_success(three: Rig) -> None:
    """Node 2 has it, is elected, and commits it. Its proposer learns that as a follower, and says so."""
    answers = reach_only_node_2(three)
    three.elect(2, 3)
    assert three.images([2]) == {2: 1000}
    assert answers.codes == []
    three.connect(1)
    three.settle()
    assert three[1].raft.role == FOLLOWER
    assert answers.codes == ["[0, 1000)"]


def test_an_entry_that_was_replaced_is_answered_as_not_done(three: Rig) -> None:
    answers = three.allocate(1)
    three.turn(1)
    three.disconnect(1)
    three.elect(2, 3)
    three.connect(1)
    three.settle()
    assert answers.codes == ["NotController"]
    assert three.images() == {1: 0, 2: 0, 3: 0}


def test_what_was_never_proposed_is_definitely_not_done(three: Rig) -> None:
    in_flight = three.allocate(1)
    three.turn(1)
    waiting = three.allocate(1)
    three.deliver(3, 1, NewerTerm(9))
    assert waiting.codes == ["NotController"]
    assert in_flight.codes == [], "this one may still be done"


def test_losing_leadership_says_nothing_about_what_is_in_flight(three: Rig) -> None:
    """Its entry reached node 2. "Not leader" would be a lie: it is about to be done."""
    answers = reach_only_node_2(three)
    three.deliver(3, 1, NewerTerm(2))
    assert three[1].raft.role == FOLLOWER
    three.maintenance_tick(1)
    assert answers.codes == []


def test_an_unknown_outcome_is_reported_as_unknown_once(three: Rig) -> None:
    answers = reach_only_node_2(three)
    three.wait(OUTCOME_WAIT_S - 0.1)
    three.maintenance_tick(1)
    assert answers.codes == []
    three.wait(0.2)
    three.maintenance_tick(1)
    assert answers.codes == ["RequestTimedOut"]
    three.elect(2, 3)
    three.connect(1)
    three.settle()
    three.maintenance_tick()
    assert answers.codes == ["RequestTimedOut"], "the reply said unknown; that it was done comes too late"
    assert three.images() == {1: 1000, 2: 1000, 3: 1000}


def test_a_leader_elected_again_learns_the_fate_of_its_earlier_proposal(three: Rig) -> None:
    """Deposed, no other became active, elected again: the entry is in its own log, and commits."""
    answers = three.allocate(1)
    three.turn(1)
    three.frames.clear()
    three.deliver(3, 1, NewerTerm(5))
    assert answers.codes == []
    three.elect(1)
    assert answers.codes == ["[0, 1000)"]
    assert three.images([1]) == {1: 1000}


def test_a_snapshot_that_skips_an_entry_leaves_its_fate_unknown(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry was committed by the next leader, but node 1 gets it as part of a snapshot.

    The leadership change that follows does not prove that it was superseded.
    """
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=5)
    rig.elect(1)
    rig.register(1)
    answers = reach_only_node_2(rig)
    rig.elect(2, 3)
    assert rig.images([2]) == {2: 1000}
    for _ in range(8):
        rig.read(2)
        rig.turn(2)
        rig.flow(2, 3)
    rig.maintenance_tick(2)
    rig.work()
    assert rig[2].journal.first_index > rig[1].journal.last_index
    rig.connect(1)
    for _ in range(12):
        rig.heartbeat()
        rig.flow()
        rig.maintenance_tick(1)
        rig.flow()
    assert rig.images() == {1: 1000, 2: 1000, 3: 1000}
    rig.elect(3)
    rig.settle()
    assert rig[1].image.header.leader_id == 3
    assert answers.codes == ["RequestTimedOut"]


# -- our bugs, and others' ---------------------------------------------------------------------------------


def test_h12_an_exception_while_an_entry_is_applied_reaches_the_driver_and_is_not_tried_again(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pysyncobj would catch it in its own thread and apply the entry again on every tick."""
    calls = []

    def fails(*_: object) -> None:
        calls.append(1)
        raise OSError("the disk is gone")

    monkeypatch.setattr(three[2].archiver, "applied", fails)
    three.allocate(1)
    three.turn(1)
    three.flow()
    three.heartbeat(1)
    with pytest.raises(OSError, match="the disk is gone"):
        three.deliver(1, 2)
    assert len(calls) == 1


def test_h11_a_follower_never_sends_a_proposal_to_its_leader(three: Rig) -> None:
    with pytest.raises(InvariantViolation, match="does not lead"):
        three[2].raft.propose(b"\xfe")
    three.step(2)
    assert not three.frames[NodeId(2), NodeId(1)]


def test_h11_what_comes_into_the_cores_own_queue_is_never_appended_nor_forwarded(three: Rig) -> None:
    for node in (1, 2):
        raft, last = three[node].raft, three[node].journal.last_index
        raft._applyCommand(b"\xfe", None)
        three.turn(node)
        assert three[node].journal.last_index == last
    assert not three.frames[NodeId(2), NodeId(1)]


def test_entries_leave_before_the_leaders_own_flush(three: Rig) -> None:
    """The followers' flushes overlap with the leader's; nothing else may leave before it."""
    unflushed = []
    three.on_send = lambda replica, _target, message: unflushed.append(
        (isinstance(message, AppendEntries) and bool(message.entries), replica.journal.must_flush)
    )
    three.allocate(1)
    three.step(1)
    assert unflushed == [(True, True), (True, True)]


def test_who_was_answered_is_expected_again_from_the_first_entry_on(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[int] = []
    monkeypatch.setattr(Linger, "expect", lambda _, count, *__: expected.append(count))
    rig = make_rig(1)
    rig.elect(1)
    rig.register(1)
    assert set(expected) == {1}, "each entry answered one request"
