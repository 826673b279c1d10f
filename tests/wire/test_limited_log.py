"""Lines about what strangers cause: a few of each kind, then a count."""

from typing import Any

import pytest

from fencepost.wire.limited_log import EVENTS_MAX, INTERVAL_S, LINES_MAX, LimitedLog
from tests.wire.stage import capturing_log


class Log:
    def __init__(self) -> None:
        log, self.lines = capturing_log()
        self.now_s = 0.0
        self.limited = LimitedLog(log, lambda: self.now_s)

    def suppressed(self) -> list[tuple[str, int]]:
        return [
            (each["suppressed_event"], each["lines"])
            for each in self.lines
            if each["event"] == "log_lines_suppressed"
        ]


@pytest.mark.parametrize(
    ("count", "suppressed"),
    [
        pytest.param(LINES_MAX, [], id="at-the-limit"),
        pytest.param(LINES_MAX + 1, [("gone", 1)], id="one-past"),
        pytest.param(100_000, [("gone", 100_000 - LINES_MAX)], id="many"),
    ],
)
def test_the_first_lines_are_written_and_the_rest_counted(count: int, suppressed: list[Any]) -> None:
    log = Log()
    for number in range(count):
        log.limited.warning("gone", number=number)
    assert [each["number"] for each in log.lines] == list(range(LINES_MAX))
    log.limited.flush()
    assert log.suppressed() == []  # the interval is not over
    log.now_s = INTERVAL_S
    log.limited.flush()
    log.limited.flush()
    assert log.suppressed() == suppressed


def test_what_is_no_fault_is_bounded_too() -> None:
    log = Log()
    for _ in range(LINES_MAX + 1):
        log.limited.info("deleted")
    assert [each["log_level"] for each in log.lines] == ["info"] * LINES_MAX


def test_each_kind_has_its_own_lines_and_each_interval_new_ones() -> None:
    log = Log()
    for _ in range(50):
        log.limited.warning("gone")
    log.limited.warning("refused")
    assert log.lines[-1]["event"] == "refused"
    log.now_s = INTERVAL_S
    log.limited.warning("gone", again=True)
    assert [each["event"] for each in log.lines[-2:]] == ["log_lines_suppressed", "gone"]


def test_the_number_of_kinds_is_bounded() -> None:
    log = Log()
    for number in range(EVENTS_MAX + 5):
        log.limited.warning(f"event {number}")
    assert len(log.lines) == EVENTS_MAX
