"""Log directories on whatever file system their path names: this machine's, or one that a URI names
(``uris``).

A path goes into rows as it was given, its scheme included. Workers open a file system of their own: what
travels to them is the path, and the properties (``remote.use``).
"""

from typing import Final

from fencepost.audit.decode.files import LOCAL, Entry, Files, OpenFile
from fencepost.audit.source.remote import remote
from fencepost.audit.source.uris import local_path


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
        here = local_path(path)
        return path if here is None else LOCAL.identity(here)

    def open(self, path: str) -> OpenFile:
        """Implements ``Files.open``."""
        files, inner = _at(path)
        return files.open(inner)


ANY: Final = AnyFiles()


def _at(path: str) -> tuple[Files, str]:
    """The file system of ``path`` and what it calls it. Raises OSError, for an unknown scheme too."""
    here = local_path(path)
    return (LOCAL, here) if here is not None else remote(path)
