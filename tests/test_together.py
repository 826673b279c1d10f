"""Cases of one test: all of them run, and those that fail are named."""

import inspect
from pathlib import Path

import pytest

from tests.together import Together, table


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


def test_a_case_that_raises_nothing_where_it_should_is_named_too() -> None:
    """What pytest.raises raises is no Exception: it would end the test before the other cases run."""
    ran: list[str] = []

    def play() -> None:
        with Together() as cases:
            for name in ("silent", "sound", "torn"):
                with cases.case(name):
                    ran.append(name)
                    with pytest.raises(KeyError):
                        raise {"silent": KeyError, "sound": KeyError, "torn": ValueError}[name]
            with cases.case("nothing"), pytest.raises(KeyError):
                ran.append("nothing")
            with cases.case("last"):
                ran.append("last")

    with pytest.raises(BaseExceptionGroup, match=r"cases that fail: torn, nothing$"):
        play()
    assert ran == ["silent", "sound", "torn", "nothing", "last"]


def test_rows_are_one_test_that_has_fixtures() -> None:
    seen: list[tuple[int, str, str]] = []

    @table("number", [1, 2])
    @table(("text", "length"), [("a", 1), pytest.param("bc", 2, id="two"), ("a", 1)], ids=["one", "-", "one"])
    def play(number: int, text: str, length: int, shared: str) -> None:
        assert len(text) == length
        seen.append((number, text, shared))

    assert [*inspect.signature(play).parameters] == ["shared"]
    play(shared="x")
    assert seen == [(number, text, "x") for number in (1, 2) for text in ("a", "bc", "a")]


@table("number", [1, 2])
@table("text", ["a", "b"])
def test_each_row_has_a_folder_of_its_own(tmp_path: Path, number: int, text: str) -> None:
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").write_text(f"{number} {text}")


def test_every_row_that_fails_is_named() -> None:
    @table("number", range(4), ids="number-{}".format)
    def is_even(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match=r"cases that fail: number-1, number-3$"):
        is_even()


@pytest.mark.parametrize(
    ("names", "rows"),
    [
        pytest.param("number", [], id="no-rows"),
        pytest.param("nothing", [1], id="no-such-argument"),
        pytest.param("number", [pytest.param(1, marks=pytest.mark.slow)], id="a-marked-row"),
    ],
)
def test_what_is_no_table(names: str, rows: list[object]) -> None:
    def play(number: int) -> None:
        pass

    with pytest.raises(AssertionError):
        table(names, rows)(play)
