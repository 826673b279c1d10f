"""The checks notice: each of the ways in which ids could go wrong, made up, is found by name."""

import pytest

from tests.processes.archive_reader import Allocation
from tests.processes.checks import check_blocks, check_sights
from tests.processes.load import Attempt, Outcome, Sight
from tests.together import table

LEADERS = {1: 1, 2: 2}


def told(outcome: Outcome, end: int = -1, *, broker: int = 1, epoch: int = 7) -> Attempt:
    first = end - 10 if outcome == "done" else -1
    return Attempt(broker, epoch, 1, 0, 0, outcome, "", first, end)


def logged(end: int, *, broker: int = 1, epoch: int = 7) -> Allocation:
    return Allocation(end, 1, 0, broker, epoch, end)


SOUND = [
    pytest.param([told("done", 10), told("done", 20)], [logged(10), logged(20)], id="all-told"),
    pytest.param([told("done", 10), told("unknown")], [logged(10), logged(20)], id="unknown-and-done"),
    pytest.param([told("done", 10), told("unknown")], [logged(10)], id="unknown-and-not-done"),
    pytest.param([told("refused"), told("done", 10)], [logged(10)], id="refused-and-not-done"),
    pytest.param([told("done", 20)], [logged(10, broker=2), logged(20)], id="somebody-else's-between"),
]
WRONG = [
    pytest.param(
        [told("done", 10), told("done", 15)], [logged(10), logged(15)], "overlap", id="ids-handed-out-twice"
    ),
    pytest.param([told("done", 10)], [logged(10), logged(10)], "ids twice", id="ids-logged-twice"),
    pytest.param([told("done", 10), told("done", 20)], [logged(20)], "not archived", id="lost-at-the-front"),
    pytest.param([told("done", 10), told("done", 20)], [logged(10)], "not archived", id="lost-at-the-end"),
    pytest.param([told("done", 10)], [logged(10, broker=2)], "not archived", id="logged-for-another-broker"),
    pytest.param([told("done", 10)], [logged(10, epoch=8)], "not archived", id="logged-in-another-epoch"),
    pytest.param([told("done", 20)], [logged(5, broker=2), logged(20)], "starts at 5", id="another-start"),
    pytest.param(
        [told("done", 10), told("refused")],
        [logged(10), logged(20)],
        "refused, and done",
        id="refused-and-done",
    ),
    pytest.param(
        [told("unknown")], [logged(10), logged(20)], "refused, and done", id="an-unknown-one-done-twice"
    ),
]


@table(("history", "log"), SOUND)
def test_a_sound_run_passes(history: list[Attempt], log: list[Allocation]) -> None:
    check_blocks(history, log)


@table(("history", "log", "complaint"), WRONG)
def test_a_wrong_run_is_noticed(history: list[Attempt], log: list[Allocation], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_blocks(history, log)


def test_two_leaders_of_one_epoch_are_noticed() -> None:
    twice = [Sight(3, 30, 2, leads=True, high_watermark=5)] * 2
    with pytest.raises(AssertionError, match="epoch 2 is led by 2 and 3"):
        check_sights(twice, LEADERS)
    check_sights(twice, {1: 1})


def test_a_high_watermark_that_goes_back_is_noticed_unless_the_process_is_another() -> None:
    before = Sight(1, 10, 1, leads=True, high_watermark=5)
    with pytest.raises(AssertionError, match="went back from 5"):
        check_sights([before, before._replace(high_watermark=4)], LEADERS)
    check_sights([before, before._replace(high_watermark=4, pid=11)], LEADERS)
