"""The archive: every committed batch of one Kafka log, kept in Kafka's own segment files.

Invariant   what is on disk before ``durable_end`` survives any crash: the journal may be compacted that
            far, no further.
Crash       opening cuts to the last whole batch (``cut`` says what went) and the journal refills by
            offset. Killed at any line: a batch is there whole or not at all; a hole is named on disk
            before the segment after it exists, and everything before it is flushed before it is named.
Damage      is what leads nowhere where the journal reaches no more, but for a torn tail, or what is not as it
            was summed: the bytes are kept (``damage`` says where), and the archive goes on in another
            segment, behind a named hole if batches are missing (archive_recovery.py).
Sums        of each segment, in a file beside it (checksums.py): of the bytes that were meant, as far as they
            are flushed, with each ``sync``. An old directory gets its first one when a segment is sealed.
Threads     ``sync`` runs in a thread of its own beside everything else, which is the loop's.
Errors      an OSError is not handled here: after a failed flush the state of the disk is unknown, so the
            node halts. A failed write may be repeated.

Source      KIP-730 ("the log is an audit log"); docs/design.md 3; Kafka LogSegment. Deviation from Kafka: no
            index files (Kafka rebuilds them), and a flushed segment is made read-only.
"""

import os
import threading
from pathlib import Path
from typing import Final

from fencepost.records.batch import batch_header
from fencepost.records.invariant import invariant
from fencepost.records.named_errors import naming
from fencepost.records.types import Log, Offset
from fencepost.snapshots.archive_recovery import OPEN, SEALED, ArchiveRecovery, Cut, Damage, EpochAt
from fencepost.snapshots.checksums import SUFFIX, Content, Owner, SegmentSums, sums_path, write_content
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed, read_sum
from fencepost.snapshots.flushes import flush, sync_path
from fencepost.snapshots.segments import (
    HOLES_MAX,
    LOG_START,
    ArchiveReader,
    Hole,
    Segment,
    archive_owner,
    sound_part,
)

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
BUFFERED_BYTES_MAX: Final = 8 * 1024 * 1024  # past it ``append`` writes by itself; two entries' worth


class _File:
    """An open segment: what the writer appends to and ``sync`` flushes."""

    __slots__ = ("base", "descriptor", "path", "saved", "sum", "written")

    def __init__(self, base: Offset, path: Path, descriptor: int, summed: Summed) -> None:
        self.base = base
        self.path = path
        self.descriptor = descriptor
        self.sum = summed  # of the bytes that were meant, those in the buffer included
        self.written = summed  # the same, of what the operating system has
        self.saved = NOT_SUMMED  # what the file of sums says, as far as this process wrote it


