"""The image as decisions see it: typed tables, read through a view, changed only by replay.

View      read-only; ``decide_*`` gets one.
Overlay   a mutable view over another: reads fall through, writes stay in memory. The proposer
          stacks one on the image, so that each decision sees the records of those before it. What it
          remembers of one decision can be undone, as if that decision had never been replayed.
Order     ``items`` iterates in the order of encoded keys, the same on every node: what reaches a
          record, LMDB or a digest is never in hash order.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from fencepost.records.invariant import invariant
from fencepost.records.logged import ENTRY_COST_MAX
from fencepost.records.types import ImageVersion, Log, NodeId, Offset, Term

K = TypeVar("K")
V = TypeVar("V")

KEY_BYTES_MAX: Final = 480  # LMDB's limit is 511; a table prefix and a generation take some


class Table(Generic[K, V]):
    """A typed table of the image. ``encode_key`` must keep the order of keys.

    ``log``   whose records change it. Replay of a record reads and writes only tables of the record's own
              log, so it does not matter how records of several logs lie between each other in an entry.
    """

    __slots__ = ("decode_key", "decode_value", "encode_key", "encode_value", "log", "name")

    def __init__(
        self,
        name: str,
        value_type: type[V],
        encode_key: Callable[[K], bytes],
        decode_key: Callable[[bytes], K],
        *,
        log: Log = Log.METADATA,
    ) -> None:
        self.name = name
        self.log = log
        self.encode_key = encode_key
        self.decode_key = decode_key
        self.encode_value: Callable[[V], bytes] = msgspec.msgpack.Encoder().encode
        self.decode_value: Callable[[bytes], V] = msgspec.msgpack.Decoder(value_type).decode

    def __repr__(self) -> str:
        return f"Table({self.name})"


_U64 = struct.Struct(">Q")


def encode_int_key(key: int) -> bytes:
    """Eight bytes, big-endian, so that bytes order as numbers do. Bounds: 0 .. 2^64 - 1."""
    return _U64.pack(key)


def decode_int_key(key: bytes) -> int:
    """The number in a key. Inverse of ``encode_int_key``."""
    number: int = _U64.unpack(key)[0]
    return number


class ImageHeader(msgspec.Struct, frozen=True, array_like=True):
    """What fences entries and places records. It moves with every applied entry."""

    version: ImageVersion = ImageVersion(0)
    controller_epoch: Term = Term(0)  # of the last LeaderChange
    leader_id: NodeId = NodeId(-1)  # who proposed that LeaderChange
    log_ends: tuple[int, int, int] = (0, 0, 0)  # next offset of each Log, by its value

    def log_end(self, log: Log) -> Offset:
        """The offset that the next record of ``log`` gets."""
        return Offset(self.log_ends[log])


class View(Protocol):
    """Read access to the metadata image."""

    header: ImageHeader
    room: int
    """What the entry that is being decided still holds, in units of ``fencepost.records.logged.cost_of``."""

    def get(self, table: Table[K, V], key: K) -> V | None:
        """The value at ``key``, or None."""

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """Every row, in key order. For small tables only."""

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """Rows whose key is beyond ``after``, in key order: as cheap as the rows that are taken.

        Not to be used any more once the table was written to: begin another one.
        """


class MutableView(View, Protocol):
    """The image as ``replay`` sees it."""

    def put(self, table: Table[K, V], key: K, value: V) -> None:
        """Set the value at ``key``."""

    def delete(self, table: Table[K, V], key: K) -> None:
        """Remove ``key``; nothing happens if it is not there."""


DELETED: Final = object()
"""In an overlay's rows: the row below is deleted."""

_MISSING: Final = object()


