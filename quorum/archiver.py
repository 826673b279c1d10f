"""Feeds the committed-log archive, and refills it after a crash.

Invariant   the archive of a log is a prefix-with-named-holes of what was applied: the bytes that were
            decided, stamped with the base offset and the leader epoch they got.
Mark        store meta ``archive.mark`` = (raft index, image header): up to there the archive is on disk.
            The journal is never compacted past it, so what a crash took from the archive's tail is
            found again by walking the journal from the mark with the fence's own test.
Damage      before the mark is no crash's doing, and the journal may have it no more: the bytes stay.
Age         an archive that is ahead of its store says that the store is an older one (older_store.py).
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.controller.replay import Applied, apply
from fencepost.controller.view import EmptyView, ImageHeader, Overlay
from fencepost.quorum.journal import REGULAR, Journal
from fencepost.quorum.older_store import (
    MARK,
    Mark,
    is_new,
    is_noted,
    last_end,
    note_archives,
    read_mark,
    require_own_age,
)
from fencepost.records.batch import stamp
from fencepost.records.entry import Entry, LoggedBatch, decode_entry, decode_records, placed
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.levels import LevelTooHigh
from fencepost.records.types import LOGS, Log, LogIndex, Offset, Term
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.archive_scrub import SUMS_REMEDY
from fencepost.snapshots.clean_shutdown import forget_clean_shutdown, record_clean_shutdown
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import StoreDamaged

OFFSET_MAX: Final = Offset(2**63 - 1)


class ArchiveConfig(Protocol):
    """What of a node's configuration concerns the archive."""

    @property
    def directory(self) -> Path:
        """The directory of this node's archives."""

    @property
    def cluster_id(self) -> str:
        """The cluster whose logs these are."""

    @property
    def segment_bytes(self) -> int:
        """When a segment is full."""

    @property
    def archive_bytes_max(self) -> int:
        """Retention of each log but ``__consumer_offsets``; -1: keep everything."""

    @property
    def group_archive_bytes_max(self) -> int:
        """Retention of ``__consumer_offsets``; -1: keep everything."""


class Archiver:
    """The archives of the logs that this version writes."""

    def __init__(
        self,
        config: ArchiveConfig,
        store: Store,
        journal: Journal,
        applied: LogIndex,
        log: FilteringBoundLogger,
    ) -> None:
        self._config = config
        self._store = store
        self._log = log
        root = self.root = config.directory / "archive"
        forget_clean_shutdown(root)
        self._mark = read_mark(store)
        is_empty = is_new(store, journal)
        epochs = _epochs(journal, self._mark)
        self.archives = {
            log: Archive.open(
                root,
                log,
                config.cluster_id,
                segment_bytes=config.segment_bytes,
                flushed_end=OFFSET_MAX if is_empty else self._mark[1].log_end(log),
                epoch_at=epochs[log].at,
            )
            for log in LOGS
        }
        for archive in self.archives.values():
            if archive.damage is not None:
                log.error(
                    "archive_damaged",
                    file=str(archive.damage.path),
                    position=archive.damage.position,
                    offset=archive.damage.offset,
                    reason=archive.damage.reason,
                    note="its bytes are kept; other nodes have these offsets in their archives",
                )
            if archive.torn_sums is not None:
                log.warning("archive_sums_changed", reason=archive.torn_sums, next=SUMS_REMEDY)
            self._log_cut(archive)
        if is_empty and not is_noted(store):
            note_archives(store, self._last_ends())
        else:
            self._require_not_older(journal, applied)  # by their ends: before any is cut
            for archive in self.archives.values():
                if archive.lost_its_start:
                    archive.begin_again()
                    self._log_cut(archive)
        self._refill(journal, applied)

    def _log_cut(self, archive: Archive) -> None:
        if archive.cut is not None:
            self._log.warning(
                "archive_cut",
                file=str(archive.cut.path),
                position=archive.cut.position,
                bytes=archive.cut.size,
                reason=archive.cut.reason,
            )

    def _last_ends(self) -> dict[Log, Offset]:
        return {log: last_end(archive) for log, archive in self.archives.items()}

    def _require_not_older(self, journal: Journal, applied: LogIndex) -> None:
        """Raises StoreDamaged, the archives closed."""
        try:
            require_own_age(self._store, self._last_ends(), journal, applied)
        except StoreDamaged:
            for archive in self.archives.values():
                archive.close()
            raise

    @property
    def marked_index(self) -> LogIndex:
        """The journal may be compacted up to here."""
        return LogIndex(self._mark[0])

    def applied(self, entry: Entry, before: ImageHeader, after: ImageHeader) -> None:
        """Append an applied entry's batches. They reach the OS with ``write``.

        After a crash the archive may be ahead of the image: what it has already is what was committed.
        """
        for log, base_offset, batch in placed(entry, before.log_ends):
            archive = self.archives[log]
            if base_offset >= archive.end:
                archive.append(stamp(batch, base_offset, after.controller_epoch))

    def write(self) -> None:
        """Hand what is buffered to the OS: other processes see it, a killed process does not lose it."""
        for archive in self.archives.values():
            if archive.buffered_bytes:
                archive.write()
            if archive.sums_failure is not None:
                self._say_not_summed(archive)

    def sync(self) -> None:
        """fsync, on any thread. What was written before the call is on disk after it."""
        for archive in self.archives.values():
            archive.sync()

    def synced(self, index: LogIndex, header: ImageHeader) -> None:
        """A snapshot of (index, header) is there, and the archive up to it was synced: retention may cut."""
        if index > self._mark[0]:
            self._set_mark(index, header)
            for log, archive in self.archives.items():
                of_groups = log is Log.CONSUMER_OFFSETS
                kept = self._config.group_archive_bytes_max if of_groups else self._config.archive_bytes_max
                if kept >= 0:
                    archive.retain(kept, header.log_end(log))

    def jumped(self, index: LogIndex, header: ImageHeader) -> None:
        """A snapshot was installed: what lies between is a hole, recorded as one."""
        for log, archive in self.archives.items():
            if archive.end < header.log_end(log):
                self._log.info("archive_hole", log=log.directory, first=archive.end, end=header.log_end(log))
                archive.write()
                archive.start_at(header.log_end(log))
        self._set_mark(index, header)

    def close(self) -> None:
        """Write what waits, flush it and close the files; that they were is recorded."""
        for archive in self.archives.values():
            archive.write()
            archive.sync()
            archive.close()
            self._say_not_summed(archive)
        record_clean_shutdown(self.root, self._log)

    def _say_not_summed(self, archive: Archive) -> None:
        failure, archive.sums_failure = archive.sums_failure, None
        if failure is not None:
            self._log.warning("archive_sums_not_saved", reason=str(failure))

    def _set_mark(self, index: LogIndex, header: ImageHeader) -> None:
        self._mark = (int(index), header)
        self._store.meta_put(MARK, msgspec.msgpack.encode(self._mark))

    def _refill(self, journal: Journal, applied: LogIndex) -> None:
        """Append what the image has and the archive lacks."""
        refilled = 0
        self._jump(self._mark[1])
        header = self._store.image.header
        lacks = any(archive.end < header.log_end(log) for log, archive in self.archives.items())
        for entry, before, after in _walk(journal, self._mark, applied) if lacks else ():
            for log, base_offset, batch in placed(entry, before.log_ends):
                archive = self.archives[log]
                if base_offset >= archive.end:
                    archive.append(stamp(batch, base_offset, after.controller_epoch))
                    refilled += 1
        self._jump(header)
        if refilled:
            self._log.info("archive_refilled", batches=refilled)
            self.write()

    def _jump(self, header: ImageHeader) -> None:
        """What an archive lacks before that place, and the journal has no more, is a hole."""
        for log, archive in self.archives.items():
            end = header.log_end(log)
            if archive.end < end:
                self._log.warning("archive_hole", log=log.directory, first=archive.end, end=end)
                archive.start_at(end)


