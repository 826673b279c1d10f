"""Virtual time: what happens next, in an order that a seed decides."""

import heapq
from collections.abc import Callable
from typing import Any

Call = Callable[..., None]


class Agenda:
    """Calls to come, by time and, at the same time, by who asked first. ``now`` is in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.done = 0  # calls made so far
        self._heap: list[tuple[float, int, Call, tuple[Any, ...]]] = []
        self._asked = 0

    def at(self, when: float, call: Call, *arguments: Any) -> None:
        """Make a call at ``when``, or now if that is past."""
        self._asked += 1
        heapq.heappush(self._heap, (max(when, self.now), self._asked, call, arguments))

    def after(self, wait_s: float, call: Call, *arguments: Any) -> None:
        """Make a call in ``wait_s``."""
        self.at(self.now + wait_s, call, *arguments)

    def step(self) -> bool:
        """Make the next call. False: there is none."""
        if not self._heap:
            return False
        self.now, _, call, arguments = heapq.heappop(self._heap)
        self.done += 1
        call(*arguments)
        return True

    @property
    def next_at(self) -> float:
        """When the next call is due; infinity if there is none."""
        return self._heap[0][0] if self._heap else float("inf")
