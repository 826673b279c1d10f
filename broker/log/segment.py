"""A segment: a file of record batches and its three indexes, named by the first offset.

Place       a batch is found by the offset index, then by walking headers: at most
            ``index_interval_bytes`` of them.
Reading     by ``pread``, in whole batches. Bytes are given out as they lie in the file.
Sum         is kept of the batches as they are appended, or checked by who opens the log: what is saved is the
            sum of the bytes that were meant, not of those that a disk has by then.
Errors      a write that fails is undone: what follows the last whole batch is cut off again. OSError.
Source      Kafka LogSegment.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.broker.log.aborted import AbortedIndex
from fencepost.broker.log.index_file import INDEX_SUFFIXES, OFFSET_ENTRY, TIME_ENTRY, IndexFile
from fencepost.broker.log.open_files import OPEN_FILES
from fencepost.broker.log.producer_state import Ended
from fencepost.broker.log.segment_sums import Extent
from fencepost.broker.log.shapes import NO_TIMESTAMP
from fencepost.records.batch import BatchHeader, Buffer
from fencepost.records.batch_layout import HEADER_BYTES, LENGTH_COUNTS_FROM, field, fields_of
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.named_errors import named, naming
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import SegmentSums, forget_sums, load_sums, sums_path
from fencepost.snapshots.file_sums import NOT_SUMMED
from fencepost.snapshots.flushes import sync_path
from fencepost.snapshots.reads import read_at

SUFFIXES: Final = (".log", *INDEX_SUFFIXES)
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_WALK_BYTES: Final = 8192  # read at a time when headers are walked: two index intervals
_BASE_OFFSET: Final = field("base_offset")
_ENDS: Final = fields_of("base_offset", "length", "last_offset_delta")
_WALKED: Final = fields_of("base_offset", "length", "leader_epoch", "last_offset_delta", "max_timestamp_ms")


class Placed(NamedTuple):
    """A batch by its header, and where it lies in its segment. The CRC is not checked."""

    position: int
    size: int
    base_offset: Offset
    end: Offset
    leader_epoch: Term
    max_timestamp_ms: int


def segment_files(directory: Path, base: Offset, suffix: str = "") -> tuple[Path, Path, Path, Path]:
    """The names of a segment's files: batches, offsets, times, aborted transactions."""
    log, offsets, times, aborts = (directory / f"{base:020d}{each}{suffix}" for each in SUFFIXES)
    return log, offsets, times, aborts


def header_placed(header: BatchHeader, position: int) -> Placed:
    """What a segment's indexes need to know of a batch."""
    return Placed(
        position, header.size, header.base_offset, header.end, header.leader_epoch, header.max_timestamp_ms
    )


