"""Keeps Python's garbage collector from stalling the event loop.

A full collection visits every container object: 0.1 s with 10,000 partitions on a node. Here what survives a
collection of the middle generation (of some 7,000 objects) is moved to where no collection looks
(``gc.freeze``), so that each one visits new objects alone. Objects that are in no cycle are freed as ever, by
their reference counts.

Bounded     garbage in cycles that survived such a collection stays until there are BLOCKS_MIN more blocks of
            memory than twice as many as the last full collection left: then a full one is due. It is done by
            ``collect_if_due`` alone, which a timer calls: never in the middle of a request.
Counting    an object has one to three blocks. To count blocks takes 0.2 ms for two million objects; to count
            the objects that are frozen takes 15 ms, and several times that if they are in no cache.
"""

import gc
import sys
from typing import Final

BLOCKS_MIN: Final = 4_000_000
"""Of Python's allocator: some hundred megabytes. To visit the objects in them takes a second."""

COUNTED_EVERY: Final = 64  # collections

_MIDDLE: Final = 1


class LongLived:
    """Spares what lives long, from now on, in this process; what is alive now is never visited either."""

    def __init__(self, blocks_min: int = BLOCKS_MIN) -> None:
        self._blocks_min = blocks_min
        self._count = 0
        self.full_is_due = False
        gc.collect()
        gc.freeze()
        self._limit = self._next_limit()
        gc.callbacks.append(self._on_collection)

    def collect_if_due(self) -> None:
        """Collect all garbage, if there may be much: for a second or so nothing else runs."""
        if not self.full_is_due:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.full_is_due = False
        self._limit = self._next_limit()

    def undo(self) -> None:
        """Collect as Python does again."""
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def _next_limit(self) -> int:
        return 2 * sys.getallocatedblocks() + self._blocks_min

    def _on_collection(self, phase: str, collection: dict[str, int]) -> None:
        if phase == "start" or collection["generation"] < _MIDDLE:
            return
        gc.freeze()
        self._count += 1
        if self._count % COUNTED_EVERY == 0 and sys.getallocatedblocks() > self._limit:
            self.full_is_due = True