def _walk(
    journal: Journal, mark: Mark, applied: LogIndex
) -> Iterator[tuple[Entry, ImageHeader, ImageHeader]]:
    """The entries after the mark that applied, with the headers before and after each."""
    view = Overlay(EmptyView())
    view.header = mark[1]
    for index in range(mark[0] + 1, applied + 1):
        found = journal.entry_at(index)
        invariant(found is not None, "the journal was compacted past the archive", index=index)
        command = b"" if found is None else found[0]
        if command[:1] != REGULAR:
            continue
        entry = decode_entry(command[1:])
        # Only the fence and the offsets matter here, so the records themselves are not replayed.
        logged = tuple(_counted(batch) for batch in decode_records(entry))
        outcome = apply(view, entry, logged)
        if isinstance(outcome, Applied):
            yield entry, outcome.before, view.header


class _Epochs:
    """Of a log's batches from some offset on: which leader epoch begins where."""

    def __init__(self) -> None:
        self._begins: list[Offset] = []
        self._epochs: list[Term] = []
        self._end = Offset(0)

    def add(self, base: Offset, end: Offset, epoch: Term) -> None:
        """Of the next batch."""
        if not self._epochs or self._epochs[-1] != epoch:
            self._begins.append(base)
            self._epochs.append(epoch)
        self._end = end

    def at(self, offset: Offset) -> Term | None:
        """Of the batch at ``offset``; None if it is not among them."""
        number = bisect_right(self._begins, offset) - 1
        return self._epochs[number] if number >= 0 and offset < self._end else None


def _epochs(journal: Journal, mark: Mark) -> dict[Log, _Epochs]:
    """As the journal says, of what came after the mark; committed or not: the archive has what was."""
    found = {log: _Epochs() for log in LOGS}
    if mark[0] < journal.first_index:
        return found
    with suppress(CorruptData, LevelTooHigh):  # whatever applies that entry says so
        for entry, before, after in _walk(journal, mark, journal.last_index):
            for log, base_offset, _ in placed(entry, before.log_ends):
                found[log].add(base_offset, after.log_end(log), after.controller_epoch)
    return found


def _counted(batch: LoggedBatch) -> LoggedBatch:
    """The batch without the records that change tables; a LeaderChange still changes the header."""
    kept = batch.records[:1] if batch.control and batch.log is Log.METADATA else ()
    return LoggedBatch(batch.log, batch.control, kept, batch.count)
