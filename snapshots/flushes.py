"""Flushes of files and of names in directories, whose errors say the path."""

import os
from pathlib import Path

from fencepost.records.named_errors import naming


class NotFlushed(OSError):
    """A flush failed: what of the file is on the disk is unknown, also if a later one does not fail."""


def flush(descriptor: int, path: Path) -> None:
    """Put a file, or the names in a directory, on the disk. Raises NotFlushed."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise NotFlushed(error.errno, error.strerror, str(path)) from error


def sync_path(path: Path) -> None:
    """Flush a file, or a directory so that names in it survive a crash. Raises OSError, NotFlushed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flush(descriptor, path)
    finally:
        os.close(descriptor)


def write_flushed(path: Path, content: bytes) -> None:
    """Write a new file, or an old one anew. Raises OSError, NotFlushed."""
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        flush(file.fileno(), path)


def replace_file(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Put new content in place of a file's old one: a reader sees the one or the other.

    durable   so does the next start after any crash. Raises OSError, NotFlushed.
    """
    replacement = path.with_name(f"{path.name}.tmp")
    if not durable:
        with naming(replacement):
            replacement.write_bytes(content)
        replacement.replace(path)
        return
    write_flushed(replacement, content)
    replacement.replace(path)
    sync_path(path.parent)
