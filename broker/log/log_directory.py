"""The lock on the directory of a broker's partition logs, and in which start of the machine it was held.

File     ``.lock``, as Kafka names it; it holds the boot id of the machine when logs were last open.
Source   Kafka LogManager.lockLogDirs; Linux /proc/sys/kernel/random/boot_id.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from fencepost.records.named_errors import naming
from fencepost.snapshots.reads import read_bytes

LOCK_FILE: Final = ".lock"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class LogDirectoryInUse(OSError):
    """Another process has the logs of a directory open."""


class LogDirectory:
    """A lock on a directory, held until ``release``."""

    def __init__(self, directory: Path) -> None:
        """Raises LogDirectoryInUse, OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / LOCK_FILE
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise LogDirectoryInUse(
                f"{directory}: its logs are open in another process; stop that one first"
            ) from error
        self._boot_id = _boot_id()
        written = read_bytes(self._path).strip()
        self.machine_went_down = not self._boot_id or written != self._boot_id
        """Since a process had the logs open, or that is not known: what was not flushed may be lost."""

    def remember(self) -> None:
        """Every log is recovered; what is written from now on is of this start of the machine.

        Raises OSError.
        """
        with naming(self._path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, self._boot_id + b"\n", 0)
            os.fsync(self._descriptor)

    def release(self) -> None:
        """Let another process have the directory."""
        os.close(self._descriptor)


def _boot_id() -> bytes:
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""  # no Linux: every start counts as one after a crash of the machine
