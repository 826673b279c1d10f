"""The pages of a store's file, read before LMDB opens it: a broken one ends the process without a word.

Reads      every page that the last commit reaches, and the list of the free ones; the file is not mapped. A
           row takes 2 to 4 microseconds. What a killed commit left lies on free pages, which are not read.
Passed     over: pages that nothing reaches, as those that a value has beyond what it needs. They are lost
           room, and no danger.
Not seen   what the pages hold: sums.py.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lmdb import verify

from fencepost.records.invariant import CorruptData
from fencepost.snapshots.page_nodes import require_whole_pages
from fencepost.snapshots.sums import StoreDamaged

_problems: Callable[[str], list[str]] = verify.verify
_PASSED_OVER: Final = (
    "neither reachable nor in the freeDB",
    "header mp_pages",  # these two: see page_nodes.py
    "overflow pages, record says",
)


def require_sound_pages(directory: Path) -> None:
    """Of the store in a directory; one that was never written is sound. Raises StoreDamaged, OSError."""
    file = directory / "data.mdb"
    if not file.exists() or not file.stat().st_size:
        return
    try:
        found = [each for each in _problems(str(directory)) if not any(map(each.__contains__, _PASSED_OVER))]
        if not found:
            require_whole_pages(file)
    except (verify.VerifyError, CorruptData, struct.error) as error:
        found = [str(error)]
    if found:
        raise StoreDamaged(f"{file}: {len(found)} of its pages' rules are broken, the first: {found[0]}")
