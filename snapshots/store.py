"""The node's one LMDB environment: journal, Raft meta, and the image's tables.

One write transaction is open at a time, on the loop's thread, and ``commit`` syncs it. ``flush`` saves the
image into it first, with its header: the image on disk is one that was, and never ahead of its log
(docs/design.md 5). What is not committed is lost by a crash, as a whole. Others only read.

Losses        an image without rows but with a header was deleted: it is forgotten as a whole, and made again.
Generations   the image's keys start with a generation number. Installing a snapshot fills the next
              generation in slices; one small transaction then flips ``generation``, so a crash in
              between leaves the old image whole. What is of no use any more is deleted in slices, too.
How lmdb bites  a write transaction belongs to its thread; a reader that stays open pins old pages;
              an environment opened twice in one process corrupts locks; any error mid-transaction
              leaves memory and disk apart, so ``journal`` and ``replica`` halt on it.
"""

import fcntl
import os
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb
import msgspec

from fencepost.controller.view import DELETED, KEY_BYTES_MAX, ImageHeader, Overlay, Table
from fencepost.records.invariant import CorruptData, invariant
from fencepost.records.logged import ENTRY_COST_MAX
from fencepost.snapshots.reader import APPLIED, MAP_BYTES, Reader, digest_of
from fencepost.snapshots.rows import (
    TABLES,
    Row,
    as_bytes,
    decode_header,
    row_key,
    scan_generation,
    scan_rows,
    table_prefix,
)

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

READERS_MAX: Final = 32
SCAN_PAGE_ROWS: Final = 64
CACHED_ROWS_MAX: Final = 50_000  # decoded rows kept in memory; past it the oldest goes
_MISSING: Final = object()

STORE_FAILURES: Final = (lmdb.Error, MemoryError)
HALTING: Final = (*STORE_FAILURES, CorruptData, OSError)
"""What a node does not survive when its own store raises it: memory and disk may differ from there on."""


class StoreInUse(Exception):
    """Another process has this directory open."""


class ImageLost(Exception):
    """The image is gone, and nothing here can make it again."""


class Store:
    """The environment and its open write transaction. Used on one thread only."""

    def __init__(self, env: lmdb.Environment, lock_fd: int | None) -> None:
        self.env = env
        self._lock_fd = lock_fd
        self.meta_db = env.open_db(b"meta")
        self.journal_db = env.open_db(b"journal")
        self.image_db = env.open_db(b"image")
        self._txn: lmdb.Transaction | None = None
        self.dirty = False
        self.around_flush: AbstractContextManager[None] = nullcontext()
        """Entered for each flush: who measures the loop takes the time of flushes apart."""
        self.generation = self._meta_int("generation", 0)
        self.image = Image(self)

    @classmethod
    def open(cls, directory: Path, *, sync: bool = True) -> "Store":
        """Open or create. Raises StoreInUse. ``sync=False`` is for simulations only."""
        directory.mkdir(parents=True, exist_ok=True)
        lock_fd = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock_fd)
            raise StoreInUse(f"{directory} is open in another process; stop that one first") from error
        env = lmdb.open(
            str(directory),
            map_size=MAP_BYTES,
            max_dbs=8,
            max_readers=READERS_MAX,
            sync=sync,
            readahead=False,
        )
        env.reader_check()  # clears readers of processes that died
        return cls(env, lock_fd)

    @property
    def txn(self) -> lmdb.Transaction:
        """The open write transaction; opened when there is none."""
        if self._txn is None:
            self._txn = self.env.begin(write=True)
        return self._txn

    def forget_lost_image(self) -> bool:
        """Forget the header of an image that has no row any more: it was deleted. True if that was so.

        The owner makes it again, from a snapshot and the journal.
        """
        if self.image.header.version == 0:
            return False
        if self.txn.cursor(db=self.image_db).set_range(struct.pack(">I", self.generation)):
            return False
        for name in ("header", APPLIED):
            self.txn.delete(name.encode(), db=self.meta_db)
        self.dirty = True
        self.image = Image(self)
        return True

    def flush(self) -> bool:
        """Save the image, then ``commit``. Returns False when there was nothing to do."""
        self.image.save()
        return self.commit()

    def commit(self) -> bool:
        """Commit and sync what was written, without what was applied since the image was last saved."""
        if not self.dirty:
            return False
        with self.around_flush:
            self.txn.commit()
        self._txn = None
        self.dirty = False
        return True

    def abandon(self) -> None:
        """Lose what was not flushed and close: what a crash does (simulations, tests)."""
        if self._txn is not None:
            self._txn.abort()
            self._txn = None
        self.dirty = False
        self.close()

    def close(self) -> None:
        """Commit and close the environment, release the lock. The image is the owner's to save."""
        self.commit()
        if self._txn is not None:
            self._txn.abort()
            self._txn = None
        self.env.close()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def meta_get(self, name: str) -> bytes | None:
        """The value stored under a name, or None."""
        return as_bytes(self.txn.get(name.encode(), db=self.meta_db))

    def meta_put(self, name: str, value: bytes) -> None:
        """Set a small named value; durable at the next flush."""
        self.txn.put(name.encode(), value, db=self.meta_db)
        self.dirty = True

    def _meta_int(self, name: str, default: int) -> int:
        raw = self.meta_get(name)
        return default if raw is None else msgspec.msgpack.decode(raw, type=int)

    @contextmanager
    def reader(self) -> Iterator["Reader"]:
        """A consistent view of what was last flushed, usable in any one thread."""
        with self.env.begin() as txn:
            yield Reader(txn, self.meta_db, self.image_db, self.journal_db)

    # -- installing a snapshot ------------------------------------------------------------------

    def fresh_generation(self) -> int:
        """A generation that has no row, not even one of an installation that never ended."""
        cursor = self.txn.cursor(db=self.image_db)
        last = struct.unpack_from(">I", cursor.key())[0] if cursor.last() else 0
        return max(int(last), self.generation) + 1

    def clear_others(self, rows_max: int) -> bool:
        """Delete up to ``rows_max`` rows that are not of the current generation. True when none is left."""
        current, after = struct.pack(">I", self.generation), struct.pack(">I", self.generation + 1)
        cursor = self.txn.cursor(db=self.image_db)
        found = cursor.first()
        for _ in range(rows_max):
            if found and bytes(cursor.key()).startswith(current):
                found = cursor.set_range(after)
            if not found:
                return True
            cursor.delete()
            self.dirty = True
            found = bool(cursor.key())
        return False

    def put_rows(self, generation: int, rows: list[Row]) -> None:
        """Write raw rows into a generation that is not current."""
        invariant(generation != self.generation, "rows into the current generation")
        for name, key, value in rows:
            if name not in TABLES:
                raise CorruptData(f"snapshot row of an unknown table {name!r}; known: {sorted(TABLES)}")
            self.txn.put(row_key(generation, name, key), value, db=self.image_db)
        self.dirty = True

    def flip(self, generation: int, header: ImageHeader) -> None:
        """Make a filled generation the image. Durable at the next flush, with what else is in it."""
        self.generation = generation
        self.meta_put("generation", msgspec.msgpack.encode(generation))
        self.image = Image(self, header)
        self.image.save()


