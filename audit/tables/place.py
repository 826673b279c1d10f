"""Where a folder of tables is: this machine's disk, a shared directory, or what a URI names; the verbs it
takes.

Names       are relative to the folder, with ``/`` between.
Durable     on a disk, what a verb has returned from is synced, its name too; a store is asked once and
            answers when it is.
Alive       a writer on this kind of disk holds a lock on its reservation, which the kernel gives back when it
            dies. In a store there is none: there a reservation is dead when nothing of its ingest was written
            for ``DEAD_SECONDS``. Taken for dead wrongly it is refused when it commits, and has hurt nothing.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Any, Final, Protocol

from fencepost.audit.source.remote import Kept, RemoteFiles, remote
from fencepost.audit.source.uris import local_path

DEAD_SECONDS: Final = 3600
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Place(Protocol):
    """A folder of tables. Every verb may raise OSError."""

    uri: str

    def kept(self, folder: str) -> list[Kept]:
        """Every file below a folder, by its name in the folder; none if there is no such folder."""

    def read(self, name: str) -> bytes:
        """The bytes of a small file. Raises FileNotFoundError."""

    def put_new(self, name: str, content: bytes) -> bool:
        """Whether ``name`` is ``content`` now because of this call. Never a half of it, never what was
        there.
        """

    def create(self, name: str) -> Any:
        """A new file to be written."""

    def close(self, file: Any) -> int:
        """End what ``create`` began, durably; its size in bytes."""

    def remove(self, name: str) -> None:
        """Delete a file that may be there."""

    def reserve(self, name: str, content: bytes) -> bool:
        """As ``put_new``; where it was, others see the writer alive until ``release``, or its death."""

    def release(self, name: str) -> None:
        """Delete a reservation of this process."""

    def is_dead(self, name: str, written_s: float) -> bool:
        """Whether the writer that reserved ``name`` is gone; ``written_s``: the last sign of it."""

    def path(self, name: str) -> str:
        """What an engine that reads Parquet itself calls a file."""


class LocalPlace:
    """A directory of this machine, or one that several have mounted."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self._folder = folder
        self._held: dict[str, int] = {}

    def kept(self, folder: str) -> list[Kept]:
        """Implements ``Place.kept``."""
        root = self._folder / folder
        found = []
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found.append(Kept(path.relative_to(root).as_posix(), path.stat().st_mtime))
        return found

    def read(self, name: str) -> bytes:
        """Implements ``Place.read``."""
        return (self._folder / name).read_bytes()

    def put_new(self, name: str, content: bytes) -> bool:
        """Implements ``Place.put_new``."""
        descriptor = self._linked(name, content)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is not None

    def create(self, name: str) -> Any:
        """Implements ``Place.create``."""
        path = self._folder / name
        self._make(path.parent)
        return open(path, "xb")

    def close(self, file: Any) -> int:
        """Implements ``Place.close``."""
        file.flush()
        os.fsync(file.fileno())
        size = int(file.tell())
        file.close()
        _sync_folder(Path(file.name).parent)
        return size

    def remove(self, name: str) -> None:
        """Implements ``Place.remove``; a directory that is empty then goes with it, down from the folder's
        own.
        """
        path = self._folder / name
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if path.parent.name.startswith("ingest="):
                path.parent.rmdir()

    def reserve(self, name: str, content: bytes) -> bool:
        """Implements ``Place.reserve``."""
        descriptor = self._linked(name, content)
        if descriptor is not None:
            self._held[name] = descriptor
        return descriptor is not None

    def release(self, name: str) -> None:
        """Implements ``Place.release``."""
        (self._folder / name).unlink(missing_ok=True)
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def is_dead(self, name: str, written_s: float) -> bool:
        """Implements ``Place.is_dead``."""
        if name in self._held:
            return False
        try:
            descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True  # it has ended meanwhile
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return time.time() - written_s > DEAD_SECONDS
        finally:
            os.close(descriptor)
        return True

    def path(self, name: str) -> str:
        """Implements ``Place.path``."""
        return str(self._folder / name)

    def _linked(self, name: str, content: bytes) -> int | None:
        """A new file of that content, open and locked; None if the name is taken.

        A hard link does not replace, and gives a name to all of a file, its lock included. Where there are no
        links, half of the content may stay if the machine stops: readers leave out a document that has no
        end.
        """
        path = self._folder / name
        self._make(path.parent)
        half = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        descriptor = _written(half, content)
        try:
            os.link(half, path)
        except FileExistsError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LINKS:
                raise
            try:
                descriptor = _written(path, content)
            except FileExistsError:
                return None
        finally:
            half.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return descriptor

    def _make(self, folder: Path) -> None:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            while folder != self._folder.parent:
                folder = folder.parent
                _sync_folder(folder)


class RemotePlace:
    """A folder in a store that fsspec opens."""

    def __init__(self, uri: str, files: RemoteFiles, folder: str) -> None:
        self.uri = uri
        self.files = files
        self._folder = folder
        self._held: set[str] = set()

    def kept(self, folder: str) -> list[Kept]:
        """Implements ``Place.kept``."""
        return self.files.kept(self.path(folder))

    def read(self, name: str) -> bytes:
        """Implements ``Place.read``."""
        return self.files.content(self.path(name))

    def put_new(self, name: str, content: bytes) -> bool:
        """Implements ``Place.put_new``."""
        return self.files.put_new(self.path(name), content)

    def create(self, name: str) -> Any:
        """Implements ``Place.create``."""
        return self.files.create(self.path(name))

    def close(self, file: Any) -> int:
        """Implements ``Place.close``."""
        size = int(file.tell())
        with self.files.said():
            file.close()
        return size

    def remove(self, name: str) -> None:
        """Implements ``Place.remove``."""
        self.files.remove(self.path(name))

    def reserve(self, name: str, content: bytes) -> bool:
        """Implements ``Place.reserve``."""
        if not self.files.put_new(self.path(name), content):
            return False
        self._held.add(name)
        return True

    def release(self, name: str) -> None:
        """Implements ``Place.release``."""
        self._held.discard(name)
        self.remove(name)

    def is_dead(self, name: str, written_s: float) -> bool:
        """Implements ``Place.is_dead``."""
        return name not in self._held and time.time() - written_s > DEAD_SECONDS

    def path(self, name: str) -> str:
        """Implements ``Place.path``."""
        return f"{self._folder}/{name}"


def place_of(tables: str) -> Place:
    """The folder that a path or a URI names; it need not be there. Raises OSError."""
    here = local_path(tables)
    if here is not None:
        folder = Path(here).absolute()
        return LocalPlace(str(folder), folder)
    files, folder_path = remote(tables)
    return RemotePlace(tables.rstrip("/"), files, folder_path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _written(path: Path, content: bytes) -> int:
    """A new file, synced, open and locked. Raises FileExistsError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.fsync(descriptor)
    with contextlib.suppress(OSError):  # without locks the age decides who is alive
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor
