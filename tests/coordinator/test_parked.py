"""What waits instead of being answered 51: order, bounds, time."""

from dataclasses import dataclass

import pytest

import fencepost.coordinator.parked
from fencepost.controller.errors import ApiError
from fencepost.coordinator.parked import Parked, ParkedRequests


@dataclass(eq=False)
class Request:
    """Parked, and never decided here."""

    transactional_id: str
    until_s: float = 10.0

    def submit(self) -> None:
        """See Parked."""

    def refuse(self, refusal: ApiError, /) -> None:
        """See Parked."""


def test_those_of_an_id_are_released_in_the_order_in_which_they_came() -> None:
    parked = ParkedRequests()
    first, other, second = Request("alice"), Request("bob"), Request("alice")
    assert all(parked.park(each) for each in (first, other, second))
    assert parked.release("alice") == [first, second]
    assert parked.release("alice") == []
    assert (len(parked), parked.release("bob")) == (1, [other])


def test_a_request_that_waited_long_enough_is_given_back_once() -> None:
    parked = ParkedRequests()
    early, late, other = Request("alice", 1.0), Request("alice", 3.0), Request("bob", 2.0)
    for each in (late, early, other):
        parked.park(each)
    assert parked.expired(0.9) == []
    assert parked.expired(1.0) == [early]
    assert parked.expired(2.5) == [other]
    assert (len(parked), parked.release("alice"), parked.release("bob")) == (1, [late], [])


def test_one_past_the_bound_is_not_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.parked, "PARKED_MAX", 2)
    parked = ParkedRequests()
    assert [parked.park(Request("alice")) for _ in range(3)] == [True, True, False]
    parked.release("alice")
    assert parked.park(Request("alice"))


def test_all_are_given_back_when_the_leadership_ends() -> None:
    parked = ParkedRequests()
    all_of_them: list[Parked] = [Request("alice"), Request("bob")]
    for each in all_of_them:
        parked.park(each)
    assert parked.drain() == all_of_them
    assert (len(parked), parked.expired(100.0)) == (0, [])