class Archive:
    """One log's archive, open for writing. One writer at a time: the node's directory lock sees to it."""

    def __init__(
        self, directory: Path, segment_bytes: int, flushed_end: Offset, owner: Owner, epoch_at: EpochAt
    ) -> None:
        """Not called directly: use ``open``."""
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._buffer: list[bytes] = []
        self.buffered_bytes = 0
        self._rolled: list[_File] = []  # full, not flushed yet
        self._directory_dirty = False
        self._lock = threading.Lock()  # guards what ``sync`` shares with the loop: the three below
        self._syncing = threading.Lock()  # one ``sync`` at a time
        self._active: _File | None = None
        self.sums_failure: OSError | None = None  # why a sum could not be saved; its owner says it
        self._found = ArchiveRecovery(directory, flushed_end, owner, epoch_at)
        self._segments = self._found.segments
        self._sums = not self._segments or any(directory.glob(f"*{SUFFIX}"))
        self.end = self._recover()
        self._written_end = self.end
        self.durable_end = self.end

    @classmethod
    def open(
        cls,
        root: Path,
        log: Log,
        cluster_id: str,
        *,
        segment_bytes: int = SEGMENT_BYTES_MAX,
        flushed_end: Offset = LOG_START,
        epoch_at: EpochAt = lambda _offset: None,
    ) -> "Archive":
        """Open ``<root>/<log directory>``, making it if need be, and cut it to its last whole batch.

        After it ``end`` is the offset that the next batch must have; everything before is flushed, and
        ``cut`` is what was taken away, or None. Before ``flushed_end``, up to which the archive was flushed
        and the journal need not reach, nothing is cut but a torn tail.
        """
        directory = root / log.directory
        directory.mkdir(parents=True, exist_ok=True)
        sync_path(root.parent)
        sync_path(root)
        return cls(directory, segment_bytes, flushed_end, archive_owner(cluster_id, log), epoch_at)

    @staticmethod
    def read_only(root: Path, log: Log) -> ArchiveReader:
        """Read an archive, also while its node runs."""
        return ArchiveReader(root / log.directory)

    @property
    def cut(self) -> Cut | None:
        """What opening took away."""
        return self._found.cut

    @property
    def damage(self) -> Damage | None:
        """The first of what opening left as it is."""
        return self._found.damage

    @property
    def torn_sums(self) -> str | None:
        """A sentence about sums of what was not sealed: they could not be read, and are made again."""
        return self._found.torn_sums

    @property
    def lost_its_start(self) -> bool:
        """Nothing was read or cut yet: ``begin_again``."""
        return self._found.lost_its_start

    @property
    def start(self) -> Offset:
        """The first offset that is kept; ``end`` if there is none."""
        return self._segments[0].base if self._segments else self.end

    def holes(self) -> tuple[Hole, ...]:
        """The gaps that ``start_at`` left, ascending."""
        return self._found.holes

    def reader(self) -> ArchiveReader:
        """Everything appended so far, for reading. Pushes the buffer to the operating system."""
        self.write()
        return ArchiveReader(self._directory)

    def append(self, stamped_batch: bytes) -> None:
        """Take a committed batch, stamped with its place, which must be ``end``. Buffered until ``write``.

        Raises   InvariantViolation if it begins anywhere else: the caller skips what is there already.
        """
        header = batch_header(stamped_batch)
        if header.size != len(stamped_batch):
            invariant(False, "append takes one whole batch", size=len(stamped_batch))
        if header.base_offset != self.end:
            invariant(False, "the archive has a gap", offset=header.base_offset, end=self.end)
        active = self._active
        if active is None or (active.sum.size > 0 and active.sum.size + header.size > self._segment_bytes):
            active = self._roll()
        self._buffer.append(stamped_batch)
        self.buffered_bytes += header.size
        active.sum = active.sum.followed_by(stamped_batch)
        self.end = header.end
        if self.buffered_bytes >= BUFFERED_BYTES_MAX:
            self.write()

    def write(self) -> None:
        """Push what is buffered to the operating system. After an OSError it may be called again."""
        if self._active is None or not self._buffer:
            return
        content = b"".join(self._buffer)
        written = 0
        try:
            with naming(self._active.path):
                while written < len(content):
                    written += os.write(self._active.descriptor, content[written:] if written else content)
        finally:
            self._buffer = [content[written:]] if written < len(content) else []
            self.buffered_bytes = len(content) - written
        with self._lock:
            self._written_end, self._active.written = self.end, self._active.sum

    def sync(self) -> Offset:
        """Flush what was written to the disk; from any thread, beside ``append`` and ``write``.

        Returns  ``durable_end``: everything before it survives a crash. What is only buffered is not in it.
        Raises   NotFlushed: the node halts.
        """
        with self._syncing:
            with self._lock:
                rolled, self._rolled = self._rolled, []
                active, end = self._active, self._written_end
                written = NOT_SUMMED if active is None else active.written
                directory_dirty, self._directory_dirty = self._directory_dirty, False
            if end > self.durable_end:
                for file in (*rolled, *([active] if active is not None else [])):
                    flush(file.descriptor, file.path)
            if directory_dirty:
                sync_path(self._directory)
            for file in rolled:
                self._seal(file)
            if active is not None and self._sums and written != active.saved:
                self._save_sum(active, written)
            self.durable_end = max(self.durable_end, end)
            return self.durable_end

    def start_at(self, offset: Offset) -> None:
        """Go on at a later offset, because a snapshot took the place of what lies between.

        The hole is durable when this returns. Nothing happens if ``offset`` is ``end``.
        """
        invariant(offset >= self.end, "the archive would go back", offset=offset, end=self.end)
        if offset == self.end:
            return
        self._retire_active()
        self.sync()
        merges = bool(self._found.holes) and self._found.holes[-1].end == self.end
        first = self._found.holes[-1].first if merges else self.end
        kept = self._found.holes[:-1] if merges else self._found.holes
        invariant(len(kept) < HOLES_MAX, "too many holes", limit=HOLES_MAX)
        self._found.save_holes((*kept, Hole(first, offset)))
        self.end = self._written_end = self.durable_end = offset

    def retain(self, bytes_max: int, below: Offset) -> Offset:
        """Delete the oldest segments while all of them together are larger than ``bytes_max``.

        Only flushed, full segments go, and of those only what lies before ``below``, the newest snapshot's
        place: the snapshot and the archive behind it make the state. Returns ``start``: what lies before it
        is history lost, not state.
        """
        sizes = [segment.path.stat().st_size for segment in self._segments]
        total = sum(sizes)
        for segment, following, size in zip(tuple(self._segments), self._segments[1:], sizes, strict=False):
            if total <= bytes_max or not segment.sealed or following.base > below:
                break
            segment.path.unlink()
            sums_path(segment.path).unlink(missing_ok=True)
            with self._lock:
                self._segments.pop(0)
            total -= size
        kept = tuple(hole for hole in self._found.holes if hole.end > self.start)
        if kept != self._found.holes:
            sync_path(self._directory)  # a deleted segment must not come back without its hole
            self._found.save_holes(kept)
        return self.start

    def close(self) -> None:
        """Write, flush, and close the files."""
        self.write()
        self.sync()
        if self._active is not None:
            os.close(self._active.descriptor)
            self._active = None

    def _roll(self) -> _File:
        """Begin a new segment at ``end``."""
        self._retire_active()
        path = self._directory / f"{self.end:020d}.log"
        if self._segments and self._segments[-1].path == path:  # kept, and bad from its first batch on
            path.rename(f"{path}.damaged")
            if sums_path(path).exists():
                sums_path(path).rename(f"{sums_path(path)}.damaged")
            with self._lock:
                self._segments.pop()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OPEN)
        active = _File(self.end, path, descriptor, NOT_SUMMED)
        with self._lock:
            self._active = active
            self._directory_dirty = True
            self._segments.append(Segment(self.end, path, sealed=False))
        if self._sums:
            self._save_sum(active, NOT_SUMMED)  # else it looks like an earlier version's, until it is flushed
        return active

    def _retire_active(self) -> None:
        """The active segment takes no more; the next ``sync`` flushes and seals it."""
        self.write()
        with self._lock:
            if self._active is not None:
                self._rolled.append(self._active)
                self._active = None

    def _seal(self, file: _File) -> None:
        """A flushed segment will not change: its mode says so to the next opening. An empty one goes."""
        is_empty = file.sum.size == 0
        if is_empty:
            file.path.unlink()
            sums_path(file.path).unlink(missing_ok=True)
        else:
            self._sums = True
            self._save_sum(file, file.written)
            os.fchmod(file.descriptor, SEALED)
        os.close(file.descriptor)
        with self._lock:
            number = next(n for n, segment in enumerate(self._segments) if segment.base == file.base)
            after = [] if is_empty else [self._segments[number]._replace(sealed=True)]
            self._segments[number : number + 1] = after

    def begin_again(self) -> None:
        """Take all of it away, where ``lost_its_start``: what was not flushed is in the journal."""
        self._found.begin_again()
        self.end = self._written_end = self.durable_end = LOG_START

    def _recover(self) -> Offset:
        """Cut to the last whole batch; open the last segment for appending. Returns the end."""
        if self.lost_its_start:  # nothing is touched, or sealed, before ``begin_again``
            return max(sound_part(each)[0] for each in self._segments)
        end = self._found.scan()
        self._open_last()
        if end is None:
            return self._found.holes[-1].end if self._found.holes else LOG_START
        kept = tuple(hole for hole in self._found.holes if hole.first <= end)
        if kept != self._found.holes:
            self._found.save_holes(kept)  # cut before a hole: where the next one begins is not known yet
        if kept and kept[-1].first == end:
            end = kept[-1].end  # killed between naming a hole and the first batch after it
            if self._active is not None:
                self._seal(self._active)
                self._active = None
        return end

    def _open_last(self) -> None:
        """Everything found is flushed: a process that was killed leaves it in the page cache only."""
        last = self._segments[-1].base if self._segments else None
        for segment in tuple(self._segments):
            if segment.sealed:
                continue
            descriptor = os.open(segment.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            flush(descriptor, segment.path)
            summed = read_sum(segment.path, NOT_SUMMED, segment.path.stat().st_size)
            file = _File(segment.base, segment.path, descriptor, summed)
            if segment.base == last:
                self._active = file
            else:
                self._seal(file)
        sync_path(self._directory)

    def _save_sum(self, file: _File, flushed: Summed) -> None:
        """Not flushed: half of one has a wrong checksum. Where it cannot be written the scrub tries again."""
        sums = SegmentSums(flushed, NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)
        try:
            write_content(sums_path(file.path), file.base, Content(sums, self._owner), durable=False)
            file.saved = flushed
        except OSError as error:  # it only adds to what is checked, and what is there is still true
            self.sums_failure = error