class Overlay:
    """A mutable view over ``base``. Nothing reaches ``base`` until ``write_to``."""

    __slots__ = ("_base", "_rows", "_undo", "header", "room")

    def __init__(self, base: View) -> None:
        self._base = base
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {}
        self._undo: list[tuple[dict[Any, Any], Any, Any]] | None = None  # (rows, key, value before)
        self.header = base.header
        self.room = base.room

    def get(self, table: Table[K, V], key: K) -> V | None:
        """Implements ``View.get``."""
        rows = self._rows.get(table)
        if rows is not None:
            value = rows.get(key, _MISSING)
            if value is not _MISSING:
                return None if value is DELETED else value
        return self._base.get(table, key)

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """See View. Collected first, so that the caller may write while it walks."""
        return iter(list(self.scan(table)))

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """See View. Merges lazily; what was written here is sorted each time, so it should be little."""
        rows = self._rows.get(table)
        if not rows:
            yield from self._base.scan(table, after)
            return
        encode = table.encode_key
        start = None if after is None else encode(after)
        written = sorted((encode(key), key) for key in rows)
        if start is not None:
            written = written[bisect_right(written, start, key=itemgetter(0)) :]
        here = iter(written)
        mine = next(here, None)
        for key, value in self._base.scan(table, after):
            at = encode(key)
            while mine is not None and mine[0] < at:
                if rows[mine[1]] is not DELETED:
                    yield mine[1], rows[mine[1]]
                mine = next(here, None)
            if mine is not None and mine[0] == at:
                if rows[mine[1]] is not DELETED:
                    yield mine[1], rows[mine[1]]
                mine = next(here, None)
            else:
                yield key, value
        while mine is not None:
            if rows[mine[1]] is not DELETED:
                yield mine[1], rows[mine[1]]
            mine = next(here, None)

    def put(self, table: Table[K, V], key: K, value: V) -> None:
        """Implements ``MutableView.put``."""
        rows = self._rows.get(table)
        if rows is None:
            rows = self._rows[table] = {}
        if self._undo is not None:
            self._undo.append((rows, key, rows.get(key, _MISSING)))
        rows[key] = value

    def delete(self, table: Table[K, V], key: K) -> None:
        """Implements ``MutableView.delete``."""
        self.put(table, key, DELETED)  # type: ignore[misc]  # it is no V, and a cast is a call

    @property
    def rows(self) -> dict[Table[Any, Any], dict[Any, Any]]:
        """What was written here, by table and key; DELETED for a row that was removed."""
        return self._rows

    def has_written(self, table: Table[Any, Any]) -> bool:
        """A row of ``table`` was set or removed here."""
        return table in self._rows

    def begin(self) -> None:
        """What was written stays; remember every write from here on, so that ``undo`` can take it back."""
        self._undo = []

    def undo(self) -> None:
        """Take back what was written since ``begin``, in every table. The header is the caller's."""
        writes, self._undo = self._undo or [], None
        for rows, key, before in reversed(writes):
            if before is _MISSING:
                del rows[key]
            else:
                rows[key] = before

    def write_to(self, target: "Overlay") -> None:
        """Move every change to ``target``, which must have nothing to undo, and forget them here."""
        invariant(target._undo is None, "rows are moved to where they can be undone")
        for table, rows in self._rows.items():
            if rows:
                target._rows.setdefault(table, {}).update(rows)
        self._rows = {}
        target.header = self.header


class EntryOverlay(Overlay):
    """An overlay for the decisions of one entry: its base does not change meanwhile: a row is read once."""

    __slots__ = ("_read",)

    def __init__(self, base: View) -> None:
        super().__init__(base)
        self._read: dict[tuple[Table[Any, Any], Any], Any] = {}

    def get(self, table: Table[K, V], key: K) -> V | None:
        """See View."""
        rows = self._rows.get(table)
        if rows is not None:
            value = rows.get(key, _MISSING)
            if value is not _MISSING:
                return None if value is DELETED else value
        at = (table, key)
        value = self._read.get(at, _MISSING)
        if value is _MISSING:
            value = self._read[at] = self._base.get(table, key)
        return value  # type: ignore[no-any-return]


class EmptyView:
    """The image before the first entry: no rows, version 0."""

    def __init__(self) -> None:
        self.header = ImageHeader()
        self.room = ENTRY_COST_MAX

    def get(self, table: Table[K, V], key: K) -> V | None:
        """Implements ``View.get``."""
        return None

    def items(self, table: Table[K, V]) -> Iterator[tuple[K, V]]:
        """Implements ``View.items``."""
        return iter(())

    def scan(self, table: Table[K, V], after: K | None = None) -> Iterator[tuple[K, V]]:
        """Implements ``View.scan``."""
        return iter(())
