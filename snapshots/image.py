"""The image as views of typed tables: the rows in the store, under what was applied since they were saved."""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.controller.view import DELETED, KEY_BYTES_MAX, ImageHeader, Overlay, Table
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.logged import ENTRY_COST_MAX
from fencepost.snapshots.reader import digest_of
from fencepost.snapshots.row_ranges import RawRow, RowRanges, scan_ranges
from fencepost.snapshots.rows import (
    Row,
    decode_header,
    scan_generation,
    table_prefix,
)
from fencepost.snapshots.scrub import Scrub
from fencepost.snapshots.sums import HEADER, MODULUS, row_hash

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

CACHED_ROWS_MAX: Final = (
    50_000  # decoded rows kept in memory; past it the oldest goes, but not the latest ids
)
_MISSING: Final = object()


class RowStore(Protocol):
    """What the image needs of the store (snapshots/store.py); ``txn`` and ``image_db`` are lmdb's."""

    image_db: Any
    generation: int
    rows_sum: int | None
    scrub: Scrub

    @property
    def ranges(self) -> RowRanges:
        """Of the image's rows as they were saved."""

    @property
    def txn(self) -> Any:
        """The open write transaction."""

    def meta_get(self, name: str) -> bytes | None:
        """The value stored under a name, or None."""

    def meta_put(self, name: str, value: bytes) -> None:
        """Set a small named value."""


class ImageOwner(Protocol):
    """Who has an image."""

    image: "Image"


def _decoded(table: Table[K, V], decode: Callable[[bytes], R], raw: bytes) -> R:
    """A key or value of this store. Raises CorruptData: nothing but this store's own code wrote it."""
    try:
        return decode(raw)
    except (ValueError, struct.error) as error:  # msgspec's errors and UnicodeDecodeError are ValueErrors
        raise CorruptData(f"the store's table {table.name} has a row that cannot be read: {error}") from error


class _Rows:
    """The image's rows inside the open write transaction, with a cache of decoded ones."""

    def __init__(self, store: RowStore, header: ImageHeader) -> None:
        self._store = store
        self._cache: OrderedDict[tuple[str, Any], Any] = OrderedDict()  # the one read first is first
        self._prefixes: dict[str, bytes] = {}  # of this generation's keys, by table
        self.header = header
        self.room = ENTRY_COST_MAX

    def get(self, table: Table[K, V], key: K) -> V | None:
        """Implements ``View.get``."""
        found = self._cache.get((table.name, key), _MISSING)
        if found is not _MISSING:
            return found  # type: ignore[no-any-return]
        at = self._key(table, key)
        raw = next((value for found_at, value in self._read(at)[0] if found_at == at), None)
        value = None if raw is None else _decoded(table, table.decode_value, raw)
        self._remember((table.name, key), value)
        return value

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """See View. Collected first, so that the caller may write while it walks."""
        return iter(list(self.scan(table)))

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """See View. Read in ranges, so that no cursor is open while others use the transaction."""
        prefix = self._prefix(table)
        passed = None if after is None else self._key(table, after)
        for key, value in scan_ranges(self._read, prefix, passed):
            own = _decoded(table, table.decode_key, key[len(prefix) :])
            yield own, _decoded(table, table.decode_value, value)

    def take(self, rows: dict[Table[Any, Any], dict[Any, Any]]) -> None:
        """Write what an overlay holds, in the order of tables and keys. Each key is encoded once."""
        txn, db, changed, passed = self._store.txn, self._store.image_db, 0, 0
        scrub, wrote = self._store.scrub, self._store.ranges.wrote
        for table in sorted(rows, key=attrgetter("name")):
            written, name, encode_value = rows[table], table.name, table.encode_value
            for at, key in sorted([(self._key(table, key), key) for key in written], key=itemgetter(0)):
                value, difference, more, size = written[key], 0, 0, 0
                if value is DELETED:
                    before = txn.pop(at, db=db)
                    self._cache.pop((name, key), None)  # most are of indexes, and never looked for again
                else:
                    encoded = encode_value(value)
                    before = txn.replace(at, encoded, db=db)
                    self._remember((name, key), value)
                    difference += row_hash(at, encoded)
                    more, size = 1, len(encoded)
                if before is not None:
                    difference -= row_hash(at, bytes(before))
                    more, size = more - 1, size - len(before)
                wrote(txn, db, at, difference, more, size)
                changed += difference
                if at <= scrub.cursor:
                    passed += difference
        scrub.sum = (scrub.sum + passed) % MODULUS
        if self._store.rows_sum is not None:
            self._store.rows_sum = (self._store.rows_sum + changed) % MODULUS

    def _key(self, table: Table[K, V], key: K) -> bytes:
        encoded = table.encode_key(key)
        if len(encoded) > KEY_BYTES_MAX:
            invariant(False, "key too long", table=table.name, bytes=len(encoded))
        return self._prefix(table) + encoded

    def _prefix(self, table: Table[K, V]) -> bytes:
        prefix = self._prefixes.get(table.name)
        if prefix is None:
            prefix = self._prefixes[table.name] = table_prefix(self._store.generation, table.name)
        return prefix

    def _read(self, at: bytes) -> tuple[list[RawRow], bytes]:
        store = self._store
        return store.ranges.read(store.txn, store.image_db, at)

    def _remember(self, at: tuple[str, Any], value: Any) -> None:
        if len(self._cache) >= CACHED_ROWS_MAX:
            oldest, kept = self._cache.popitem(last=False)  # to free all of them takes 7 ms at least
            if oldest[0] == PRODUCER_IDS.name:  # from bytes that changed ids would be given out twice
                self._cache[oldest] = kept
                self._cache.popitem(last=False)
        self._cache[at] = value


class Image(Overlay):
    """The image: what is in the store, under what was applied since it was saved.

    Applied entries stay in memory until ``save``, which a full flush does at least twice a second: the
    journal has them, so a crash replays them, and a flush that only a vote or an ack waits for writes
    half as many pages.
    """

    __slots__ = ("_saved", "_store", "_stored")

    def __init__(self, store: RowStore, header: ImageHeader | None = None) -> None:
        self._store = store
        self._saved: ImageHeader | None = None
        self._stored = _Rows(store, header or decode_header(store.meta_get(HEADER)))
        super().__init__(self._stored)

    @property
    def rows_unsaved(self) -> int:
        """Rows that were written since the last ``save``."""
        return sum(map(len, self._rows.values()))

    def encoded_rows(self) -> Iterator[Row]:
        """Every row, saved or not, in the order of table names and encoded keys. All are read first."""
        store = self._store
        rows = dict(scan_generation(store.txn, store.image_db, store.generation))
        for table, written in self._rows.items():
            for key, value in written.items():
                at = table.name, table.encode_key(key)
                if value is DELETED:
                    rows.pop(at, None)
                else:
                    rows[at] = table.encode_value(value)
        return ((name, key, rows[name, key]) for name, key in sorted(rows))

    def save(self) -> None:
        """Rows and header into the open transaction, together."""
        if self.header is not self._saved:
            self._stored.take(self._rows)
            self._rows.clear()
            self._store.meta_put(HEADER, msgspec.msgpack.encode(self.header))
            self._saved = self.header


def image_digest(store: ImageOwner) -> str:
    """Digest of the image as it is now, saved or not (tests, simulations). Changes nothing."""
    return digest_of(store.image.header, store.image.encoded_rows())
