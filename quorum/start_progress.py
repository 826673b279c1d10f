"""A long start says how far it is: once a second, from the first second on."""

from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

PROGRESS_S: Final = 1.0


class Progress:
    """One piece of work of a known size. ``clock`` is monotonic, in seconds; ``total`` is its last place."""

    def __init__(self, event: str, total: int, clock: Callable[[], float], log: FilteringBoundLogger) -> None:
        self._event = event
        self._total = total
        self._clock = clock
        self._log = log
        self._due_s = clock() + PROGRESS_S

    def at(self, place: int) -> None:
        """The work has come to that place; it ends at the total, and nothing is logged from then on."""
        if place >= self._total:
            self._due_s = float("inf")
            return
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = now_s + PROGRESS_S
            self._log.info(self._event, at=place, of=self._total)
