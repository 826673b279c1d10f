"""A read transaction of which each row is held against its sum: a thread answers from it beside the node."""

from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

from fencepost.controller.view import Table
from fencepost.snapshots.reader import Reader
from fencepost.snapshots.row_ranges import RowRanges, scan_ranges
from fencepost.snapshots.rows import table_prefix

K = TypeVar("K")
V = TypeVar("V")


class VerifiedReader(Reader):
    """As Reader; raises RowsChanged at what is not as it was written. ``ranges`` are its own."""

    def __init__(self, txn: Any, meta_db: Any, image_db: Any, journal_db: Any, ranges: RowRanges) -> None:
        super().__init__(txn, meta_db, image_db, journal_db)
        self._generation = ranges.generation  # what meta says of it may have changed, too
        self._read = partial(ranges.read, txn, image_db)

    def get(self, table: Table[K, V], key: K) -> V | None:
        """Implements ``View.get``."""
        at = table_prefix(self._generation, table.name) + table.encode_key(key)
        found = next((value for found_at, value in self._read(at)[0] if found_at == at), None)
        return None if found is None else table.decode_value(found)

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """Implements ``View.scan``."""
        prefix = table_prefix(self._generation, table.name)
        passed = None if after is None else prefix + table.encode_key(after)
        for key, value in scan_ranges(self._read, prefix, passed):
            yield table.decode_key(key[len(prefix) :]), table.decode_value(value)
