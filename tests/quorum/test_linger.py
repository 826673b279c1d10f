"""How long an entry waits for company: tables of what was expected, what waits, and when."""

import pytest

from fencepost.node.driver import NOTHING
from fencepost.quorum.linger import LINGER_S, LINGER_S_MAX, RESTS_MAX, Linger
from fencepost.records.types import NodeId
from tests.quorum.clients import Answers
from tests.quorum.rig import Rig
from tests.together import table

ALMOST_S = LINGER_S * 0.99

CASES = [
    pytest.param(0, 1, 0.0, True, id="nobody-expected-the-first-request-goes-at-once"),
    pytest.param(1, 1, 0.0, True, id="a-lone-client-waits-for-nobody"),
    pytest.param(8, 7, ALMOST_S, False, id="one-is-missing-and-there-is-time"),
    pytest.param(8, 8, 0.0, True, id="everybody-is-there"),
    pytest.param(8, 9, 0.0, True, id="more-came-than-expected"),
    pytest.param(8, 1, LINGER_S, True, id="long-enough"),
]


@table(("expected", "waiting", "after_s", "over"), CASES)
def test_an_entry_waits_for_those_just_answered(
    expected: int, waiting: int, after_s: float, over: bool
) -> None:
    linger = Linger()
    linger.expect(expected, 5.0, 0.0)
    assert linger.is_complete(waiting) is (waiting >= expected)
    assert linger.over(waiting, 5.0 + after_s) is over


WAITS = [
    pytest.param(0.0007, LINGER_S, id="entries-are-fast"),
    pytest.param(LINGER_S * 2, LINGER_S * 2, id="as-long-as-an-entry-takes"),
    pytest.param(1.0, LINGER_S_MAX, id="but-no-longer-than-this"),
]


@table(("entry_s", "wait_s"), WAITS)
def test_an_entry_waits_about_as_long_as_one_takes(entry_s: float, wait_s: float) -> None:
    linger = Linger()
    linger.expect(2, 0.0, entry_s)
    assert not linger.over(1, wait_s * 0.99)
    assert linger.over(1, wait_s)


@pytest.mark.parametrize(("came", "waits_again"), [(5, True), (4, False)], ids=["half-came", "fewer-came"])
def test_a_wait_for_which_half_of_them_came_was_no_miss(came: int, waits_again: bool) -> None:
    linger = Linger()
    linger.expect(10, 0.0, 0.0)
    assert linger.over(came, LINGER_S)
    linger.expect(10, 1.0, 0.0)
    assert linger.over(came, 1.0) is not waits_again


def missed(linger: Linger, now_s: float) -> bool:
    """One entry of a client that never comes back; whether the entry waited for it."""
    linger.expect(10, now_s, 0.0)
    waited = not linger.over(1, now_s)
    linger.over(1, now_s + LINGER_S)
    return waited


def test_after_each_miss_twice_as_many_entries_wait_for_nobody() -> None:
    linger = Linger()
    waited = [missed(linger, float(round_)) for round_ in range(1 + 1 + 1 + 2 + 1 + 4 + 1)]
    assert waited == [True, False, True, False, False, True, False, False, False, False, True]


def test_the_rests_have_a_bound() -> None:
    linger = Linger()
    waited = [missed(linger, float(round_)) for round_ in range(6 * RESTS_MAX)]
    longest = max(len(run) for run in "".join("w" if each else "-" for each in waited).split("w"))
    assert longest == RESTS_MAX


def test_who_comes_back_ends_the_rests() -> None:
    linger = Linger()
    for round_ in range(4):
        missed(linger, float(round_))
    while not missed(linger, 50.0):
        pass
    for _ in range(RESTS_MAX):
        linger.expect(2, 60.0, 0.0)
        linger.over(2, 60.0)
    assert missed(linger, 70.0)
    assert not missed(linger, 71.0)
    assert missed(linger, 72.0)


def test_a_turn_is_due_for_the_first_and_the_last_of_those_who_are_expected(three: Rig) -> None:
    three[1].proposer._linger.expect(3, three.now, 1.0)
    driver, decide = three.drivers[NodeId(1)], three.decide_allocate(1)
    due = []
    for _ in range(3):
        due.append(driver.submit(decide, Answers()) != NOTHING)
        three.step(1)
    assert due == [True, False, True]
