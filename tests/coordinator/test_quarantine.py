"""Timers go on when the decision on one row fails: it is set aside, the others are done."""

from collections.abc import Callable
from typing import Any

import pytest

import fencepost.controller.transactions.expiry
import fencepost.quorum.draft
import fencepost.quorum.quarantine
from fencepost.controller import brokers
from fencepost.controller.replay import REPLAY
from fencepost.controller.transactions import states
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.states import State
from fencepost.coordinator.transaction_timers import FIRST_EXPIRY_S_MAX, TransactionTimes
from fencepost.quorum.quarantine import Quarantine
from fencepost.records.invariant import InvariantViolation
from fencepost.records.logged import ENTRY_COST_MAX
from fencepost.records.schema import BrokerRegistrationChangeRecord
from fencepost.records.transaction_log import TopicPartitions, TransactionForgotten, TransactionStateRecord
from fencepost.records.types import BrokerId, ProducerId
from tests.controller.worlds import image, registered
from tests.coordinator.bench import TOPIC, Bench
from tests.node.conftest import MakeStage

NAMES = [f"id-{number}" for number in range(5)]
POISONED = "id-2"


def fails_in_replay(
    monkeypatch: pytest.MonkeyPatch, kind: type, poisoned: Callable[[Any], bool]
) -> list[Any]:
    """Replay of such a record fails from now on, after it wrote; returns the records that it failed on."""
    failed: list[Any] = []
    replay = REPLAY[kind]

    def fails(view: Any, record: Any) -> None:
        replay(view, record)
        if poisoned(record):
            failed.append(record)
            raise InvariantViolation("planted")

    monkeypatch.setitem(REPLAY, kind, fails)
    return failed


