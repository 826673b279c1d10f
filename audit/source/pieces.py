"""Files cut into pieces at batch boundaries, so that one large segment is work for many.

Cut       at a position of the segment's ``.index`` file, or else where a search finds a sound batch. Both
          are guesses: an index may be stale, and a record's value may hold a whole batch. So a piece is
          decoded from its start to the first batch at or after its end, and says where that is
          (``Reached``): ``fits`` tells whether each piece began where the one before it ended. If not, the
          file is read again in one piece.
Packed    pieces travel in bundles of about one size: a thousand small files are not a thousand tasks.
Source    Kafka OffsetIndex: entries of a relative offset i32 and a position i32, zeros after the last.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.audit.decode.batches import is_sound, segment_base
from fencepost.audit.decode.files import Files
from fencepost.audit.decode.plan import LogFile
from fencepost.audit.decode.walk import BATCH_BYTES_MAX, OFFSETS_MAX
from fencepost.records.batch_layout import HEADER_BYTES, LENGTH_AT, LENGTH_COUNTS_FROM, MAGIC, MAGIC_AT

PIECE_BYTES: Final = 256 * 1024 * 1024  # decoded in 250 ms; a task costs Spark 30 ms in Python and 30 in Java
PIECE_BYTES_MIN: Final = 32 * 1024 * 1024
TASKS_PER_CORE: Final = 2  # so that no core idles for long while another finishes

PIECES_MAX: Final = 20_000  # of one reading: above, pieces are larger, and the driver's lists stay small
SEARCH_BYTES: Final = 1024 * 1024  # for a batch: its header alone is looked for, and most batches are smaller
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024  # Kafka's default is 10 MB
_TRIES_MAX: Final = 16  # positions that look like a batch; past them the file is not cut there
_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_COUNTS_FROM


class Piece(NamedTuple):
    """What begins in ``[start, end)`` of a segment; of any other kind of file all of it."""

    file: LogFile
    start: int
    end: int


class Reached(NamedTuple):
    """What reading a piece came to."""

    path: str
    start: int
    end: int  # of the last row; ``start`` if there was none
    is_last_sound: bool  # the last row has no fault
    fault: str | None = None  # why it was not read to its end


def bundles(pieces: Sequence[Piece], *, bytes_each: int) -> list[list[Piece]]:
    """The pieces in order, in groups of about ``bytes_each``."""
    found: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        size = piece.end - piece.start
        if not found or size > room:
            found.append([])
            room = bytes_each
        found[-1].append(piece)
        room -= size
    return found


def piece_bytes(total: int, cores: int) -> int:
    """How large a piece should be: every core has work, and there are not more than ``PIECES_MAX``."""
    fair = total // max(1, TASKS_PER_CORE * cores)
    return max(min(PIECE_BYTES, max(fair, PIECE_BYTES_MIN)), total // PIECES_MAX)


def cut(file: LogFile, start: int, size: int, files: Files, end: int | None = None) -> list[Piece]:
    """``[start, end)`` of a file in pieces of about ``size`` bytes; in one if no place to cut is found.

    ``end``  None: as long as it was when it was listed.
    """
    end = file.size if end is None else end
    if file.kind != "segment" or end - start < 2 * size:
        return [Piece(file, start, end)]
    edges = [start]
    try:
        index = _index_of(file, files)
        for target in range(start + size, end - size // 2, size):
            edge = _edge(file, index, target, edges[-1], files)
            if edge is not None and edge < end:
                edges.append(edge)
    except OSError:
        pass  # who reads the pieces will say so
    return [Piece(file, *span) for span in zip(edges, [*edges[1:], end], strict=True)]


def fits(reached: Iterable[Reached]) -> bool:
    """Whether the pieces of one file, in their order, began where the ones before them ended."""
    end: int | None = None
    for each in reached:
        if end is not None and each.start != end:
            return False
        end = each.end
    return True


def _edge(file: LogFile, index: npt.NDArray[np.int64], target: int, before: int, files: Files) -> int | None:
    """A position near ``target``, after ``before``, where a sound batch begins."""
    at = int(np.searchsorted(index, target, side="right")) - 1
    if at >= 0 and before < index[at] and is_sound(file.path, int(index[at]), files=files):
        return int(index[at])
    for position in _candidates(file, max(target, before + 1), files)[:_TRIES_MAX]:
        if is_sound(file.path, position, files=files):
            return position
    return None


def _index_of(file: LogFile, files: Files) -> npt.NDArray[np.int64]:
    """The positions that a segment's index names, ascending; none if it has none."""
    try:
        opened = files.open(file.path.removesuffix(".log") + ".index")
    except OSError:
        return np.empty(0, np.int64)
    try:
        content = opened.read(0, min(opened.size, INDEX_BYTES_MAX))
    finally:
        opened.close()
    entries = content[: len(content) // _ENTRY.itemsize * _ENTRY.itemsize].view(_ENTRY)
    positions: npt.NDArray[np.int64] = entries["position"].astype(np.int64)
    return np.unique(positions[positions > 0])


def _candidates(file: LogFile, start: int, files: Files) -> list[int]:
    """Positions from ``start`` on whose bytes could be a batch's header, in order."""
    opened = files.open(file.path)
    try:
        content = opened.read(start, SEARCH_BYTES)
    finally:
        opened.close()
    last = len(content) - HEADER_BYTES
    if last <= 0:
        return []
    at = np.flatnonzero(content[MAGIC_AT : last + MAGIC_AT] == MAGIC)
    lengths = _big_endian(content, at + LENGTH_AT, 4)
    at = at[(lengths >= _LENGTH_MIN) & (lengths <= BATCH_BYTES_MAX)]
    base = segment_base(file.path) or 0
    offsets = _big_endian(content, at, 8)
    within = (offsets >= base) & (offsets - base < OFFSETS_MAX)
    return [start + each for each in at[within].tolist()]


def _big_endian(
    content: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.int64]:
    """The signed integers of ``width`` bytes that begin at ``at``."""
    gathered = np.ascontiguousarray(content[at[:, None] + np.arange(width)])
    integers: npt.NDArray[np.int64] = gathered.view(f">i{width}")[:, 0].astype(np.int64)
    return integers
