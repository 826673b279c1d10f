"""Cases of one test: all of them run, and those that fail are named."""

import pytest

from tests.together import Together


def test_every_case_that_fails_is_named() -> None:
    ran: list[int] = []

    def play() -> None:
        with Together() as cases:
            for number in range(4):
                with cases.case(str(number)):
                    ran.append(number)
                    assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match=r"cases that fail: 1, 3$") as raised:
        play()
    assert ran == [0, 1, 2, 3]
    assert [each.__notes__ for each in raised.value.exceptions] == [["case: 1"], ["case: 3"]]


def test_cases_that_hold_are_silent() -> None:
    with Together() as cases, cases.case("sound"):
        pass


def test_what_fails_between_cases_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError), Together():
        raise KeyError("between")
