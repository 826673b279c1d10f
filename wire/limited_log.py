"""A log for events that outsiders cause: of each event some lines, then how many were left out.

In each INTERVAL_S the first LINES_MAX lines of an event are written. ``flush`` writes one
``log_lines_suppressed`` line with the number of the others when the interval has ended.
"""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from structlog.typing import FilteringBoundLogger

LINES_MAX: Final = 10  # of one event in one interval
INTERVAL_S: Final = 60.0
EVENTS_MAX: Final = 100  # events are constants of the code, so there are a few; past it none is counted apart


class _Interval(NamedTuple):
    begun_s: float
    lines: int


class LimitedLog:
    """Lines about what comes in, at a bounded rate. Use on one thread."""

    def __init__(self, log: FilteringBoundLogger, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock_s = clock_s
        self._intervals: dict[tuple[str, str], _Interval] = {}

    def warning(self, event: str, *, kind: str = "", **fields: Any) -> None:
        """Write the line, or count it; lines of another ``kind`` are counted apart."""
        self._write(self._log.warning, (event, kind), fields)

    def info(self, event: str, **fields: Any) -> None:
        """The same for what is no fault of anyone's, such as the deletion of what they made."""
        self._write(self._log.info, (event, ""), fields)

    def error(self, event: str, **fields: Any) -> None:
        """The same for what is our bug."""
        self._write(self._log.error, (event, ""), fields)

    def _write(self, write: Callable[..., object], key: tuple[str, str], fields: dict[str, Any]) -> None:
        now_s = self._clock_s()
        current = self._intervals.get(key)
        if current is not None and now_s - current.begun_s >= INTERVAL_S:
            self._end(key, current)
            current = None
        if current is None:
            if len(self._intervals) >= EVENTS_MAX:
                return
            current = _Interval(now_s, 0)
        if current.lines < LINES_MAX:
            write(key[0], **fields)
        self._intervals[key] = current._replace(lines=current.lines + 1)

    def flush(self) -> None:
        """Write the numbers of the intervals that have ended. To be called every second or so."""
        now_s = self._clock_s()
        for key, current in tuple(self._intervals.items()):
            if now_s - current.begun_s >= INTERVAL_S:
                self._end(key, current)

    def close(self) -> None:
        """Write the numbers of all intervals."""
        for key, current in tuple(self._intervals.items()):
            self._end(key, current)

    def _end(self, key: tuple[str, str], current: _Interval) -> None:
        del self._intervals[key]
        if current.lines > LINES_MAX:
            self._log.warning(
                "log_lines_suppressed",
                suppressed_event=key[0],
                lines=current.lines - LINES_MAX,
                seconds=round(self._clock_s() - current.begun_s, 1),
            )
