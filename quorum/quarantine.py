"""Rows that a timer's decision fails on: set aside, so that the timer goes on with all others.

Soft      of one leadership. The next leader tries each of them again; it may not be the row that is at fault.
Timers    and sweeps alone pass a row by. A request of a client about it is decided as ever.
Retry     after RETRY_S, then twice as long each time, up to RETRY_S_MAX. With QUARANTINED_MAX of them the
          oldest makes room: it is tried again at once.
"""

from collections.abc import Callable
from typing import Final

import msgspec

QUARANTINED_MAX: Final = 1_000
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 600.0
REASON_CHARACTERS_MAX: Final = 500


class Quarantined(msgspec.Struct, frozen=True):
    """A row that is set aside. ``key``: a transactional id, or a broker id as text."""

    concern: str  # which timer passes it by, such as "transaction timeout"
    key: str
    reason: str
    since_ms: int  # by the clock of this leadership
    failures: int
    retry_at_s: float  # by the node's clock


class Quarantine:
    """See the module. ``begin`` starts a leadership, or ends one."""

    def __init__(self, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._rows: dict[tuple[str, str], Quarantined] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self) -> None:
        """Set nothing aside: a new leadership begins."""
        self._rows.clear()

    def add(self, concern: str, key: str, reason: str) -> Quarantined:
        """The decision on this row alone failed, again perhaps. Returns the row as it is set aside."""
        known = self._rows.get((concern, key))
        if known is None and len(self._rows) >= QUARANTINED_MAX:
            del self._rows[next(iter(self._rows))]
        failures = 1 if known is None else known.failures + 1
        row = Quarantined(
            concern,
            key,
            reason[:REASON_CHARACTERS_MAX],
            self._now_ms() if known is None else known.since_ms,
            failures,
            self._clock() + min(RETRY_S * 2 ** min(failures - 1, 20), RETRY_S_MAX),
        )
        self._rows[concern, key] = row
        return row

    def remove(self, concern: str, key: str) -> None:
        """The decision on this row succeeded; nothing happens if it is not set aside."""
        if self._rows:
            self._rows.pop((concern, key), None)

    def passed_by(self, concern: str) -> frozenset[str]:
        """The keys that this timer is not to try now."""
        if not self._rows:
            return _NONE
        now_s = self._clock()
        return frozenset(
            row.key for row in self._rows.values() if row.concern == concern and now_s < row.retry_at_s
        )

    def rows(self) -> tuple[Quarantined, ...]:
        """All of them, the oldest first."""
        return tuple(self._rows.values())


_NONE: Final[frozenset[str]] = frozenset()
