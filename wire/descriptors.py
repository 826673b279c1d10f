"""How many file descriptors a process may have open, and which of them sockets may take.

Why      a node that cannot open a file of its own log, archive or snapshot halts. So sockets and segment
         files stop early: sockets at ``sockets_end``, segment files at ``segment_files_max``.
How      the kernel gives out the lowest free number, so the number of a new descriptor says how many are
         open at least. No counter can be wrong.
"""

import errno
import os
import resource
from typing import Final

RESERVE_MIN: Final = 64
RESERVE_MAX: Final = 1024
"""For the store, journal, archive, snapshots, flushes and whatever a library opens for a moment."""

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)


def descriptors_max() -> int:
    """The soft limit of the process (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2**31 - 1


def sockets_end() -> int:
    """A socket with this number or a higher one is refused."""
    limit = descriptors_max()
    return limit - min(max(limit // 8, RESERVE_MIN), RESERVE_MAX)


def segment_files_max() -> int:
    """How many files of partition logs may be open at once: half of what sockets may take, too."""
    return max(sockets_end() // 2, RESERVE_MIN)


def lowest_free() -> int:
    """The number that the next descriptor will have: all below it are taken."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if not is_exhausted(error):
            raise
        return descriptors_max()
    os.close(descriptor)
    return descriptor


def is_exhausted(error: BaseException) -> bool:
    """The process (EMFILE) or the system (ENFILE) has no descriptor left."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED
