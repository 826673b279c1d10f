"""Segment files, as read: the committed log of one node, in Kafka's layout, for anyone's eyes.

Layout      ``<log directory>/<base offset, 20 digits>.log``: record batches, one after another. A batch
            begins where the one before it ended, also across files, unless ``holes.json`` names the gap,
            whose checksum is behind its text (records/blank_check.py).
Sealed      a segment that was flushed whole loses its write permission. Only the segments after the
            last sealed one may be torn by a crash; bad bytes in a sealed one are a disk's doing.
Sums        of a segment's batches, in a file beside it (checksums.py): it is compared as a whole before any
            of its batches is given out. Without one, as earlier versions wrote it, each batch's own checksum,
            and the order of offsets and leader epochs, are all that there is.
Beside      a writer: nothing is locked or changed. A last batch that is not whole yet is a write in
            progress, and reading ends before it; any other bad byte is CorruptData with file and
            position. Files are read, not mapped: a writer that cuts its tail cannot hurt a reader.

Source      Kafka UnifiedLog and LogSegment (names, contiguity); docs/design.md 3.
"""

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from fencepost.records.batch import BatchHeader, batch_header, checked_header
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.blank_check import checked_text, with_check
from fencepost.records.invariant import CorruptData
from fencepost.records.named_errors import naming
from fencepost.records.types import Log, Offset, Term
from fencepost.snapshots.checksums import Owner, read_content, sums_path
from fencepost.snapshots.file_sums import NOT_SUMMED, read_sum
from fencepost.snapshots.reads import read_if_there

LOG_START: Final = Offset(0)
EPOCH_MIN: Final = Term(0)
HOLES_FILE: Final = "holes.json"
HOLES_MAX: Final = 10_000  # one per snapshot that a follower took; far more means a broken loop
READ_AHEAD_BYTES: Final = 1024 * 1024

_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log")
_WRITABLE: Final = 0o222


class Hole(NamedTuple):
    """Offsets that are not here: ``first`` up to, not including, ``end``."""

    first: Offset
    end: Offset


class StoredBatch(NamedTuple):
    """A batch whose CRC is right, and where it lies."""

    header: BatchHeader
    content: bytes
    path: Path
    position: int


class Segment(NamedTuple):
    """A segment file by its name; ``sealed`` says that it was flushed whole."""

    base: Offset
    path: Path
    sealed: bool


class TornTail(CorruptData):
    """A file ends inside a batch: a write in progress, or one that a crash cut short."""


class EpochFell(CorruptData):
    """A batch has a lower leader epoch than one before it: one of the two is wrong, no CRC says which."""


class ArchiveReader:
    """The archive of one log, as it was when this was made, and what is written at its end meanwhile."""

    def __init__(
        self,
        directory: Path,
        cleaned_end: Offset = LOG_START,
        *,
        owner: Owner | None = None,
        are_sums_read: bool = True,
    ) -> None:
        """Not of an archive, but of a partition: its files of sums are not read, and may be an earlier one's.

        cleaned_end   below it a partition's log may lack offsets (broker/log/compaction.py).
        owner         of every segment. None: they have one owner, whichever.
        """
        self.directory = directory
        self._are_sums_read = are_sums_read
        self._cleaned_end = cleaned_end
        # Segments first: a hole is on disk before the segment after it.
        self.segments = list_segments(self.directory)
        self.holes = load_holes(self.directory)
        self._owner = owner  # else of the segments that were read

    @property
    def start(self) -> Offset:
        """The first offset that is kept; the end of the last hole if there is nothing else."""
        if self.segments:
            return self.segments[0].base
        return self.holes[-1].end if self.holes else LOG_START

    def read(self, first: Offset = LOG_START) -> Iterator[StoredBatch]:
        """Every batch that ends after ``first``, in order. Holes are jumped over.

        Raises   CorruptData naming file and position: bad bytes, or records that are missing unnamed.
        """
        expected: Offset | None = None
        epoch = EPOCH_MIN
        last = len(self.segments) - 1
        for number, segment in enumerate(self.segments):
            if number < last and self.segments[number + 1].base <= first:
                continue
            self._check_gap(expected, segment)
            expected = segment.base
            try:
                self._require_as_written(segment)
                for stored in scan_segment(segment, first, self._cleaned_end, epoch):
                    expected, epoch = stored.header.end, stored.header.leader_epoch
                    if expected > first:
                        yield stored
            except TornTail:
                if number < last or segment.sealed:
                    raise
            except FileNotFoundError:
                expected = None  # retention took it away meanwhile

    def _require_as_written(self, segment: Segment) -> None:
        """Before any of its batches is given out. Raises CorruptData, FileNotFoundError."""
        if not self._are_sums_read:
            return
        owner = read_content(sums_path(segment.path), segment.base).owner
        reason = unlike_written(segment, self._owner)
        if reason is not None:
            try:
                for _ in scan_segment(segment):
                    pass  # it may say where
            except TornTail as error:
                raise CorruptData(str(error)) from error  # no write in progress
            raise CorruptData(f"{segment.path}: {reason}")
        self._owner = self._owner or owner

    def _check_gap(self, expected: Offset | None, segment: Segment) -> None:
        if expected is None or segment.base == expected or Hole(expected, segment.base) in self.holes:
            return
        raise CorruptData(f"{segment.path}: begins at offset {segment.base}, expected offset {expected}")


