"""Keeps Python's garbage collector from stalling the event loop.

A full collection visits every container object: 0.1 s with 10,000 partitions on a node. Here what survives a
collection of the middle generation (of some 7,000 objects) is moved to where no collection looks
(``gc.freeze``), so that each one visits new objects alone. Objects that are in no cycle are freed as ever, by
their reference counts.

Bounded     garbage in cycles that survived such a collection stays until there are FROZEN_MIN more objects
            than twice as many as the last full collection left: then the next one is full again.
"""

import gc
from collections.abc import Callable
from typing import Final

FROZEN_MIN: Final = 2_000_000
"""Container objects: some hundred megabytes. To visit so many takes a second."""

COUNTED_EVERY: Final = 64  # collections: to count what is frozen takes some milliseconds for a million

_MIDDLE: Final = 1
_OLDEST: Final = 2


def spare_long_lived(frozen_min: int = FROZEN_MIN) -> Callable[[], None]:
    """From now on, in this process; what is alive now is never visited either. Returns what undoes it."""
    gc.collect()
    gc.freeze()
    limit = 2 * gc.get_freeze_count() + frozen_min
    count = 0
    full_is_due = False

    def on_collection(phase: str, collection: dict[str, int]) -> None:
        nonlocal limit, count, full_is_due
        generation = collection["generation"]
        if phase == "start" or generation < _MIDDLE:
            return
        if generation == _OLDEST:
            gc.freeze()
            if full_is_due:
                full_is_due = False
                limit = 2 * gc.get_freeze_count() + frozen_min
        elif not full_is_due:
            gc.freeze()
            count += 1
            if count % COUNTED_EVERY == 0 and gc.get_freeze_count() > limit:
                gc.unfreeze()
                full_is_due = True

    def undo() -> None:
        gc.callbacks.remove(on_collection)
        gc.unfreeze()

    gc.callbacks.append(on_collection)
    return undo
