"""Sums of a partition's segments, beside each in a file: of its batches and of its three indexes.

Written     before each producer snapshot, of what lies before its offset and is on the disk; a full
            segment's stays. It says how the files begin: bytes appended later change nothing of it.
Of          the bytes that were meant, which are summed while they are written (segment.py, index_file.py), by
            the cleaner too. What was there before the log was opened counts as it was summed then, or as it
            was read, each batch being checked: by recovery behind the recovery point, else by the scrub, so
            also after a log was cut. Indexes alone that were never summed are summed as they are.
Why         a record batch's own checksum does not cover its offset, length and leader epoch, and Kafka's
            indexes have none: without an entry of ``.txnindex`` consumers are given aborted records.
Indexes     that are not as they were summed are made again from the batches before they are used. While that
            is done, the file says so: killed meanwhile, the next start does it again.
Batches     of which fewer are there than were summed are damage, if the segment ends before the next one
            begins, too: the file alone takes no partition offline. A start compares the bytes of the segment
            that has the recovery point, and reads its batches if they differ; while the broker runs those of
            all segments are compared, one after the other (scrub.py), and by ``storage verify``.
Shorter     files, or replaced ones: the sums are forgotten first, durably (``forget_sums``).
Owner       topic id and partition, once the batches are summed: another partition's whole segment, with its
            file of sums, is another's then (foreign.py).
Producers   offset and checksum of the snapshot that is written next, in the last segment's file: an older one
            under its name is not that one (``is_other_snapshot``).
Layout      of the file: snapshots/checksums.py, which archives have, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.broker.log.index_file import INDEX_SUFFIXES
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import (
    MADE_AGAIN,
    Owner,
    SegmentSums,
    is_as_summed,
    load_sums,
    read_content,
    sums_path,
    write_content,
)
from fencepost.snapshots.file_sums import NOT_SUMMED, read_sum

COMPARED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the batches that a start compares with their sum, 15 ms of CPU for each log: as many as it reads one by
one after a crash. More of them are not compared then."""


class Extent(NamedTuple):
    """How large a segment's files are, in the order of SegmentSums, and what is summed of the bytes meant."""

    sizes: tuple[int, ...]
    sums: SegmentSums


def save_sums(segment: Path, sums: SegmentSums, owner: Owner | None = None, *, durable: bool = False) -> None:
    """Replace the file's sums. Not flushed by default: half of one has a wrong checksum. Raises OSError."""
    content = read_content(sums_path(segment), int(segment.stem))
    summed = content._replace(sums=sums, owner=owner or content.owner)
    write_content(sums_path(segment), int(segment.stem), summed, durable=durable)


def note_snapshot(segment: Path, offset: Offset, crc: int) -> None:
    """This snapshot of the producers is written next, while the segment is the last one. Raises OSError."""
    content = read_content(sums_path(segment), int(segment.stem))
    noted = content._replace(snapshot=(offset, crc))
    write_content(sums_path(segment), int(segment.stem), noted, durable=False)


def is_other_snapshot(segments: Sequence[Path], offset: Offset, raw: bytes) -> bool:
    """``raw`` is not the snapshot at ``offset`` that was written while one of these was the last segment."""
    contents = (read_content(sums_path(each), int(each.stem)) for each in segments)
    noted = [each.snapshot for each in contents if each.snapshot is not None and each.snapshot[0] == offset]
    return bool(noted) and (offset, crc32c(raw)) not in noted


def sum_segment(segment: Path, extent: Extent, owner: Owner | None) -> OSError | None:
    """Save the sums of a segment's files, and whose it is.

    Returns    why the file could not be written, which harms nothing: what is there is older, and still true.
    extent     of the files when this was requested: what was written later is not summed. Batches count only
               as far as they are summed in it, or were before; an index that is not is summed as it is now.
    Raises     OSError when an index is read: FileNotFoundError, if the segment is deleted meanwhile.
    """
    segment.stat()
    before = load_sums(segment)
    size, *sizes = extent.sizes
    batches, *indexes = extent.sums
    if batches.size <= before.batches.size <= size:
        batches = before.batches
    rows = zip(INDEX_SUFFIXES, indexes, before[1:], sizes, strict=True)
    indexes = [
        written if written.size == size else read_sum(segment.with_suffix(suffix), known, size)
        for suffix, written, known, size in rows
    ]
    failure = None
    try:
        save_sums(segment, SegmentSums(batches, *indexes), owner)
    except OSError as error:
        failure = error
    if not segment.exists():  # deleted meanwhile; its owner deletes the sums last
        sums_path(segment).unlink(missing_ok=True)
    return failure


def is_summed(segment: Path) -> bool:
    """The sums cover its files to their ends."""
    sums = load_sums(segment)
    paths = (segment, *(segment.with_suffix(suffix) for suffix in INDEX_SUFFIXES))
    return all(path.stat().st_size == known.size for path, known in zip(paths, sums, strict=True))


def changed_index(segment: Path, sums: SegmentSums) -> str | None:
    """The suffix of the first index that is not as it was summed. Raises OSError."""
    for suffix, known in zip(INDEX_SUFFIXES, sums[1:], strict=True):
        if not is_as_summed(segment.with_suffix(suffix), known):
            return suffix
    return None


def are_batches_changed(segment: Path) -> bool:
    """They are not as they were summed; False, too, of more than COMPARED_BYTES_MAX. Raises OSError."""
    known = load_sums(segment).batches
    return known.size <= COMPARED_BYTES_MAX and not is_as_summed(segment, known)


def forget_batches(segment: Path) -> None:
    """What was summed of the batches is not true of them; the next flush sums them anew. Raises OSError."""
    save_sums(segment, load_sums(segment)._replace(batches=NOT_SUMMED), durable=True)


def begin_indexes(segment: Path) -> None:
    """The segment's indexes are made again: until ``end_indexes`` none is believed. Raises OSError."""
    save_sums(segment, SegmentSums(load_sums(segment).batches, *[MADE_AGAIN] * 3), durable=True)


def end_indexes(segment: Path, written: SegmentSums) -> None:
    """The segment's indexes are made, and have the sums of what was written. Raises OSError."""
    save_sums(segment, written._replace(batches=load_sums(segment).batches), durable=True)