def list_segments(directory: Path) -> tuple[Segment, ...]:
    """The segments of a log directory by offset; none if there is no such directory."""
    segments = []
    for path in directory.iterdir() if directory.is_dir() else ():
        matched = _SEGMENT_NAME.fullmatch(path.name)
        if matched is not None:
            try:
                sealed = not path.stat().st_mode & _WRITABLE
            except FileNotFoundError:
                continue  # retention took it away meanwhile
            segments.append(Segment(Offset(int(matched[1])), path, sealed))
    return tuple(sorted(segments))


def archive_owner(cluster_id: str, log: Log) -> Owner:
    """What sums of an archive's segments say of their owner: the cluster, hashed, and the log's number."""
    return Owner(UUID(bytes=blake2b(cluster_id.encode(), digest_size=16).digest()), int(log))


def unlike_written(
    segment: Segment, owner: Owner | None = None, pace: Callable[[int], None] = lambda _: None
) -> str | None:
    """Why a segment is not what was written, by its file of sums; None: it is, or that file says nothing.

    One that is not sealed may have lost its end in a crash: it is not compared if it is shorter.

    owner   that it must have, unless the file does not say it.
    pace    see ``read_sum``.
    Raises OSError.
    """
    path, size = sums_path(segment.path), segment.path.stat().st_size
    said = read_content(path, segment.base)
    summed = said.sums.batches
    if summed == NOT_SUMMED or (size < summed.size and not segment.sealed):
        return None
    if size < summed.size:
        return f"it has {size} bytes, and {summed.size} were written, by {path.name}"
    if read_sum(segment.path, NOT_SUMMED, summed.size, pace) != summed:
        return f"other bytes than were written, by {path.name}"
    if owner is not None and said.owner is not None and said.owner != owner:
        return f"it is another cluster's, or another log's, by {path.name}"
    return None


def scan_segment(
    segment: Segment,
    checked_from: Offset = LOG_START,
    cleaned_end: Offset = LOG_START,
    epoch: Term = EPOCH_MIN,
) -> Iterator[StoredBatch]:
    """Every batch of a segment, in order. Those that end at or before ``checked_from`` have no content.

    cleaned_end   below it offsets may be missing.
    epoch         of the batch before the segment.

    Raises   TornTail if the file ends inside a batch, CorruptData for any other bad byte; both name file
             and position. FileNotFoundError if it is gone.
    """
    expected = segment.base
    position = 0
    with naming(segment.path), segment.path.open("rb", buffering=READ_AHEAD_BYTES) as file:
        while head := file.read(HEADER_BYTES):
            try:
                header = _header(head)
                if header.end <= checked_from:
                    content = b""
                    file.seek(header.size - HEADER_BYTES, 1)
                else:
                    content = head + file.read(header.size - HEADER_BYTES)
                    _check_whole(header, content)
                if not expected < header.base_offset < cleaned_end:
                    _check_place(header, expected)
                _check_epoch(header, epoch)
            except CorruptData as error:
                raise type(error)(f"{segment.path}, position {position}: {error}") from error
            yield StoredBatch(header, content, segment.path, position)
            expected, epoch = header.end, header.leader_epoch
            position += header.size


