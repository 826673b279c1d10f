"""What one entry holds: decisions share it up to a cost, and each step of the loop ends after a while."""

from collections.abc import Sequence
from typing import Any

import pytest

import fencepost.quorum.draft
import fencepost.quorum.proposer
import fencepost.quorum.replica
from fencepost.controller.decision import Decision
from fencepost.controller.errors import InvalidRequest
from fencepost.controller.view import View
from fencepost.node.driver import Obligation, Turn
from fencepost.quorum.draft import DECISION_BYTES_MAX, DecisionTooLarge
from fencepost.quorum.linger import Linger
from fencepost.quorum.raft_log import APPLY_S_MAX
from fencepost.records.logged import ENTRY_COST_MAX, ROW_COST, bytes_of, cost_of, encode_record
from fencepost.records.types import NodeId
from tests.quorum.decisions import three_requests, transaction, writes
from tests.quorum.rig import Rig


def opened(name: str, topics: int, name_characters: int = 249) -> tuple[Any, Any]:
    return transaction(name), transaction(name, topics, name_characters)


def test_small_decisions_share_an_entry_up_to_the_budget(three: Rig) -> None:
    record = transaction("id-0000")
    each = cost_of(record, encode_record(record)[1])
    fit = -(-ENTRY_COST_MAX // each)  # the last one may pass the budget
    last = three[1].journal.last_index
    answers = [three.ask(1, writes(transaction(f"id-{index:04}"))) for index in range(fit + 1)]
    three.turn(1)
    three.flow()
    assert {code for each in answers for code in each.codes} == {"done"}
    assert three[1].journal.last_index == last + 2, "one more than fits into one entry"


def test_a_large_decision_that_does_not_fit_beside_others_gets_an_entry_of_its_own(three: Rig) -> None:
    last = three[1].journal.last_index
    wide = writes(*opened("wide", 4_000))
    asked = [three.allocate(1), three.ask(1, wide), three.allocate(1)]
    three.turn(1)
    three.flow()
    assert [each.codes for each in asked] == [["[0, 1000)"], ["done"], ["[1000, 2000)"]]
    assert three[1].journal.last_index == last + 3


@pytest.mark.parametrize("past", [0, 1], ids=["at-the-limit", "one-past-it"])
def test_a_decision_may_pass_the_budget_by_the_overshoot(
    three: Rig, monkeypatch: pytest.MonkeyPatch, past: int
) -> None:
    records = [transaction("first"), transaction("second")]
    cost = sum(cost_of(each, encode_record(each)[1]) for each in records)
    monkeypatch.setattr(fencepost.quorum.draft, "OVERSHOOT_COST_MAX", cost - past - ENTRY_COST_MAX)
    last = three[1].journal.last_index
    asked = [three.ask(1, writes(each)) for each in records]
    three.turn(1)
    three.flow()
    assert [each.codes for each in asked] == [["done"], ["done"]]
    assert three[1].journal.last_index == last + 1 + past


@pytest.mark.parametrize("past", [0, 1], ids=["at-the-limit", "one-past-it"])
def test_a_decision_that_fits_into_no_entry_is_refused(
    three: Rig, monkeypatch: pytest.MonkeyPatch, past: int
) -> None:
    records = opened("wide", 3)
    overhead = 2 * fencepost.quorum.draft.RECORD_OVERHEAD_BYTES_MAX
    size = sum(bytes_of(encode_record(each)[1]) for each in records) + overhead
    monkeypatch.setattr(fencepost.quorum.draft, "DECISION_BYTES_MAX", size - past)
    answered = three_requests(three, writes(*records))
    assert answered == [["[0, 1000)"], ["DecisionTooLarge" if past else "done"], ["[1000, 2000)"]]
    assert DecisionTooLarge.code == InvalidRequest.code


@pytest.mark.parametrize("topics", [1, pytest.param(2_000, marks=pytest.mark.slow), 15_000])
def test_a_decision_at_the_limit_is_an_entry_that_can_be_encoded(three: Rig, topics: int) -> None:
    """Many small records, or one that is as large as it may be: the batch's own bytes still fit."""
    records: list[Any] = list(opened("first", topics))
    size = sum(
        bytes_of(encode_record(each)[1]) + fencepost.quorum.draft.RECORD_OVERHEAD_BYTES_MAX
        for each in records
    )
    each = bytes_of(encode_record(transaction("id-000000"))[1])
    each += fencepost.quorum.draft.RECORD_OVERHEAD_BYTES_MAX
    records += (transaction(f"id-{number:06}") for number in range((DECISION_BYTES_MAX - size) // each))
    assert three.ask(1, writes(*records)).codes == []
    three.turn(1)
    three.flow()
    assert three[1].image.header.log_ends[1] == len(records)
    assert three[1].proposer.violations.total() == 0


def test_what_a_batch_writes_around_small_records_counts(three: Rig) -> None:
    each = bytes_of(encode_record(transaction("id-00000"))[1])
    records = [transaction(f"id-{index:05}") for index in range(DECISION_BYTES_MAX // each)]
    assert three_requests(three, writes(*records))[1] == ["DecisionTooLarge"]
    assert three[1].proposer.violations.total() == 0


def test_deciding_takes_so_much_time_and_the_rest_waits_for_the_next_entry(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_view: View, _now_ms: int) -> Decision[Any]:
        three.now += fencepost.quorum.proposer.DECIDE_S_MAX
        return Decision((), "read")

    last = three[1].journal.last_index
    answers = [three.ask(1, slow) for _ in range(4)]
    three.turn(1)
    three.flow()
    assert [each.codes for each in answers] == [["read"]] * 4
    assert three[1].journal.last_index == last + 2


def test_answering_takes_so_much_time_and_ticks_come_between(three: Rig) -> None:
    given: list[int] = []

    def slow(_outcome: Any, _throttle_ms: int) -> None:
        three.now += fencepost.quorum.proposer.ANSWER_S_MAX
        given.append(three[1].turns)  # type: ignore[attr-defined]

    ticks = three[1].raft.tick
    three[1].turns = 0  # type: ignore[attr-defined]

    def counted(**how: Any) -> None:
        three[1].turns += 1  # type: ignore[attr-defined]
        ticks(**how)

    three[1].raft.tick = counted  # type: ignore[method-assign]
    for _ in range(6):
        three.submit(1, lambda _view, _now: Decision((), None), slow)
    three.turn(1)
    three.flow()
    assert len(given) == 6
    assert len(set(given)) == 3, "two at a time, a tick between"


def test_committed_entries_are_applied_for_so_long_at_a_time(three: Rig) -> None:
    for _ in range(6):
        three.allocate(1)
        three.turn(1)
        three.flow(1, 3)
    follower, applied = three[2], three[2].raft._on_committed
    at_once = [0]

    def slow(*what: Any) -> bool:
        three.now += 0.6 * APPLY_S_MAX
        at_once[-1] += 1
        return applied(*what)

    follower.raft._on_committed = slow
    three.heartbeat(1)
    three.receive(2, 1, *three.frames.pop((NodeId(1), NodeId(2))))
    while Turn in map(type, three.step(2)):
        at_once.append(0)
    assert sum(at_once) >= 6
    assert max(at_once) == 2
    three.flow()
    three.settle()
    assert len(set(three.images().values())) == 1


def test_room_is_what_the_entry_still_holds(three: Rig) -> None:
    seen: list[int] = []

    def looks(view: View, _now_ms: int) -> Decision[Any]:
        seen.append(view.room)
        return Decision((transaction(f"id-{len(seen)}"),), "done")

    for _ in range(3):
        three.ask(1, looks)
    three.turn(1)
    three.flow()
    cost = seen[0] - seen[1]
    assert seen == [ENTRY_COST_MAX, ENTRY_COST_MAX - cost, ENTRY_COST_MAX - 2 * cost]


def test_what_replaying_a_decision_costs_beyond_its_records_counts(three: Rig) -> None:
    """Deleting a topic is one small record, and as many rows as it has partitions."""
    rows = ENTRY_COST_MAX // ROW_COST // 2
    last = three[1].journal.last_index
    deletes = [
        three.ask(1, writes(transaction(f"id-{number}"), extra_cost=ROW_COST * rows)) for number in range(4)
    ]
    three.turn(1)
    three.flow()
    assert [each.codes for each in deletes] == [["done"]] * 4
    assert three[1].journal.last_index == last + 2


@pytest.mark.parametrize("slow", ["nothing", "apply", "reply"])
def test_what_a_long_turn_has_no_time_for_is_the_next_ones(
    three: Rig, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    """Entries are applied, requests answered, the next entry is proposed: in one turn only if it is short."""
    monkeypatch.setattr(Linger, "over", lambda *_: True)
    leader = three[1]
    turns: dict[str, int] = {}
    count = [0]
    ticks, applied, proposes = leader.raft.tick, leader.raft._on_committed, leader.raft.propose

    def tick(**how: Any) -> None:
        count[0] += 1
        ticks(**how)

    def apply(*what: Any) -> bool:
        three.now += 2 * APPLY_S_MAX * (slow == "apply")
        turns["apply"] = count[0]
        leader.raft._on_committed = applied
        return applied(*what)

    def reply(_outcome: Any, _throttle_ms: int) -> None:
        three.now += 2 * APPLY_S_MAX * (slow == "reply")
        turns["reply"] = count[0]

    def propose(payload: bytes) -> Any:
        turns.setdefault("propose", count[0])
        return proposes(payload)

    three.submit(1, lambda _view, _now: Decision((), None), reply)
    three.turn(1)
    leader.raft.tick = tick  # type: ignore[method-assign]
    leader.raft._on_committed = apply
    leader.raft.propose = propose  # type: ignore[method-assign]
    after = three.allocate(1)
    three.flow()
    assert (turns["apply"] < turns["propose"]) is (slow != "nothing")
    assert after.codes == ["[0, 1000)"]


def test_a_node_whose_every_tick_is_long_serves_all_the_same(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = three[1].raft.tick

    def tick(**how: Any) -> None:
        ticks(**how)
        three.now += 2 * APPLY_S_MAX

    monkeypatch.setattr(three[1].raft, "tick", tick)
    answers = three.allocate(1)
    for _ in range(10):
        three.turn(1)
        for pair in [pair for pair, waiting in three.frames.items() if waiting]:
            three.deliver(*pair)
    assert answers.codes == ["[0, 1000)"]


def test_rows_are_saved_in_a_turn_of_their_own(three: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.replica, "ROWS_UNSAVED_MAX", 0)
    leader = three[1]
    saved, ticked, turned = leader.store.image.save, leader.raft.tick, three.step
    steps: list[str] = []

    def save() -> None:
        steps.append("save")
        saved()

    def tick(**how: Any) -> None:
        steps.append("tick")
        ticked(**how)

    def turn(node: int) -> Sequence[Obligation]:
        if node == 1:
            steps.append("turn")
        return turned(node)

    monkeypatch.setattr(type(leader.store.image), "save", lambda _image: save())
    monkeypatch.setattr(leader.raft, "tick", tick)
    monkeypatch.setattr(three, "step", turn)
    answers = three.allocate(1)
    three.turn(1)
    three.flow(1, 2)
    three.turn(1)
    assert answers.codes == ["[0, 1000)"]
    assert leader.store.image.rows_unsaved == 0
    after = [then for step, then in zip(steps, [*steps[1:], "turn"], strict=True) if step == "save"]
    assert after
    assert set(after) == {"turn"}
