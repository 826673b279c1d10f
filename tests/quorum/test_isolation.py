"""What goes wrong before an entry is proposed, or while an answer is given, harms one request.

A failure is planted in each step of one request among three; the two others must not notice. What the store
raises, and a committed record that cannot apply, halt as ever.
"""

from collections.abc import Callable
from typing import Any, cast

import lmdb
import pytest
from structlog.typing import FilteringBoundLogger

import fencepost.controller.replay
import fencepost.quorum.draft
import fencepost.quorum.proposer
from fencepost.controller.decision import Decision
from fencepost.controller.transactions.states import TRANSACTIONS
from fencepost.controller.view import View
from fencepost.quorum.raft_log import FOLLOWER, UNLED_S
from fencepost.quorum.succession import YIELD_PERIOD_S, YIELD_S_MAX
from fencepost.records.batch import encode_batch
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.transaction_log import TransactionStateRecord
from fencepost.records.types import Term
from fencepost.snapshots.image import image_digest
from fencepost.wire.limited_log import INTERVAL_S, LINES_MAX, LimitedLog
from tests.quorum.clients import Silence
from tests.quorum.conftest import MakeRig
from tests.quorum.decisions import three_requests, transaction, writes
from tests.quorum.rig import Rig

FAILURES = [InvariantViolation("our bug"), ZeroDivisionError("a bug"), KeyError("x"), RecursionError("deep")]
HALTS = [lmdb.Error("the disk"), MemoryError(), CorruptData("own row"), OSError(5, "EIO")]
by_name: dict[str, Any] = {"ids": lambda error: type(error).__name__}


def alone(make_rig: MakeRig) -> Rig:
    rig = make_rig(1)
    rig.elect(1)
    return rig


def raises(error: Exception) -> Callable[[View, int], Decision[Any]]:
    def decide(_view: View, _now_ms: int) -> Decision[Any]:
        raise error

    return decide


HARMED = [["[0, 1000)"], ["UnknownServerError"], ["[1000, 2000)"]]


@pytest.mark.parametrize("error", FAILURES, **by_name)
def test_a_decision_that_fails_harms_its_own_request(three: Rig, error: Exception) -> None:
    last = three[1].journal.last_index
    assert three_requests(three, raises(error)) == HARMED
    assert three[1].journal.last_index == last + 1, "one entry for the three"
    assert sum(three[1].proposer.violations.values()) == 1


def test_the_counter_names_the_decision(three: Rig) -> None:
    three_requests(three, raises(FAILURES[0]))
    assert list(three[1].proposer.violations) == ["raises.<locals>.decide"]


