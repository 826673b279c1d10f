"""Clocks: what a leader concludes from times that other leaders wrote.

Each leadership stamps with a clock of its own: a wall clock at its activation and monotonic time since. No
two of them are known to agree, so a stamp of an earlier leadership is clamped before it is compared.

Timeouts    what an earlier leader began has at most its timeout left: it began at this leader's activation at
            the latest (``began_ms``).
Idleness    is counted by this leader's own time, or by the slowest of the clocks that this node has seen lead
            since it started (``SeenClocks``), whichever says more (``idle_stamps``).

Guaranteed for something idle, such as a transactional id that no producer uses:
            - it is not forgotten before its time has passed by every clock that this node saw lead, or while
              this node led. A clock that is ahead, alone, forgets nothing.
            - it is forgotten by a leader that leads for twice its time, whatever the clocks say, with a stamp
              from the future too; and by a leader that saw another leadership, however short its own is, as
              soon as the slowest clock seen says so.
Limits      - a node sees no clock while it is down: the time between the last entry of the last leadership in
              its journal and its start may not count, for as long as the process lives.
            - stamps of a leadership that no running node saw count as if its clock agreed with the others'.
"""

from typing import NamedTuple


def began_ms(stamp_ms: int, activated_ms: int, *, inherited: bool) -> int:
    """When it began, by this leader's clock; ``inherited``: stamped in an earlier leadership."""
    return min(stamp_ms, activated_ms) if inherited else stamp_ms


class IdleStamps(NamedTuple):
    """Of something that was last used at such a stamp the time is over. Both bounds are inclusive."""

    last_ms: int  # up to this one; it may lie before any stamp
    first_future_ms: int | None  # and from this one on, which no clock of this leadership has reached

    def holds(self, stamp_ms: int) -> bool:
        """Whether that stamp is one of them."""
        return stamp_ms <= self.last_ms or (
            self.first_future_ms is not None and stamp_ms >= self.first_future_ms
        )


def idle_stamps(now_ms: int, activated_ms: int, idle_ms: int, slowest_ms: int | None) -> IdleStamps:
    """Which stamps lie back by ``idle_ms``, for sure.

    ``slowest_ms``   see ``SeenClocks.slowest_ms``.

    A stamp outside [activation, now] is of an earlier leadership, so what it is of was not used in this one.
    A stamp inside may be, too, of one whose clock was ahead: then it is older than it says.
    """
    if now_ms - activated_ms >= idle_ms:
        return IdleStamps(now_ms - idle_ms, now_ms + 1)
    if slowest_ms is None:
        return IdleStamps(-1, None)
    return IdleStamps(min(now_ms, slowest_ms) - idle_ms, None)


class SeenClocks:
    """How far the clock of each leadership is behind this node's monotonic one: the latest, and the slowest.

    A stamp arrives late, never early: of one leadership the least difference is the best estimate.
    """

    def __init__(self) -> None:
        self._leadership: int | None = None
        self._behind_ms = 0  # of that one
        self._others_behind_ms: int | None = None  # the slowest of those before it

    def observe(self, leadership: int, stamp_ms: int, monotonic_ms: int) -> None:
        """The leader of ``leadership``, which leads now, stamped something with ``stamp_ms``."""
        behind_ms = monotonic_ms - stamp_ms
        if leadership == self._leadership:
            self._behind_ms = min(self._behind_ms, behind_ms)
            return
        if self._leadership is not None:
            others = self._behind_ms if self._others_behind_ms is None else self._others_behind_ms
            self._others_behind_ms = max(others, self._behind_ms)
        self._leadership, self._behind_ms = leadership, behind_ms

    def slowest_ms(self, monotonic_ms: int) -> int | None:
        """The time by the slowest clock seen; None if there was one only, for it may be this leader's own."""
        if self._others_behind_ms is None:
            return None
        return monotonic_ms - max(self._behind_ms, self._others_behind_ms)
