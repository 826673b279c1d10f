"""Whether the newest snapshot of a log's producers is the one that was written at its offset.

Checksums  its own, and the one that the file of sums of the segment that was the last one has of it.
Name       it is taken between two batches. One in the middle of a batch has the name of another place, as a
           copy by hand may leave it: if the segment is as it was summed, the snapshot is what is wrong.
"""

from collections.abc import Sequence
from pathlib import Path

from fencepost.broker.log.producer_snapshot import decode_producers, snapshot_path
from fencepost.broker.log.producer_state import Producer
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import are_batches_changed, is_other_snapshot
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, ProducerId
from fencepost.snapshots.reads import read_bytes


def read_sound(directory: Path, offset: Offset, segments: Sequence[Segment]) -> dict[ProducerId, Producer]:
    """The producers at ``offset``, that of the newest snapshot.

    segments   that with ``offset``, and all behind it.
    Raises     CorruptData: it is not what was written there. OSError.
    """
    raw = read_bytes(snapshot_path(directory, offset))
    if is_other_snapshot([each.path for each in segments], offset, raw):
        raise CorruptData("other producers than were written last, by the last segment's checksums")
    table = decode_producers(raw)
    if segments and _is_inside_a_batch(segments[0], offset) and not are_batches_changed(segments[0].path):
        raise CorruptData(f"offset {offset} is in the middle of a batch: it has another one's name")
    return table


def from_offset(segments: Sequence[Segment], offset: Offset) -> Sequence[Segment]:
    """The segment that has ``offset``, and those behind it."""
    return segments[max((n for n, each in enumerate(segments) if each.base <= offset), default=0) :]


def _is_inside_a_batch(segment: Segment, offset: Offset) -> bool:
    """By the index, and as that may be wrong, by all batches."""
    try:
        return _lies_across(segment, segment.floor(offset), offset) and _lies_across(segment, 0, offset)
    except CorruptData:
        return False  # batches are what is wrong


def _lies_across(segment: Segment, position: int, offset: Offset) -> bool:
    for placed in segment.walk(position):
        if placed.end > offset:
            return placed.base_offset < offset
    return False
