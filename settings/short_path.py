"""A short name for a file of a socket: the system takes 107 bytes, and folders may be deep."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 100


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name of the file that is good meanwhile. Raises OSError."""
    if len(os.fsencode(path)) <= BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
