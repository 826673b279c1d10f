"""Real ZooKeeper servers: one Java process each, on loopback, started, stopped and killed by pid.

Serving     is what ``srvr`` says, never an open port: a server without its libraries opens the port and
            serves nobody (docs/kafka-notes.md Z1).
Durability  is ZooKeeper's default: every transaction is flushed before it is acknowledged. Small are the
            heap, the preallocation of log files and the tick.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.ports import free_port
from tests.zookeeper.distribution import distribution

HOST: Final = "127.0.0.1"
TICK_MS: Final = 500  # sessions last 2 to 20 ticks
HEAP: Final = "64m"
WAIT_SECONDS_MAX: Final = 180.0  # generous: the machine may be busy
POLL_SECONDS: Final = 0.02
_MODE: Final = re.compile(r"^Mode: (\w+)$", re.MULTILINE)
_ZXID: Final = re.compile(r"^Zxid: 0x([0-9a-f]+)$", re.MULTILINE)


def wait_until(what: str, holds: Callable[[], object], seconds: float = WAIT_SECONDS_MAX) -> None:
    """Look until it holds; fails with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not: {what}"
        time.sleep(POLL_SECONDS)


@dataclass(slots=True)
class Server:
    """One server and its folder: ``zoo.cfg``, ``data/``, ``server.log``."""

    folder: Path
    number: int = 0  # ``myid`` in an ensemble
    members: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # quorum and election port by number
    properties: Mapping[str, str] = field(default_factory=dict)  # java -D, such as zookeeper.snapCount
    settings: Mapping[str, str] = field(default_factory=dict)  # further lines of zoo.cfg
    port: int = field(default_factory=free_port)
    _child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The server's dataDir: ``version-2`` stands in it."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._child is not None, f"server {self.number} was never started"
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start the process; ``await_serving`` waits for it."""
        assert not self.is_running, f"server {self.number} runs already"
        self._write_config()
        found = distribution()
        command = [
            str(found.java), f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            "-Dzookeeper.preAllocSize=64",  # KiB
            *(f"-D{name}={value}" for name, value in self.properties.items()),
            "-cp", found.class_path, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def await_serving(self, seconds: float = WAIT_SECONDS_MAX) -> str:
        """Returns its mode as soon as it serves requests."""
        modes: list[str] = []

        def serves() -> bool:
            assert self.is_running, f"server {self.number} ended by itself:\n{self.log_tail()}"
            mode = self.mode()
            modes.extend([mode] if mode else [])
            return bool(modes)

        wait_until(f"server {self.number} serves", serves, seconds)
        return modes[0]

    def stop(self) -> None:
        """SIGTERM; returns when it is gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a power switch does; returns when it is gone."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def mode(self) -> str | None:
        """``leader``, ``follower``, ``standalone``; None if it serves nobody."""
        found = _MODE.search(self.command("srvr"))
        return found[1] if found else None

    def zxid(self) -> int:
        """The last transaction that this server has applied."""
        found = _ZXID.search(self.command("srvr"))
        assert found, f"server {self.number} does not serve"
        return int(found[1], 16)

    def command(self, word: str) -> str:
        """What it answers to a four-letter word; empty if nothing."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as stream:
                stream.sendall(word.encode())
                return b"".join(iter(lambda: stream.recv(65_536), b"")).decode()
        except OSError:
            return ""

    def log_tail(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return "\n".join((self.folder / "server.log").read_text("utf-8", "replace").splitlines()[-30:])
        return ""

    def _end(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)
            self._child.send_signal(signal.SIGCONT)  # a paused one cannot hear SIGTERM
            self._child.wait(timeout=WAIT_SECONDS_MAX)

    def _write_config(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        lines = {
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "tickTime": str(TICK_MS),
            "initLimit": "20",
            "syncLimit": "10",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **{f"server.{number}": f"{HOST}:{ports[0]}:{ports[1]}" for number, ports in self.members.items()},
            **self.settings,
        }
        (self.folder / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        if self.members:
            (self.data / "myid").write_text(f"{self.number}\n")


@dataclass(slots=True)
class Ensemble:
    """Servers that form one ensemble: one standalone, or three."""

    servers: Sequence[Server]

    @property
    def connect_string(self) -> str:
        return ",".join(server.address for server in self.servers)

    def start(self) -> None:
        """Start those that do not run; returns when all serve."""
        for server in self.servers:
            if not server.is_running:
                server.start()
        for server in self.servers:
            server.await_serving()

    def leader(self) -> Server:
        """The server that leads, as soon as one does."""
        leading: list[Server] = []

        def leads() -> bool:
            running = [server for server in self.servers if server.is_running]
            leading.extend(server for server in running if server.mode() in ("leader", "standalone"))
            return bool(leading)

        wait_until("a server leads", leads)
        return leading[0]

    def followers(self) -> list[Server]:
        leader = self.leader()
        return [server for server in self.servers if server is not leader and server.is_running]

    def stop(self) -> None:
        """SIGTERM to all: their files are at rest afterwards."""
        for server in self.servers:
            server.stop()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()


@contextlib.contextmanager
def ensemble(
    folder: Path,
    count: int = 1,
    *,
    properties: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    started: bool = True,
) -> Iterator[Ensemble]:
    """A new ensemble of ``count`` servers in ``folder``, serving; killed at the end."""
    numbers = range(1, count + 1)
    members = {number: (free_port(), free_port()) for number in numbers} if count > 1 else {}
    servers = [
        Server(folder / f"server-{number}", number, members, properties or {}, settings or {})
        for number in numbers
    ]
    group = Ensemble(servers)
    try:
        if started:
            group.start()
        yield group
    finally:
        group.kill()
