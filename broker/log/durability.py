"""What of a partition's log is on the disk, and what waits for it.

Threads     ``flush`` runs in any thread, one at a time; everything else is the owner's. Files are flushed
            by their names, so the owner may close its descriptors meanwhile.
Order       batches, then indexes and epochs, then sums, then the producer snapshot: a snapshot on the disk
            says that everything before its offset is there too. Recovery begins at the newest.
Snapshots   of the producers are due when a segment is full, every ``SNAPSHOT_EVERY_BYTES`` or ``_BATCHES``,
            and at the end; ``flush`` writes them, so that the owner never waits for 100,000 producers to be
            encoded.
Errors      after a failed flush the state of the disk is unknown (the pages may count as clean): every
            later flush fails too, until the log is opened again.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from fencepost.broker.log.checkpoints import EPOCHS_FILE
from fencepost.broker.log.producer_snapshot import encode_producers, snapshot_path
from fencepost.broker.log.producer_state import Producer
from fencepost.broker.log.recovery import Recovered
from fencepost.broker.log.segment import SUFFIXES, Segment
from fencepost.broker.log.segment_sums import Extent, is_summed, note_snapshot, sum_segment
from fencepost.records.named_errors import naming
from fencepost.records.types import Offset, ProducerId
from fencepost.snapshots.checksums import Owner, forget_sums
from fencepost.snapshots.flushes import replace_file, sync_path
from fencepost.wire.descriptors import is_exhausted

SNAPSHOT_EVERY_BYTES: Final = 64 * 1024 * 1024
SNAPSHOT_EVERY_BATCHES: Final = 50_000
"""A start after a crash reads at most about so much again, whichever comes first: some 0.3 s. Batches of a
hundred bytes would take 3 s for as many bytes."""

SNAPSHOTS_KEPT: Final = 2  # beside those at a segment's base: the newest, and the one before it

_Table = dict[ProducerId, Producer]
_Extents = dict[Path, Extent]
"""Of some segments, when a snapshot was requested."""


class Durability:
    """Flushes the files of one log, and remembers how far it is flushed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._owner: Owner | None
        self._syncing = threading.Lock()  # one flush at a time
        self._lock = threading.Lock()  # guards the five below, which the owner and a flush share
        self._unflushed: list[Path]  # segments; the last one is the active one
        self._unflushed_indexes: set[Path]
        self._names_changed: bool
        self._snapshot_due: tuple[Offset, _Table, _Extents] | None
        self._unsummed: set[Path]  # segments, of whose files not all is summed
        self._snapshots: list[Offset]
        self._snapshot_bytes: int  # appended since a snapshot was due
        self._snapshot_batches: int
        self._sums_failure: OSError | None = None
        self._failed = False
        self._closed = False
        self.written_end: Offset
        self.durable_end: Offset

    def begin(self, log: Recovered) -> None:
        """The log was opened: only what lies before its recovery point is known to be on the disk.

        Comes first, and again when the log was cut.
        """
        self._owner = log.owner
        first = max(n for n, segment in enumerate(log.segments) if n == 0 or segment.base <= log.durable_end)
        active = log.segments[-1]
        with self._lock:
            self._unflushed = [segment.path for segment in log.segments[first:]]
            self._unflushed_indexes = set(self._unflushed)
            self._unsummed = {
                each.path for each in log.segments if each is active or not is_summed(each.path)
            }
            self._names_changed = True
            self._snapshot_due = None
            self._snapshots = list(log.snapshots)
            self._snapshot_bytes = self._snapshot_batches = 0
            self.written_end = log.end
            self.durable_end = log.durable_end

    @property
    def is_wanted(self) -> bool:
        """A full segment or a snapshot waits for ``flush``."""
        return len(self._unflushed) > 1 or self._snapshot_due is not None

    @property
    def newest_snapshot(self) -> Offset:
        """Producers' state up to there does not need the log any more."""
        with self._lock:
            return self._snapshots[-1] if self._snapshots else Offset(-1)

    def wrote(self, end: Offset, size: int, batches: int) -> bool:
        """The log was written up to ``end``. True: a snapshot of the producers is due."""
        self.written_end = end
        self._snapshot_bytes += size
        self._snapshot_batches += batches
        return (
            self._snapshot_bytes >= SNAPSHOT_EVERY_BYTES or self._snapshot_batches >= SNAPSHOT_EVERY_BATCHES
        )

    def rolled(self, active: Segment) -> None:
        """A new segment takes the appends."""
        with self._lock:
            self._unflushed.append(active.path)
            self._unflushed_indexes.add(active.path)
            self._unsummed.add(active.path)
            self._names_changed = True

    def deleted(self, segments: Sequence[Segment]) -> None:
        """Their time is over: nothing of them is flushed any more. Call it before the files go."""
        gone = {segment.path for segment in segments}
        with self._lock:
            self._unflushed = [path for path in self._unflushed if path not in gone]
            self._unflushed_indexes -= gone
            self._unsummed -= gone
            if self._snapshot_due is not None:
                end, table, extents = self._snapshot_due
                kept = {path: extent for path, extent in extents.items() if path not in gone}
                self._snapshot_due = (end, table, kept)

    def request_snapshot(self, end: Offset, table: _Table, segments: Sequence[Segment]) -> None:
        """Save these producers, who are those before ``end``, and the segments' sums, with the next flush.

        Batches that were neither summed nor read are not summed before the scrub has read them.
        """
        self._snapshot_bytes = self._snapshot_batches = 0
        with self._lock:
            due = [each for each in segments if each.is_summed and each.path in self._unsummed]
            self._snapshot_due = (end, table, {each.path: each.extent() for each in due})

    def flush(self) -> Offset:
        """Put everything written so far on the disk; returns the offset before which that is so.

        Does nothing once the log is closed. Raises OSError.
        """
        with self._syncing:
            if self._closed:
                return self.durable_end
            if self._failed:
                raise OSError(errno.EIO, "an earlier flush failed", str(self._directory))
            try:
                self._flush()
            except OSError as error:
                self._failed = not is_exhausted(error)  # without a descriptor nothing was flushed, or lost
                raise
            return self.durable_end

    def take_sums_failure(self) -> OSError | None:
        """Why sums were not saved since the last call: what changes on the disk is not noticed then."""
        failure, self._sums_failure = self._sums_failure, None
        return failure

    def replaced(self, segment: Path) -> None:
        """Other files take the place of a segment's: its sums are forgotten, and made anew later.

        Call it with ``locked()`` held, once the last of them has its name: no flush sums the old ones then.
        """
        forget_sums(segment)
        with self._lock:
            self._unsummed.add(segment)

    def locked(self) -> threading.Lock:
        """No flush runs while it is held: for who cuts files away."""
        return self._syncing

    def close(self) -> None:
        """No flush runs any more, nor is one running."""
        with self._syncing:
            self._closed = True

    def forget_snapshots(self, end: Offset) -> None:
        """The log is cut at ``end``: delete those after it, which are no longer true, the newest first."""
        with self._lock:
            gone = [offset for offset in reversed(self._snapshots) if offset > end]
            self._snapshots = [offset for offset in self._snapshots if offset <= end]
            self._snapshot_due = None
        for offset in gone:
            snapshot_path(self._directory, offset).unlink()

    def is_settled(self, path: Path) -> bool:
        """No flush has anything to do with the segment any more: batches and indexes are on the disk."""
        with self._lock:
            return path not in self._unflushed and path not in self._unflushed_indexes

    def forget_before(self, end: Offset) -> None:
        """Delete the snapshots before ``end``, up to where markers of transactions that they have open go."""
        with self._lock:
            gone = [offset for offset in self._snapshots if offset < end]
            self._snapshots = [offset for offset in self._snapshots if offset >= end]
        for offset in gone:
            snapshot_path(self._directory, offset).unlink(missing_ok=True)

    def prune(self, bases: set[Offset]) -> None:
        """Delete snapshots that are neither at the base of a segment nor among the newest."""
        with self._lock:
            newest = set(self._snapshots[-SNAPSHOTS_KEPT:])
            gone = [offset for offset in self._snapshots if offset not in newest | bases]
            self._snapshots = [offset for offset in self._snapshots if offset not in gone]
        for offset in gone:
            snapshot_path(self._directory, offset).unlink(missing_ok=True)

    def _flush(self) -> None:
        with self._lock:
            end = self.written_end
            segments, names_changed, due = tuple(self._unflushed), self._names_changed, self._snapshot_due
        if end > self.durable_end:
            for path in segments:
                with self._passing(path):
                    _sync_content(path)
        if names_changed:
            sync_path(self._directory)
        self.durable_end = end
        with self._lock:
            flushed = set(segments[:-1])
            self._unflushed = [path for path in self._unflushed if path not in flushed]
            self._names_changed = self._names_changed and self._unflushed[-1] != segments[-1]
        if due is not None and due[0] <= end:
            self._save_snapshot(*due)

    @contextlib.contextmanager
    def _passing(self, path: Path) -> Iterator[None]:
        """A segment whose file is gone, as it was deleted since the flush began, needs none."""
        try:
            yield
        except FileNotFoundError:
            with self._lock:
                if path in self._unflushed or path in self._unflushed_indexes:
                    raise

    def _save_snapshot(self, end: Offset, table: _Table, extents: _Extents) -> None:
        with self._lock:
            indexes, active = set(self._unflushed_indexes), self._unflushed[-1]
        for path in indexes:
            with self._passing(path):
                for suffix in SUFFIXES[1:]:
                    sync_path(path.with_suffix(suffix))
        sync_path(self._directory / EPOCHS_FILE)
        self._save_sums(extents, active)
        raw = encode_producers(table)
        try:
            note_snapshot(active, end, crc32c(raw))
        except OSError as error:  # as of sums: what is there is older
            self._sums_failure = error
        replace_file(snapshot_path(self._directory, end), raw, durable=True)
        with self._lock:
            self._unflushed_indexes -= indexes - {active}
            if self._snapshot_due is not None and self._snapshot_due[0] == end:
                self._snapshot_due = None
            self._snapshots = sorted({*self._snapshots, end})

    def _save_sums(self, extents: _Extents, active: Path) -> None:
        """Not flushed: a file that is lost says nothing of its segment."""
        for path, extent in extents.items():
            try:
                failure = sum_segment(path, extent, self._owner)
                is_done = is_summed(path)
                self._sums_failure = failure or self._sums_failure
            except FileNotFoundError:  # deleted meanwhile, as its time was over
                is_done = True
            if is_done and path != active:
                with self._lock:
                    self._unsummed.discard(path)


def _sync_content(path: Path) -> None:
    """Flush the bytes and the length of a file; its other attributes may be lost."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
