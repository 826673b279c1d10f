"""The archive: every committed batch of one Kafka log, kept in Kafka's own segment files.

Invariant   what is on disk before ``durable_end`` survives any crash: the journal may be compacted that
            far, no further.
Crash       opening cuts to the last whole batch (``cut`` says what went) and the journal refills by
            offset. Killed at any line: a batch is there whole or not at all; a hole is named on disk
            before the segment after it exists, and everything before it is flushed before it is named.
Damage      is what leads nowhere where the journal reaches no more, but for a torn tail: the bytes are kept
            (``damage`` says where), and the archive goes on in another segment, behind a named hole.
Threads     ``sync`` runs in a thread of its own beside everything else, which is the loop's.
Errors      an OSError is not handled here: after a failed flush the state of the disk is unknown, so the
            node halts. A failed write may be repeated.

Source      KIP-730 ("the log is an audit log"); docs/design.md 3; Kafka LogSegment. Deviation from Kafka: no
            index files (Kafka rebuilds them), and a flushed segment is made read-only.
"""

import os
import threading
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.batch import batch_header
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.named_errors import naming
from fencepost.records.types import Log, Offset
from fencepost.records.whole_batches import first_whole
from fencepost.snapshots.flushes import flush, sync_directory, write_flushed
from fencepost.snapshots.segments import (
    HOLES_FILE,
    HOLES_MAX,
    LOG_START,
    ArchiveReader,
    Hole,
    Segment,
    TornTail,
    encode_holes,
    gaps_between,
    list_segments,
    load_holes,
    sound_part,
)

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
BUFFERED_BYTES_MAX: Final = 8 * 1024 * 1024  # past it ``append`` writes by itself; two entries' worth

_SEALED: Final = 0o444
_OPEN: Final = 0o644


class Cut(NamedTuple):
    """What opening took away: ``size`` bytes from ``position`` on (and every file after), and why."""

    path: Path
    position: int
    size: int
    reason: str


class Damage(NamedTuple):
    """What opening left as it is: from ``position`` on the file's batches lead nowhere, and why."""

    path: Path
    position: int
    offset: Offset
    reason: str


class _File:
    """An open segment: what the writer appends to and ``sync`` flushes."""

    __slots__ = ("base", "descriptor", "path", "size")

    def __init__(self, base: Offset, path: Path, descriptor: int, size: int) -> None:
        self.base = base
        self.path = path
        self.descriptor = descriptor
        self.size = size  # bytes, those in the buffer included


