"""Kafka's three index files of a segment: sorted entries of a fixed size, searched in the file.

``.index``      relative offset i32 (of the last record of a batch), position i32 (of that batch).
``.timeindex``  timestamp i64 (the greatest so far), relative offset i32 (of the last record of its batch).
``.txnindex``   version i16 = 0, producer id i64, first offset i64, last offset i64 (of the marker), last
                stable offset i64 after it; aborted transactions only, in the order of their markers.
Sum             is kept of what is appended, and of what is left after a cut, to be saved (segment_sums.py).
Disk            nothing here is believed after a crash: what lies past the recovery point is written again
                from the log. Big-endian. Not preallocated, as Kafka's are: a zero entry is never written.
Source          Kafka OffsetIndex, TimeIndex, TransactionIndex; docs/kafka-notes.md C4.
"""

import errno
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fencepost.records.named_errors import naming
from fencepost.snapshots.file_sums import NOT_SUMMED, read_sum
from fencepost.snapshots.reads import read_at

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
ABORTED_ENTRY: Final = struct.Struct(">hqqqq")
INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")

_READ_ENTRIES: Final = 512  # at a time, when one after the other is read

Entry = tuple[Any, ...]


class IndexFile:
    """One index file. Every segment has all three: one that is missing was lost. ``cut`` makes it."""

    __slots__ = ("_descriptor", "_entry", "_open_file", "count", "last", "path", "sum")

    def __init__(self, path: Path, entry: struct.Struct, open_file: Callable[[Path, int], int]) -> None:
        self.path = path
        self._entry = entry
        self._open_file = open_file
        self._descriptor = -1
        self.count: int
        self.last: Entry | None
        self.sum = NOT_SUMMED  # of all entries, if of any: of those that were there only after ``cut``
        self.refresh()

    def refresh(self) -> None:
        """Learn from the file what is in it; a part of an entry at its end is not counted."""
        try:
            self.count = self.path.stat().st_size // self._entry.size
        except FileNotFoundError:
            self.count = 0
        self.last = self[self.count - 1] if self.count else None

    def __getitem__(self, number: int) -> Entry:
        """The entry of that number, from 0. Raises struct.error if the file is shorter."""
        size = self._entry.size
        return self._entry.unpack(read_at(self.open(), size, number * size, self.path))

    def append(self, *entry: int) -> None:
        """Write one more entry. Raises OSError, also if a part of it was written."""
        raw = self._entry.pack(*entry)
        with naming(self.path):
            written = os.write(self.open(), raw)
        if written != self._entry.size:
            raise OSError(errno.ENOSPC, "half an index entry was written", str(self.path))
        if self.sum.size == self.size:
            self.sum = self.sum.followed_by(raw)
        self.count += 1
        self.last = entry

    @property
    def size(self) -> int:
        """Bytes of whole entries."""
        return self.count * self._entry.size

    def count_below(self, field: int, bound: int) -> int:
        """How many entries have less than ``bound`` in that field, by which the file is sorted."""
        low, high = 0, self.count
        if self.last is not None and self.last[field] < bound:
            return high
        while low < high:
            middle = (low + high) // 2
            if self[middle][field] < bound:
                low = middle + 1
            else:
                high = middle
        return low

    def entries(self, first: int = 0) -> Iterator[Entry]:
        """Every entry from number ``first`` on."""
        return self.between(first, self.count)

    def between(self, first: int, end: int) -> Iterator[Entry]:
        """The entries from number ``first`` on, up to ``end``."""
        size = self._entry.size
        for number in range(first, end, _READ_ENTRIES):
            length = min(_READ_ENTRIES, end - number) * size
            yield from self._entry.iter_unpack(read_at(self.open(), length, number * size, self.path))

    def cut(self, count: int) -> None:
        """Keep the first ``count`` entries, compared with their sum before; a part of an entry goes too."""
        with naming(self.path):
            os.ftruncate(self.open(), count * self._entry.size)
        self.refresh()
        self.sum = read_sum(self.path, NOT_SUMMED, self.size)

    def is_sorted(self, field: int) -> bool:
        """Every entry has more in that field than the one before it, and nothing is negative."""
        previous = -1
        for entry in self.entries():
            if entry[field] <= previous or min(entry) < -1:
                return False
            previous = entry[field]
        return True

    def is_whole(self) -> bool:
        """The file is there and ends with an entry."""
        return self.path.exists() and self.path.stat().st_size % self._entry.size == 0

    def close(self) -> None:
        """Close the file; it opens again by itself."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def open(self) -> int:
        """The descriptor of the file."""
        if self._descriptor < 0:
            self._descriptor = self._open_file(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        return self._descriptor
