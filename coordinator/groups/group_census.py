"""How many groups are in each state, for metrics: a walk over all groups, again and again, in slices.

Slices   of the image, with time between them: 1,000 groups are counted within seconds, 100,000 within
         two minutes, and the loop has none of it for longer than a few milliseconds.
Shown    is the last walk that reached the end. A group that exists by its offsets alone is Empty; one whose
         first join phase is under way is in no table yet, and not counted.
Source   Kafka NumGroups, NumGroupsStable, ...: GroupCoordinatorShard counts by a walk, once a minute, too.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections import Counter
from collections.abc import Callable
from typing import Final

from fencepost.controller.groups import describe
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_operations import GroupOperations

SLICE_ROWS_MAX: Final = 500
SLICE_PAUSE_S: Final = 0.5
WALK_PAUSE_S: Final = 5.0


class GroupCensus:
    """See the module. Soft state is of one leadership."""

    def __init__(self, image: Callable[[], View], operations: GroupOperations) -> None:
        self._image = image
        self._operations = operations
        self.begin()

    def begin(self) -> None:
        """A leadership begins, or ends: nothing is counted."""
        self.states: Counter[str] = Counter()
        """Groups by the state's name, as DescribeGroups has it."""
        self._due_s = 0.0
        self._start()

    def _start(self) -> None:
        self._counted: Counter[str] = Counter()
        self._after: str | None = None
        self._is_simple = False

    def maintain(self, now_s: float) -> None:
        """A slice, if it is due; at the end of a walk its numbers are shown."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + SLICE_PAUSE_S
        view = self._image()
        if self._is_simple:
            found, self._after = describe.list_simple_slice(view, self._after, SLICE_ROWS_MAX)
        else:
            found, self._after = describe.list_slice(
                view, self._after, SLICE_ROWS_MAX, self._operations.is_preparing
            )
        self._counted.update([each.state for each in found])
        if self._after is not None:
            return
        if not self._is_simple:
            self._is_simple = True
            return
        self.states = self._counted
        self._due_s = now_s + WALK_PAUSE_S
        self._start()
