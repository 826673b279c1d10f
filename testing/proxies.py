"""The proxies before the nodes of one cluster: a process beside the test's, asked over its socket.

Begins    forked from this process's server (cluster/forked.py); see testing/proxy_process.py.
After     ``close`` what it knew stays: how often faults fired, what became of requests.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.cluster import forked, node_process
from fencepost.testing import asking, proxy_process
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import Faults
from fencepost.testing.journal import Request

__tracebackhide__ = True  # as in lease.py

START_S_MAX: Final = 30.0
ANSWER_S_MAX: Final = 30.0
END_S_MAX: Final = 15.0


class Proxies:
    """A proxy for each upstream port, at ``ports`` in their order, with socket and log in ``directory``.

    ``keys``, ``authority``: with TLS the files of the nodes' keys, and of their authority.
    """

    def __init__(
        self,
        directory: Path,
        upstreams: Sequence[int],
        ports: Sequence[int],
        *,
        keys: Sequence[Path] = (),
        authority: Path | None = None,
    ) -> None:
        self.faults: Final = Faults(self._ask)
        self.ports: Final = list(ports)
        self._directory = directory
        self._setup = proxy_process.Setup(
            upstreams=list(upstreams),
            ports=self.ports,
            keys=[str(each.absolute()) for each in keys],
            authority=None if authority is None else str(authority.absolute()),
        )
        self._child: subprocess.Popen[bytes] | None = None
        self._held = contextlib.ExitStack()
        self._known: list[Request] = []

    def start(self) -> None:
        """Begin; does not wait until it listens. Raises OSError."""
        self._directory.mkdir()
        self._child = forked.module(
            proxy_process.__name__, msgspec.json.encode(self._setup).decode(), self._directory
        )

    def await_ready(self) -> None:
        """Wait until it listens. Raises ClusterFailed."""
        if not node_process.wait_until(self._is_held, START_S_MAX):
            raise ClusterFailed(f"after {START_S_MAX:g} s the proxies do not listen; {self._status()}")

    def _is_held(self) -> bool:
        if self._child is None or self._child.poll() is not None:
            raise ClusterFailed(f"the proxies do not listen; {self._status()}")
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            self._held.enter_context(asking.opened(self._socket, "hold", {}, ANSWER_S_MAX))
            return True
        return False

    def close(self) -> None:
        """Close every connection and listener, and end the process. May be called again."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(OSError, ClusterFailed):
            states, requests = asking.ask(self._socket, "close", {}, END_S_MAX)
            self.faults.settle(states)
            self._known = msgspec.convert(requests, list[Request])
        self._held.close()
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        child.wait(END_S_MAX)

    def requests(self, since_s: float) -> list[Request]:
        """What clients requested of transactions since then. Raises ClusterFailed."""
        if self._child is None:
            return [each for each in self._known if each.at_s >= since_s]
        return msgspec.convert(self._ask("requests", at_s=since_s), list[Request])

    @contextlib.contextmanager
    def watched(self, test: str, report: str, after_s: float, *, ends: bool) -> Iterator[None]:
        """A test that takes longer is named, with the clients that wait, and ended or not (waiting.py)."""
        self._ask("watch", name=test, pid=os.getpid(), report=report, after_s=after_s, ends=ends)
        try:
            yield
        finally:
            self._ask("unwatch")

    @property
    def _socket(self) -> Path:
        return self._directory / proxy_process.SOCKET

    def _ask(self, verb: str, *, waits_s: float = 0, **words: object) -> Any:
        answer_s = waits_s + ANSWER_S_MAX
        try:
            return asking.ask(self._socket, verb, words, answer_s)
        except TimeoutError:
            raise ClusterFailed(f"after {answer_s:g} s the proxies do not answer; {self._status()}") from None
        except OSError as error:
            raise ClusterFailed(f"the proxies take no request: {error}; {self._status()}") from error

    def _status(self) -> str:
        if self._child is None:
            return "their process has ended with the cluster"
        code = self._child.poll()
        is_there = "runs" if code is None else f"has ended: {node_process.ending(code)}"
        tail = node_process.log_tail(self._directory)
        return f"their process {self._child.pid} {is_there}" + (f"; its log:\n{tail}" if tail else "")
