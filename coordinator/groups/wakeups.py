"""When each group is to be looked at: a heap with one entry for each group that has a timer.

A timer that moves back leaves its entry where it is: the group is looked at, and entered again. So a
heartbeat costs no work here, and nothing walks all groups.
"""

from heapq import heappop, heappush
from math import inf


class Wakeups:
    """See the module."""

    __slots__ = ("_at", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._at: dict[str, float] = {}  # the one entry of each group that counts

    def __len__(self) -> int:
        return len(self._at)

    def set(self, group_id: str, at_s: float) -> None:
        """Look at the group then, or before."""
        if at_s < self._at.get(group_id, inf):
            self._at[group_id] = at_s
            heappush(self._heap, (at_s, group_id))

    def next_due(self, now_s: float) -> str | None:
        """A group that is due, once; None if no other one is."""
        while self._heap and self._heap[0][0] <= now_s:
            at_s, group_id = heappop(self._heap)
            if self._at.get(group_id) == at_s:
                del self._at[group_id]
                return group_id
        return None
