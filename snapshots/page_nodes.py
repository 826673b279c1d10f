"""Rules of an LMDB file's pages that lmdb.verify does not look at, or not as mdb.c keeps them.

Nodes      of a page lie one behind the other, to its end (mdb_node_add, mdb_node_del): one whose length
           changed covers others, or leaves a gap. LMDB reads on, and writes wrong pages once it moves nodes.
Keys       of a branch page lie between those below it on both sides: else a key that is there is not found.
Overflow   pages of a value are as many as it needs, or more: one that a transaction writes again, shorter,
           keeps what it has (mdb_cursor_put). A table's record has their sum.
Flags      of a table say how keys are compared, and more: of a store's tables none has one, but for the free
           list, whose keys are numbers. Of a node: its value overflows, or is a table's record.
Newest     of the two meta pages is the one with the later transaction, whose number nothing covers: with a
           bit of it changed LMDB takes the store as it was one commit ago. But the free list of each names,
           last, the transaction itself (mdb_freelist_save).

Cost: half a microsecond for each row. Layout: LMDB 0.9 (data version 1), which store_pages.py has checked.
"""

import os
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from fencepost.records.invariant import CorruptData
from fencepost.records.named_errors import naming

HEADER: Final = 16
NODE: Final = 8
BRANCH: Final = 1
LEAF: Final = 2
OVERFLOWS: Final = 1  # flag of a node: the data is on pages of its own
IS_TABLE: Final = 2  # flag of a node: the data is a table's record
TABLE_BYTES: Final = 48
FREE_AT: Final = HEADER + 24  # the free list's record in a meta page
TABLES_AT: Final = FREE_AT + TABLE_BYTES  # that of the tree of all tables
TRANSACTION_AT: Final = TABLES_AT + TABLE_BYTES + 8
NUMBERS: Final = 8  # flag of a table, the free list: its keys are
NO_PAGE: Final = 2**64 - 1
DEPTH_MAX: Final = 32

_HEAD: Final = struct.Struct("=10xHHH")  # kind, where pointers end, where nodes begin
_OVERFLOW: Final = struct.Struct("=12xI")  # how many pages
_NODE: Final = struct.Struct("=IHH")  # length of data, or child; flags; length of key
_NUMBER: Final = struct.Struct("=Q")
_SIZE: Final = struct.Struct("=40xI")  # of a page, in a meta page
_TABLE: Final = struct.Struct("=4xH18xQQQ")  # flags, overflow pages, entries, root: TABLE_BYTES


class _Tree(NamedTuple):
    flags: int
    overflow_pages: int
    entries: int
    root: int


class _Meta(NamedTuple):
    page: int
    transaction: int
    free: _Tree
    tables: _Tree


class _Pages:
    """Of one file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = int(_SIZE.unpack(os.pread(descriptor, _SIZE.size, 0))[0])
        self._end = os.fstat(descriptor).st_size // self.size

    def read(self, page: int) -> bytes:
        """Nothing of a page behind the file's end, whose place may be more than the system takes."""
        return os.pread(self._descriptor, self.size, page * self.size) if page < self._end else b""

    def meta(self, page: int) -> _Meta:
        raw = self.read(page)
        free, tables = (_Tree(*_TABLE.unpack_from(raw, at)) for at in (FREE_AT, TABLES_AT))
        return _Meta(page, _NUMBER.unpack_from(raw, TRANSACTION_AT)[0], free, tables)


def require_whole_pages(file: Path) -> dict[bytes, int]:
    """Of a file whose pages keep the other rules. Raises CorruptData naming the page, OSError.

    Returns how many entries each table has, by its name.
    """
    with naming(file), file.open("rb") as stream:
        pages = _Pages(stream.fileno())
        earlier, newest = sorted((pages.meta(0), pages.meta(1)), key=lambda meta: meta.transaction)
        _require_newest(newest, earlier, pages)
        _require_tree(newest.free, pages, flags=NUMBERS)
        records = _require_tree(newest.tables, pages, flagged=IS_TABLE)
        tables = {name: _Tree(*_TABLE.unpack(record)) for name, record in records.items()}
        for tree in tables.values():
            _require_tree(tree, pages)
    return {name: tree.entries for name, tree in tables.items()}


def _require_newest(newest: _Meta, earlier: _Meta, pages: _Pages) -> None:
    last, before = (_last_freed(meta.free.root, pages) for meta in (newest, earlier))
    wrong = newest if last not in (None, newest.transaction) else earlier
    if wrong is newest or (before is not None and before > newest.transaction):
        freed = last if wrong is newest else before
        raise CorruptData(
            f"page {wrong.page} says transaction {wrong.transaction}, and its free list ends with {freed}"
        )


