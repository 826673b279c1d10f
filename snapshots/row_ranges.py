"""Sums of ranges of the image's keys, in memory: what is read of the store is what was written there.

Ranges    one behind the other, of up to ``RANGE_ROWS_MAX`` rows; each has the key that it begins with, and
          64 bits of the sum of its rows' hashes (sums.py). A start makes them, which reads every row, and the
          installation of a snapshot while it puts them; a row that is written changes its range's sum.
Reading   a row is read with the whole range that its key is in. If the range has another sum, a row changed,
          is gone or is not found, or one came: RowsChanged, before anything is decided from it.
Upkeep    a range with too many rows is read, and becomes two; one without rows joins the one before.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from fencepost.snapshots.sums import GENERATION_BYTES, MODULUS, sum_of_rows

RANGE_ROWS: Final = 12
RANGE_ROWS_MAX: Final = 2 * RANGE_ROWS  # some 15 us to read
_SUM_MASK: Final = (1 << 64) - 1

RawRow = tuple[bytes, bytes]  # key and value as they lie in the store
Read = Callable[[bytes], tuple[list[RawRow], bytes]]
"""All rows of the range that a key is in, and where the next range begins. Raises RowsChanged."""


class RowsChanged(Exception):
    """Rows of an open store are not those that were written. The node ends; a start makes the image again."""


def scan_ranges(read: Read, prefix: bytes, passed: bytes | None = None) -> Iterator[RawRow]:
    """The rows whose keys begin so, beyond the key ``passed``. One range after the other is read."""
    at = prefix if passed is None else passed
    while at.startswith(prefix):
        rows, end = read(at)
        for row in rows:
            if row[0] >= at and row[0] != passed and row[0].startswith(prefix):
                yield row
        at = end


class RowRanges:
    """Of one generation. ``txn`` and ``db`` are lmdb's."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._firsts = [generation.to_bytes(GENERATION_BYTES, "big")]
        self._sums = array("Q", [0])
        self._counts = array("l", [0])
        self._end = (generation + 1).to_bytes(GENERATION_BYTES, "big")

    def copy(self) -> "RowRanges":
        """As they are now."""
        copied = RowRanges(self.generation)
        copied._firsts, copied._sums, copied._counts = self._firsts[:], self._sums[:], self._counts[:]
        return copied

    def fill(self, txn: Any, db: Any) -> int:
        """Make them of what is in the store. The sum of all rows; a start takes some 1 us for each."""
        cursor = txn.cursor(db=db)
        if not cursor.set_range(self._firsts[0]):
            return 0
        total, rows = 0, cursor.iternext()
        firsts, sums, counts, end = list[bytes](), array("Q"), array("l"), self._end
        while part := list(islice(rows, RANGE_ROWS)):
            if part[-1][0] >= end:
                part = [row for row in part if row[0] < end]
                if not part:
                    break
            firsts.append(part[0][0] if sums else self._firsts[0])
            of_part = sum_of_rows(part)
            total += of_part
            sums.append(of_part & _SUM_MASK)
            counts.append(len(part))
        if sums:
            self._firsts, self._sums, self._counts = firsts, sums, counts
        return total % MODULUS

    def read(self, txn: Any, db: Any, key: bytes) -> tuple[list[RawRow], bytes]:
        """See ``Read``."""
        at = bisect_right(self._firsts, key) - 1
        return self._read(txn, db, at, key), self._end_of(at)

    def wrote(self, txn: Any, db: Any, key: bytes, difference: int, rows: int) -> None:
        """A row was written: its range's sum changes by the difference, and its rows by -1, 0 or 1.

        Raises RowsChanged, if that is seen here.
        """
        at = bisect_right(self._firsts, key) - 1
        self._sums[at] = (self._sums[at] + difference) & _SUM_MASK
        if not rows:
            return
        self._counts[at] += rows
        if self._counts[at] > RANGE_ROWS_MAX:
            self._split(txn, db, at, key)
        elif self._counts[at] <= 0 and at:
            self._join(at, key)

    def _end_of(self, at: int) -> bytes:
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self._end

    def _read(self, txn: Any, db: Any, at: int, key: bytes) -> list[RawRow]:
        rows = self._found(txn, db, at)
        if sum_of_rows(rows) & _SUM_MASK != self._sums[at]:
            raise _changed(key, f"{self._counts[at]} rows were written, {len(rows)} are found")
        return rows

    def _found(self, txn: Any, db: Any, at: int) -> list[RawRow]:
        end, cursor = self._end_of(at), txn.cursor(db=db)
        rows: list[RawRow] = []
        if cursor.set_range(self._firsts[at]):
            for row in cursor.iternext():
                if row[0] >= end:
                    break
                rows.append(row)
        return rows

    def _split(self, txn: Any, db: Any, at: int, key: bytes) -> None:
        """In two halves."""
        rows = self._read(txn, db, at, key)
        half = len(rows) // 2
        behind = rows[half:]
        self._firsts.insert(at + 1, behind[0][0])
        self._sums.insert(at + 1, sum_of_rows(behind) & _SUM_MASK)
        self._counts.insert(at + 1, len(behind))
        self._sums[at] = sum_of_rows(rows[:half]) & _SUM_MASK
        self._counts[at] = half

    def _join(self, at: int, key: bytes) -> None:
        """To the range before: it has no row."""
        if self._sums[at]:
            raise _changed(key, "the last row found is deleted, and others were written")
        for each in (self._firsts, self._sums, self._counts):
            del each[at]


def _changed(key: bytes, found: str) -> RowsChanged:
    size = key[GENERATION_BYTES]
    table = key[GENERATION_BYTES + 1 :][:size].decode("latin-1")
    return RowsChanged(
        f"the store's table {table} was changed while it was open: in one range of its keys {found}, with "
        "another sum; a start makes the image again, of snapshot and journal"
    )
