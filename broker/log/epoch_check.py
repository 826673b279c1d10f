"""The file of leader epochs, held against the batches: Kafka's format of it has no checksum.

Checked   where each epoch begins: the batch there is of it, the one before is of the epoch before, the last
          one before the recovery point of the newest. So a line is found, whichever part of it changed.
          Behind that point: two batches that are of another epoch than the file says, or one in a part.
Who errs  a batch's leader epoch has no checksum either. The file counts where the segment is not as it was
          summed, and against one batch behind the recovery point; else it is made again from the batches.
First     line: it begins where the log does, or before. One that begins later, behind batches that have an
          epoch, was changed.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.broker.log.checkpoints import EPOCHS_FILE, LeaderEpochs
from fencepost.broker.log.log_starts import read_starts
from fencepost.broker.log.segment import Placed, Segment
from fencepost.broker.log.shapes import NO_EPOCH
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import is_as_summed, load_sums

LINES_MAX: Final = 1_000
"""Of the file that are checked, the newest: 0.1 ms each."""


class Difference(NamedTuple):
    """A batch that is of another epoch than the file says, all of it or in a part."""

    segment: Segment
    placed: Placed
    reason: str
    is_unknown: bool = False  # the file says nothing of it

    @property
    def is_of_the_file(self) -> bool:
        """The batch is as it was written, as far as that is known. Raises OSError."""
        return self.is_unknown or is_as_summed(self.segment.path, load_sums(self.segment.path).batches)


def difference(
    epochs: LeaderEpochs, segments: Sequence[Segment], point: Offset, *, machine_went_down: bool
) -> Difference | None:
    """The first one; None: there is none. Up to the recovery point the indexes are sound.

    machine_went_down   the file may lack what was written last.
    """
    unknown = _unknown(epochs, segments, point)
    if unknown is not None:
        return unknown
    for offset in _borders(epochs, segments[0].base, point):
        found = _batch_at(segments, offset)
        if found is None:
            continue
        segment, placed = found
        reason = epochs.contradicted(placed.leader_epoch, max(placed.base_offset, offset), is_written=True)
        if reason is not None:
            return Difference(segment, placed, reason)
    behind = _behind(epochs, segments, point, is_written=not machine_went_down)
    return next(behind, None) and next(behind, None)


def _unknown(epochs: LeaderEpochs, segments: Sequence[Segment], point: Offset) -> Difference | None:
    """The batch where the log begins, if it has an epoch and the file's first line begins behind it.

    Without a line the file begins behind everything that was on the disk.
    """
    start = segments[0].base
    begin = epochs.begins[0] if epochs.begins else point
    if begin <= start:
        return None
    folder = segments[0].path.parent
    start = max(start, read_starts(folder.parent).by_folder.get(folder.name, start))
    first = _batch_at(segments, start) if begin > start else None
    if first is None or first[1].leader_epoch == NO_EPOCH:
        return None
    reason = f"a batch of epoch {first[1].leader_epoch}, by {EPOCHS_FILE} it is of none"
    return Difference(*first, reason, is_unknown=True)


def read_epochs(epochs: LeaderEpochs, segments: Sequence[Segment]) -> str:
    """Read the epochs of the batches instead, up to a torn end or damage. Returns what was done."""
    epochs.forget_all()
    begin: Offset | None = segments[0].base  # of a cleaned log the first batch may begin later
    for segment in segments:
        try:
            for placed in segment.walk():
                offset = placed.base_offset if begin is None else begin
                epochs.assign(placed.leader_epoch, offset, save=False)
                begin = None
        except CorruptData:
            break
    return f"{EPOCHS_FILE}: made again from the batches"


def _borders(epochs: LeaderEpochs, start: Offset, point: Offset) -> Iterator[Offset]:
    """Offsets in [start, point) beside which one epoch ends, and the next one begins."""
    for begin in epochs.begins[-LINES_MAX:]:
        if begin > start and begin <= point:
            yield Offset(begin - 1)
        if start < begin < point:
            yield begin
    if point > start:
        yield start
        yield Offset(point - 1)


def _behind(
    epochs: LeaderEpochs, segments: Sequence[Segment], point: Offset, *, is_written: bool
) -> Iterator[Difference]:
    """Behind the recovery point, up to a torn end or damage."""
    first = _batch_at(segments, point)
    if first is None:
        return
    at = first[1].position
    try:
        for segment in segments[segments.index(first[0]) :]:
            for placed in segment.walk(at):
                epoch, base = placed.leader_epoch, placed.base_offset
                was_there = is_written or epoch < epochs.at(base)  # the file has a line before its batches
                reason = epochs.contradicted(epoch, base, is_written=was_there)
                if reason is not None:
                    yield Difference(segment, placed, reason)
                if epochs.begins_inside(base, placed.end):
                    yield Difference(segment, placed, f"by {EPOCHS_FILE} it is of two epochs")
            at = 0
    except CorruptData:
        return


def _batch_at(segments: Sequence[Segment], offset: Offset) -> tuple[Segment, Placed] | None:
    """The batch that holds the offset, or the first one behind it; None: the bytes make no sense there."""
    number = max((n for n, each in enumerate(segments) if each.base <= offset), default=0)
    try:
        for segment in segments[number:]:
            for placed in segment.walk(segment.floor(offset) if segment.base <= offset else 0):
                if placed.end > offset:
                    return segment, placed
    except CorruptData:
        return None
    return None