def _require_tree(tree: _Tree, pages: _Pages, *, flags: int = 0, flagged: int = 0) -> dict[bytes, bytes]:
    """Returns keys and values with that flag; others must have none. Raises CorruptData."""
    if tree.flags != flags:
        raise CorruptData(f"the tree of page {tree.root} has flags {tree.flags:#x}, expected {flags:#x}")
    walk = _Walk(pages, flagged, _number if flags & NUMBERS else bytes)
    if tree.root != NO_PAGE:
        walk.page(tree.root)
    if walk.overflow_pages != tree.overflow_pages:
        said = f"its record says {tree.overflow_pages}"
        raise CorruptData(f"the tree of page {tree.root} has {walk.overflow_pages} overflow pages, {said}")
    return walk.found


def _number(key: bytes) -> int:
    return int.from_bytes(key, sys.byteorder)


class _Walk:
    """Over one tree. ``order``: what its keys are compared by."""

    def __init__(self, pages: _Pages, flagged: int, order: Callable[[bytes], Any]) -> None:
        self._pages = pages
        self._flagged = flagged
        self._order = order
        self.overflow_pages = 0
        self.found: dict[bytes, bytes] = {}

    def page(self, page: int) -> tuple[bytes, bytes]:
        """Returns the first and the last key below it. Raises CorruptData."""
        raw = self._pages.read(page)
        kind, lower, at = _HEAD.unpack_from(raw)
        if kind not in (BRANCH, LEAF) or lower % 2 or lower == HEADER:
            raise CorruptData(f"page {page} is of kind {kind}, and its pointers end at {lower}")
        pointers = struct.unpack_from(f"={(lower - HEADER) // 2}H", raw, HEADER)
        for pointer in sorted(pointers):
            if pointer != at:
                raise CorruptData(f"page {page}: a node begins at {pointer}, expected {at}")
            low, flags, key = _NODE.unpack_from(raw, at)
            at += NODE + key
            if kind == LEAF:
                at += self._value(raw, at, low, flags, key)
            at += at & 1
        if at != self._pages.size:
            raise CorruptData(f"page {page}: its nodes end at {at}, expected {self._pages.size}")
        if kind == BRANCH:
            return self._below(raw, pointers)
        return _key(raw, pointers[0]), _key(raw, pointers[-1])

    def _value(self, raw: bytes, at: int, length: int, flags: int, key: int) -> int:
        """How many bytes it takes here. ``key``: how many its key has, before it."""
        if flags == self._flagged:
            if flags:
                self.found[raw[at - key : at]] = raw[at : at + TABLE_BYTES]
            return length
        if flags != OVERFLOWS:
            raise CorruptData(f"a node has flags {flags:#x}, expected {self._flagged:#x}")
        head = self._pages.read(_NUMBER.unpack_from(raw, at)[0])
        self.overflow_pages += _OVERFLOW.unpack_from(head)[0]
        return _NUMBER.size

    def _below(self, raw: bytes, pointers: Sequence[int]) -> tuple[bytes, bytes]:
        """A branch page: of each child but the first the key lies between what is before it and in it."""
        first = last = b""
        for pointer in pointers:
            low, flags, _ = _NODE.unpack_from(raw, pointer)
            begin, end = self.page(low | flags << 32)
            if pointer == pointers[0]:
                first = begin
            elif not self._order(last) < self._order(_key(raw, pointer)) <= self._order(begin):
                raise CorruptData(f"a key that leads to page {low} is not between those on its sides")
            last = end
        return first, last


def _key(raw: bytes, pointer: int) -> bytes:
    _, _, size = _NODE.unpack_from(raw, pointer)
    return raw[pointer + NODE : pointer + NODE + size]


def _last_freed(page: int, pages: _Pages) -> int | None:
    """The transaction that a free list names last; None: there is none, or nothing that looks like one.

    ``page`` is its root, and may be any number: of the earlier meta page nothing is known to be sound.
    """
    for _ in range(DEPTH_MAX):
        raw = pages.read(page)
        if len(raw) < pages.size:
            return None
        kind, lower, _ = _HEAD.unpack_from(raw)
        if kind not in (BRANCH, LEAF) or not HEADER + 2 <= lower <= pages.size:
            return None
        at = int.from_bytes(raw[lower - 2 : lower], sys.byteorder)
        if at + NODE + 2 * _NUMBER.size > pages.size:
            return None
        low, flags, key = _NODE.unpack_from(raw, at)
        if kind == BRANCH:
            page = low | flags << 32
            continue
        transaction, where = _NUMBER.unpack_from(raw, at + NODE)[0], at + NODE + _NUMBER.size
        if flags & OVERFLOWS:
            raw, where = pages.read(_NUMBER.unpack_from(raw, where)[0]), HEADER
        count = int.from_bytes(raw[where : where + _NUMBER.size], sys.byteorder)
        is_list = key == _NUMBER.size and low == (count + 1) * _NUMBER.size
        return int(transaction) if is_list else None
    return None
