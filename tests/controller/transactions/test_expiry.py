"""Timeouts and what a producer is answered and given after one; ids without use; clocks that differ."""

import msgspec
import pytest

from fencepost.controller import clocks
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ConcurrentTransactions, ProducerFenced, TransactionTimedOut
from fencepost.controller.transactions import expiry
from fencepost.controller.transactions.expiry import (
    Expired,
    decide_expire,
    decide_forget,
)
from fencepost.controller.transactions.explain import explain
from fencepost.controller.transactions.states import EXPIRABLE_STATES, FenceCause, State
from fencepost.records.transaction_log import Fence
from fencepost.records.types import ProducerId, Term
from tests.controller.transactions.worlds import (
    AUDIT,
    ID,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    partitions,
    transaction,
)
from tests.together import table

LOGGED = list(State)[:6]
LAST_ID = 2**63 - 1


def opened(epoch: int = 5, producer_id: int = 42, **given: object) -> Coordinator:
    """A transaction is open since now."""
    row = transaction(State.ONGOING, producer_id, epoch, started_ms=NOW_MS, **{"instance_epoch": 3, **given})
    return Coordinator(row)


@pytest.mark.parametrize(
    ("after_ms", "ids"),
    [(0, ()), (TIMEOUT_MS - 1, ()), (TIMEOUT_MS, (ID,)), (TIMEOUT_MS * 1000, (ID,))],
    ids=["at-once", "one-ms-before", "at-the-timeout", "long-after"],
)
def test_a_transaction_times_out_at_its_timeout(after_ms: int, ids: tuple[str, ...]) -> None:
    coordinator = opened()
    assert coordinator.time_out(after_ms) == ids
    assert coordinator.row().state is (State.PREPARE_ABORT if ids else State.ONGOING)


@table("producer_id", [42, LAST_ID], ids=["an-id", "the-largest-id"])
@table("epoch", [0, 5, 32764, 32765, 32766])
def test_a_timeout_aborts_bumps_and_remembers(epoch: int, producer_id: int) -> None:
    """Row 588.1: lastProducerEpoch is in the record, so a failover does not forget it."""
    coordinator = opened(epoch, producer_id, instance_epoch=0)
    before = coordinator.row()
    coordinator.time_out(TIMEOUT_MS)
    row = coordinator.row()
    assert row == msgspec.structs.replace(
        before,
        state=State.PREPARE_ABORT,
        producer_epoch=epoch + 1,
        last_producer_epoch=epoch,
        timed_out=True,
        init_version=-1,
        updated_ms=coordinator.now_ms,
        fences=(Fence(coordinator.now_ms, FenceCause.TIMEOUT, ProducerId(producer_id), epoch),),
        prepared_version=row.prepared_version,
    )
    assert coordinator.time_out(TIMEOUT_MS) == (), "once is enough"


@table("state", [state for state in LOGGED if state is not State.ONGOING])
def test_only_an_open_transaction_times_out(state: State) -> None:
    assert Coordinator(transaction(state)).time_out(TIMEOUT_MS * 1000) == ()


@pytest.mark.parametrize("complete", [False, True], ids=["markers-missing", "complete"])
def test_the_producer_that_timed_out_is_told_so(complete: bool) -> None:
    """Row 588.2: commit first, abort first, new partition first; by InitProducerId v3 and above."""
    coordinator = opened()
    coordinator.time_out(TIMEOUT_MS)
    if complete:
        coordinator.complete()
    for request in (
        lambda: coordinator.end(42, 5, committed=True),
        lambda: coordinator.end(42, 5, committed=False, knows_abortable=False),
        lambda: coordinator.add(42, 5, partitions(AUDIT, 0)),
        lambda: coordinator.verify(42, 5, partitions(ORDERS, 0)),
    ):
        with pytest.raises(TransactionTimedOut):
            request()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_that_cannot_ask_with_its_epoch_is_fenced(version: int) -> None:
    coordinator = opened(init_version=version)
    coordinator.time_out(TIMEOUT_MS)
    for complete in (False, True):
        with pytest.raises(ProducerFenced):
            coordinator.end(42, 5, committed=True)
        assert coordinator.row().timed_out, "the audit says why it was aborted"
        assert "may ask for" not in explain(coordinator.row(), coordinator.now_ms)
        if not complete:
            coordinator.complete()


@pytest.mark.parametrize(
    ("epoch", "then"),
    [
        (5, (42, 6)),
        (32764, (42, 32765)),
        (32765, (42, 32766)),
        (32766, (1000, 0)),
    ],
)
def test_init_producer_id_with_the_old_pair_goes_on(epoch: int, then: tuple[int, int]) -> None:
    """Row 588.3: it waits for the markers, then has the bumped epoch; a repeat is answered the same."""
    coordinator = opened(epoch)
    coordinator.time_out(TIMEOUT_MS)
    with pytest.raises(ConcurrentTransactions):
        coordinator.init(42, epoch)
    coordinator.complete()
    assert coordinator.init(42, epoch) == then
    assert coordinator.init(42, epoch) == then, "the answer was lost"
    with pytest.raises(TransactionTimedOut):
        coordinator.end(42, epoch, committed=True)  # delayed; nothing happens
    coordinator.add(*then)
    with pytest.raises(TransactionTimedOut):
        coordinator.end(42, epoch, committed=True)
    coordinator.end(*then, committed=True)
    coordinator.complete()
    assert coordinator.row().state is State.COMPLETE_COMMIT
    assert coordinator.pair() == then


