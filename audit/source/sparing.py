"""Log files read on a broker's own disk: so many bytes a second, and without the page cache filling up with
them.

Cached      what is in the page cache was put there by the broker or its consumers, and stays: a read that may
            not wait finds out. What had to come from the disk is dropped from the cache when it has been
            read.
Pace        a task waits before it reads, not after: it is never ahead of its budget by more than
            ``SLICE_BYTES``.
"""

import errno
import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fencepost.audit.decode.files import Bytes, LocalFile, OpenFile
from fencepost.audit.source.files import AnyFiles
from fencepost.audit.source.uris import local_path

SLICE_BYTES: Final = 1024 * 1024


class Pace(NamedTuple):
    """How a task may read. ``bytes_per_s`` None: as fast as it can. ``sparing``: the page cache is left as it
    was.
    """

    bytes_per_s: float | None = None
    sparing: bool = False


class Budget:
    """Waits until as many bytes may be read."""

    def __init__(
        self,
        bytes_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()

    def take(self, count: int) -> None:
        """Returns when ``count`` more bytes are within the rate; what was not used before is not saved up."""
        if self._bytes_per_s is None:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._bytes_per_s
        if self._free_at > now:
            self._sleep(self._free_at - now)


class PacedFiles(AnyFiles):
    """``AnyFiles`` whose open files are read at a ``Pace``."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._budget = Budget(pace.bytes_per_s)

    def open(self, path: str) -> OpenFile:
        """Implements ``Files.open``."""
        here = local_path(path)
        if here is not None and self._pace.sparing:
            return PacedFile(SparingFile(here), self._budget)
        return PacedFile(super().open(path), self._budget)


class PacedFile:
    """An open file, read in slices within a budget. Implements ``OpenFile``."""

    def __init__(self, opened: OpenFile, budget: Budget) -> None:
        self._opened = opened
        self._budget = budget
        self.size = opened.size

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """Implements ``OpenFile.read``."""
        wanted = max(0, min(count, self.size - position))
        content = np.empty(wanted, np.uint8) if into is None or wanted > len(into) else into[:wanted]
        filled = 0
        while filled < wanted:
            size = min(SLICE_BYTES, wanted - filled)
            self._budget.take(size)
            got = self._opened.read(position + filled, size, content[filled : filled + size])
            if not len(got):
                break  # it was cut meanwhile
            content[filled : filled + len(got)] = got
            filled += len(got)
        return content[:filled]

    def close(self) -> None:
        """Implements ``OpenFile.close``."""
        self._opened.close()


class SparingFile(LocalFile):
    """A file of this machine whose pages are in the page cache afterwards if they were before."""

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """Implements ``OpenFile.read``."""
        wanted = max(0, min(count, self.size - position))
        content = np.empty(wanted, np.uint8) if into is None or wanted > len(into) else into[:wanted]
        if wanted and self._cached(content, position) == wanted:
            return content
        read = super().read(position, count, into)
        os.posix_fadvise(self._descriptor, position, len(read), os.POSIX_FADV_DONTNEED)
        return read

    def _cached(self, content: Bytes, position: int) -> int:
        """How many bytes the page cache had; 0 where the file system cannot say."""
        try:
            return os.preadv(self._descriptor, [content.data], position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EOPNOTSUPP}:
                return 0
            raise