class Segment:
    """One segment, open for reading, and for appending if it is the last."""

    def __init__(self, directory: Path, base: Offset, suffix: str = "") -> None:
        """What is on the disk; ``size`` and ``max_timestamp_ms`` are what the files say.

        ``suffix`` of the names of all four files, while a cleaner puts them in the place of others.
        """
        self.base = base
        self.files = segment_files(directory, base, suffix)
        self.path, offsets, times, aborts = self.files
        self._open_file = partial(OPEN_FILES.open, self)
        self.offsets = IndexFile(offsets, OFFSET_ENTRY, self._open_file)
        self.times = IndexFile(times, TIME_ENTRY, self._open_file)
        self.aborts = AbortedIndex(aborts, self._open_file)
        self._first_ms: int | None = None  # of the first batch, once it was looked for
        self._is_ready = False  # all four files are open
        self._descriptor = -1
        self._unindexed_bytes: int  # since the last entry of the offset index
        self._newest_offset: Offset  # last offset of the batch with the greatest time
        self.max_timestamp_ms: int
        self.size = self.path.stat().st_size
        self.sum = NOT_SUMMED  # of the first batches; of those that were there see ``begin_sum``
        self.unchecked_end = 0  # what lies before this position is checked when it is read: unchecked.py
        self._trust_times()

    @classmethod
    def create(cls, directory: Path, base: Offset, suffix: str = "") -> "Segment":
        """Make the empty files of a new segment."""
        if not suffix:
            forget_sums(
                directory / f"{base:020d}.log"
            )  # a crash may have brought back those of one that was cut
        for path in segment_files(directory, base, suffix):
            path.touch()
        return cls(directory, base, suffix)

    @property
    def first_ms(self) -> int:
        """The time of the first batch; NO_TIMESTAMP without one."""
        if self._first_ms is None:
            if not self.size:
                return NO_TIMESTAMP
            self._first_ms = next(self.walk()).max_timestamp_ms
        return self._first_ms

    def make_ready(self) -> None:
        """Open all files, so that what is written can be indexed, too. Raises OSError: nothing happened."""
        if not self._is_ready:
            self._open()
            for index in (self.offsets, self.times, self.aborts):
                index.open()
            self._is_ready = True

    def append(self, batches: bytes | bytearray) -> int:
        """Write whole batches; ``index`` each of them then. Returns their position.

        Raises   OSError: nothing is written.
        """
        position = self.size
        try:
            written = os.write(self._open(), batches)
            while written < len(batches):
                written += os.write(self._open(), batches[written:])
        except OSError as error:
            os.ftruncate(self._open(), position)
            named(error, self.path)
            raise
        self.size = position + len(batches)
        self.add_to_sum(batches, position)
        return position

    def begin_sum(self, position: int) -> None:
        """Batches are checked from ``position`` on: those before it were, or count as they were summed."""
        if not position:
            self.sum = NOT_SUMMED
        elif self.sum.size != position:
            saved = load_sums(self.path).batches
            self.sum = saved if saved.size <= self.size else NOT_SUMMED

    def add_to_sum(self, batches: Buffer, position: int) -> None:
        """These bytes at ``position`` are those that were meant; they count if all before them do."""
        if self.sum.size == position:
            self.sum = self.sum.followed_by(batches)

    @property
    def is_summed(self) -> bool:
        """The sum is of all its batches."""
        return self.sum.size == self.size

    def index(self, placed: Placed, interval_bytes: int) -> None:
        """Count the batch after the last one counted; one in ``interval_bytes`` gets index entries."""
        last_offset = Offset(placed.end - 1)
        if placed.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = placed.max_timestamp_ms
            self._newest_offset = last_offset
        if self._unindexed_bytes > interval_bytes:
            self.offsets.append(last_offset - self.base, placed.position)
            self.index_time()
            self._unindexed_bytes = 0
        self._unindexed_bytes += placed.size

    def index_time(self) -> None:
        """Enter the greatest time so far, if it is not there. A full segment's index always has it."""
        last = self.times.last
        if self.max_timestamp_ms > (last[0] if last is not None else NO_TIMESTAMP):
            self.times.append(self.max_timestamp_ms, self._newest_offset - self.base)

    def index_aborted(self, ended: Ended) -> None:
        """A transaction was aborted; its marker lies here."""
        self.aborts.append(0, *ended)

    def locate(self, offset: Offset) -> int:
        """The position of the batch that holds ``offset``; ``size`` if it lies after the last one."""
        for placed in self.walk(self.floor(offset)):
            if placed.end > offset:
                return placed.position
        return self.size

    def floor(self, offset: Offset) -> int:
        """A position at or before that of the batch that holds ``offset``, by the index."""
        number = self.offsets.count_below(0, offset - self.base + 1)
        position: int = self.offsets[number - 1][1] if number else 0
        return position

    def read(
        self, position: int, bytes_max: int, limit: int, *, at_least_one: bool
    ) -> tuple[bytes, Offset | None]:
        """Whole batches from ``position`` on, none at or after the position ``limit``.

        With them comes the offset after the last; None if ``limit`` is reached.
        """
        content = self._read_at(position, max(0, min(bytes_max, limit - position)))
        if position + len(content) == limit:
            return content, None
        whole, end = self._whole(content, position)
        if whole == 0 and at_least_one and position < limit:
            first = next(self.walk(position))
            return self.bytes_at(position, first.size), first.end
        return content[:whole], end

    def _whole(self, content: bytes, position: int) -> tuple[int, Offset]:
        """How many bytes of ``content`` are whole batches, walking only from the last index entry in it."""
        number = self.offsets.count_below(1, position + len(content))
        indexed: int = self.offsets[number - 1][1] if number else 0
        at, end = max(0, indexed - position), Offset(-1)
        while at + HEADER_BYTES <= len(content):
            base_offset, length, delta = _ENDS.unpack_from(content, at)
            size = length + LENGTH_COUNTS_FROM
            if size < HEADER_BYTES:
                raise CorruptData(f"{self.path}, position {position + at}: a batch of {size} bytes")
            if at + size > len(content):
                break
            end = Offset(base_offset + delta + 1)
            at += size
        if end < 0 < at:  # the indexed batch itself is cut short: its predecessor ends where it begins
            end = Offset(_BASE_OFFSET.unpack(self._read_at(position + at, _BASE_OFFSET.size))[0])
        return at, end

    def bytes_at(self, position: int, size: int) -> bytes:
        """Bytes as they lie there; fewer at the end."""
        return self._read_at(position, size)

    def walk(self, position: int = 0) -> Iterator[Placed]:
        """Every batch from ``position`` on, by its header. Raises CorruptData: it leads nowhere."""
        chunk, chunk_at = b"", position
        while position < self.size:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk = self._read_at(position, min(_WALK_BYTES, self.size - position))
                chunk_at, at = position, 0
                if len(chunk) < HEADER_BYTES:
                    raise CorruptData(f"{self.path}, position {position}: {len(chunk)} bytes of a header")
            base_offset, length, leader_epoch, delta, max_timestamp_ms = _WALKED.unpack_from(chunk, at)
            size = length + LENGTH_COUNTS_FROM
            if size < HEADER_BYTES or position + size > self.size or delta < 0:
                raise CorruptData(f"{self.path}, position {position}: a batch of {size} bytes")
            end = Offset(base_offset + delta + 1)
            yield Placed(position, size, Offset(base_offset), end, Term(leader_epoch), max_timestamp_ms)
            position += size

    def cut_indexes(self, offset: Offset) -> int:
        """Forget what the indexes say of ``offset`` and after; count from the last entry that is left.

        Returns   the position of that entry's batch: count from it on; 0 without one.
        """
        relative = offset - self.base
        self.offsets.cut(self.offsets.count_below(0, relative) if relative else 0)
        self.times.cut(self.times.count_below(1, relative) if relative else 0)
        self.aborts.cut(self.aborts.count_below(3, offset) if relative else 0)
        self._trust_times()
        return self.offsets.last[1] if self.offsets.last is not None else 0

    def cut(self, position: int) -> None:
        """Keep the first ``position`` bytes of the batches."""
        invariant(position <= self.size, "a segment is cut where it is not", position=position)
        forget_sums(self.path)
        with naming(self.path):
            os.ftruncate(self._open(), position)
        self.size, self._first_ms = position, None
        if self.sum.size > position:
            self.sum = NOT_SUMMED

    def sync_indexes(self) -> None:
        """Flush the three indexes to the disk."""
        for index in (self.offsets, self.times, self.aborts):
            sync_path(index.path)

    def extent(self) -> Extent:
        """Bytes of its files, and the sums of those that were meant."""
        indexes = (self.offsets, self.times, self.aborts)
        sums = SegmentSums(self.sum, *(index.sum for index in indexes))
        return Extent((self.size, *(index.size for index in indexes)), sums)

    def take_sums(self, sums: SegmentSums) -> None:
        """Its files were just written, and these are the sums of what was meant."""
        self.sum, self.offsets.sum, self.times.sum, self.aborts.sum = sums

    def has_room(self, size: int, end: Offset, segment_bytes: int) -> bool:
        """Another ``size`` bytes, up to offset ``end``, belong here; an empty segment takes any batch."""
        fits = self.size + size <= segment_bytes and end - self.base <= RELATIVE_OFFSET_MAX
        return fits or self.size == 0

    def has_index_room(self, index_bytes: int) -> bool:
        """Another entry fits into each index of at most ``index_bytes``; an empty segment takes any batch."""
        largest = max(self.offsets.size + OFFSET_ENTRY.size, self.times.size + TIME_ENTRY.size)
        return largest <= index_bytes or self.size == 0

    def close(self) -> None:
        """Close the files; they open again by themselves."""
        for index in (self.offsets, self.times, self.aborts):
            index.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._is_ready = False
        OPEN_FILES.closed(self)

    def delete(self) -> None:
        """Close the segment and delete its files, the batches after the indexes: a kill shows what was there.

        The sums go last: a flush beside it may just have written them, and looks for the batches then.
        """
        self.close()
        for path in (*reversed(self.files), sums_path(self.path)):
            path.unlink(missing_ok=True)

    def _trust_times(self) -> None:
        """The time index covers every batch up to the last one that the offset index has."""
        last = self.times.last
        self.max_timestamp_ms = last[0] if last is not None else NO_TIMESTAMP
        self._newest_offset = Offset(self.base + (last[1] if last is not None else 0))
        self._unindexed_bytes = 0

    def _read_at(self, position: int, size: int) -> bytes:
        return read_at(self._open(), size, position, self.path)

    def _open(self) -> int:
        if self._descriptor < 0:
            self._descriptor = self._open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        return self._descriptor
