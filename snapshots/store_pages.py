"""The pages of a store's file, read before LMDB opens it: a broken one ends the process without a word.

Reads      every page that the last commit reaches, and the list of the free ones; the file is not mapped. A
           row takes 2 to 4 microseconds. What a killed commit left lies on free pages, which are not read.
Passed     over: pages that nothing reaches, as those that a value has beyond what it needs. They are lost
           room, and no danger.
Tables     are a store's own, by their names: of one with another name the rows would lie there unread,
           beside a new, empty table. It may lack the last one, as an earlier version's does; a process that
           is killed while it makes a store leaves the first of them, empty.
Not seen   what the pages hold: sums.py.
"""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from lmdb import verify

from fencepost.records.invariant import CorruptData
from fencepost.records.named_errors import naming
from fencepost.snapshots.page_nodes import require_whole_pages
from fencepost.snapshots.reader import is_written
from fencepost.snapshots.sums import StoreDamaged

TABLES: Final = (b"meta", b"journal", b"image", b"sums")
"""In the order in which a new store gets them."""
SINCE_THE_FIRST_VERSION: Final = 3
"""So many of them every store has that has a row."""

_problems: Callable[[str], list[str]] = verify.verify
_PASSED_OVER: Final = (
    "neither reachable nor in the freeDB",
    "header mp_pages",  # these two: see page_nodes.py
    "overflow pages, record says",
)


def require_sound_pages(directory: Path) -> None:
    """Of the store in a directory; one that was never written is sound. Raises StoreDamaged, OSError."""
    if not is_written(directory):
        return
    file = directory / "data.mdb"
    try:
        with naming(file):
            problems = _problems(str(directory))
        found = [each for each in problems if not any(map(each.__contains__, _PASSED_OVER))]
        if not found:
            _require_own(require_whole_pages(file))
    except (verify.VerifyError, CorruptData, struct.error) as error:
        found = [str(error)]
    if found:
        raise StoreDamaged(f"{file}: {len(found)} of its pages' rules are broken, the first: {found[0]}")


def _require_own(entries: dict[bytes, int]) -> None:
    """``entries``: how many each table has. Raises CorruptData."""
    made = len(entries)
    if entries.keys() != set(TABLES[:made]) or (made < SINCE_THE_FIRST_VERSION and any(entries.values())):
        raise CorruptData(f"a store's tables are {_named(TABLES)}, and these are {_named(sorted(entries))}")


def _named(tables: Iterable[bytes]) -> str:
    return ", ".join(each.decode("latin-1") for each in tables) or "none"
