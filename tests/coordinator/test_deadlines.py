"""When the time of each member is over: found when it is, and at no cost of the others before."""

from collections.abc import Iterable
from math import inf
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.coordinator.groups.deadlines import Deadlines

IDS = st.sampled_from("abcd")
TIMES = st.integers(0, 20).map(float)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), IDS, TIMES),
        st.tuples(st.just("discard"), IDS),
        st.tuples(st.just("take over"), TIMES),
    )
)


@given(STEPS)
def test_those_whose_time_is_over_are_found_and_no_others(steps: Iterable[tuple[Any, ...]]) -> None:
    found, expected = Deadlines(), dict[str, float]()
    for verb, *rest in steps:
        if verb == "set":
            found.set(*rest)
            expected[rest[0]] = rest[1]
        elif verb == "discard":
            assert found.discard(rest[0]) == (expected.pop(rest[0], None) is not None)
        else:
            (now_s,) = rest
            was_reached = now_s >= found.earliest_s
            over = found.take_over(now_s)
            assert set(over) == {each for each, at_s in expected.items() if at_s <= now_s}
            left = {each: at_s for each, at_s in expected.items() if at_s > now_s}
            if was_reached:
                assert found.earliest_s == min(left.values(), default=inf)
            for each in over:  # as its caller does: one of them stays, the others go
                if each == "a":
                    found.set(each, now_s + 5.0)
                    expected[each] = now_s + 5.0
                else:
                    found.discard(each)
                    del expected[each]
        assert found.earliest_s <= min(expected.values(), default=inf)
        assert {each: each in found for each in "abcd"} == {each: each in expected for each in "abcd"}
        assert (set(found), len(found)) == (set(expected), len(expected))


class NoWalk(dict[str, float]):
    """What is known of a thousand members, which a request of one must not walk."""

    def _walked(self) -> NoReturn:
        pytest.fail("all members were walked")

    __iter__ = keys = values = items = _walked


def test_a_request_of_one_member_walks_no_others() -> None:
    deadlines = Deadlines()
    deadlines._at = NoWalk({str(each): 45.0 for each in range(1000)})
    deadlines.earliest_s = 45.0
    deadlines.set("7", 90.0)
    assert deadlines.discard("8")
    assert deadlines.take_over(44.0) == []
    assert deadlines.earliest_s == 45.0
