"""Which segments have their files open, so that partition logs never take the last file descriptor.

A segment opens its four files when it is used and closes them when it is one of too many: the one that was
opened first goes, for a file is opened again in microseconds.
Threads     a segment's descriptors belong to the thread that opened them, and only that thread closes them
            here: another one could be reading. So a log goes from thread to thread with no file open.
"""

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, Protocol

from fencepost.wire.descriptors import is_exhausted, segment_files_max

FILES_OF_A_SEGMENT: Final = 4
RELIEF_DIVISOR: Final = 4  # of the open segments, so many close when the system has no descriptor left


class Closable(Protocol):
    """A segment, as far as its files are concerned."""

    def close(self) -> None:
        """Close the files. They open again by themselves."""


class OpenFiles:
    """The segments of a process that have files open."""

    def __init__(self, segments_max: int | None = None) -> None:
        self.segments_max = segments_max  # None: what the process' limit allows
        self._lock = threading.RLock()
        self._owners: OrderedDict[Closable, int] = (
            OrderedDict()
        )  # and the thread that opened; the first first

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, segment: Closable, path: Path, flags: int) -> int:
        """Open a file of the segment, closing others if there are too many.

        Raises   OSError; EMFILE or ENFILE only if nothing could be closed.
        """
        with self._lock:
            if segment not in self._owners:
                segments_max = self.segments_max or max(1, segment_files_max() // FILES_OF_A_SEGMENT)
                while len(self._owners) >= segments_max and self._close_one(segment):
                    pass
                self._owners[segment] = threading.get_ident()
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if not is_exhausted(error) or not self._relieve(segment):
                raise
        return os.open(path, flags, 0o644)

    def closed(self, segment: Closable) -> None:
        """The segment has no file open any more."""
        with self._lock:
            self._owners.pop(segment, None)

    def _relieve(self, segment: Closable) -> bool:
        with self._lock:
            wanted = len(self._owners) // RELIEF_DIVISOR + 1
            return sum(self._close_one(segment) for _ in range(wanted)) > 0

    def _close_one(self, spared: Closable) -> bool:
        """Close the segment that this thread opened first, but not that one. False: there is none."""
        own = threading.get_ident()
        oldest = next(
            (each for each, owner in self._owners.items() if owner == own and each is not spared), None
        )
        if oldest is None:
            return False
        oldest.close()
        return True


OPEN_FILES: Final = OpenFiles()
"""Of this process."""