def fails_in_decide(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    failed: list[Any] = []
    timed_out = fencepost.controller.transactions.expiry.timed_out

    def fails(row: Any, now_ms: int) -> Any:
        if row.transactional_id == POISONED:
            failed.append(row)
            raise KeyError("planted")
        return timed_out(row, now_ms)

    monkeypatch.setattr(fencepost.controller.transactions.expiry, "timed_out", fails)
    return failed


def is_poisoned(record: TransactionStateRecord) -> bool:
    return record.transactional_id == POISONED and record.status == State.PREPARE_ABORT


@pytest.mark.parametrize("where", ["decide", "replay"])
def test_a_timeout_that_fails_sets_its_row_aside_and_all_others_are_aborted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    for name in NAMES:
        bench.begun(name, 0, timeout_ms=1_000)
    failed = (
        fails_in_decide(monkeypatch)
        if where == "decide"
        else fails_in_replay(monkeypatch, TransactionStateRecord, is_poisoned)
    )
    bench.wait(3.0)
    assert {name: bench.state(name) for name in NAMES} == {
        name: "Ongoing" if name == POISONED else "PrepareAbort" for name in NAMES
    }
    (row,) = bench.replica.quarantine.rows()
    assert (row.concern, row.key) == ("transaction timeout", POISONED)
    assert "planted" in row.reason
    assert bench.server.counts.timed_out == len(NAMES) - 1
    assert failed


def test_a_row_that_is_set_aside_is_tried_again_less_and_less_often(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES[:3]:
        bench.begun(name, 0, timeout_ms=1_000)
    failed = fails_in_replay(monkeypatch, TransactionStateRecord, is_poisoned)
    bench.wait(4.0)
    tries = len(failed)
    bench.wait(3_600.0)
    assert tries + 6 <= len(failed) <= tries + 24, "every ten minutes in the end"
    assert len(bench.replica.quarantine) == 1


def test_a_row_whose_fault_is_gone_is_done_and_set_aside_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.begun(POISONED, 0, timeout_ms=1_000)
    with monkeypatch.context() as planted:
        fails_in_replay(planted, TransactionStateRecord, is_poisoned)
        bench.wait(4.0)
        assert len(bench.replica.quarantine) == 1
    bench.wait(10.0)
    assert bench.state(POISONED) == "PrepareAbort"
    assert len(bench.replica.quarantine) == 0


def test_a_request_about_a_row_that_is_set_aside_is_decided_as_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = bench.begun(POISONED, 0, timeout_ms=1_000)
    fails_in_replay(monkeypatch, TransactionStateRecord, is_poisoned)
    bench.wait(4.0)
    ended = bench.end(POISONED, pair)
    bench.settle()
    assert (ended.answered(), bench.state(POISONED)) == (None, "PrepareCommit")


def test_an_id_that_cannot_be_forgotten_does_not_keep_the_others(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(make_stage(), TransactionTimes(expiration_ms=10_000))
    bench.elect()
    bench.register(1)
    bench.create(TOPIC, 1)
    for name in NAMES:
        bench.init(name)
    bench.settle()
    fails_in_replay(monkeypatch, TransactionForgotten, lambda record: record.transactional_id == POISONED)
    bench.wait(FIRST_EXPIRY_S_MAX + 2)
    left = [name for name in NAMES if states.get(bench.replica.image, name) is not None]
    assert left == [POISONED]
    (row,) = bench.replica.quarantine.rows()
    assert (row.concern, row.key) == ("transactional id expiry", POISONED)


def test_broker_sessions_are_decided_broker_by_broker_if_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    view = image(*(registered(broker_id, 100 + broker_id, fenced=False) for broker_id in (1, 2, 3)))
    heartbeats = brokers.HeartbeatTracker(0, 1_000)
    assert brokers.silent(view, heartbeats, 5_000) == (1, 2, 3)
    decided = brokers.decide_expire(view, heartbeats, 5_000, (BrokerId(2),))
    (record,) = decided.records
    assert isinstance(record, BrokerRegistrationChangeRecord)
    assert (record.broker_id, decided.response) == (2, (2,))


def test_a_completion_that_fails_does_not_keep_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = {name: bench.begun(name, 0) for name in NAMES}
    for name, pair in pairs.items():
        bench.end(name, pair)
    bench.settle()
    with monkeypatch.context() as planted:
        fails_in_replay(
            planted,
            TransactionStateRecord,
            lambda record: record.transactional_id == POISONED and record.status == State.COMPLETE_COMMIT,
        )
        for _ in range(20):
            for sent in bench.take_sent():
                sent.answer()
            bench.wait(0.5)
        assert {name: bench.state(name) for name in NAMES} == {
            name: "PrepareCommit" if name == POISONED else "CompleteCommit" for name in NAMES
        }
        (row,) = bench.replica.quarantine.rows()
        assert (row.concern, row.key) == ("transaction completion", POISONED)
        assert row.failures < 8, "its markers are not sent again at every walk"
    for _ in range(60):
        for sent in bench.take_sent():
            sent.answer()
        bench.wait(0.5)
    assert bench.state(POISONED) == "CompleteCommit"
    assert bench.server.counts.committed == len(NAMES)
    assert len(bench.replica.quarantine) == 0


# -- budgets of sweeps -----------------------------------------------------------------------------------


def test_large_rows_time_out_in_several_entries_of_bounded_cost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"{number:0249}" for number in range(300)]
    for topic in topics:
        bench.create(topic, 1)
    for name in NAMES:
        pair = bench.begun(name, 0, timeout_ms=1_000)
        part = AddPartitions(
            name, ProducerId(pair[0]), pair[1], tuple(TopicPartitions(t, (0,)) for t in topics)
        )
        bench.ask(bench.server.add_partitions, AddPartitionsToTxn((part,)))
        bench.settle()
    costs: list[int] = []
    proposer = bench.replica.proposer
    draft = fencepost.quorum.draft.Draft.batches

    def noting(self: Any, now_ms: int) -> Any:
        costs.append(self.cost)
        return draft(self, now_ms)

    monkeypatch.setattr(fencepost.quorum.draft.Draft, "batches", noting)
    monkeypatch.setattr(fencepost.quorum.draft, "ENTRY_COST_MAX", ENTRY_COST_MAX // 4)
    bench.wait(3.0)
    assert {bench.state(name) for name in NAMES} == {"PrepareAbort"}
    assert max(costs) < 2 * ENTRY_COST_MAX // 4
    assert proposer.violations.total() == 0


# -- the quarantine itself -------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def ms(self) -> int:
        return int(self.now * 1000)


def test_at_the_limit_the_oldest_makes_room_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.quarantine, "QUARANTINED_MAX", 3)
    clock = Clock()
    rows = Quarantine(clock, clock.ms)
    for key in "abc":
        rows.add("timer", key, "why")
    assert rows.passed_by("timer") == {"a", "b", "c"}
    rows.add("timer", "a", "again")
    assert len(rows) == 3, "one that is there already takes no room"
    rows.add("timer", "d", "why")
    assert rows.passed_by("timer") == {"b", "c", "d"}


def test_each_failure_doubles_the_wait_up_to_ten_minutes() -> None:
    clock = Clock()
    rows = Quarantine(clock, clock.ms)
    waits = []
    for _ in range(14):
        row = rows.add("timer", "a", "why")
        waits.append(row.retry_at_s - clock.now)
        clock.now = row.retry_at_s - 0.001
        assert rows.passed_by("timer") == {"a"}
        clock.now = row.retry_at_s
        assert rows.passed_by("timer") == frozenset()
    assert waits == [min(2.0**n, 600.0) for n in range(14)]
    (row,) = rows.rows()
    assert (row.since_ms, row.failures) == (100_000, 14)


def test_one_timer_does_not_pass_by_what_another_one_failed_on() -> None:
    clock = Clock()
    rows = Quarantine(clock, clock.ms)
    rows.add("timer", "a", "x" * 10_000)
    assert rows.passed_by("other") == frozenset()
    assert len(rows.rows()[0].reason) == fencepost.quorum.quarantine.REASON_CHARACTERS_MAX
    rows.remove("other", "a")
    assert len(rows) == 1
    rows.remove("timer", "a")
    assert len(rows) == 0
    rows.add("timer", "a", "why")
    rows.begin()
    assert rows.rows() == ()
