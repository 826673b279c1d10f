"""A node's log file: rotated by size while the node writes to it.

The node's parent opened the file and gave it to the node as stdout and stderr, so that whatever a crash
prints is in it, too. The node replaces both descriptors when the file is full: FILE becomes FILE.1, FILE.1
becomes FILE.2, and so on.
"""

import asyncio
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

LOG_FILE_VARIABLE: Final = "FENCEPOST_LOG_FILE"
"""Names the file that stdout and stderr go to; without it the node does not rotate them."""

CHECK_S: Final = 1.0
OUTPUTS: Final = (1, 2)


def rotated_names(file: Path, files_max: int) -> list[Path]:
    """The older files, the newest first. ``file`` itself counts as one."""
    return [file.with_name(f"{file.name}.{number}") for number in range(1, files_max)]


def rotate_if_full(file: Path, bytes_max: int, files_max: int, outputs: tuple[int, ...] = OUTPUTS) -> bool:
    """Rotate if the file has ``bytes_max`` or more; keep ``files_max`` altogether. True: it did.

    Raises   OSError: nothing was rotated, or one file more than another.
    """
    written = os.fstat(outputs[-1])
    try:
        there = file.stat()
    except FileNotFoundError:
        there = None
    if there is not None and (there.st_dev, there.st_ino) != (written.st_dev, written.st_ino):
        return False  # it is not what we write to
    if there is not None and written.st_size < bytes_max:
        return False
    fresh = file.with_name(f"{file.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        names = [file, *rotated_names(file, files_max)]
        for newer, older in reversed(list(pairwise(names))):
            if newer.exists():
                newer.replace(older)
        fresh.replace(file)
        for output in outputs:
            os.dup2(descriptor, output)
    finally:
        os.close(descriptor)
    return True


def keep_rotating(loop: asyncio.AbstractEventLoop, bytes_max: int, files_max: int) -> Callable[[], None]:
    """Look at this process' log file every CHECK_S, if it has one. Returns what stops it."""
    name = os.environ.get(LOG_FILE_VARIABLE)
    timer: asyncio.TimerHandle | None = None

    def check(file: Path) -> None:
        nonlocal timer
        timer = loop.call_later(CHECK_S, check, file)
        try:
            rotate_if_full(file, bytes_max, files_max)
        except OSError:
            pass  # a full disk, or no descriptor: there is nowhere to say so, and the next look may have one

    def stop() -> None:
        if timer is not None:
            timer.cancel()

    if name is not None:
        check(Path(name))
    return stop
