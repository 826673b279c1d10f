"""The driver: which obligations an event leads to, in which order, and what ends it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.decision import Decision
from fencepost.controller.errors import NotController, StorageFull
from fencepost.controller.features import FEATURES, METADATA_VERSION
from fencepost.controller.view import View
from fencepost.node.driver import (
    SERVICE_LOG_S,
    TURN,
    CallAfter,
    Driver,
    Halt,
    Obligations,
    TickAfter,
    Turn,
)
from fencepost.quorum.linger import LINGER_S
from fencepost.quorum.messages import Ack, AppendEntries, RequestVote, TimeoutNow
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.levels import LEVEL_MAX
from fencepost.snapshots.store import HALTING
from tests.node.stage import FREE_MIN, ONE, THREE, TWO, Replies, Stage, kinds


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Stage]:
    """One voter, active."""
    stage = Stage(tmp_path)
    stage.elect()
    yield stage
    stage.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Stage]:
    """Three voters; node 1 is active, and nothing is on its way."""
    stage = Stage(tmp_path, 3)
    stage.elect()
    yield stage
    stage.close()


# -- the order -------------------------------------------------------------------------------------------


def test_entries_leave_before_the_flush_and_acknowledgements_after_it(three: Stage) -> None:
    replies = three.submit(1)
    before = dict(three.flushes)
    proposed = three.turn(1)
    assert kinds(proposed) == ["AppendEntries", "AppendEntries", "Turn"]
    assert three.flushes == before, "the leader flushed before its entry was with the sockets"
    acknowledged = three.deliver()
    assert kinds(acknowledged) == ["Ack"]
    assert three.flushes[TWO] == before[TWO] + 1, "acknowledged without a flush"
    assert replies.all == []
    three.turn(1)
    assert three.flushes[ONE] == before[ONE] + 1
    three.rest()
    assert replies.all == ["done"]


def test_a_vote_leaves_after_its_flush(three: Stage) -> None:
    three.campaign(2)
    before = dict(three.flushes)
    assert kinds(three.turn(2)) == ["Turn"], "it asked for votes before its own was on disk"
    assert kinds(three.turn(2)) == ["RequestVote", "RequestVote"]
    assert three.flushes[TWO] == before[TWO] + 1
    asked = [(s, t, m) for s, t, m in three.wire if isinstance(m, RequestVote) and t == THREE]
    three.wire[:] = asked
    assert kinds(three.deliver()) == ["Vote"]
    assert three.flushes[THREE] == before[THREE] + 1


def test_a_turn_is_the_last_obligation_and_only_one_is_out(three: Stage) -> None:
    first, second = three.submit(1, "first"), three.submit(1, "second")
    assert three.soon == [ONE]
    assert three.tick(1) == []
    proposed = three.turn(1)
    assert isinstance(proposed[-1], Turn)
    assert proposed.count(TURN) == 1
    three.rest()
    assert (first.all, second.all) == (["first"], ["second"])


def test_a_frame_that_comes_while_a_turn_is_out_waits_for_it(three: Stage) -> None:
    three.submit(1)
    three.turn(1)
    three.wire[:] = [frame for frame in three.wire if frame[1] == TWO]
    three.tick(2)
    before = three.flushes[TWO]
    assert three.deliver() == []
    assert three.flushes[TWO] == before
    assert kinds(three.turn(2)) == ["Ack"]


def test_requests_that_wait_for_company_are_proposed_without_a_periodic_tick(three: Stage) -> None:
    """Two were just answered, one comes again: its entry waits for the other, but not for long."""
    three.submit(1)
    three.submit(1)
    three.rest()
    again = three.submit(1)
    assert three.turn(1) == [TickAfter(LINGER_S)]
    three.rest()
    assert again.all == ["done"]


def test_of_those_waited_for_the_first_and_the_last_ask_for_a_turn(three: Stage) -> None:
    for _ in range(3):
        three.submit(1)
    three.rest()
    three.submit(1)
    assert three.turn(1) == [TickAfter(LINGER_S)]
    three.submit(1)
    assert three.soon == []
    three.submit(1)
    assert three.soon == [ONE]


def test_a_deferrable_request_is_none_of_those_waited_for(three: Stage) -> None:
    for _ in range(2):
        three.submit(1)
    three.rest()
    again, deferrable = three.submit(1), three.submit(1, deferrable=True)
    assert three.turn(1) == [TickAfter(LINGER_S)], "it was proposed without the second client's"
    three.rest()
    assert (again.all, deferrable.all) == (["done"], ["done"])


def test_a_patient_request_alone_asks_for_no_turn(alone: Stage) -> None:
    assert alone.submit(1, deferrable=True).all == []
    assert alone.soon == []


def test_what_a_reply_submits_is_obliged_to_by_the_event_that_replied(alone: Stage) -> None:
    """No obligation is carried out in the middle of an event."""
    inner: list[Obligations] = []
    replies = Replies()
    driver = alone[1]

    def again(_outcome: Any, _throttle_ms: int) -> None:
        inner.append(driver.submit(_nothing, replies))
        inner.append(driver.background(lambda: None, lambda _result: None))

    alone.carry_out(1, driver.submit(_nothing, again))
    outer: Obligations = ()
    while not inner:
        outer = alone.turn(1)
    assert inner == [(), ()]
    assert (kinds(outer)[0], kinds(outer)[-1]) == ("Background", "Turn")


def _nothing(_view: View, _now_ms: int) -> Decision[None]:
    return Decision((), None)


# -- a full disk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free_bytes", "outcome"),
    [
        pytest.param(FREE_MIN, "done", id="just-enough"),
        pytest.param(FREE_MIN - 1, StorageFull, id="one-byte-too-few"),
        pytest.param(0, StorageFull, id="none"),
    ],
)
def test_a_leader_decides_while_there_is_room(three: Stage, free_bytes: int, outcome: object) -> None:
    three.carry_out(1, three[1].sweep(free_bytes))
    replies = three.submit(1)
    if outcome is StorageFull:
        assert (replies.all, three.soon) == ([StorageFull], []), "refused at once, nothing is written"
    three.rest()
    assert replies.all == [outcome]
    three.carry_out(1, three[1].sweep(FREE_MIN))
    replies = three.submit(1)
    three.rest()
    assert replies.all == ["done"]


def test_a_follower_without_room_sends_clients_to_the_leader(three: Stage) -> None:
    three.carry_out(2, three[2].sweep(0))
    assert three.submit(2).all == [NotController]


def test_a_follower_without_room_still_acknowledges(three: Stage) -> None:
    three.carry_out(2, three[2].sweep(0))
    three.submit(1)
    three.turn(1)
    assert kinds(three.deliver()) == ["Ack"]


def test_a_full_disk_is_logged_when_it_begins_and_when_it_ends(alone: Stage) -> None:
    for free_bytes in (0, 1, FREE_MIN - 1, FREE_MIN, FREE_MIN + 1, 5):
        alone.carry_out(1, alone[1].sweep(free_bytes))
    assert alone.lines[ONE].events == ["disk_full", "disk_has_room", "disk_full"]


# -- services --------------------------------------------------------------------------------------------


def test_services_hear_of_the_leadership_and_its_timers_while_it_lasts(three: Stage) -> None:
    notes = three.notes[ONE].record_heartbeat
    assert notes == ["activated"]
    three[1].maintain()
    three[1].sweep(FREE_MIN)
    assert notes == ["activated", "maintain", "sweep"]
    three.carry_out(1, three[1].received(TWO, AppendEntries(99, 1, 1, 0, [])))
    three.rest()
    assert notes[-1] == "deposed"
    three[1].maintain()
    three[1].sweep(FREE_MIN)
    assert notes == ["activated", "maintain", "sweep", "deposed"]
    assert three.notes[TWO].record_heartbeat == []


def test_the_first_leader_writes_the_features(alone: Stage) -> None:
    assert alone[1].replica.image.get(FEATURES, METADATA_VERSION) is not None


@pytest.mark.parametrize("timer", ["maintain", "sweep"])
@pytest.mark.parametrize("failure", [InvariantViolation("ours"), ValueError("ours"), RecursionError()])
def test_a_services_timer_that_fails_stops_nothing_else(alone: Stage, timer: str, failure: Exception) -> None:
    notes = alone.notes[ONE]
    notes.failure = failure
    calm = type(notes)()
    driver = alone[1]
    driver.services = (notes, calm)

    def due() -> Obligations:
        return driver.sweep(FREE_MIN) if timer == "sweep" else driver.maintain()

    for _ in range(3):
        assert due() == []
    assert calm.record_heartbeat == [timer] * 3
    assert alone.lines[ONE].events == ["service_failed"], "once, not at every tick"
    assert driver.replica.proposer.violations == {f"Notes.{timer}": 3}
    alone.now += SERVICE_LOG_S
    due()
    assert alone.lines[ONE].events == ["service_failed"] * 2
    replies = alone.submit(1)
    alone.rest()
    assert replies.all == ["done"]


@pytest.mark.parametrize(
    "failure", [OSError(), MemoryError(), CorruptData("bytes"), HALTING[0]("map")], ids=repr
)
def test_a_disk_or_a_machine_that_fails_halts_also_in_a_services_timer(
    alone: Stage, failure: Exception
) -> None:
    alone.notes[ONE].failure = failure
    assert alone[1].maintain() == [Halt("maintain", failure)]


# -- work elsewhere --------------------------------------------------------------------------------------


def test_work_of_a_service_is_done_elsewhere_and_comes_back_as_an_event(alone: Stage) -> None:
    results: list[object] = []
    alone.carry_out(1, alone[1].background(lambda: "found", results.append))
    ((_, job),) = alone.jobs
    assert results == []
    job.task.run()
    assert results == []
    assert alone[1].ended(job.task) == [TURN]
    assert results == ["found"]


def test_a_services_timer_is_an_event_that_obliges_to_what_it_submits(alone: Stage) -> None:
    replies = Replies()

    def due() -> None:
        assert alone[1].submit(_nothing, replies) == (), "the event is not over"

    (timer,) = alone[1].call_later(0.5, due)
    assert timer == CallAfter(0.5, due)
    alone.carry_out(1, alone[1].resume(due))
    assert alone.soon == [ONE]
    alone.rest()
    assert replies.all == [None]


@pytest.mark.parametrize("failure", [InvariantViolation("ours"), ValueError("ours")], ids=repr)
def test_a_step_of_a_service_that_fails_stops_nothing_else(three: Stage, failure: Exception) -> None:
    """A timer, another node's answer, the result of a thread: no request's decision, but of the same kind."""
    driver = three[1]

    def fails(*_: object) -> None:
        raise failure

    three.carry_out(1, driver.background(lambda: None, fails))
    ((_, job),) = three.jobs
    assert driver.resume(fails) == driver.resume(fails, "an answer") == []
    three.carry_out(1, driver.ended(job.task))
    assert driver.replica.proposer.violations.total() == 3
    assert three.lines[ONE].events == ["service_failed"]
    replies = three.submit(1)
    three.rest()
    assert replies.all == ["done"]


@pytest.mark.parametrize(
    "failure", [OSError(), MemoryError(), CorruptData("bytes"), HALTING[0]("map")], ids=repr
)
def test_a_step_of_a_service_halts_for_a_disk_or_a_machine_that_fails(
    alone: Stage, failure: Exception
) -> None:
    def fails(*_: object) -> None:
        raise failure

    assert alone[1].resume(fails) == [Halt(fails.__qualname__, failure)]


# -- halting ---------------------------------------------------------------------------------------------

EVENTS: list[tuple[str, str, Callable[[Driver], Obligations]]] = [
    ("turn", "turn", lambda driver: driver.turn()),
    ("received", "received", lambda driver: driver.received(TWO, TimeoutNow(1))),
    ("met", "met", lambda driver: driver.met(TWO, driver.replica.config.directory_id, {}, LEVEL_MAX)),
    ("connected", "connected", lambda driver: driver.connected(TWO)),
    ("disconnected", "disconnected", lambda driver: driver.disconnected(TWO)),
    ("lost", "lost", lambda driver: driver.lost(TWO)),
    ("maintain", "maintenance_tick", lambda driver: driver.maintain()),
    ("hand_over", "hand_over", lambda driver: driver.hand_over()),
]
FAILURES = [
    InvariantViolation("ours"),
    OSError(5, "I/O"),
    MemoryError(),
    CorruptData("bytes"),
    HALTING[0]("map"),
]


@pytest.mark.parametrize(("event", "step", "call"), EVENTS, ids=[event for event, _, _ in EVENTS])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_an_event_that_raises_halts_and_says_nothing(
    three: Stage,
    monkeypatch: pytest.MonkeyPatch,
    event: str,
    step: str,
    call: Callable[[Driver], Obligations],
    failure: Exception,
) -> None:
    """Not even the frames that it had made; and nothing that comes later does anything."""
    driver = three[1]
    waiting = three.submit(1)

    def fails(*_: object) -> bool:
        driver.replica._transport._send(TWO, b"made before it failed")
        raise failure

    monkeypatch.setattr(driver.replica, step, fails)
    assert call(driver) == [Halt(event, failure)]
    monkeypatch.undo()
    assert [again(driver) for _, _, again in EVENTS] == [()] * len(EVENTS)
    assert waiting.all == three.submit(1).all == []


def test_a_result_that_cannot_be_taken_halts_by_name(alone: Stage) -> None:
    failure = OSError(5, "I/O")

    def snapshot_written(_result: object) -> None:
        raise failure

    assert alone[1].completed(snapshot_written, None) == [Halt(snapshot_written.__qualname__, failure)]


# -- stopping --------------------------------------------------------------------------------------------


def test_after_a_stop_nothing_leaves(three: Stage) -> None:
    """An entry is in flight and acknowledged: its outcome is unknown to the client, and stays so."""
    driver = three[1]
    waiting = three.submit(1)
    three.turn(1)
    three.deliver()
    ack = next(message for _, target, message in three.wire if target == ONE and isinstance(message, Ack))
    driver.stop()
    after: list[Obligations] = [call(driver) for _, _, call in EVENTS]
    after += [driver.received(TWO, ack), driver.tick(), driver.sweep(FREE_MIN), driver.turn()]
    after += [driver.completed(lambda: waiting("late")), driver.submit(_nothing, waiting)]
    assert after == [()] * len(after)
    assert waiting.all == []
