"""The file ``<base offset>.checksums`` beside a segment: checksums of its batches and of its three indexes.

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
Layout      version i16 = 2 | base offset i64 | topic id, 16 bytes | partition i32 | snapshot's offset i64 |
            CRC-32C u32 of the snapshot's file | four times (bytes u64 | CRC-32C u32), of .log, .index,
            .timeindex, .txnindex | CRC-32C u32 of all before. Big-endian. 0 bytes: that file is not summed.
            2^64 - 1: it is being made again. Partition or offset -1: not known. Version 1 has neither owner
            nor snapshot. A torn file, another version's, or that of another base offset says nothing.
Earlier     versions, but for 1, neither write nor read the file; what they append lies behind what is summed.
            To those that know version 1 alone version 2 says nothing; they write 1 in its place.
"""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from fencepost.broker.log.checkpoints import replace_file, sync_path
from fencepost.broker.log.file_sums import NOT_SUMMED, Summed, read_sum
from fencepost.broker.log.index_file import INDEX_SUFFIXES
from fencepost.records.types import Offset

SUFFIX: Final = ".checksums"
VERSION: Final = 2

COMPARED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the batches that a start compares with their sum, 15 ms of CPU for each log: as many as it reads one by
one after a crash. More of them are not compared then."""

_PART: Final = struct.Struct(">QI")
_HEAD: Final = struct.Struct(">hq")
_SAYS: Final = struct.Struct(">16siqI")
_CRC: Final = struct.Struct(">I")

MADE_AGAIN: Final = Summed(2**64 - 1, 0)  # no file is like that


class SegmentSums(NamedTuple):
    """What was summed of a segment's files."""

    batches: Summed
    offsets: Summed
    times: Summed
    aborts: Summed


NOTHING: Final = SegmentSums(NOT_SUMMED, NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)


class Owner(NamedTuple):
    """The partition that a segment is of."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.partition} of topic id {self.topic_id}"


_NO_OWNER: Final = Owner(UUID(int=0), -1)


class Content(NamedTuple):
    """What a file of sums says."""

    sums: SegmentSums = NOTHING
    owner: Owner | None = None
    snapshot: tuple[Offset, int] | None = None  # of the producers: its offset, the CRC-32C of its file


class Extent(NamedTuple):
    """How large a segment's files are, in the order of SegmentSums, and what is summed of the bytes meant."""

    sizes: tuple[int, ...]
    sums: SegmentSums


def sums_path(segment: Path) -> Path:
    """The file of the segment's sums."""
    return segment.with_suffix(SUFFIX)


def load_sums(segment: Path) -> SegmentSums:
    """What the file says; NOTHING if there is none, or it is no use."""
    return read_sums(sums_path(segment), int(segment.stem))


def read_sums(path: Path, base: int) -> SegmentSums:
    """What a file says, if it is of the segment that begins at offset ``base``; else NOTHING."""
    return read_content(path, base).sums


def read_content(path: Path, base: int) -> Content:
    """As ``read_sums``, with what else the file says."""
    try:
        raw = path.read_bytes()
    except OSError:  # it only adds to what is checked
        return Content()
    version, parts_at = VERSION, _HEAD.size + _SAYS.size
    if len(raw) == parts_at - _SAYS.size + 4 * _PART.size + _CRC.size:
        version, parts_at = 1, _HEAD.size
    size = parts_at + 4 * _PART.size
    if len(raw) != size + _CRC.size or _CRC.unpack_from(raw, size)[0] != crc32c(raw[:size]):
        return Content()
    if _HEAD.unpack_from(raw) != (version, base):
        return Content()
    sums = SegmentSums(*(Summed(*_PART.unpack_from(raw, parts_at + n * _PART.size)) for n in range(4)))
    if version == 1:
        return Content(sums)
    topic_id, partition, offset, crc = _SAYS.unpack_from(raw, _HEAD.size)
    owner = Owner(UUID(bytes=topic_id), partition) if partition >= 0 else None
    return Content(sums, owner, (Offset(offset), crc) if offset >= 0 else None)


def is_torn(segment: Path) -> bool:
    """The file is there, and its checksum is wrong. Raises OSError."""
    try:
        raw = sums_path(segment).read_bytes()
    except FileNotFoundError:
        return False
    content, crc = raw[: -_CRC.size], raw[-_CRC.size :]
    return len(crc) < _CRC.size or _CRC.unpack(crc)[0] != crc32c(content)


def save_sums(segment: Path, sums: SegmentSums, owner: Owner | None = None, *, durable: bool = False) -> None:
    """Replace the file's sums. Not flushed by default: half of one has a wrong checksum. Raises OSError."""
    content = read_content(sums_path(segment), int(segment.stem))
    summed = content._replace(sums=sums, owner=owner or content.owner)
    write_content(sums_path(segment), int(segment.stem), summed, durable=durable)


def write_content(path: Path, base: int, content: Content, *, durable: bool) -> None:
    """Replace the file of the segment that begins at offset ``base``. Raises OSError."""
    owner, snapshot = content.owner or _NO_OWNER, content.snapshot or (-1, 0)
    raw = _HEAD.pack(VERSION, base) + _SAYS.pack(owner.topic_id.bytes, owner.partition, *snapshot)
    raw += b"".join(_PART.pack(*part) for part in content.sums)
    replace_file(path, raw + _CRC.pack(crc32c(raw)), durable=durable)


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


def forget_sums(segment: Path) -> None:
    """Before any of the segment's files is cut or replaced: no crash brings the sums back. Raises OSError."""
    if sums_path(segment).exists():
        sums_path(segment).unlink()
        sync_path(segment.parent)


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


def is_as_summed(path: Path, expected: Summed, pace: Callable[[int], None] = lambda _: None) -> bool:
    """The file begins with the bytes that were summed. Raises OSError.

    ``pace`` is called after each piece that is read, with its bytes.
    """
    try:
        if path.stat().st_size < expected.size:
            return False
    except FileNotFoundError:
        return expected == NOT_SUMMED
    return read_sum(path, NOT_SUMMED, expected.size, pace) == expected
