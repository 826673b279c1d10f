"""File systems that fsspec opens, with the few verbs that reading logs and keeping tables take.

Faults      whatever a library raises is an OSError of one sentence: which URI, what is wrong, what to install
            or to set.
Listings    are never cached: another machine may have written since.
Absent      ``put_new`` is the store's own condition (If-None-Match, ifGenerationMatch, a lease); HDFS
            has a rename that does not replace. Of a write that was repeated the first may have arrived: so
            the content decides.
Processes   each has file systems of its own; what travels to workers is a URI, and the properties.
"""

import contextlib
import functools
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np

from fencepost.audit.decode.files import Bytes, Entry
from fencepost.audit.source.uris import Location, Properties, located

BLOCK_BYTES: Final = 8 * 1024 * 1024  # of a file that is written
_NO_CREDENTIALS: Final = (
    "NoCredentials",
    "CredentialRetrieval",
    "DefaultCredentials",
    "ClientAuthentication",
)
_ADVICE: Final = {
    "s3": "spark.hadoop.fs.s3a.access.key and .secret.key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "abfs": "spark.hadoop.fs.azure.account.key.ACCOUNT.dfs.core.windows.net, or AZURE_CLIENT_ID",
    "gcs": "spark.hadoop.fs.gs.auth.service.account.json.keyfile, or GOOGLE_APPLICATION_CREDENTIALS",
    "hdfs": "a Kerberos ticket",
}
SENTENCE_MAX: Final = 300  # characters of what a library says

_used: dict[str, str] = {}


def use(properties: Properties) -> None:
    """Take Hadoop's properties for every file system that this process opens from now on."""
    if dict(properties) != _used:
        _used.clear()
        _used.update(properties)
        _file_system.cache_clear()


def used() -> dict[str, str]:
    """The properties that ``use`` was last given."""
    return dict(_used)


class RemoteFile:
    """A file of an fsspec file system, open for reading. Implements ``OpenFile``."""

    def __init__(self, remote: "RemoteFiles", path: str, size: int) -> None:
        self._remote = remote
        self._path = path
        self.size = size

    def read(self, position: int, count: int, into: Bytes | None = None) -> Bytes:
        """Implements ``OpenFile.read``."""
        end = min(position + count, self.size)
        if end <= position:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._remote.content(self._path, position, end), np.uint8)

    def close(self) -> None:
        """Implements ``OpenFile.close``: nothing is held."""


class Kept(NamedTuple):
    """A file of a store: its name, and when it was written, in seconds since 1970 (0: the store does not
    say).
    """

    name: str
    written_s: float


