"""Clocks: whether this node's may be believed, and what a leader concludes from times that others wrote.

Jumps       within one boot of the machine the wall clock and the boot-time clock go on together; one that
            has left the other by over ``JUMP_MS`` has jumped. Across boots only going back shows
            (``TrustedClock``). Meanwhile nothing is deleted or expired, and time goes on as before the jump.
            A clock of which the node cannot read what it kept is doubted: it may have jumped meanwhile.
            It ends when the clock is back, when a majority of voters that did not jump agrees with it
            (``agreed_ms``: voters that jumped together have no say), or by an operator's word.

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

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

JUMP_MS: Final = 3_600_000
"""By more than this a clock has jumped. What NTP sets right at a start is less."""


class Reading(NamedTuple):
    """The clocks of the machine, at one moment."""

    boot_id: str  # "": not known, so each start counts as one in another boot
    boottime_ms: int  # since the machine started, times of suspension included
    wall_ms: int  # since the Unix epoch


class KeptClock(msgspec.Struct, frozen=True, kw_only=True):
    """What a node keeps of its clocks on its disk."""

    boot_id: str
    ahead_ms: int  # of the trusted time before the boot-time clock
    trusted_ms: int  # when this was kept
    wall_ms: int  # the wall clock at that moment: another time if it had jumped

    @property
    def jumped_ahead(self) -> bool:
        """Its node did not believe the wall clock, which was ahead."""
        return self.wall_ms - self.trusted_ms > JUMP_MS


class TrustedClock:
    """One node's wall clock, believed as long as it follows the boot-time clock."""

    def __init__(self, kept: KeptClock | None, now: Reading, *, is_doubted: bool = False) -> None:
        """``kept``: by the last process of this node; None: this is the first one, or what was is damaged."""
        self.is_doubted = is_doubted
        self._ahead_ms = now.wall_ms - now.boottime_ms
        if kept is None:
            return
        if now.boot_id and kept.boot_id == now.boot_id:
            self._ahead_ms = kept.ahead_ms
            return
        went_back = now.wall_ms < kept.trusted_ms - JUMP_MS
        still_ahead = kept.jumped_ahead and now.wall_ms >= kept.wall_ms - JUMP_MS
        if went_back or still_ahead:
            self._ahead_ms = kept.trusted_ms - now.boottime_ms

    def jump_ms(self, now: Reading) -> int:
        """How far the wall clock is from where it should be; 0 if that is no jump."""
        off_ms = now.wall_ms - now.boottime_ms - self._ahead_ms
        return off_ms if abs(off_ms) > JUMP_MS else 0

    def is_believed(self, now: Reading) -> bool:
        """It has not jumped, as far as the node knows."""
        return not self.is_doubted and not self.jump_ms(now)

    def now_ms(self, now: Reading) -> int:
        """The wall clock; after a jump the time that it would show without."""
        return now.boottime_ms + self._ahead_ms if self.jump_ms(now) else now.wall_ms

    def accept(self, now: Reading) -> None:
        """An operator says that the wall clock is right."""
        self._ahead_ms = now.wall_ms - now.boottime_ms
        self.is_doubted = False

    def agree(self, now: Reading, majority_ms: int) -> bool:
        """Believe a clock that jumped to where the majority's is (``agreed_ms``). Returns whether it did."""
        agrees = not self.is_believed(now) and abs(now.wall_ms - majority_ms) <= JUMP_MS
        if agrees:
            self.accept(now)
        return agrees

    def kept(self, now: Reading) -> KeptClock:
        """For the next process."""
        return KeptClock(
            boot_id=now.boot_id,
            ahead_ms=self._ahead_ms,
            trusted_ms=self.now_ms(now),
            wall_ms=now.wall_ms,
        )


def agreed_ms(unjumped_ms: Iterable[int], voter_count: int) -> int | None:
    """The time by a majority of all voters; None if no majority has clocks that are believed and agree.

    ``unjumped_ms``   the time by each voter whose clock has not jumped.
    """
    times = sorted(unjumped_ms)
    majority = voter_count // 2 + 1
    for first in range(len(times) - majority + 1):
        if times[first + majority - 1] - times[first] <= JUMP_MS:
            return times[first + majority // 2]
    return None


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
