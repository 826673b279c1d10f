"""Reading files: what cannot be read is named, which the system does for opening alone."""

import os
from pathlib import Path

from fencepost.records.named_errors import named, naming


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises OSError that says the path."""
    with naming(path):
        return path.read_bytes()


def read_if_there(path: Path) -> bytes | None:
    """As ``read_bytes``; None if there is no such file."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


def read_at(descriptor: int, size: int, position: int, path: Path) -> bytes:
    """Bytes of an open file, fewer at its end. Raises OSError that says the path."""
    try:
        return os.pread(descriptor, size, position)
    except OSError as error:
        named(error, path)
        raise
