"""How fast scrubs of files go, in threads beside the node: of partition logs, and of archives."""

import time
from collections.abc import Callable
from typing import Final

Pace = Callable[[int], None]
"""Called after so many bytes were read: it may wait, and ends the scrub with an exception of its own."""

BYTES_PER_S: Final = 32 * 1024 * 1024
"""A terabyte in nine hours, beside which a disk still serves; comparing so many takes 8 ms of CPU."""

SLICE_BYTES: Final = 1024 * 1024
SLICE_S: Final = 0.001  # of CPU: batches are read one by one where there are no sums
PAUSE: Final = 4.0  # times the CPU of the slice, at least: requests want the interpreter, too


class ScrubStopped(Exception):
    """The log is being closed."""


class ScrubPace:
    """How fast a thread goes. It is called after what was read, always in that thread."""

    def __init__(self, may_go_on: Callable[[], bool], sleep: Callable[[float], None] = time.sleep) -> None:
        self._may_go_on = may_go_on
        self._sleep = sleep
        self._read = 0
        self._slice_began: float | None = None

    def __call__(self, size: int) -> None:
        """So many bytes were read: sleep if the slice is over. Raises ScrubStopped."""
        now = time.thread_time()
        used = 0.0 if self._slice_began is None else now - self._slice_began
        self._slice_began = now - used
        self._read += size
        if self._read < SLICE_BYTES and used < SLICE_S:
            return
        if not self._may_go_on():
            raise ScrubStopped
        self._sleep(max(self._read / BYTES_PER_S, PAUSE * used))
        self._read = 0
        self._slice_began = time.thread_time()
