"""Where log files are read from: this machine's disks, or whatever else is wrapped in the same few verbs.

A reader never maps a file: a writer that cuts its tail while it is read must not hurt anyone. Nothing is
locked and nothing is written.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Entry(NamedTuple):
    """What a directory holds under ``name``. ``size`` is in bytes, 0 of a directory."""

    name: str
    is_directory: bool
    size: int
    fault: str | None = None  # why it cannot be looked at


class OpenFile(Protocol):
    """A file that is open for reading. ``size`` is what it was when it was opened."""

    size: int

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """The bytes from ``position`` on, ``count`` of them, fewer only at the end of the file. OSError.

        ``into``  memory that may be used for it, and be overwritten by the next read that is given it.
        """

    def close(self) -> None:
        """Close the file."""


class Files(Protocol):
    """A file system. Every call may raise OSError."""

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name; what vanishes meanwhile is left out."""

    def entry(self, path: str) -> Entry:
        """What is at ``path`` itself. Raises FileNotFoundError."""

    def identity(self, path: str) -> str:
        """The same text for the same directory, by whatever links it was reached."""

    def open(self, path: str) -> OpenFile:
        """Open a file for reading."""


class LocalFile:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """See ``OpenFile``. A read may return fewer bytes than requested: it is repeated."""
        wanted = max(0, min(count, self.size - position))
        content = np.empty(wanted, np.uint8) if into is None or wanted > len(into) else into[:wanted]
        filled = 0
        while filled < len(content):
            got = os.preadv(self._descriptor, [content.data[filled:]], position + filled)
            if got == 0:
                break  # it was cut meanwhile
            filled += got
        return content[:filled]

    def close(self) -> None:
        """Implements ``OpenFile.close``."""
        os.close(self._descriptor)


class LocalFiles:
    """The file systems of this machine. Symbolic links are followed."""

    def entries(self, path: str) -> list[Entry]:
        """Implements ``Files.entries``."""
        found = []
        for name in sorted(each.name for each in Path(path).iterdir()):
            try:
                found.append(self.entry(f"{path}/{name}"))
            except FileNotFoundError:
                if Path(f"{path}/{name}").is_symlink():
                    found.append(Entry(name, False, 0, "a link to nothing"))
            except OSError as error:
                found.append(Entry(name, False, 0, error.strerror or str(error)))
        return found

    def entry(self, path: str) -> Entry:
        """Implements ``Files.entry``."""
        status = Path(path).stat()
        is_directory = stat.S_ISDIR(status.st_mode)
        return Entry(Path(path).name, is_directory, 0 if is_directory else status.st_size)

    def identity(self, path: str) -> str:
        """Implements ``Files.identity``."""
        return os.path.realpath(path)

    def open(self, path: str) -> OpenFile:
        """Implements ``Files.open``."""
        return LocalFile(path)


LOCAL: Final = LocalFiles()
