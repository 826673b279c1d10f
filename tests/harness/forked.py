"""Nodes are forked from a process that has imported them: 0.03 s of CPU time a start, not 0.5 s.

Same     an operating-system process of its own, with its session, folder, environment and log; signals, ports
         and files are its own; how it ended is known.
Not      no new program is executed. Commands in processes of their own (``fencepost up``, benches) do that.
Two      servers fork, each with hashes of its own: what nodes make of sets must be the same all the same.
         Each earlier version has two of its own (tests/processes/versions.py).
"""

import atexit
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from fencepost.cluster import node_process

PROGRAM: Final = Path(__file__).with_name("fork_server.py")
SERVERS: Final = 2
INTERPRETER: Final = [sys.executable, "-P", "-m"]
POLL_SECONDS: Final = 0.01


class Server:
    """A process that forks nodes."""

    def __init__(self, module: str, path: str | None) -> None:
        self._asked_by_one = threading.Lock()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        if path is not None:
            environment["PYTHONPATH"] = path
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is the test run's
        )
        atexit.register(self._close)

    def ask(self, **request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asked_by_one:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the process that forks nodes has ended"
        return json.loads(answer)

    def _close(self) -> None:
        """Nodes that still run end with it, as when this process is killed."""
        self._process.communicate()


class Forked(subprocess.Popen[bytes]):
    """A node as the child of a server."""

    def __init__(self, server: Server, arguments: Sequence[str], **where: object) -> None:
        self._server = server
        self.args = arguments
        self.stdin = self.stdout = self.stderr = None
        self.returncode = None
        self.pid = server.ask(arguments=arguments, **where)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.ask(pid=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(POLL_SECONDS)
        return code

    def __del__(self) -> None:
        """Nothing is left of it in this process."""


@functools.cache
def servers(module: str = "fencepost.cli.main", path: str | None = None) -> list[Server]:
    """Of the version that ``module`` has with ``path`` as PYTHONPATH."""
    return [Server(module, path) for _ in range(SERVERS)]


def spawn(command: Sequence[str], directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """As ``node_process.spawn``; nodes are forked."""
    *interpreter, module, name = command[: len(INTERPRETER) + 2]
    if interpreter != INTERPRETER or name != "node":
        return _SPAWN(command, directory, environment)
    server = servers(module, environment.get("PYTHONPATH"))[sum(directory.name.encode()) % SERVERS]
    return Forked(
        server,
        command[len(INTERPRETER) + 1 :],
        directory=str(directory.absolute()),
        log=str((directory / node_process.LOG).absolute()),
        environment=environment,
    )


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