def test_two_timeouts_in_a_row() -> None:
    coordinator = opened()
    for epoch in (5, 6):
        coordinator.time_out(TIMEOUT_MS)
        coordinator.complete()
        assert coordinator.init(42, epoch) == (42, epoch + 1)
        coordinator.add(42, epoch + 1)
    with pytest.raises(ProducerFenced):
        coordinator.end(42, 5, committed=True)
    with pytest.raises(TransactionTimedOut):
        coordinator.end(42, 6, committed=True)


def test_a_new_instance_after_a_timeout_fences_who_timed_out() -> None:
    """Row 588.4: a really fenced producer gets the code that says so."""
    coordinator = opened()
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    assert coordinator.init() == (42, 7)
    for epoch in (5, 6):
        with pytest.raises(ProducerFenced):
            coordinator.end(42, epoch, committed=True)
        with pytest.raises(ProducerFenced):
            coordinator.init(42, epoch)


@pytest.mark.parametrize(
    ("epoch", "then"), [(5, (42, 7)), (32764, (42, 32766)), (32765, (1000, 0)), (32766, (1000, 0))]
)
def test_a_new_instance_after_a_timeout_at_the_last_epochs(epoch: int, then: tuple[int, int]) -> None:
    coordinator = opened(epoch)
    coordinator.time_out(TIMEOUT_MS)
    coordinator.complete()
    assert coordinator.init() == then


# -- many, and clocks ------------------------------------------------------------------------------------


def crowd(count: int, *, open_: bool = True) -> Coordinator:
    """Ids p-0 .. in the order in which they began, a ms apart."""
    coordinator = Coordinator()
    for number in range(count):
        pair = coordinator.init(of=f"p-{number}")
        if open_:
            coordinator.add(*pair, of=f"p-{number}")
        coordinator.now_ms += 1
    return coordinator


def test_timeouts_are_decided_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "TIMEOUTS_MAX", 3)
    coordinator = crowd(7)
    coordinator.now_ms += TIMEOUT_MS
    coordinator.activated_ms = 0
    looks, decided = zip(*(coordinator.sweep_timeouts() for _ in range(3)), strict=True)
    assert [d.transactional_ids for d in decided] == [("p-0", "p-1", "p-2"), ("p-3", "p-4", "p-5"), ("p-6",)]
    assert [d.more for d in looks] == [True, True, False]


@pytest.mark.parametrize(("after_ms", "ids"), [(999, ()), (1000, (ID,))], ids=["within", "after"])
def test_a_new_leader_gives_a_grace(after_ms: int, ids: tuple[str, ...]) -> None:
    coordinator = opened()
    coordinator.now_ms += TIMEOUT_MS * 10
    coordinator.activated_ms = coordinator.now_ms
    assert coordinator.time_out(after_ms, grace_ms=1000) == ids


def failed_over(coordinator: Coordinator, clock_ms: int) -> None:
    """Another leader, by whose clock it is ``clock_ms`` later than it was."""
    header = coordinator.view.header
    coordinator.view.header = msgspec.structs.replace(
        header, controller_epoch=Term(header.controller_epoch + 1)
    )
    coordinator.now_ms += clock_ms
    coordinator.activated_ms = coordinator.now_ms


@pytest.mark.parametrize("behind_ms", [30_000, TIMEOUT_MS, 3_600_000])
def test_a_leader_whose_clock_is_behind_gives_no_more_than_the_timeout(behind_ms: int) -> None:
    """docs/design.md 2: the time left is clamped to [0, timeout]."""
    coordinator = opened()
    failed_over(coordinator, -behind_ms)
    assert coordinator.time_out(TIMEOUT_MS - 1) == ()
    assert coordinator.time_out(1) == (ID,)


def test_a_leader_whose_clock_is_ahead_aborts_what_seems_late() -> None:
    coordinator = opened()
    failed_over(coordinator, 3_600_000)
    assert coordinator.time_out(0) == (ID,)


def test_what_began_under_this_leader_has_its_whole_timeout() -> None:
    coordinator = opened()
    failed_over(coordinator, -1000)
    coordinator.now_ms += 30_000
    pair = coordinator.init(of="later")
    coordinator.add(*pair, of="later")
    assert coordinator.time_out(TIMEOUT_MS - 30_000) == (ID,)
    assert coordinator.time_out(29_999) == ()
    assert coordinator.time_out(1) == ("later",)


def test_those_of_another_clock_are_walked_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SKEWED_MAX", 2)
    coordinator = crowd(5)
    failed_over(coordinator, -3_600_000)
    coordinator.now_ms += TIMEOUT_MS
    found: list[str] = []
    after = None
    for _ in range(4):
        due, answer = coordinator.sweep_timeouts(after=after)
        found += answer.transactional_ids
        after = due.after
    assert found == [f"p-{number}" for number in range(5)]


