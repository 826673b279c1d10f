"""Nodes of tests are forked from a process that has imported them: see fencepost/cluster/forked.py.

Not      Commands in processes of their own (``fencepost up``, benches) execute nodes.
Two      servers fork, each with hashes of its own: what nodes make of sets must be the same all the same.
         Each earlier version has two of its own (tests/processes/versions.py).
"""

import atexit
import functools
import os
import random
import subprocess
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from fencepost.cluster import node_process
from fencepost.cluster.forked import INTERPRETER, Server, forked_by

SERVERS: Final = 2


@functools.cache
def servers(module: str = "fencepost.cli.main", path: str | None = None) -> list[Server]:
    """Of the version that ``module`` has with ``path`` as PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if path is not None:
        environment["PYTHONPATH"] = path
    seeds = random.sample(range(1, 2**32), SERVERS)
    started = [Server(module, {**environment, "PYTHONHASHSEED": str(seed)}) for seed in seeds]
    for server in started:
        atexit.register(server.close)
    return started


def spawn(command: Sequence[str], directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """As ``node_process.spawn``; nodes are forked."""
    *interpreter, module, name = command[: len(INTERPRETER) + 2]
    if interpreter != INTERPRETER or name != "node":
        return _SPAWN(command, directory, environment)
    server = servers(module, environment.get("PYTHONPATH"))[sum(directory.name.encode()) % SERVERS]
    return forked_by(server, command, directory, environment)


_SPAWN: Final = node_process.spawn


class _Users:
    """How many threads want nodes to be forked now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            node_process.spawn = spawn

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                node_process.spawn = _SPAWN


_USERS: Final = _Users()


def nodes() -> AbstractContextManager[None]:
    """What starts nodes meanwhile, in this process, forks them."""
    return _USERS
