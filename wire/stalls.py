"""The longest time that one piece of work held the event loop, by the name of the work.

Counted     CPU time of the loop's thread: a busy machine or a slow disk does not count. Flushes of the store
            are taken out and counted apart; the CPU of one shorter than MEASURED_S stays in.
Names       the request's name for what a connection brings; else ``turn``, ``raft frame``, a timer's name.
Cost        two readings of the monotonic clock for each piece of work. The CPU clock is a system call, so it
            is read at most every CPU_READ_S, and after work that took MEASURED_S: what is recorded may be
            too long by CPU_READ_S, never too short.
Log         one ``loop_stalled`` for each name in LOG_INTERVAL_S, for work of STALL_S and more.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

STALL_S: Final = 0.05
"""Longer than this and the leader's heartbeats are late: no request, timer or reply may take it."""

MEASURED_S: Final = 0.001  # shorter work is not measured: it is at most that
CPU_READ_S: Final = 0.002
LOG_INTERVAL_S: Final = 10.0
NAMES_MAX: Final = 256  # request names and timers are far fewer


Begun: TypeAlias = tuple[float, float]
"""When work began, by the monotonic clock and by the CPU clock as it was last read."""


class Stalls:
    """What one event loop was held by. All calls come from the loop's thread."""

    def __init__(
        self,
        log: FilteringBoundLogger | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._log = log
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._read_at_s = float("-inf")
        self._cpu_s = 0.0  # the CPU clock as last read
        self._logged_at_s: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}
        self.longest_s: dict[str, float] = {}
        """By the name of the work, since the node started."""
        self._flushed_s = 0.0  # of all flushes together, by the monotonic clock
        self._flushed_cpu_s = 0.0
        self.flush = FlushWatch(self, clock)
        """Around each flush of the store."""

    def begin(self) -> Begun:
        """A piece of work begins, perhaps inside another one, whose time it is then, too."""
        now_s = self._clock()
        if now_s - self._read_at_s > CPU_READ_S:  # as _read_cpu: most of an idle node's work gets here
            self._cpu_s, self._read_at_s = self._cpu_clock() - self._flushed_cpu_s, now_s
        return now_s - self._flushed_s, self._cpu_s

    def end(self, work: str, begun: Begun) -> None:
        """A piece of work has ended: count its time if it held the loop."""
        now_s = self._clock()
        elapsed_s = now_s - self._flushed_s - begun[0]
        if elapsed_s >= MEASURED_S:
            self._read_cpu(now_s)
            self._record(work, min(elapsed_s, self._cpu_s - begun[1]), now_s)

    def flushed(self, begun_s: float, ended_s: float) -> None:
        """A flush ended: its time belongs to no work.

        What the CPU clock was at its beginning is not read: at most its last reading and the time since.
        """
        self._flushed_s += ended_s - begun_s
        if ended_s - begun_s >= MEASURED_S:
            until_begun_s = self._cpu_s + begun_s - self._read_at_s
            self._read_cpu(ended_s)
            flush_cpu_s = max(0.0, self._cpu_s - until_begun_s)
            self._flushed_cpu_s += flush_cpu_s
            self._cpu_s -= flush_cpu_s

    def watch(self, work: str) -> "Watch":
        """A context manager for work of one name, to be kept and entered each time."""
        return Watch(self, work)

    def _read_cpu(self, now_s: float) -> None:
        self._cpu_s = self._cpu_clock() - self._flushed_cpu_s
        self._read_at_s = now_s

    def _record(self, work: str, stall_s: float, now_s: float) -> None:
        known_s = self.longest_s.get(work)
        if known_s is None and len(self.longest_s) >= NAMES_MAX:
            return
        if known_s is None or stall_s > known_s:
            self.longest_s[work] = stall_s
        if stall_s >= STALL_S:
            self._report(work, stall_s, now_s)

    def _report(self, work: str, stall_s: float, now_s: float) -> None:
        if self._log is None:
            return
        if now_s - self._logged_at_s.get(work, float("-inf")) < LOG_INTERVAL_S:
            self._unlogged[work] = self._unlogged.get(work, 0) + 1
            return
        self._logged_at_s[work] = now_s
        self._log.warning(
            "loop_stalled", work=work, cpu_ms=round(stall_s * 1000), not_logged=self._unlogged.pop(work, 0)
        )


class Watch:
    """``with`` around work of one name. It may be entered again once it is left."""

    __slots__ = ("_begun", "_stalls", "_work")

    def __init__(self, stalls: Stalls, work: str) -> None:
        self._stalls = stalls
        self._work = work
        self._begun: Begun = (0.0, 0.0)

    def __enter__(self) -> None:
        self._begun = self._stalls.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stalls.end(self._work, self._begun)


class FlushWatch:
    """``with`` around each flush: its time belongs to no other work, and has a maximum of its own."""

    __slots__ = ("_begun_s", "_clock", "_stalls", "longest_s")

    def __init__(self, stalls: Stalls, clock: Callable[[], float]) -> None:
        self._stalls = stalls
        self._clock = clock
        self._begun_s = 0.0
        self.longest_s = 0.0
        """Of one flush, the time that it waited for the disk included."""

    def __enter__(self) -> None:
        self._begun_s = self._clock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended_s = self._clock()
        self._stalls.flushed(self._begun_s, ended_s)
        self.longest_s = max(self.longest_s, ended_s - self._begun_s)
