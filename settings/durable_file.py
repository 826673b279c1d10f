"""Small files that are there whole or not at all, whatever happens meanwhile."""

import os
from pathlib import Path

from fencepost.records.named_errors import naming


def write_durably(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Create or replace ``file`` whole or not at all: written aside, flushed, renamed, folder flushed."""
    part = file.with_name(file.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with naming(part), os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        os.fchmod(descriptor, mode)
        stream.write(text)
        stream.flush()
        os.fsync(descriptor)
    part.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(file.parent):
            os.fsync(folder)
    finally:
        os.close(folder)
