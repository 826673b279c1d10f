"""The pages of a store's file, read before LMDB opens it: a broken one ends the process without a word.

Reads      every page that the last commit reaches, and the list of the free ones; the file is not mapped. A
           row takes 2 to 4 microseconds. What a killed commit left lies on free pages, which are not read.
Passed     over: pages that nothing reaches. They are lost room, and no danger.
Not seen   what the pages hold: sums.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from lmdb import verify

from fencepost.snapshots.sums import StoreDamaged

_problems: Callable[[str], list[str]] = verify.verify
_LOST_ROOM: Final = "neither reachable nor in the freeDB"


def require_sound_pages(directory: Path) -> None:
    """Of the store in a directory; one that was never written is sound. Raises StoreDamaged, OSError."""
    file = directory / "data.mdb"
    if not file.exists() or not file.stat().st_size:
        return
    try:
        found = [each for each in _problems(str(directory)) if _LOST_ROOM not in each]
    except verify.VerifyError as error:
        found = [str(error)]
    if found:
        raise StoreDamaged(f"{file}: {len(found)} of its pages' rules are broken, the first: {found[0]}")
