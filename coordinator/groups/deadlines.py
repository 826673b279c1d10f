"""When the time of each member of a group is over.

Bound   none is over before ``earliest_s``. A member that is given more time leaves it where it is: a request
        of one member costs the same in a group of thousands. Only ``take_over`` walks all, once the bound is
        reached, and makes it exact.
"""

from collections.abc import Iterator
from math import inf


class Deadlines:
    """See the module. Times are of the coordinator's monotonic clock."""

    __slots__ = ("_at", "earliest_s")

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self.earliest_s = inf

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[str]:
        """Members, the longest known first."""
        return iter(self._at)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._at

    def set(self, member_id: str, at_s: float) -> None:
        """The member has until then."""
        self._at[member_id] = at_s
        self.earliest_s = min(self.earliest_s, at_s)

    def discard(self, member_id: str) -> bool:
        """Nothing waits for the member any more. Whether something did."""
        return self._at.pop(member_id, None) is not None

    def take_over(self, now_s: float) -> list[str]:
        """Those whose time is over, the longest known first, once: ``set`` or ``discard`` each of them."""
        over: list[str] = []
        if now_s < self.earliest_s:
            return over
        self.earliest_s = inf
        for member_id, at_s in self._at.items():
            if at_s <= now_s:
                over.append(member_id)
            elif at_s < self.earliest_s:
                self.earliest_s = at_s
        return over
