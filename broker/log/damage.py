"""Where the bytes of a log end to make sense: a torn end, which a crash leaves, or damage.

Torn     the last batch above the recovery point, in which the file ends, with nothing whole behind it. After
         a crash of the machine also a last batch whose pages did not all reach the disk. It is cut.
Damage   anything else: a wrong checksum with whole batches behind it, a length that does not fit, a gap
         between segments, a log that ends before its recovery point. The log is not opened, its bytes stay.
Whole    a batch with a right checksum and an offset that may come there: records/whole_batches.py.
Page     after the death of a process alone the kernel still has all that it wrote: a batch of full length
cache    with a wrong checksum was changed, not torn.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from crc32c import crc32c

from fencepost.broker.log.segment import Segment
from fencepost.records.batch import BATCH_BYTES_MAX, batch_header
from fencepost.records.batch_layout import (
    CHECKED_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    field,
    fields_of,
    size_at,
)
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.records.whole_batches import first_whole, whole_from
from fencepost.snapshots.checksums import is_as_summed, load_sums

_BASE_OFFSET: Final = field("base_offset")
_CRC: Final = fields_of("crc")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong, and where: the batch at ``position`` of ``segment`` would begin at ``offset``."""

    segment: Path
    position: int
    size: int  # of the file
    offset: Offset
    reason: str
    whole: tuple[int, Offset] | None = None  # the first whole batch behind it: position, base offset

    def __str__(self) -> str:
        behind = ""
        if self.whole is not None:
            behind = (
                f"; whole batches lie behind it, from position {self.whole[0]}, offset {self.whole[1]} on"
            )
        return (
            f"{self.segment}: damaged at position {self.position} of {self.size}, offset {self.offset}: "
            f"{self.reason}{behind}. All bytes are kept. With the node stopped, 'fencepost storage repair "
            f"--partition {self.segment.parent.name}' says what a cut would lose, and cuts on demand"
        )


class DamagedLog(CorruptData):
    """A log that is not opened: what is on the disk is not what was written."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


def whole_batches(segment: Path, position: int, expected: Offset) -> Iterator[tuple[Offset, Offset]]:
    """First offset and end of each whole batch of a segment from ``position`` on, bad bytes passed over."""
    if not segment.stat().st_size:
        return
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield from whole_from(content, position, expected)


def damage_at(
    segment: Path, position: int, expected: Offset, reason: str, *, machine_went_down: bool
) -> Damage | None:
    """What is wrong with the last segment's bytes from ``position`` on; None: they are a torn end.

    expected           the offset that belongs there; everything before it is sound.
    machine_went_down  since the bytes were written; else the kernel had all of them.
    """
    size = segment.stat().st_size
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        whole = first_whole(content, position, expected)
        why = reason if whole is not None or machine_went_down else _why_not_torn(content, position, expected)
    if whole is None and why is None:
        return None
    if whole is None and machine_went_down:
        return None
    return Damage(segment, position, size, expected, why or reason, whole)


def too_short(segment: Segment, following: Offset) -> Damage | None:
    """A full segment is shorter than it was on the disk, or another one, and ends before the next one begins.

    Sums alone prove nothing: an earlier version, which does not know of them, may have cut and filled it.
    """
    summed = load_sums(segment.path).batches
    last = _end_of(segment)
    if segment.size >= summed.size and last is not None and last >= following:
        return None
    position, end = 0, segment.base
    try:
        for placed in segment.walk():
            position, end = placed.position + placed.size, placed.end
    except CorruptData:
        pass  # it ends inside a batch
    if end >= following and position == segment.size:
        return None
    if segment.size < summed.size:
        reason = f"the segment has {segment.size} bytes, and {summed.size} bytes of it were on the disk"
    elif position == segment.size and not is_as_summed(segment.path, summed):
        gap = f"no segment has offsets {end} to {following - 1}"
        reason = f"{gap}, and the one before them has other bytes than were written"
    else:
        return None
    return Damage(segment.path, position, segment.size, end, reason)


def missing(segments: Sequence[Segment], point: Offset, begins: Sequence[Offset]) -> list[str]:
    """Offsets before the recovery point that no segment has, in sentences.

    A crash of the machine that undid half of a deletion leaves that, too: so it is no damage.

    begins   of the leader epochs: the first one begins where the log does, and is saved before its first
             segments are deleted.
    """
    found = []
    if begins and segments and begins[0] < segments[0].base:
        found.append(_gone(begins[0], segments[0].base))
    for segment, following in pairwise(segments):
        if following.base > point:
            break
        end = _end_of(segment)
        if end is not None and end < following.base:
            found.append(_gone(end, following.base))
    return found


def no_end_at(point: Offset) -> str:
    """Why a log whose recovery point is there is damaged."""
    return f"no batch ends at offset {point}, before which everything was on the disk"


def _gone(first: Offset, end: Offset) -> str:
    return f"no segment has offsets {first} to {end - 1}: deleted before a crash, or lost"


def _end_of(segment: Segment) -> Offset | None:
    """Where a full segment ends, by its last batches; None: they make no sense, which is found elsewhere."""
    end = segment.base
    try:
        entry = segment.offsets.last
        for placed in segment.walk(0 if entry is None else entry[1]):
            end = placed.end
    except CorruptData:
        return None
    return end


def _why_not_torn(content: mmap.mmap, position: int, expected: Offset) -> str | None:
    """Why no write that was cut short left these bytes; None: one may have."""
    there = len(content) - position
    if there >= _BASE_OFFSET.size:
        (base,) = _BASE_OFFSET.unpack_from(content, position)
        if base != expected:
            return f"a batch begins at offset {base}, expected {expected}"
    if there > MAGIC_AT and content[position + MAGIC_AT] != MAGIC:
        return f"record format {content[position + MAGIC_AT]}, expected {MAGIC}"
    if there < HEADER_BYTES:
        return None
    rest = content[position : position + BATCH_BYTES_MAX + 1]
    try:
        batch_header(rest)
    except CorruptData as error:
        return str(error)
    if size_at(rest, 0) <= there:
        return "its checksum is wrong, and it has its full length"
    if crc32c(memoryview(rest)[CHECKED_AT:]) == _CRC.unpack_from(rest)[0]:
        return f"its length says {size_at(rest, 0)} bytes, its checksum is that of the {there} that are there"
    return None