# -- ids without use ------------------------------------------------------------------------------------


def expire_slice(coordinator: Coordinator, after: tuple[int, str] | None = None) -> Decision[Expired]:
    idle = clocks.idle_stamps(coordinator.now_ms, coordinator.activated_ms, 0, None)
    return decide_expire(coordinator.view, idle, after=after)


@table("state", LOGGED, ids=lambda state: state.wire_name)
def test_only_an_id_without_a_transaction_expires(state: State) -> None:
    coordinator = Coordinator(transaction(state))
    assert coordinator.expire(1001) == ()
    assert coordinator.expire(1000) == ((ID,) if state in EXPIRABLE_STATES else ())


def test_ids_are_forgotten_in_bounded_portions_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EXPIRED_MAX", 3)
    coordinator = crowd(4, open_=False)
    first = coordinator.applied(expire_slice(coordinator))
    assert (first.transactional_ids, first.more) == (("p-0", "p-1", "p-2"), True)
    assert first.after == (NOW_MS + 2, "p-2")
    second = coordinator.applied(expire_slice(coordinator, first.after))
    assert (second.transactional_ids, second.more) == (("p-3",), False)
    assert coordinator.expire(0) == ()


def test_use_keeps_an_id() -> None:
    coordinator = crowd(2, open_=False)
    coordinator.now_ms += 1000
    coordinator.init(of="p-0")
    assert coordinator.expire(1000) == ("p-1",)


DAY_MS = 24 * 3_600_000
EXPIRATION_MS = 7 * DAY_MS


@pytest.mark.parametrize("days", [8, -8, 1000], ids="{}-days".format)
def test_a_leader_whose_clock_differs_forgets_no_id_that_was_just_used(days: int) -> None:
    """Eight days ahead forgot every idle id at its first sweep."""
    coordinator = crowd(3, open_=False)
    failed_over(coordinator, days * DAY_MS)
    assert coordinator.expire(EXPIRATION_MS) == ()
    before_ms = NOW_MS
    for led_ms in (1, DAY_MS, EXPIRATION_MS - DAY_MS - 2):
        coordinator.now_ms += led_ms
        before_ms += led_ms
        assert coordinator.expire(EXPIRATION_MS) == ()
        assert coordinator.expire(EXPIRATION_MS, slowest_ms=before_ms) == ()


@pytest.mark.parametrize("days", [0, 8, -8, 1000], ids="{}-days".format)
def test_a_leader_that_stays_forgets_what_is_idle_whatever_its_clock_says(days: int) -> None:
    """Of the past and of the future, in portions; what was used under it has its whole time."""
    coordinator = crowd(3, open_=False)
    failed_over(coordinator, days * DAY_MS)
    coordinator.now_ms += DAY_MS
    coordinator.init(of="p-1")
    coordinator.now_ms += EXPIRATION_MS - DAY_MS - 1
    assert coordinator.expire(EXPIRATION_MS) == ()
    coordinator.now_ms += 1
    assert coordinator.expire(EXPIRATION_MS) == ("p-0", "p-2")
    coordinator.now_ms += DAY_MS
    assert coordinator.expire(EXPIRATION_MS) == ("p-1",)


def test_ids_of_the_future_are_forgotten_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EXPIRED_MAX", 2)
    coordinator = crowd(5, open_=False)
    failed_over(coordinator, -8 * DAY_MS)
    coordinator.init(of="p-2")
    coordinator.now_ms += EXPIRATION_MS
    found: list[str] = []
    after = None
    for _ in range(3):
        idle = clocks.idle_stamps(coordinator.now_ms, coordinator.activated_ms, EXPIRATION_MS, None)
        decision = decide_expire(coordinator.view, idle, after=after)
        answer = coordinator.applied(decision)
        found += answer.transactional_ids
        after = answer.after
    assert found == ["p-2", "p-0", "p-1", "p-3", "p-4"]


def test_by_the_slowest_clock_seen_a_leader_forgets_at_once() -> None:
    coordinator = crowd(3, open_=False)
    failed_over(coordinator, 8 * DAY_MS)
    slowest_ms = NOW_MS + EXPIRATION_MS
    assert coordinator.expire(EXPIRATION_MS, slowest_ms=slowest_ms) == ("p-0",)
    assert coordinator.expire(EXPIRATION_MS, slowest_ms=slowest_ms + 1) == ("p-1",)


def test_an_id_that_is_used_between_the_look_and_the_decision_stays() -> None:
    coordinator = crowd(3, open_=False)
    idle = clocks.idle_stamps(coordinator.now_ms + EXPIRATION_MS, 0, EXPIRATION_MS, None)
    found = decide_expire(coordinator.view, idle).response.transactional_ids
    coordinator.now_ms += 1000
    coordinator.init(of="p-1")
    assert coordinator.applied(decide_forget(coordinator.view, idle, found)).transactional_ids == (
        "p-0",
        "p-2",
    )