def _decoded(table: Table[K, V], decode: Callable[[bytes], R], raw: bytes) -> R:
    """A key or value of this store. Raises CorruptData: nothing but this store's own code wrote it."""
    try:
        return decode(raw)
    except (ValueError, struct.error) as error:  # msgspec's errors and UnicodeDecodeError are ValueErrors
        raise CorruptData(f"the store's table {table.name} has a row that cannot be read: {error}") from error


class _Rows:
    """The image's rows inside the open write transaction, with a cache of decoded ones."""

    def __init__(self, store: "Store", header: ImageHeader) -> None:
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
        raw = as_bytes(self._store.txn.get(self._key(table, key), db=self._store.image_db))
        value = None if raw is None else _decoded(table, table.decode_value, raw)
        self._remember((table.name, key), value)
        return value

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """See View. Collected first, so that the caller may write while it walks."""
        return iter(list(self.scan(table)))

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """See View. Read in pages, so that no cursor is open while others use the transaction."""
        store = self._store
        prefix = table_prefix(store.generation, table.name)
        at = None if after is None else table.encode_key(after)
        while True:
            page = list(islice(scan_rows(store.txn, store.image_db, prefix, at), SCAN_PAGE_ROWS))
            for key, value in page:
                yield _decoded(table, table.decode_key, key), _decoded(table, table.decode_value, value)
            if len(page) < SCAN_PAGE_ROWS:
                return
            at = page[-1][0]

    def take(self, rows: dict[Table[Any, Any], dict[Any, Any]]) -> None:
        """Write what an overlay holds, in the order of tables and keys. Each key is encoded once."""
        txn, db = self._store.txn, self._store.image_db
        for table in sorted(rows, key=attrgetter("name")):
            written, name, encode_value = rows[table], table.name, table.encode_value
            for at, key in sorted([(self._key(table, key), key) for key in written], key=itemgetter(0)):
                value = written[key]
                if value is DELETED:
                    txn.delete(at, db=db)
                    self._cache.pop((name, key), None)  # most are of indexes, and never looked for again
                else:
                    txn.put(at, encode_value(value), db=db)
                    self._remember((name, key), value)

    def _key(self, table: Table[K, V], key: K) -> bytes:
        encoded = table.encode_key(key)
        if len(encoded) > KEY_BYTES_MAX:
            invariant(False, "key too long", table=table.name, bytes=len(encoded))
        prefix = self._prefixes.get(table.name)
        if prefix is None:
            prefix = self._prefixes[table.name] = table_prefix(self._store.generation, table.name)
        return prefix + encoded

    def _remember(self, at: tuple[str, Any], value: Any) -> None:
        if len(self._cache) >= CACHED_ROWS_MAX:
            self._cache.popitem(last=False)  # to free all of them takes 7 ms at least
        self._cache[at] = value


class Image(Overlay):
    """The image: what is in the store, under what was applied since it was saved.

    Applied entries stay in memory until ``save``, which a full flush does at least twice a second: the
    journal has them, so a crash replays them, and a flush that only a vote or an ack waits for writes
    half as many pages.
    """

    __slots__ = ("_saved", "_store", "_stored")

    def __init__(self, store: "Store", header: ImageHeader | None = None) -> None:
        self._store = store
        self._saved: ImageHeader | None = None
        self._stored = _Rows(store, header or decode_header(store.meta_get("header")))
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
            self._stored.header = self.header
            self._store.meta_put("header", msgspec.msgpack.encode(self.header))
            self._saved = self.header


def image_digest(store: Store) -> str:
    """Digest of the image as it is now, saved or not (tests, simulations). Changes nothing."""
    return digest_of(store.image.header, store.image.encoded_rows())
