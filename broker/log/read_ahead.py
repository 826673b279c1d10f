"""A segment's bytes for who reads it batch by batch: fetched from the file in large pieces."""

from fencepost.broker.log.segment import Segment
from fencepost.records.batch import BATCH_BYTES_MAX
from fencepost.records.batch_layout import HEADER_BYTES, size_at
from fencepost.snapshots.segments import READ_AHEAD_BYTES


class ReadAhead:
    """The bytes of one segment; ``batch_at`` is called with positions that grow."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._piece = memoryview(b"")
        self._piece_at = 0

    def batch_at(self, position: int) -> memoryview:
        """The batch at ``position``, whole if the file has it whole, and what was read after it."""
        at = position - self._piece_at
        if not self._is_whole(at):
            self._piece, self._piece_at, at = self._read(position, READ_AHEAD_BYTES), position, 0
            if not self._is_whole(at):
                self._piece = self._read(position, BATCH_BYTES_MAX)
        return self._piece[at:]

    def _read(self, position: int, size: int) -> memoryview:
        return memoryview(self._segment.bytes_at(position, size))

    def _is_whole(self, at: int) -> bool:
        """By the length that it says, which may be absurd: who takes the batch looks at it."""
        there = len(self._piece) - at
        return there >= HEADER_BYTES and there >= size_at(self._piece, at)
