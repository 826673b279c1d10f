"""Batches that the start did not read: checked when they are read for a client, until the scrub was there.

Which     those before the recovery point, but for what the start compared with its sum or read again. What
          this process wrote itself is not checked again.
Checked   the checksum; the offset, which is the one where the batch before it ends; the leader epoch, by the
          file of epochs. That is every byte of a batch.
Until     the segment was compared with its sum (scrub.py): ``unchecked_end`` is 0 then.
Source    none: Apache Kafka serves them unread.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.broker.log.checkpoints import LeaderEpochs
from fencepost.broker.log.damage import Damage, DamagedLog
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import COMPARED_BYTES_MAX
from fencepost.records.batch import BatchHeader, Buffer, checked_header
from fencepost.records.batch_layout import CHECKED_AT, HEADER_BYTES, LENGTH_COUNTS_FROM, MAGIC, fields_of
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import load_sums

CHECKED_AT_ONCE_BYTES: Final = 256 * 1024
"""Of unchecked batches that are read for one row of a response, but for a larger first one: 1.5 ms of CPU, if
they are of 170 bytes."""

_CHECKED: Final = fields_of("base_offset", "length", "leader_epoch", "magic", "crc", "last_offset_delta")


class Known(NamedTuple):
    """What is known of a log beside its segments."""

    epochs: LeaderEpochs
    cleaned_end: Offset  # when it was opened: below it a cleaner may have left offsets out


def mark_unchecked(segments: Sequence[Segment], point: Offset, read_from: Offset) -> None:
    """A log was opened: what lies before ``read_from`` was not read, but for what was compared.

    point   the recovery point. In its segment batches before it were compared, up to COMPARED_BYTES_MAX.
    """
    for segment, following in zip(segments, (*segments[1:], None), strict=True):
        if segment.base >= read_from:
            return
        if following is not None and following.base <= point:
            segment.unchecked_end = segment.size
            continue
        end = segment.locate(point)
        summed = load_sums(segment.path).batches.size
        segment.unchecked_end = 0 if end <= summed <= COMPARED_BYTES_MAX else end


def header_in_place(content: Buffer, at: int, expected: Offset, cleaned_end: Offset) -> BatchHeader:
    """The header of the batch there: its checksum is right, and its offset is the expected one.

    Raises   CorruptData.
    """
    header = checked_header(content, at)
    if header.base_offset != expected and not expected < header.base_offset < cleaned_end:
        raise CorruptData(f"a batch begins at offset {header.base_offset}, expected {expected}")
    return header


def sound_header(content: Buffer, at: int, expected: Offset, known: Known) -> BatchHeader:
    """The header of the batch there, of which each byte is as it was written. Raises CorruptData."""
    header = header_in_place(content, at, expected, known.cleaned_end)
    why = known.epochs.contradicted(header.leader_epoch, header.base_offset, is_written=True)
    if why is not None:
        raise CorruptData(why)
    return header


def require_sound(segment: Segment, content: bytes, position: int, known: Known) -> None:
    """These batches, which lie at ``position`` of the segment, are those that were written.

    Raises   DamagedLog, CorruptData.
    """
    at, expected, view = 0, _end_before(segment, position), memoryview(content)
    due, due_end = _epoch_from(known.epochs, expected)
    while at < len(content):
        if len(content) - at > HEADER_BYTES:
            base, length, epoch, magic, crc, delta = _CHECKED.unpack_from(content, at)
            end = at + length + LENGTH_COUNTS_FROM
            in_place = base == expected < due_end and (epoch, magic) == (due, MAGIC) and delta >= 0
            if in_place and at < end <= len(content) and crc32c(view[at + CHECKED_AT : end]) == crc:
                at, expected = end, Offset(base + delta + 1)
                continue
        try:
            header = sound_header(content, at, expected, known)
        except CorruptData as error:
            damage = Damage(segment.path, position + at, segment.size, expected, str(error))
            raise DamagedLog(damage) from error
        at += header.size
        expected = header.end
        due, due_end = _epoch_from(known.epochs, expected)


def _epoch_from(epochs: LeaderEpochs, offset: Offset) -> tuple[Term, float]:
    """The leader epoch of the batch at ``offset``, and where the next one begins."""
    begins = epochs.begins
    number = bisect_right(begins, offset)
    return epochs.at(offset), begins[number] if number < len(begins) else math.inf


def _end_before(segment: Segment, position: int) -> Offset:
    """Where the batch before ``position`` ends: found by the index, and by walking up to one interval."""
    number = segment.offsets.count_below(1, position)
    begin: int = segment.offsets[number - 1][1] if number else 0
    end = segment.base
    if position:
        for placed in segment.walk(begin):
            if placed.position >= position:
                break
            end = placed.end
    return end
