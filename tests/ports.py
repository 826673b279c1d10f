"""Loopback ports for tests: free now, and no other test's while this process lives.

Claim    a lock on one byte of a file that all runs on this machine share, also those of other checkouts: a
         process has one descriptor for all its claims.
Reuse    a process has its claims until it ends, and takes them again once it was given every candidate.
Range    below 32,768, where the ports begin that the kernel gives to clients.
"""

import contextlib
import fcntl
import os
import socket
import struct
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from fencepost.bench.own_cluster import BENCH_PORT_OFFSETS

CLUSTERS: Final = [first + step for first in range(20_000, 30_000, 500) for step in range(0, 100, 10)]
OF_A_CLUSTER: Final = [offset + node for offset in BENCH_PORT_OFFSETS for node in range(9)]
SINGLES: Final = range(30_000, 32_700)


_FLOCK: Final = struct.Struct("@hhqqi4x")  # struct flock: type | whence | start | length | pid


class PortPool:
    """Candidates in a circle. Every process begins elsewhere; one that was given is asked last again."""

    def __init__(self, candidates: Sequence[int], needed: Sequence[int] = (0,)) -> None:
        """``needed``: what is added to a candidate for each port that must be free."""
        self._candidates = deque(candidates)
        self._candidates.rotate(-(os.getpid() * 7 % len(candidates)))
        self._needed = needed
        self._claims: set[int] = set()
        self._locks: IO[bytes] | None = None

    def take(self) -> int:
        """A candidate of which nobody else has any port. Raises RuntimeError if there is none."""
        for _ in range(len(self._candidates)):
            port = self._candidates[0]
            self._candidates.rotate(-1)
            if self._claim(port) and all(_is_free(port + each) for each in self._needed):
                return port
        raise RuntimeError(f"each of {len(self._candidates)} candidates is another run's or has a listener")

    def close(self) -> None:
        """Give every claim back."""
        if self._locks is not None:
            self._locks.close()
        self._locks = None
        self._claims.clear()

    def _claim(self, port: int) -> bool:
        if port in self._claims:
            return True
        if self._locks is None:
            file = Path(tempfile.gettempdir()) / f"fencepost-test-ports-{os.getuid()}.locks"
            self._locks = file.open("ab")
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, port, 1, 0)
        try:
            fcntl.fcntl(self._locks, fcntl.F_OFD_SETLK, wanted)  # of the open file, not of the process
        except OSError:
            return False
        self._claims.add(port)
        return True


_clusters = PortPool(CLUSTERS, OF_A_CLUSTER)
_singles = PortPool(SINGLES)


def cluster_port() -> int:
    """A ``--port`` for a cluster of up to nine nodes: P, P+100 and so on up to P+400, and up."""
    return _clusters.take()


def free_port() -> int:
    """A port for one listener."""
    return _singles.take()


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