class Archive:
    """One log's archive, open for writing. One writer at a time: the node's directory lock sees to it."""

    def __init__(self, directory: Path, segment_bytes: int, flushed_end: Offset) -> None:
        """Not called directly: use ``open``."""
        self._directory = directory
        self._flushed_end = flushed_end
        self._segment_bytes = segment_bytes
        self._buffer: list[bytes] = []
        self.buffered_bytes = 0
        self._rolled: list[_File] = []  # full, not flushed yet
        self._directory_dirty = False
        self._lock = threading.Lock()  # guards what ``sync`` shares with the loop: the three below
        self._syncing = threading.Lock()  # one ``sync`` at a time
        self._active: _File | None = None
        self._segments = list(list_segments(directory))
        self.cut: Cut | None = None
        self.damage: Damage | None = None  # the first one
        self._holes = self._named_holes()
        self.lost_its_start = self._begins_nowhere()
        self.end = self._recover()
        self._written_end = self.end
        self.durable_end = self.end

    @classmethod
    def open(
        cls,
        root: Path,
        log: Log,
        *,
        segment_bytes: int = SEGMENT_BYTES_MAX,
        flushed_end: Offset = LOG_START,
    ) -> "Archive":
        """Open ``<root>/<log directory>``, making it if need be, and cut it to its last whole batch.

        After it ``end`` is the offset that the next batch must have; everything before is flushed, and
        ``cut`` is what was taken away, or None. Before ``flushed_end``, up to which the archive was flushed
        and the journal need not reach, nothing is cut but a torn tail.
        A ``holes.json`` that cannot be read is kept beside a new one, which names what lies between segments.
        """
        directory = root / log.directory
        directory.mkdir(parents=True, exist_ok=True)
        sync_directory(root.parent)
        sync_directory(root)
        return cls(directory, segment_bytes, flushed_end)

    @staticmethod
    def read_only(root: Path, log: Log) -> ArchiveReader:
        """Read an archive, also while its node runs."""
        return ArchiveReader(root / log.directory)

    @property
    def start(self) -> Offset:
        """The first offset that is kept; ``end`` if there is none."""
        return self._segments[0].base if self._segments else self.end

    def holes(self) -> tuple[Hole, ...]:
        """The gaps that ``start_at`` left, ascending."""
        return self._holes

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
        if active is None or (active.size > 0 and active.size + header.size > self._segment_bytes):
            active = self._roll()
        self._buffer.append(stamped_batch)
        self.buffered_bytes += header.size
        active.size += header.size
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
            self._written_end = self.end

    def sync(self) -> Offset:
        """Flush what was written to the disk; from any thread, beside ``append`` and ``write``.

        Returns  ``durable_end``: everything before it survives a crash. What is only buffered is not in it.
        Raises   NotFlushed: the node halts.
        """
        with self._syncing:
            with self._lock:
                rolled, self._rolled = self._rolled, []
                active, end = self._active, self._written_end
                directory_dirty, self._directory_dirty = self._directory_dirty, False
            if end > self.durable_end:
                for file in (*rolled, *([active] if active is not None else [])):
                    flush(file.descriptor, file.path)
            if directory_dirty:
                sync_directory(self._directory)
            for file in rolled:
                self._seal(file)
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
        merges = bool(self._holes) and self._holes[-1].end == self.end
        first = self._holes[-1].first if merges else self.end
        kept = self._holes[:-1] if merges else self._holes
        invariant(len(kept) < HOLES_MAX, "too many holes", limit=HOLES_MAX)
        self._save_holes((*kept, Hole(first, offset)))
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
            with self._lock:
                self._segments.pop(0)
            total -= size
        kept = tuple(hole for hole in self._holes if hole.end > self.start)
        if kept != self._holes:
            sync_directory(self._directory)  # a deleted segment must not come back without its hole
            self._save_holes(kept)
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
            with self._lock:
                self._segments.pop()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OPEN)
        active = _File(self.end, path, descriptor, 0)
        with self._lock:
            self._active = active
            self._directory_dirty = True
            self._segments.append(Segment(self.end, path, sealed=False))
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
        if file.size == 0:
            file.path.unlink()
        else:
            os.fchmod(file.descriptor, _SEALED)
        os.close(file.descriptor)
        with self._lock:
            number = next(n for n, segment in enumerate(self._segments) if segment.base == file.base)
            after = [] if file.size == 0 else [self._segments[number]._replace(sealed=True)]
            self._segments[number : number + 1] = after

    def _begins_nowhere(self) -> bool:
        """Nothing says that it was flushed, and no hole leads to its first segment: names were lost."""
        if not self._segments or any(each.sealed for each in self._segments):
            return False
        base = self._segments[0].base
        return base > self._flushed_end and Hole(LOG_START, base) not in self._holes

    def begin_again(self) -> None:
        """Take all of it away, where ``lost_its_start``: what was not flushed is in the journal."""
        self._save_holes(())  # first: killed behind it, the next opening finds the same and begins again, too
        self._cut(0, 0, f"it begins at offset {self._segments[0].base}, and names before it were lost")
        self._segments.pop().path.unlink()
        self.end = self._written_end = self.durable_end = LOG_START
        self.lost_its_start = False

    def _recover(self) -> Offset:
        """Cut to the last whole batch; open the last segment for appending. Returns the end."""
        if self.lost_its_start:  # nothing is touched, or sealed, before ``begin_again``
            return max(sound_part(each)[0] for each in self._segments)
        sealed = [number for number, segment in enumerate(self._segments) if segment.sealed]
        suspects_from = min(sealed[-1] + 1, len(self._segments) - 1) if sealed else 0
        end: Offset | None = None
        for number in range(suspects_from, len(self._segments)):
            segment = self._segments[number]
            if end is not None and segment.base != end and Hole(end, segment.base) not in self._holes:
                reason = f"it begins at offset {segment.base}, expected {end}"
                if end < self._flushed_end:
                    self._keep(number, 0, end, reason)
                else:
                    self._cut(number, 0, reason)
                    self._segments.pop().path.unlink()  # emptied, and no batch of this name will come
                    break
            end, position, error = sound_part(segment)
            if error is None:
                continue
            if end < self._flushed_end and not self._is_torn(number, position, end, error):
                self._keep(number, position, end, str(error))
            else:
                self._cut(number, position, str(error))
                break
        self._open_last()
        if end is None:
            return self._holes[-1].end if self._holes else LOG_START
        kept = tuple(hole for hole in self._holes if hole.first <= end)
        if kept != self._holes:
            self._save_holes(kept)  # cut before a hole: where the next one begins is not known yet
        if kept and kept[-1].first == end:
            end = kept[-1].end  # killed between naming a hole and the first batch after it
            if self._active is not None:
                self._seal(self._active)
                self._active = None
        return end

    def _is_torn(self, number: int, position: int, end: Offset, error: CorruptData) -> bool:
        """The log ends inside that batch: no whole one lies behind it."""
        later = self._segments[number + 1 :]
        if not isinstance(error, TornTail) or any(each.path.stat().st_size for each in later):
            return False
        return first_whole(self._segments[number].path.read_bytes(), position, end) is None

    def _keep(self, number: int, position: int, offset: Offset, reason: str) -> None:
        """Leave a segment as it is: nothing is appended to it any more."""
        segment = self._segments[number]
        segment.path.chmod(_SEALED)
        self._segments[number] = segment._replace(sealed=True)
        if self.damage is None:
            self.damage = Damage(segment.path, position, offset, reason)

    def _cut(self, number: int, position: int, reason: str) -> None:
        """Take away everything from ``position`` of segment ``number`` on."""
        segment = self._segments[number]
        size = segment.path.stat().st_size - position
        for later in self._segments[number + 1 :]:
            later.path.unlink()
        segment.path.chmod(_OPEN)
        os.truncate(segment.path, position)
        self._segments[number:] = [segment._replace(sealed=False)]
        sync_directory(self._directory)
        self.cut = Cut(segment.path, position, size, reason)

    def _open_last(self) -> None:
        """Everything found is flushed: a process that was killed leaves it in the page cache only."""
        last = self._segments[-1].base if self._segments else None
        for segment in tuple(self._segments):
            if segment.sealed:
                continue
            descriptor = os.open(segment.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            flush(descriptor, segment.path)
            file = _File(segment.base, segment.path, descriptor, segment.path.stat().st_size)
            if segment.base == last:
                self._active = file
            else:
                self._seal(file)
        sync_directory(self._directory)

    def _named_holes(self) -> tuple[Hole, ...]:
        try:
            return load_holes(self._directory)
        except CorruptData as error:
            path = self._directory / HOLES_FILE
            self.damage = Damage(path, 0, LOG_START, str(error))
            path.replace(path.with_name(f"{HOLES_FILE}.damaged"))
            gaps = gaps_between(tuple(self._segments))[-HOLES_MAX:]
            self._save_holes(gaps)
            return gaps

    def _save_holes(self, holes: tuple[Hole, ...]) -> None:
        """Replace the file ``holes.json`` as a whole, durably."""
        replacement = self._directory / f"{HOLES_FILE}.new"
        write_flushed(replacement, encode_holes(holes))
        replacement.replace(self._directory / HOLES_FILE)
        sync_directory(self._directory)
        self._holes = holes
