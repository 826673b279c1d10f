"""Nodes that are forked from one process that has imported them: 0.03 s of CPU time a start, not 0.5 s.

Same     an operating-system process of its own, with its session, folder, environment and log; signals, ports
         and files are its own; how it ended is known.
Not      no new program is executed: in a list of processes each has the name of the one that forked it. So
         only the kit and this project's tests start nodes so; ``fencepost up`` executes them.
"""

import atexit
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

from fencepost.cluster import fork_server, node_process

NAME: Final = "fencepost-fork-server"  # an argument of each: the reaper knows it by it (testing/reaper.py)
INTERPRETER: Final = [sys.executable, "-P", "-m"]
POLL_SECONDS: Final = 0.01


class Server:
    """A process that forks nodes. It ends with this one, and so do nodes of it that still run."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._called_by_one = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", inspect.getsource(fork_server), NAME, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,  # Ctrl-C is the test run's
        )
        self._requests = cast("IO[bytes]", self._process.stdin)
        self._answers = cast("IO[bytes]", self._process.stdout)
        self._started_by = os.getpid()

    @property
    def is_alive(self) -> bool:
        """Whether it can fork."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def call(self, **request: object) -> Any:
        """What it answers. Raises OSError if it has ended."""
        with self._called_by_one:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
            answer = self._answers.readline()
        if not answer:
            raise OSError("the process that forks nodes has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End it. A fork of this process has the pipe too, and leaves it alone."""
        if self._started_by == os.getpid():
            self._process.communicate()


class Forked(subprocess.Popen[bytes]):
    """A node as the child of a server."""

    def __init__(self, server: Server, arguments: Sequence[str], **where: object) -> None:
        self._server = server
        self.args = arguments
        self.stdin = self.stdout = self.stderr = None
        self.returncode = None
        self.pid = server.call(arguments=arguments, **where)

    def poll(self) -> int | None:
        """See Popen. Of a node whose server was killed it is known that it has ended, not how: -SIGKILL."""
        if self.returncode is None:
            try:
                self.returncode = self._server.call(pid=self.pid)
            except OSError:
                self.returncode = None if _is_there(self.pid) else -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See Popen."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            time.sleep(POLL_SECONDS)
        return code

    def __del__(self) -> None:
        """Nothing is left of it in this process."""


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


_SERVERS: Final[list[Server]] = []
_ONE_AT_A_TIME: Final = threading.Lock()


def prepare() -> Server:
    """This process's server. It is ready half a second after the first call, which does not wait for it."""
    with _ONE_AT_A_TIME:
        if not _SERVERS or not _SERVERS[0].is_alive:
            for dead in _SERVERS:
                dead.close()
            _SERVERS[:] = [Server(node_process.MODULE, node_process.inherited())]
            atexit.register(_SERVERS[0].close)
        return _SERVERS[0]


def spawn(command: Sequence[str], directory: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """As ``node_process.spawn``, for a node: forked from this process's server."""
    return forked_by(prepare(), command, directory, environment)


def module(name: str, argument: str, directory: Path) -> subprocess.Popen[bytes]:
    """A module's ``main([argument])``, run in a folder by a child of this process's server."""
    return _forked(prepare(), [argument], directory, node_process.inherited(), module=name)


def forked_by(
    server: Server, command: Sequence[str], directory: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """The command of a node, run by a child of a server."""
    return _forked(server, command[len(INTERPRETER) + 1 :], directory, environment)


def _forked(
    server: Server, arguments: Sequence[str], directory: Path, environment: dict[str, str], **more: object
) -> subprocess.Popen[bytes]:
    folder = directory.absolute()
    return Forked(
        server,
        arguments,
        directory=str(folder),
        log=str(folder / node_process.LOG),
        environment=environment,
        **more,
    )