def _header(head: bytes) -> BatchHeader:
    if len(head) < HEADER_BYTES:
        raise TornTail(f"the file ends after {len(head)} bytes of a header of {HEADER_BYTES}")
    return batch_header(head)


def _check_whole(header: BatchHeader, content: bytes) -> None:
    if len(content) < header.size:
        raise TornTail(f"the file ends after {len(content)} bytes of a batch of {header.size}")
    checked_header(content)


def _check_place(header: BatchHeader, expected: Offset) -> None:
    """Base offset and leader epoch are not under the CRC: their order is what shows a wrong one."""
    if header.base_offset != expected:
        raise CorruptData(f"a batch begins at offset {header.base_offset}, expected {expected}")


def _check_epoch(header: BatchHeader, epoch: Term) -> None:
    if header.leader_epoch < epoch:
        raise EpochFell(f"a batch of epoch {header.leader_epoch} follows one of epoch {epoch}")


class _HolesFile(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    holes: list[tuple[int, int]]


def load_holes(directory: Path) -> tuple[Hole, ...]:
    """What ``holes.json`` of a log directory names, ascending; nothing if there is no such file.

    Raises   CorruptData naming the file: it is replaced whole, so it is never torn.
    """
    path = directory / HOLES_FILE
    raw = read_if_there(path)
    if raw is None:
        return ()
    try:
        stored = msgspec.json.decode(checked_text(raw), type=_HolesFile)
    except (CorruptData, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptData(f"{path}: {error}") from error
    holes = tuple(Hole(Offset(first), Offset(end)) for first, end in stored.holes)
    bounds = [bound for hole in holes for bound in hole]
    if stored.version != 1 or bounds != sorted(set(bounds)) or len(holes) > HOLES_MAX:
        raise CorruptData(f"{path}: expected version 1 and ascending holes, found {raw[:200]!r}")
    return holes


def encode_holes(holes: tuple[Hole, ...]) -> bytes:
    """The content of ``holes.json``. Inverse: ``load_holes``."""
    stored = _HolesFile(version=1, holes=[(hole.first, hole.end) for hole in holes])
    return with_check(msgspec.json.encode(stored))


def sound_part(
    segment: Segment, epoch_at: Callable[[Offset], Term | None] = lambda _offset: None
) -> tuple[Offset, int, CorruptData | None]:
    """How far a segment is sound: the offset that follows, its position, and what is wrong there.

    epoch_at   the leader epoch that a batch must have, by its base offset; None where nothing says.
    """
    end, position = segment.base, 0
    epoch, epoch_began = Term(-1), (end, position)
    try:
        for stored in scan_segment(segment):
            must_be = epoch_at(end)
            if must_be not in (None, stored.header.leader_epoch):
                found = stored.header.leader_epoch
                raise CorruptData(f"{segment.path}, position {position}: epoch {found}, expected {must_be}")
            if stored.header.leader_epoch != epoch:
                epoch, epoch_began = stored.header.leader_epoch, (end, position)
            end, position = stored.header.end, stored.position + stored.header.size
    except EpochFell as error:
        if (epoch_at(end) or -1) >= epoch:
            return end, position, error
        return *epoch_began, error  # the higher epoch may be the wrong one: both go
    except CorruptData as error:
        return end, position, error
    return end, position, None


def gaps_between(segments: tuple[Segment, ...]) -> tuple[Hole, ...]:
    """What lies between the batches of one segment and the next, read from all of them."""
    ends = [sound_part(segment)[0] for segment in segments[:-1]]
    return tuple(
        Hole(end, after.base) for end, after in zip(ends, segments[1:], strict=True) if end < after.base
    )
