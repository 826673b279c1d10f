"""Sums of ranges of the image's keys, in memory: what is read of the store is what was written there.

Ranges    one behind the other, of up to ``RANGE_ROWS_MAX`` rows and few bytes; each has the key that it
          begins with, and 64 bits of the sum of its rows' hashes (sums.py). A start makes them, which reads
          every row, and the installation of a snapshot while it puts them; a row that is written changes its
          range's sum.
Reading   a row is read with the whole range that its key is in. If the range has another sum, a row changed,
          is gone or is not found, or one came: RowsChanged, before anything is decided from it. That is
          refused, and from ``changed`` the node learns that its image is bad (quorum/image_watch.py); what
          is read of other ranges until then is right.
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
RANGE_BYTES_MAX: Final = 16_384  # of values; a longer one is alone
_SUM_MASK: Final = (1 << 64) - 1

RawRow = tuple[bytes, bytes]  # key and value as they lie in the store
Read = Callable[[bytes], tuple[list[RawRow], bytes]]
"""All rows of the range that a key is in, and where the next range begins. Raises RowsChanged."""


class RowsChanged(Exception):
    """Rows of an open store are not those that were written: nothing may be made of them."""


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
        self.changed = ""  # how a range was found to be another one than was written
        self._firsts = [generation.to_bytes(GENERATION_BYTES, "big")]
        self._sums = array("Q", [0])
        self._counts = array("q", [0])
        self._bytes = array("q", [0])  # of values
        self._end = (generation + 1).to_bytes(GENERATION_BYTES, "big")

    def copy(self) -> "RowRanges":
        """As they are now."""
        copied = RowRanges(self.generation)
        copied._firsts, copied._sums = self._firsts[:], self._sums[:]
        copied._counts, copied._bytes = self._counts[:], self._bytes[:]
        return copied

    def fill(self, txn: Any, db: Any) -> int:
        """Make them of what is in the store. The sum of all rows; a start takes some 1 us for each."""
        cursor = txn.cursor(db=db)
        if not cursor.set_range(self._firsts[0]):
            return 0
        total, rows = 0, cursor.iternext()
        firsts, sums, counts, sizes = list[bytes](), array("Q"), array("q"), array("q")
        while part := list(islice(rows, RANGE_ROWS)):
            if part[-1][0] >= self._end:
                part, rows = [row for row in part if row[0] < self._end], iter(())
            size = _bytes_of(part)
            for some in (part,) if part and size <= RANGE_BYTES_MAX else _parts(part, RANGE_ROWS):
                of_some = sum_of_rows(some)
                total += of_some
                firsts.append(some[0][0])
                sums.append(of_some & _SUM_MASK)
                counts.append(len(some))
                sizes.append(size if some is part else _bytes_of(some))
        if firsts:
            firsts[0] = self._firsts[0]
            self._firsts, self._sums, self._counts, self._bytes = firsts, sums, counts, sizes
        return total % MODULUS

    def read(self, txn: Any, db: Any, key: bytes) -> tuple[list[RawRow], bytes]:
        """See ``Read``."""
        at = bisect_right(self._firsts, key) - 1
        return self._read(txn, db, at, key), self._end_of(at)

    def wrote(self, txn: Any, db: Any, key: bytes, difference: int, rows: int, size: int) -> None:
        """A row was written: its range's sum changes by the difference, its rows by -1, 0 or 1, its bytes by
        ``size``.
        """
        at = bisect_right(self._firsts, key) - 1
        self._sums[at] = (self._sums[at] + difference) & _SUM_MASK
        self._counts[at] += rows
        self._bytes[at] += size
        count = self._counts[at]
        if count > RANGE_ROWS_MAX or (self._bytes[at] > RANGE_BYTES_MAX and count > 1):
            self._split(txn, db, at, key)
        elif count <= 0 and at:
            self._join(at, key)

    def _end_of(self, at: int) -> bytes:
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self._end

    def _read(self, txn: Any, db: Any, at: int, key: bytes) -> list[RawRow]:
        rows = self._found(txn, db, at)
        if sum_of_rows(rows) & _SUM_MASK != self._sums[at]:
            self.changed = _changed(key, f"{self._counts[at]} rows were written, {len(rows)} are found")
            raise RowsChanged(self.changed)
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
        """In two halves, or more where they are long."""
        try:
            rows, first = self._read(txn, db, at, key), self._firsts[at]
        except RowsChanged:
            return  # what is written stays as it is: none of it is read any more
        self._cut_out(at)
        for place, some in enumerate(_parts(rows, (len(rows) + 1) // 2), at):
            self._firsts.insert(place, some[0][0])
            self._sums.insert(place, sum_of_rows(some) & _SUM_MASK)
            self._counts.insert(place, len(some))
            self._bytes.insert(place, _bytes_of(some))
        self._firsts[at] = first

    def _cut_out(self, at: int) -> None:
        for each in (self._firsts, self._sums, self._counts, self._bytes):
            del each[at]

    def _join(self, at: int, key: bytes) -> None:
        """To the range before: it has no row."""
        if self._sums[at]:
            self.changed = _changed(key, "the last row found is deleted, and others were written")
        else:
            self._cut_out(at)


def _bytes_of(rows: list[RawRow]) -> int:
    return sum([len(value) for _, value in rows])


def _parts(rows: list[RawRow], rows_max: int) -> Iterator[list[RawRow]]:
    """In order, of up to so many rows, and ``RANGE_BYTES_MAX`` bytes where it is not one row."""
    part: list[RawRow] = []
    size = 0
    for row in rows:
        if part and (len(part) == rows_max or size + len(row[1]) > RANGE_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row[1])
    if part:
        yield part


def _changed(key: bytes, found: str) -> str:
    size = key[GENERATION_BYTES]
    table = key[GENERATION_BYTES + 1 :][:size].decode("latin-1")
    return (
        f"the store's table {table} was changed while it was open: in one range of its keys {found}, with "
        "another checksum"
    )
