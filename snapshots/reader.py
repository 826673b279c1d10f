"""Reading an image as of one flush: in the node on any thread, or from another process, running or not."""

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb
import msgspec

from fencepost.controller.view import ImageHeader, Table
from fencepost.records.invariant import CorruptData
from fencepost.records.logged import ENTRY_COST_MAX
from fencepost.records.types import LogIndex, Term
from fencepost.snapshots.rows import (
    TABLES,
    Row,
    as_bytes,
    decode_generation,
    decode_header,
    row_key,
    scan_rows,
    table_prefix,
)

K = TypeVar("K")
V = TypeVar("V")

JOURNAL_KEY: Final = struct.Struct(">Q")  # Raft index
JOURNAL_TERM: Final = struct.Struct(">Q")  # a journal value begins with it
_LENGTH: Final = struct.Struct(">I")
APPLIED: Final = "applied"  # in meta: (Raft index, term) of the image
MAP_BYTES: Final = 1 << 40  # sparse: a bound on growth, not an allocation


class Reader:
    """A read transaction: the image as of one flush. For snapshots, digests and offline commands."""

    def __init__(self, txn: lmdb.Transaction, meta_db: Any, image_db: Any, journal_db: Any) -> None:
        self._txn = txn
        self._meta_db = meta_db
        self._image_db = image_db
        self._journal_db = journal_db
        self._generation = decode_generation(as_bytes(txn.get(b"generation", db=meta_db)))
        self.header = decode_header(as_bytes(txn.get(b"header", db=meta_db)))
        self.room = ENTRY_COST_MAX

    def get(self, table: Table[K, V], key: K) -> V | None:
        """Implements ``View.get``."""
        at = row_key(self._generation, table.name, table.encode_key(key))
        raw = as_bytes(self._txn.get(at, db=self._image_db))
        return None if raw is None else table.decode_value(raw)

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """Implements ``View.items``."""
        return self.scan(table)

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """Implements ``View.scan``."""
        at = None if after is None else table.encode_key(after)
        prefix = table_prefix(self._generation, table.name)
        for key, value in scan_rows(self._txn, self._image_db, prefix, at):
            yield table.decode_key(key), table.decode_value(value)

    def meta_get(self, name: str) -> bytes | None:
        """The value stored under a name, or None."""
        return as_bytes(self._txn.get(name.encode(), db=self._meta_db))

    def applied(self) -> tuple[LogIndex, Term]:
        """Raft index and term of the last entry in the image; before the first, of the sentinel: (1, 0)."""
        raw = self.meta_get(APPLIED)
        if raw is None:
            return LogIndex(1), Term(0)
        return msgspec.msgpack.decode(raw, type=tuple[LogIndex, Term])

    def journal_end(self) -> tuple[LogIndex, Term]:
        """Raft index and term of the last entry in the journal, committed or not; (1, 0) if it is empty."""
        cursor = self._txn.cursor(db=self._journal_db)
        if not cursor.last():
            return LogIndex(1), Term(0)
        (index,), (term,) = JOURNAL_KEY.unpack(cursor.key()), JOURNAL_TERM.unpack_from(cursor.value())
        return LogIndex(index), Term(term)

    def journal_after(self, index: LogIndex) -> Iterator[bytes]:
        """The commands after ``index``, in order, committed or not. Raises CorruptData on a gap."""
        cursor = self._txn.cursor(db=self._journal_db)
        if not cursor.set_range(JOURNAL_KEY.pack(index + 1)):
            return
        for expected, (key, value) in enumerate(cursor, start=index + 1):
            (found,) = JOURNAL_KEY.unpack(key)
            if found != expected:
                raise CorruptData(f"the journal has a gap: expected index {expected}, found {found}")
            yield bytes(value[JOURNAL_TERM.size :])

    def rows(self) -> Iterator[Row]:
        """Every row of every table, ordered by table name and encoded key."""
        for name in sorted(TABLES):
            for key, value in scan_rows(self._txn, self._image_db, table_prefix(self._generation, name)):
                yield name, key, value

    def digest(self) -> str:
        """SHA-256 over header and rows, hex. Equal images have equal digests (I3)."""
        return digest_of(self.header, self.rows())


STORE: Final = "store"  # below a node's directory: the LMDB environment


def is_written(directory: Path) -> bool:
    """There is a store: a file without a byte is none, of which the first commit writes pages."""
    file = directory / "data.mdb"
    return file.exists() and file.stat().st_size > 0


@contextmanager
def read_store(directory: Path) -> Iterator[Reader]:
    """Read a store from another process, while its node runs or not.

    Raises FileNotFoundError if there is none. Never writes: an offline command may run as another user.
    """
    if not is_written(directory):
        raise FileNotFoundError(f"{directory} holds no store (data.mdb is missing or empty)")
    env = lmdb.open(str(directory), readonly=True, max_dbs=8, map_size=MAP_BYTES, readahead=False)
    try:
        meta_db, image_db, journal_db = (_existing(env, name) for name in (b"meta", b"image", b"journal"))
        with env.begin() as txn:
            yield Reader(txn, meta_db, image_db, journal_db)
    finally:
        env.close()


def _existing(env: lmdb.Environment, name: bytes) -> Any:
    # Without a transaction of ours: lmdb forgets a handle that a read transaction opened, once it ends.
    try:
        return env.open_db(name, create=False)
    except lmdb.NotFoundError as error:
        raise CorruptData(f"{env.path()} is not a fencepost store: no table {name.decode()}") from error


def digest_of(header: ImageHeader, rows: Iterator[Row]) -> str:
    """SHA-256 over a header and rows in order, hex."""
    hasher = hashlib.sha256(msgspec.msgpack.encode(header))
    update, length = hasher.update, _LENGTH.pack
    for name, key, value in rows:
        table = name.encode()
        update(b"".join((length(len(table)), table, length(len(key)), key, length(len(value)), value)))
    return hasher.hexdigest()
