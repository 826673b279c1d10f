"""The scrub of a log: its segments are compared with their sums while the log is in use, one after the other.

Compared  batches and indexes, as far as they were summed. What is appended later changes nothing of that.
Read      are the batches, each with its checksum, offset and leader epoch, if they are not as they were
          summed, which finds the place, or if no start has read them and they are not summed. If all are
          sound the sum is that of the bytes just read: an earlier version, which writes no sums, cut and
          filled the segment. To one that is appended to meanwhile it does not fit: the next round, once that
          one is full, or the next start reads it again.
Cleaned   segments lack offsets, so that a changed offset may look sound: they are not summed anew.
Threads   ``scrub`` runs beside the log's owner, with files of its own; the rest is the owner's.
Replaced  by a cleaner, or deleted, meanwhile: what was found says nothing. The owner looks (``part``).
"""

from typing import NamedTuple

from fencepost.broker.log.checkpoints import LeaderEpochs
from fencepost.broker.log.cleaned_end import load_cleaned_end
from fencepost.broker.log.damage import Damage, DamagedLog
from fencepost.broker.log.durability import Durability
from fencepost.broker.log.foreign import require_own
from fencepost.broker.log.read_ahead import ReadAhead
from fencepost.broker.log.recovery import Recovered
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import changed_index
from fencepost.broker.log.unchecked import Known, sound_header
from fencepost.records.invariant import CorruptData
from fencepost.snapshots.checksums import is_as_summed, load_sums, sums_path
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed
from fencepost.snapshots.scrub_pace import Pace


class Part(NamedTuple):
    """What is to be scrubbed of a segment: whole batches of ``size`` bytes."""

    segment: Segment
    size: int
    read_end: int  # what lies before this position is read, unless it is summed


class Scrubbable:
    """The segments of a log that is open: the list is the log's own."""

    def __init__(self, log: Recovered, durability: Durability) -> None:
        self._segments = log.segments
        self._owner = log.owner
        self._durability = durability

    def segments(self) -> tuple[Segment, ...]:
        """All of them, the oldest first."""
        return tuple(self._segments)

    def part(self, segment: Segment) -> Part | None:
        """The segment as it is now; None: it is not the log's any more."""
        if segment not in self._segments:
            return None
        is_waiting = segment.is_summed or segment is self._segments[-1]  # for a snapshot, or to be full
        return Part(segment, segment.size, segment.unchecked_end if is_waiting else segment.size)

    def sum_again(self, part: Part) -> None:
        """The file of its sums is no use: they are saved with the next snapshot. Raises OSError."""
        with self._durability.locked():
            self._durability.replaced(part.segment.path)

    def scrub(self, part: Part, pace: Pace) -> Summed | None:
        """Compare a segment with its sums, or read it: what it returns is for ``scrubbed``.

        Raises   DamagedLog, CorruptData, OSError.
        """
        pace(0)
        path = part.segment.path
        require_own((part.segment,), self._owner)
        sums = load_sums(path)
        suffix = changed_index(path, sums)
        if suffix is not None:
            what = f"{path.with_suffix(suffix)} is not as it was written"
            raise CorruptData(f"{what}. The next start makes it again from the batches")
        is_summed = sums.batches.size >= part.read_end
        if is_summed and is_as_summed(path, sums.batches, pace):
            size = path.stat().st_size
            if size < part.size:
                raise CorruptData(f"{path} has {size} bytes, and {part.size} bytes were written")
            return None
        is_cleaned, found = _read(part, pace)
        if is_summed and is_cleaned:
            raise CorruptData(
                f"{path}: other bytes than were written, by {sums_path(path).name}, though each batch is "
                "sound: an offset may have changed. If an earlier version of fencepost cut this log "
                "('storage repair'), remove that file"
            )
        with self._durability.locked():
            self._durability.replaced(path)
        return found

    def scrubbed(self, part: Part, found: Summed | None) -> None:
        """The segment is sound. What was found is its sum, to be saved with the next snapshot."""
        part.segment.unchecked_end = 0
        if found is not None:
            part.segment.sum = found


def _read(part: Part, pace: Pace) -> tuple[bool, Summed]:
    """Each batch. Returns whether a cleaner may have left offsets out of the segment, and the sum.

    Raises   DamagedLog, OSError.
    """
    segment = Segment(part.segment.path.parent, part.segment.base)
    epochs = LeaderEpochs(segment.path.parent)
    epochs.load()
    known = Known(epochs, load_cleaned_end(segment.path.parent))
    ahead, position, expected, found = ReadAhead(segment), 0, segment.base, NOT_SUMMED
    try:
        while position < part.size:
            batch = ahead.batch_at(position)
            header = sound_header(batch, 0, expected, known)
            found = found.followed_by(batch[: header.size])
            position += header.size
            expected = header.end
            pace(header.size)
    except CorruptData as error:
        raise DamagedLog(Damage(segment.path, position, segment.size, expected, str(error))) from error
    finally:
        segment.close()
    return segment.base < known.cleaned_end, found
