"""A damaged archive of a stopped node: what is wrong with it, and its batches from another node's archive.

Proof    committed batches do not differ between nodes. Where the segment was summed, what is put in its place
         has that very sum; else each batch of the other archive is checked as its readers check it, and they
         reach from where the segment begins to where the next one does. A sum that is right though batches
         under it are not is no proof: a start sums what it finds, and no checksum covers a leader epoch.
Order    the damaged file is linked to ``<name>.damaged``; the new one, flushed, takes its name. Killed at any
         line: the one or the other is there.
Given up is what no one has: the file is set aside as ``<name>.damaged``, and its offsets are a named hole.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import Content, Owner, SegmentSums, read_content, sums_path, write_content
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed
from fencepost.snapshots.flushes import replace_file, sync_path, write_flushed
from fencepost.snapshots.segments import (
    HOLES_FILE,
    LOG_START,
    ArchiveReader,
    Hole,
    Segment,
    TornTail,
    encode_holes,
    list_segments,
    load_holes,
    sound_part,
    unlike_written,
)

DAMAGED: Final = ".damaged"
_SEALED: Final = 0o444


class Wrong(NamedTuple):
    """A segment that is not what was written, or is not there: ``segment`` is None then."""

    segment: Segment | None
    first: Offset
    end: Offset | None  # where the next segment begins; None: it is the last one
    reason: str


def wrong_segments(directory: Path, owner: Owner | None = None, *, is_kept: bool = False) -> list[Wrong]:
    """What is wrong with an archive, the oldest first. Raises CorruptData (``holes.json``), OSError.

    is_kept   no retention deletes its first segments: without them a hole says so.
    """
    segments, holes = list_segments(directory), load_holes(directory)
    found: list[Wrong] = []
    expected = LOG_START if is_kept else None
    for number, segment in enumerate(segments):
        if expected is not None and segment.base > expected and Hole(expected, segment.base) not in holes:
            found.append(
                Wrong(None, expected, segment.base, f"offsets {expected} to {segment.base - 1} are gone")
            )
        following = segments[number + 1].base if number + 1 < len(segments) else None
        end, _, error = sound_part(segment)
        is_torn = isinstance(error, TornTail) and following is None and not segment.sealed
        reason = unlike_written(segment, owner) or ("" if error is None or is_torn else str(error))
        if reason:
            found.append(Wrong(segment, segment.base, following, reason))
        expected = following if reason else end
    return found


def take(directory: Path, wrong: Wrong, peers: Sequence[Path], owner: Owner) -> Path | None:
    """Put right what is wrong, from the first archive that has it. Returns which; None: none has.

    Raises OSError.
    """
    for peer in peers:
        content = _content(peer, wrong, owner)
        if content is not None:
            _put(directory, wrong, content, owner)
            return peer
    return None


def give_up(directory: Path, wrong: Wrong) -> None:
    """Set a damaged segment aside; what it had is a named hole. Raises OSError."""
    if wrong.end is not None:
        kept = [hole for hole in load_holes(directory) if not wrong.first <= hole.first < wrong.end]
        _save_holes(directory, sorted([*kept, Hole(wrong.first, wrong.end)]))
    if wrong.segment is not None:
        path = wrong.segment.path
        path.replace(f"{path}{DAMAGED}")
        sums_path(path).unlink(missing_ok=True)
        sync_path(directory)


def _content(peer: Path, wrong: Wrong, owner: Owner) -> bytes | None:
    """The bytes that belong there, by the batches of another archive; None: it does not have them."""
    summed, size = NOT_SUMMED, 0  # what was summed may go beyond where the next segment begins
    if wrong.segment is not None:
        said = read_content(sums_path(wrong.segment.path), wrong.first)
        is_proof = said.owner == owner and not _is_of_what_is_wrong(wrong.segment, said.sums.batches)
        summed = said.sums.batches if is_proof else NOT_SUMMED  # another owner's is of a file put there
        size = max(summed.size, wrong.segment.path.stat().st_size)
    content, at = bytearray(), wrong.first
    whole: int | None = None  # how many bytes of it belong there
    try:
        for stored in ArchiveReader(peer).read(wrong.first):
            is_proven = len(content) >= (size if wrong.end is None else summed.size)
            if (is_proven and (whole or wrong.end is None)) or stored.header.base_offset != at:
                break
            content += stored.content
            at = stored.header.end
            if at == wrong.end:
                whole = len(content)
    except CorruptData:
        return None
    if summed != NOT_SUMMED and NOT_SUMMED.followed_by(content[: summed.size]) != summed:
        return None
    is_all = whole is not None or (wrong.end is None and len(content) == size)
    if not content or (not is_all and NOT_SUMMED.followed_by(content) != summed):
        return None  # what was summed may end before a hole
    return bytes(content[:whole])


def _is_of_what_is_wrong(segment: Segment, summed: Summed) -> bool:
    return unlike_written(segment) is None and sound_part(segment)[1] < summed.size


def _put(directory: Path, wrong: Wrong, content: bytes, owner: Owner) -> None:
    path = directory / f"{wrong.first:020d}.log"
    if path.exists() and not Path(f"{path}{DAMAGED}").exists():
        os.link(path, f"{path}{DAMAGED}")
    made = path.with_name(f"{path.name}.new")
    write_flushed(made, content)
    made.chmod(_SEALED)
    made.replace(path)
    sums = SegmentSums(NOT_SUMMED.followed_by(content), NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)
    write_content(sums_path(path), wrong.first, Content(sums, owner), durable=True)
    holes = load_holes(directory)
    if wrong.end is not None:
        end = sound_part(Segment(wrong.first, path, sealed=True))[0]
        filled = [hole for hole in holes if not (wrong.first <= hole.first and hole.end <= end)]
        if len(filled) < len(holes):
            _save_holes(directory, filled)


def _save_holes(directory: Path, holes: Sequence[Hole]) -> None:
    replace_file(directory / HOLES_FILE, encode_holes(tuple(holes)), durable=True)
