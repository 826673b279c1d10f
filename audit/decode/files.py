"""Where log files are read from: this machine's disks, or whatever else is wrapped in the same three verbs.

A reader never maps a file: a writer that cuts its tail while it is read must not hurt anyone. Nothing is
locked and nothing is written.
"""

import os
import stat
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

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


class ArrowFile:
    """A file of a ``pyarrow.fs.FileSystem``."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.size = opened.size()

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """Implements ``OpenFile.read``."""
        wanted = max(0, min(count, self.size - position))
        return np.frombuffer(self._opened.read_at(wanted, position), np.uint8)

    def close(self) -> None:
        """Implements ``OpenFile.close``."""
        self._opened.close()


class ArrowFiles:
    """Any file system that pyarrow opens: HDFS, S3, GCS, ABFS. Paths are as ``pyarrow.fs`` wants them."""

    def __init__(self, file_system: Any) -> None:
        self._file_system = file_system

    def entries(self, path: str) -> list[Entry]:
        """Implements ``Files.entries``."""
        from pyarrow.fs import FileSelector

        found = self._file_system.get_file_info(FileSelector(path))
        return sorted(_arrow_entry(each) for each in found)

    def entry(self, path: str) -> Entry:
        """Implements ``Files.entry``."""
        from pyarrow.fs import FileType

        info = self._file_system.get_file_info(path)
        if info.type == FileType.NotFound:
            raise FileNotFoundError(path)
        return _arrow_entry(info)

    def identity(self, path: str) -> str:
        """See ``Files``: such file systems have no links."""
        return path

    def open(self, path: str) -> OpenFile:
        """Implements ``Files.open``."""
        return ArrowFile(self._file_system.open_input_file(path))


def _arrow_entry(info: Any) -> Entry:
    from pyarrow.fs import FileType

    is_directory = info.type == FileType.Directory
    return Entry(info.base_name, is_directory, 0 if is_directory else info.size)


LOCAL: Final = LocalFiles()
