"""Where each byte of an LMDB file is, by what it is for: of the pages that the last commit reaches.

Layout    of LMDB 0.9 (data version 1, mdb.c), little-endian, as snapshots/store_pages.py has it checked: a
          page's header is its number u64 | unused u16 | kind u16 | lower u16 | upper u16; behind it are
          pointers to the nodes, which grow down from the end. A node: data length or child u32, flags u16,
          key length u16, key, data. The free list and the tables hang below the newer of two meta pages.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = 4096
HEADER: Final = 16
NODE: Final = 8
BRANCH, LEAF, OVERFLOW, BIG_DATA, SUB_DATA = 1, 2, 4, 1, 2
TABLE_FIELDS: Final = (
    ("pad", 4), ("flags", 2), ("depth", 2), ("branch pages", 8), ("leaf pages", 8), ("overflow pages", 8),
    ("entries", 8), ("root", 8),
)  # fmt: skip
META_FIELDS: Final = {
    "magic": 4, "version": 4, "unused address": 8, "unused map size": 8,  # each start says its own
    **{f"free list {name}" if size != 4 else "page size": size for name, size in TABLE_FIELDS},
    **{f"tables {name}" if size != 4 else "pad of tables": size for name, size in TABLE_FIELDS},
    "last page": 8, "transaction": 8,
}  # fmt: skip
OF_BOTH: Final = ("magic", "version", "page size", "transaction")
"""What is read of the meta page that is not the newer one, too."""
DB_AT: Final = {"free list": 24, "tables": 72}  # in a meta page, behind its header
TRANSACTION_AT: Final = 128
ROOT_AT: Final = 40
NO_PAGE: Final = 2**64 - 1


class Span(NamedTuple):
    """Bytes ``first`` to ``end`` of the file."""

    kind: str
    first: int
    end: int


def spans(file: Path) -> Iterator[Span]:
    """All that the last commit reaches, and both meta pages. The file must be a sound one."""
    raw = file.read_bytes()
    newest = max((0, 1), key=lambda page: _number(raw, page * PAGE + HEADER + TRANSACTION_AT, 8))
    for page in (0, 1):
        yield from _header(page * PAGE, "meta")
        at = page * PAGE + HEADER
        for name, size in META_FIELDS.items():
            if page != newest and name not in OF_BOTH:
                kind = f"unused of the earlier meta page: {name}"
            elif page != newest and name == "transaction":
                kind = "earlier transaction"  # of which a later one counts
            else:
                kind = name if name.startswith(("unused", "pad")) else f"meta page {name}"
            yield Span(kind, at, at + size)
            at += size
    for name, at in DB_AT.items():
        root = _number(raw, newest * PAGE + HEADER + at + ROOT_AT, 8)
        yield from _tree(raw, root, name)


def pages(file: Path) -> set[int]:
    """The numbers of those that the last commit reaches."""
    return {span.first // PAGE for span in spans(file)}


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")


def _tree(raw: bytes, page: int, table: str) -> Iterator[Span]:
    if page == NO_PAGE:
        return
    at = page * PAGE
    of_page, lower, upper = struct.unpack_from("<HHH", raw, at + 10)
    name = "branch" if of_page & BRANCH else "leaf"
    yield from _header(at, name)
    pointers = [at + HEADER + 2 * number for number in range((lower - HEADER) // 2)]
    for number, pointer in enumerate(pointers):
        yield Span(f"{name} pointer", pointer, pointer + 2)
        node = at + _number(raw, pointer, 2)
        low, flags, size = struct.unpack_from("<IHH", raw, node)
        if of_page & BRANCH:
            yield Span("branch child", node, node + 6)
            yield Span("branch key length", node + 6, node + NODE)
            if size:
                first = number == 0  # its key is never compared
                kind = "unused first separator" if first else "separator"
                yield Span(kind, node + NODE, node + NODE + size)
            yield from _tree(raw, low | flags << 32, table)
            continue
        yield Span("overflow value length" if flags & BIG_DATA else "leaf node data length", node, node + 4)
        yield Span("leaf node flags", node + 4, node + 6)
        yield Span("leaf node key length", node + 6, node + NODE)
        key, data = node + NODE, node + NODE + size
        yield Span(f"{table} key", key, data)
        if flags & BIG_DATA:
            yield Span("leaf node overflow page", data, data + 8)
            yield from _overflow(raw, _number(raw, data, 8), low, table)
            continue
        if flags & SUB_DATA:
            for field, length in TABLE_FIELDS:
                kind = f"table {field}" if field != "pad" else "pad of a table"  # read where it is large
                yield Span(kind, data, data + length)
                data += length
            yield from _tree(raw, _number(raw, data - 8, 8), raw[key : key + size].decode())
            continue
        yield Span(f"{table} value", data, data + low)
    if lower < upper:
        yield Span("unused space of a page", at + lower, at + upper)


def _header(at: int, name: str) -> Iterator[Span]:
    yield Span(f"{name} page number", at, at + 8)
    yield Span("unused page header", at + 8, at + 10)
    if name == "meta":
        yield Span("meta page kind", at + 10, at + 11)  # of which one bit is read
        yield Span("unused page header", at + 11, at + HEADER)
        return
    yield Span(f"{name} page kind", at + 10, at + 12)
    if name == "overflow":
        yield Span("overflow pages", at + 12, at + HEADER)
    else:
        yield Span(f"{name} page lower", at + 12, at + 14)
        yield Span(f"{name} page upper", at + 14, at + HEADER)


def _overflow(raw: bytes, page: int, size: int, table: str) -> Iterator[Span]:
    at = page * PAGE
    yield from _header(at, "overflow")
    first = at + HEADER
    yield Span(f"{table} value", first, first + size)
    end = at + _number(raw, at + 12, 4) * PAGE
    if first + size < end:
        yield Span("unused space of a page", first + size, end)
