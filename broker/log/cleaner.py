"""One cleaner's pass over a log: full segments are read and written again, smaller; the log's owner swaps.

Threads     a pass runs in a thread of its own beside the owner, and touches files by their names only. Full
            segments do not change, and none is removed while the pass runs.
Group       of segments that follow one another becomes one: as many as fit into one by their sizes before.
Disk        swaps.py has the steps.
Gaps        before the first group is decided, the log says up to where offsets may be missing (cleaned_end).
Source      Kafka Cleaner.cleanSegments, LocalLog.replaceSegments, LogLoader.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.broker.log.checkpoints import LeaderEpochs
from fencepost.broker.log.cleaned_end import load_cleaned_end, save_cleaned_end
from fencepost.broker.log.compaction import KEYS_MAX, NOTHING, AbortedRanges, Compaction, LastOffsets
from fencepost.broker.log.producer_state import Ended, Producer
from fencepost.broker.log.read_ahead import ReadAhead
from fencepost.broker.log.segment import RELATIVE_OFFSET_MAX, Segment, header_placed
from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log.swaps import (
    CLEANED,
    SWAP,
    remove_segments,
    remove_unfinished,
    rename_files,
    write_swap_sums,
)
from fencepost.broker.log.unchecked import Known, sound_header
from fencepost.records.batch import BatchHeader, batch_header
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, ProducerId
from fencepost.snapshots.checksums import SegmentSums, load_sums
from fencepost.snapshots.file_sums import NOT_SUMMED
from fencepost.snapshots.flushes import sync_path

WRITE_BYTES: Final = 256 * 1024  # kept batches are written so many bytes at a time


class Dirty(NamedTuple):
    """What a pass is about: the full segments of a log from its start to ``end``."""

    directory: Path
    bases: tuple[Offset, ...]
    end: Offset  # where the next segment begins
    later: tuple[Offset, ...]  # the bases of the segments behind, the active one included
    first_dirty: Offset
    producers: Mapping[ProducerId, Producer]
    config: LogConfig


class Group(NamedTuple):
    """Segments that became one, which is ready to take their place."""

    bases: tuple[Offset, ...]
    end: Offset
    sums: SegmentSums  # of what was written


class Cleaned(NamedTuple):
    """What a pass has done so far."""

    clean_end: Offset  # where the next pass begins
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keys: int = 0


class CleanerPass:
    """One pass. Every method blocks; they are called in turn: ``begin``, then for each group ``next_group``,
    (the owner swaps), ``remove_old``, (the owner renames).

    ``pace`` is called after each batch: it may wait, and ends the pass with an exception of its own.
    """

    def __init__(
        self, dirty: Dirty, now_ms: int, pace: Callable[[], None], *, keys_max: int = KEYS_MAX
    ) -> None:
        self._dirty = dirty
        self._pace = pace
        self._now_ms = now_ms
        self._keys_max = keys_max
        self._ends = (*dirty.bases[1:], dirty.end)
        self._next = 0  # the number of the next segment
        self._known: Known
        self._compaction: Compaction
        self.cleaned = Cleaned(dirty.first_dirty)

    def begin(self) -> None:
        """Read what is dirty. Raises OSError, CorruptData."""
        dirty = self._dirty
        remove_unfinished(dirty.directory)
        epochs = LeaderEpochs(dirty.directory)
        epochs.load()
        self._known = Known(epochs, load_cleaned_end(dirty.directory))
        aborted = AbortedRanges(self._aborted())
        last = LastOffsets(aborted, dirty.first_dirty, self._keys_max)
        for base, end in zip(dirty.bases, self._ends, strict=True):
            if end > dirty.first_dirty and not self._learn(Segment(dirty.directory, base), last):
                break
        self._compaction = Compaction(
            last, aborted, dirty.producers, self._now_ms, dirty.config.delete_retention_ms
        )
        self.cleaned = self.cleaned._replace(keys=len(last))
        save_cleaned_end(dirty.directory, dirty.end)

    def next_group(self) -> Group | None:
        """Steps 1 and 2 of the next group of which anything goes; None: the pass is over.

        Raises   OSError, CorruptData: nothing is decided, what was written is gone.
        """
        while self._next < len(self._ends) and self._dirty.bases[self._next] < self._compaction.last.end:
            first = self._next
            target = Segment.create(self._dirty.directory, self._dirty.bases[first], CLEANED)
            try:
                is_changed = self._clean_into(_Target(target, self._dirty.config.index_interval_bytes))
                sums = target.extent().sums
                group = Group(self._dirty.bases[first : self._next], self._ends[self._next - 1], sums)
                if is_changed or len(group.bases) > 1:
                    self._decide(target, sums)
                    return group
                target.delete()
            except BaseException:
                target.close()
                remove_unfinished(self._dirty.directory)
                raise
        self.cleaned = self.cleaned._replace(clean_end=self._compaction.last.end)
        return None

    def remove_old(self, group: Group) -> None:
        """Step 4. Raises OSError."""
        remove_segments(self._dirty.directory, group.bases)

    def _aborted(self) -> list[Ended]:
        """The aborted transactions that can touch what is cleaned."""
        found = []
        for base in (*self._dirty.bases, *self._dirty.later):
            segment = Segment(self._dirty.directory, base)
            for _, producer_id, first, last, stable in segment.aborts.entries():
                if first < self._dirty.end:
                    found.append(Ended(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable)))
            segment.close()
        return found

    def _learn(self, segment: Segment, last: LastOffsets) -> bool:
        """Take the batches of a segment. False: there is no room for more."""
        end = self._ends[self._dirty.bases.index(segment.base)]
        with contextlib.closing(_sound_batches(segment, end, self._known)) as batches:
            for batch, header in batches:
                if not last.take(batch, header):
                    return False
                self._pace()
        last.end = max(last.end, end)
        return True

    def _clean_into(self, target: "_Target") -> bool:
        """Clean one segment after the other into the target, as many as fit. True: something goes."""
        first, is_changed = self._next, False
        while self._next < len(self._ends):
            with contextlib.closing(Segment(self._dirty.directory, self._dirty.bases[self._next])) as source:
                if self._next > first and not self._fits(target, source, self._dirty.bases[first]):
                    break
                is_changed |= self._clean_segment(source, target)
            self._next += 1
        target.finish()
        return is_changed

    def _fits(self, target: "_Target", source: Segment, base: Offset) -> bool:
        end = self._ends[self._next]
        in_size = target.size + source.size <= self._dirty.config.segment_bytes
        is_mapped = source.base < self._compaction.last.end
        return in_size and is_mapped and end - base <= RELATIVE_OFFSET_MAX

    def _clean_segment(self, source: Segment, target: "_Target") -> bool:
        is_changed = False
        read, written = self.cleaned.records_read, self.cleaned.records_written
        before = target.size
        for batch, header in _sound_batches(source, self._ends[self._next], self._known):
            left = self._compaction.clean(batch, header)
            is_changed |= left is not batch
            read += header.record_count
            if left != NOTHING:
                written += target.put(left)
            else:
                target.passed = self._compaction.end_of_group(batch, header)
            for ended in self._compaction.kept_aborted:
                target.aborted(ended)
            self._compaction.kept_aborted.clear()
            self._pace()
        self.cleaned = self.cleaned._replace(
            bytes_read=self.cleaned.bytes_read + source.size,
            bytes_written=self.cleaned.bytes_written + target.size - before,
            records_read=read,
            records_written=written,
        )
        return is_changed

    def _decide(self, target: Segment, sums: SegmentSums) -> None:
        """The end of step 1, and step 2."""
        for path in target.files:
            sync_path(path)
        target.close()
        write_swap_sums(target.path.parent, target.base, sums)
        rename_files(target.path.parent, target.base, CLEANED, SWAP)
        sync_path(target.path.parent)


class _Target:
    """The segment that a cleaner writes."""

    def __init__(self, segment: Segment, interval_bytes: int) -> None:
        self._segment = segment
        self._interval_bytes = interval_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._end = segment.base
        self.passed = NOTHING  # what stays of the last batch read, which goes, if it is the last of all

    @property
    def size(self) -> int:
        """Bytes that are in it."""
        return self._segment.size + self._waiting_bytes

    def put(self, batch: bytes) -> int:
        """Append a batch; the records in it."""
        self.passed = NOTHING
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        header = batch_header(batch)
        self._end = header.end
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()
        return header.record_count

    def aborted(self, ended: Ended) -> None:
        """An aborted transaction whose marker was put."""
        self._segment.index_aborted(ended)

    def finish(self) -> None:
        """Nothing more comes."""
        if self.passed != NOTHING:
            self.put(self.passed)
        self._write()
        self._segment.index_time()

    def _write(self) -> None:
        if not self._waiting:
            return
        position = self._segment.append(b"".join(self._waiting))
        for batch in self._waiting:
            self._segment.index(header_placed(batch_header(batch), position), self._interval_bytes)
            position += len(batch)
        self._waiting.clear()
        self._waiting_bytes = 0


def _sound_batches(
    segment: Segment, end: Offset, known: Known
) -> Generator[tuple[bytes, BatchHeader], None, None]:
    """The batches of a full segment that ends at ``end``, each byte as it was written: they are summed anew.

    Raises   CorruptData. Where offsets may be missing, one that changed is found by the segment's sum alone,
             once all are read.
    """
    ahead, position, expected, found = ReadAhead(segment), 0, segment.base, NOT_SUMMED
    try:
        while position < segment.size:
            view = ahead.batch_at(position)
            header = sound_header(view, 0, expected, known)
            batch = bytes(view[: header.size])
            if header.end > end:
                raise CorruptData(f"a batch ends at offset {header.end}, its segment at {end}")
            yield batch, header
            found = found.followed_by(batch)
            position += header.size
            expected = header.end
        saved = load_sums(segment.path).batches
        if saved.size == found.size and saved != found and segment.base < known.cleaned_end:
            raise CorruptData("other bytes than were written, though each batch is sound")
    except CorruptData as error:
        raise CorruptData(f"{segment.path}, position {position}: {error}") from error
    finally:
        segment.close()