class RemoteFiles:
    """An fsspec file system. Implements ``fencepost.audit.decode.files.Files``, and what a folder of tables
    takes.
    """

    def __init__(self, file_system: Any, where: str, protocol: str) -> None:
        self.file_system = file_system
        self._where = where
        self._protocol = protocol

    def entries(self, path: str) -> list[Entry]:
        """Implements ``Files.entries``."""
        with self.said():
            found = self.file_system.ls(path, detail=True)
        inside = (each for each in found if each["name"].rstrip("/").rpartition("/")[2])
        return sorted(_entry(each) for each in inside if each["name"].strip("/") != path.strip("/"))

    def entry(self, path: str) -> Entry:
        """Implements ``Files.entry``."""
        with self.said():
            return _entry(self.file_system.info(path))

    def identity(self, path: str) -> str:
        """Implements ``Files.identity``: such file systems have no links."""
        return path

    def open(self, path: str) -> RemoteFile:
        """Implements ``Files.open``."""
        with self.said():
            return RemoteFile(self, path, int(self.file_system.info(path)["size"]))

    def content(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """The bytes of a file, or those of ``[start, end)``. Raises OSError."""
        with self.said():
            return bytes(self.file_system.cat_file(path, start=start, end=end))

    def kept(self, path: str) -> list[Kept]:
        """Every file below a directory; none if it is not there. Raises OSError."""
        with self.said():
            try:
                found = self.file_system.find(path, detail=True)
            except FileNotFoundError:
                return []
        root = path.strip("/")
        return [
            Kept(name.strip("/").removeprefix(root).strip("/"), _written_s(each))
            for name, each in found.items()
        ]

    def create(self, path: str) -> Any:
        """A new file to be written; a store shows it when it is closed."""
        with self.said():
            if self._protocol == "hdfs":
                self.file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
            return self.file_system.open(path, "wb", block_size=BLOCK_BYTES)

    def put_new(self, path: str, content: bytes) -> bool:
        """Whether ``path`` holds ``content`` now, because of this call; False: it was there before. Raises
        OSError.
        """
        with self.said():
            try:
                if self._protocol == "hdfs":
                    self._put_by_rename(path, content)
                else:
                    self.file_system.pipe_file(path, content, mode="create")
            except OSError:
                try:
                    there = bytes(self.file_system.cat_file(path))
                except FileNotFoundError:
                    there = b""
                if not there:
                    raise
                return there == content
            return True

    def remove(self, path: str) -> None:
        """Delete a file; one that is not there already is no fault. Raises OSError."""
        with self.said(), contextlib.suppress(FileNotFoundError):
            self.file_system.rm_file(path)

    def _put_by_rename(self, path: str, content: bytes) -> None:
        if self.file_system.exists(path):
            raise FileExistsError(path)
        self.file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        half = f"{path}.{secrets.token_hex(8)}.half"
        self.file_system.pipe_file(half, content)
        try:
            self.file_system.mv(half, path)
        except OSError:
            self.file_system.rm_file(half)
            raise

    @contextlib.contextmanager
    def said(self) -> Iterator[None]:
        """What any library raises, as an OSError of one sentence. A file that is not there stays
        FileNotFoundError.
        """
        try:
            yield
        except OSError as error:
            if self._where in str(error):
                raise
            raise _like(error)(f"{self._where}: {_sentence(error)}") from error
        except Exception as error:  # every library has its own, and none says which URI it was
            if type(error).__name__.startswith(_NO_CREDENTIALS):
                advice = _ADVICE.get(self._protocol, "credentials")
                raise PermissionError(f"{self._where}: no credentials were found; set {advice}") from error
            raise OSError(f"{self._where}: {_sentence(error)}") from error


def remote(uri: str) -> tuple[RemoteFiles, str]:
    """The file system of a URI, and what it calls the path. Raises OSError: scheme, library or
    credentials.
    """
    location = located(uri, _used)
    where = "/".join(uri.split("/")[:3])
    return _file_system(where), location.path


@functools.lru_cache(maxsize=64)
def _file_system(where: str) -> RemoteFiles:
    location = located(f"{where}/", _used)
    files = RemoteFiles(None, where, location.protocol)
    with files.said():
        files.file_system = _opened(where, location)
    return files


def _opened(where: str, location: Location) -> Any:
    wanted = f"{where} needs {location.package}: pip install {location.package}"
    try:
        import fsspec
    except ImportError as error:
        raise OSError(f"{wanted} fsspec" if location.package == "pyarrow" else wanted) from error
    try:
        return fsspec.filesystem(
            location.protocol, use_listings_cache=False, skip_instance_cache=True, **location.options
        )
    except ImportError as error:
        raise OSError(wanted) from error


def _entry(info: dict[str, Any]) -> Entry:
    is_directory = info["type"] == "directory"
    return Entry(
        info["name"].rstrip("/").rpartition("/")[2], is_directory, 0 if is_directory else int(info["size"])
    )


def _written_s(info: dict[str, Any]) -> float:
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        stamp = info.get(name)
        if isinstance(stamp, datetime):
            return stamp.timestamp()
        if isinstance(stamp, int | float):
            return float(stamp)
    return 0.0


def _like(error: OSError) -> type[OSError]:
    return next(
        (each for each in (FileNotFoundError, FileExistsError, PermissionError) if isinstance(error, each)),
        OSError,
    )


def _sentence(error: Exception) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said[:SENTENCE_MAX]
