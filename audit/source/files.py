"""Log directories on whatever file system their path names: this machine's, or one that a URI names.

Paths     ``hdfs://host:port/logs``, ``s3://bucket/logs``, ``gs://``, ``abfs://``, ``file:///logs``; without a
          scheme this machine. A path goes into rows as it was given, its scheme included.
Workers   open a file system of their own: what travels to them is the path. HDFS needs libhdfs there, as
          pyarrow says; credentials are the machine's.
"""

import functools
from typing import Any, Final

from fencepost.audit.decode.files import LOCAL, ArrowFiles, Entry, Files, OpenFile

_SCHEME: Final = "://"


class AnyFiles:
    """``fencepost.audit.decode.files.Files`` over all of them."""

    def entries(self, path: str) -> list[Entry]:
        """Implements ``Files.entries``."""
        files, inner = _at(path)
        return files.entries(inner)

    def entry(self, path: str) -> Entry:
        """Implements ``Files.entry``."""
        files, inner = _at(path)
        return files.entry(inner)

    def identity(self, path: str) -> str:
        """Implements ``Files.identity``."""
        return path if _SCHEME in path else LOCAL.identity(path)

    def open(self, path: str) -> OpenFile:
        """Implements ``Files.open``."""
        files, inner = _at(path)
        return files.open(inner)


ANY: Final = AnyFiles()


def _at(path: str) -> tuple[Files, str]:
    """The file system of ``path`` and what it calls it. Raises OSError, for an unknown scheme too."""
    scheme, separator, rest = path.partition(_SCHEME)
    if not separator:
        return LOCAL, path
    authority, _, inner = rest.partition("/")
    file_system, root = _file_system(scheme, authority)
    return ArrowFiles(file_system), f"{root}/{inner}" if inner else root or "/"


@functools.lru_cache(maxsize=64)
def _file_system(scheme: str, authority: str) -> tuple[Any, str]:
    """A file system, and its name for the root of ``scheme://authority``. Raises OSError."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        file_system, root = FileSystem.from_uri(f"{scheme}{_SCHEME}{authority}/")
    except pa.ArrowInvalid as error:
        raise OSError(f"{scheme}{_SCHEME}{authority} cannot be opened: {error}") from error
    return file_system, str(root).rstrip("/")
