"""What waits instead of being told 51: order, bounds, patience."""

import pytest

import fencepost.coordinator.parked
from fencepost.controller.decision import Decision
from fencepost.coordinator.parked import Held, Waiting
from tests.wire.answering import Answering


def waiting(transactional_id: str, until_s: float = 10.0) -> Waiting:
    reply = Answering(lambda _outcome, _ms: None)
    return Waiting(transactional_id, lambda _view, _now: Decision((), None), reply, until_s)


def test_those_of_an_id_are_released_in_the_order_in_which_they_came() -> None:
    held = Held()
    first, other, second = waiting("alice"), waiting("bob"), waiting("alice")
    assert all(held.hold(each) for each in (first, other, second))
    assert held.release("alice") == [first, second]
    assert held.release("alice") == []
    assert (len(held), held.release("bob")) == (1, [other])


def test_who_waited_long_enough_is_given_back_once() -> None:
    held = Held()
    early, late, other = waiting("alice", 1.0), waiting("alice", 3.0), waiting("bob", 2.0)
    for each in (late, early, other):
        held.hold(each)
    assert held.expired(0.9) == []
    assert held.expired(1.0) == [early]
    assert held.expired(2.5) == [other]
    assert (len(held), held.release("alice"), held.release("bob")) == (1, [late], [])


def test_one_past_the_bound_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.parked, "HELD_MAX", 2)
    held = Held()
    assert [held.hold(waiting("alice")) for _ in range(3)] == [True, True, False]
    held.release("alice")
    assert held.hold(waiting("alice"))


def test_all_are_given_back_when_the_leadership_ends() -> None:
    held = Held()
    all_of_them = [waiting("alice"), waiting("bob")]
    for each in all_of_them:
        held.hold(each)
    assert held.drain() == all_of_them
    assert (len(held), held.expired(100.0)) == (0, [])
