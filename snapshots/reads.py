"""Reading small files whole: what cannot be read is named, which the system does for opening alone."""

from pathlib import Path

from fencepost.records.named_errors import naming


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
