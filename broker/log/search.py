"""Positions in a log: the segment and position of an offset, the offset of a timestamp.

A consumer that reads on requests the offset with which its last response ended: those places are remembered,
so that they need no search.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from fencepost.broker.log.aborted import UNNARROWED_MAX, AbortedIndex, Producers, producers_of
from fencepost.broker.log.recovery import Recovered
from fencepost.broker.log.segment import Placed, Segment
from fencepost.broker.log.shapes import NO_TIMESTAMP, Aborted, TimedOffset
from fencepost.broker.log.unchecked import CHECKED_AT_ONCE_BYTES, Known, require_sound
from fencepost.broker.log.validation import opened_records
from fencepost.records.batch import batch_header
from fencepost.records.batch_layout import LOG_APPEND_TIME
from fencepost.records.record_walk import record_times
from fencepost.records.types import Offset

PLACES_MAX: Final = 64  # remembered; as many consumers read on without a search
OPEN_SEGMENTS_MAX: Final = 4  # full ones, whose files are kept open


class Places:
    """The segments of a log that is open, by offset: the list is the log's own."""

    def __init__(self, log: Recovered) -> None:
        self._segments = log.segments
        self._known = Known(log.epochs, log.cleaned_end)
        self._remembered: dict[Offset, tuple[Segment, int]] = {}
        self._opened: list[Segment] = []  # the longest unused first

    def clear(self) -> None:
        """Forget the remembered places: segments were deleted or cut."""
        self._remembered.clear()
        self._opened.clear()

    def read(
        self, offset: Offset, bytes_max: int, upper: Offset, end: Offset, *, at_least_one: bool
    ) -> tuple[bytes, Offset]:
        """Whole batches of one segment, from the one that holds ``offset``, which is before ``upper``.

        If a disk lost what holds ``offset``, from the one after it. With them comes the offset after them.
        Raises   OSError, CorruptData.
        """
        last = len(self._segments) - 1
        for number in range(self._number(offset), last + 1):
            segment = self._segments[number]
            segment_end = end if number == last else self._segments[number + 1].base
            if number < last:
                self._keep_open(segment)
            position = self._position(segment, offset)
            limit = segment.size if upper >= segment_end else self._position(segment, upper)
            if position == limit:
                continue
            if position < segment.unchecked_end:
                bytes_max = min(bytes_max, CHECKED_AT_ONCE_BYTES)
            content, next_offset = segment.read(position, bytes_max, limit, at_least_one=at_least_one)
            if not content:
                break
            if position < segment.unchecked_end:
                require_sound(segment, content, position, self._known)
            next_offset = min(upper, segment_end) if next_offset is None else next_offset
            self._remember(next_offset, segment, position + len(content))
            return content, next_offset
        return b"", offset

    def newest(self, start: Offset) -> TimedOffset | None:
        """The first record with the greatest time; None without a time in the log, or before ``start``."""
        newest_ms = max(segment.max_timestamp_ms for segment in self._segments)
        return self.first_since(newest_ms, start) if newest_ms != NO_TIMESTAMP else None

    def first_since(self, timestamp_ms: int, start: Offset) -> TimedOffset | None:
        """The first record from ``start`` on whose time is at or after ``timestamp_ms``.

        Raises   OSError, CorruptData.
        """
        for segment in self._segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            number = segment.times.count_below(0, timestamp_ms)
            before = segment.base + (segment.times[number - 1][1] if number else 0)
            for placed in segment.walk(segment.floor(Offset(before))):
                if placed.position < segment.unchecked_end:
                    content = segment.bytes_at(placed.position, placed.size)
                    require_sound(segment, content, placed.position, self._known)
                if placed.max_timestamp_ms >= timestamp_ms and placed.end > start:
                    found = _record_since(segment, placed, timestamp_ms, start)
                    if found is not None:
                        return found
        return None

    def aborted(self, offset: Offset, upper: Offset, producers: Producers = None) -> tuple[Aborted, ...]:
        """The aborted transactions that touch [offset, upper)."""
        indexes = self._aborts(offset, upper)
        return tuple(each for index in indexes for each in index.touching(offset, upper, producers))

    def with_aborted(self, records: bytes, offset: Offset, end: Offset) -> tuple[bytes, tuple[Aborted, ...]]:
        """Batches read from ``offset`` up to ``end``, perhaps fewer of them, and what is aborted in them."""
        producers: Producers = None
        if (
            sum(len(index.between_offsets(offset, end)) for index in self._aborts(offset, end))
            > UNNARROWED_MAX
        ):
            records, end, producers = producers_of(records)
        return records, self.aborted(offset, end, producers)

    def _aborts(self, offset: Offset, upper: Offset) -> Iterator[AbortedIndex]:
        """The indexes that can have transactions which touch [offset, upper)."""
        for number in range(self._number(offset), len(self._segments)):
            aborts = self._segments[number].aborts
            yield aborts
            if aborts.is_complete(upper):
                return

    def _number(self, offset: Offset) -> int:
        last = len(self._segments) - 1
        if offset >= self._segments[last].base:
            return last
        return bisect_right(self._segments, offset, key=lambda segment: segment.base) - 1

    def _position(self, segment: Segment, offset: Offset) -> int:
        remembered = self._remembered.get(offset)
        if remembered is not None and remembered[0] is segment:
            return remembered[1]
        position = segment.locate(offset)
        self._remember(offset, segment, position)
        return position

    def _remember(self, offset: Offset, segment: Segment, position: int) -> None:
        if len(self._remembered) >= PLACES_MAX and offset not in self._remembered:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[offset] = (segment, position)

    def _keep_open(self, segment: Segment) -> None:
        if segment in self._opened:
            self._opened.remove(segment)
        elif len(self._opened) >= OPEN_SEGMENTS_MAX:
            self._opened.pop(0).close()
        self._opened.append(segment)


def _record_since(segment: Segment, placed: Placed, timestamp_ms: int, start: Offset) -> TimedOffset | None:
    """The first such record of a batch; None if its header promised too much."""
    batch = segment.bytes_at(placed.position, placed.size)
    header = batch_header(batch)
    if header.attributes & LOG_APPEND_TIME:
        return TimedOffset(max(placed.base_offset, start), header.max_timestamp_ms, placed.leader_epoch)
    body, begin = opened_records(batch, header)
    for offset_delta, timestamp_delta in record_times(body, begin, header.record_count):
        time_ms = header.base_timestamp_ms + timestamp_delta
        if time_ms >= timestamp_ms and placed.base_offset + offset_delta >= start:
            return TimedOffset(Offset(placed.base_offset + offset_delta), time_ms, placed.leader_epoch)
    return None