@pytest.mark.parametrize("error", FAILURES, **by_name)
def test_what_a_failed_replay_wrote_is_undone(
    three: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The second record's replay fails after the first one's rows, and some of its own, are written."""
    replay = fencepost.controller.replay.REPLAY[TransactionStateRecord]

    def fails(view: Any, record: TransactionStateRecord) -> None:
        replay(view, record)
        if record.transactional_id == "second":
            raise error

    monkeypatch.setitem(fencepost.controller.replay.REPLAY, TransactionStateRecord, fails)
    assert three_requests(three, writes(transaction("first"), transaction("second"))) == HARMED
    three.settle()
    alone = {node: image_digest(three[node].store) for node in (1, 2, 3)}
    assert len(set(alone.values())) == 1
    assert three[1].image.header.log_ends[1] == 0
    assert list(three[1].image.items(TRANSACTIONS)) == []


def test_a_record_that_cannot_be_encoded_harms_its_own_request(three: Rig) -> None:
    assert three_requests(three, writes(transaction("x" * 40_000))) == HARMED
    assert three_requests(three, writes(transaction("\ud800"))) == [
        ["[2000, 3000)"],
        ["UnknownServerError"],
        ["[3000, 4000)"],
    ]


def test_an_entry_that_cannot_be_encoded_is_decided_again_request_by_request(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = encode_batch

    def fails(records: Any, **how: Any) -> bytes:
        if any(b"poison" in (key or b"") for key, _, _ in records):
            raise InvariantViolation("it cannot be encoded")
        return encode(records, **how)

    monkeypatch.setattr(fencepost.quorum.draft, "encode_batch", fails)
    before = three[1].journal.last_index
    assert three_requests(three, writes(transaction("poison"))) == HARMED
    assert three[1].journal.last_index <= before + 4
    assert three[1].proposer.violations.total() == 1
    assert three.allocate(1).codes == []
    three.turn(1)
    three.flow()
    three.settle()
    assert set(three.images().values()) == {3000}


@pytest.mark.parametrize("error", HALTS, **by_name)
def test_what_the_own_store_raises_halts(three: Rig, error: Exception) -> None:
    three.ask(1, raises(error))
    with pytest.raises(type(error)):
        three.turn(1)


@pytest.mark.parametrize("error", [*FAILURES, BrokenPipeError("the client is gone")], **by_name)
def test_an_answer_that_cannot_be_given_closes_its_connection(three: Rig, error: Exception) -> None:
    class Connection:
        closed: list[str]

        def __init__(self) -> None:
            self.closed = []

        def close(self, reason: str) -> None:
            self.closed.append(reason)

    def reply(_outcome: Any, _throttle_ms: int) -> None:
        raise error

    connection = Connection()
    before = three.allocate(1)
    three.submit(1, lambda _view, _now: Decision((), None), reply, closing=connection)
    after = three.allocate(1)
    three.turn(1)
    three.flow()
    assert (before.codes, after.codes) == (["[0, 1000)"], ["[1000, 2000)"])
    assert len(connection.closed) == 1
    assert three[1].proposer.answers_failed == 1


@pytest.mark.parametrize("how", ["deposed", "superseded", "unknown"])
def test_a_refusal_that_cannot_be_given_does_not_keep_others_waiting(three: Rig, how: str) -> None:
    def reply(_outcome: Any, _throttle_ms: int) -> None:
        raise ZeroDivisionError("a bug")

    three.submit(1, lambda _view, _now: Decision((), None), reply)
    after = three.allocate(1)
    if how != "deposed":
        three.turn(1)
    if how == "unknown":
        three.wait(fencepost.quorum.proposer.OUTCOME_WAIT_S)
        three.maintain(1)
    else:
        three[1].raft.step_down(Term(three[1].raft.term + 1))
        three[1].proposer.deposed()
        if how == "superseded":
            three.wait(fencepost.quorum.proposer.OUTCOME_WAIT_S)
            three.maintain(1)
    assert len(after.codes) == 1


@pytest.mark.parametrize("error", [lmdb.Error("the disk"), MemoryError(), CorruptData("own row")], **by_name)
def test_what_the_own_store_raises_while_an_answer_is_given_halts(three: Rig, error: Exception) -> None:
    def reply(_outcome: Any, _throttle_ms: int) -> None:
        raise error

    three.submit(1, lambda _view, _now: Decision((), None), reply)
    three.turn(1)
    with pytest.raises(type(error)):
        three.flow()


# -- leadership ------------------------------------------------------------------------------------------


def violate(rig: Rig, node: int) -> None:
    rig.ask(node, raises(InvariantViolation("our bug")))
    rig.turn(node)
    rig.flow()
    rig.settle()


def hand_over(rig: Rig) -> None:
    """What a leader that hands over needs: its slow timer, and its frames delivered."""
    for _ in range(4):
        rig.maintenance_tick()
        rig.flow()
        rig.settle()


def leader_of(rig: Rig) -> int:
    (leader,) = [int(node) for node in rig.replicas if rig[node].proposer.active]
    return leader


def test_the_first_violation_of_a_leadership_hands_it_over_and_no_second_within_the_hour(three: Rig) -> None:
    three.wait(2 * YIELD_PERIOD_S)  # the machine has been up for longer
    three.settle()
    three.elect(1)
    violate(three, 1)
    hand_over(three)
    second = leader_of(three)
    assert second != 1
    assert not three[second].proposer.stopping
    three.elect(1)
    violate(three, 1)
    hand_over(three)
    assert leader_of(three) == 1, "it did so within the hour"
    three.wait(YIELD_PERIOD_S)
    three.settle()
    three.elect(1)
    violate(three, 1)
    hand_over(three)
    assert leader_of(three) != 1


def test_a_leader_whose_followers_are_gone_leads_on_after_a_violation(three: Rig) -> None:
    for node in (2, 3):
        three.disconnect(node)
    three.ask(1, raises(InvariantViolation("our bug")))
    three.turn(1)
    three.maintain(1)
    assert three[1].proposer.stopping
    three.wait(YIELD_S_MAX)
    three.maintain(1)
    assert not three[1].proposer.stopping


def test_a_lone_voter_leads_on_after_a_violation(make_rig: MakeRig) -> None:
    one = alone(make_rig)
    one.register(1)
    assert three_requests(one, raises(InvariantViolation("our bug"))) == HARMED
    one.maintenance_tick()
    assert not one[1].proposer.stopping


@pytest.mark.parametrize("error", FAILURES, **by_name)
def test_a_leader_that_cannot_write_its_leader_change_resigns_and_another_one_leads(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    three = make_rig(3)

    def fails(_view: View) -> Any:
        raise error

    monkeypatch.setattr(three[1].proposer, "_leader_change", fails)
    three.turn()
    three.campaign(1)
    three.flow()
    three.settle()
    assert (three[1].raft.role, three[1].proposer.violations["control"]) == (FOLLOWER, 1)
    three.elect(2)
    three.register(2)
    answers = three.allocate(2)
    three.turn(2)
    three.flow()
    assert answers.codes == ["[0, 1000)"]


def test_a_node_that_resigned_campaigns_again_when_no_other_leads_or_after_an_hour(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = make_rig(3)
    fails = [True]
    claim = three[1].proposer._leader_change

    def sometimes(view: View) -> Any:
        if fails:
            raise InvariantViolation("our bug")
        return claim(view)

    monkeypatch.setattr(three[1].proposer, "_leader_change", sometimes)
    three.turn()
    three.campaign(1)
    three.flow()
    three.settle()
    fails.clear()
    three.campaign(1)
    assert three[1].raft.role == FOLLOWER, "it abstains"
    three.elect(2)
    for _ in range(int(UNLED_S) + 1):  # another node leads all the time
        three.wait(1.0)
        three.heartbeat(2)
        three.flow()
    three.campaign(1)
    assert three[1].raft.role == FOLLOWER, "it abstains as long as another node leads"
    three.crash(2)
    three.wait(UNLED_S)
    three.turn()
    three.campaign(1)
    three.flow()
    three.settle()
    assert three[1].proposer.active, "no other node has led for ten seconds"


def test_failures_are_logged_at_a_bounded_rate_and_counted_all(three: Rig) -> None:
    lines: list[str] = []

    class Noting(Silence):
        def error(self, event: str, **facts: object) -> None:
            lines.append(event)

        def warning(self, event: str, **facts: object) -> None:
            lines.append(event)

    three[1].proposer._failures = LimitedLog(cast(FilteringBoundLogger, Noting()), lambda: three.now)
    for _ in range(50):
        three.ask(1, raises(KeyError("x")))
    three.turn(1)
    three.flow()
    assert three[1].proposer.violations.total() == 50
    assert lines == ["decision_failed"] * LINES_MAX
    three.wait(INTERVAL_S)
    three[1].proposer.expire()
    assert lines[-1] == "log_lines_suppressed"
