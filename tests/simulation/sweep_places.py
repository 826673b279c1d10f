"""What a sweep flips: every header byte of a node's files, and one byte of every row, entry and field.

Store     by its pages (page_layout.py): of each page's header every byte, of the meta pages every byte, of
          each node a byte of its key, of its value and of its pointer or header, another for each node; of
          unused space one byte of each piece.
Beside    archive segments and their sums, snapshots, the clock's file: of text a byte of each name and each
          value, of a batch's header every byte, of its records and of rows one of each.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.records.batch_layout import HEADER_BYTES, size_at
from tests.harness.page_layout import spans

WHOLE: Final = (
    "meta page", "unused of the earlier", "leaf page", "branch page", "overflow page", "unused page header",
    "table ", "pad of", "earlier transaction",
)  # fmt: skip
"""Begins of the names of structures of which every byte is flipped."""
BITS: Final = {"meta page kind": range(3, 4)}
"""Those that are read, where others are not."""
UNUSED: Final = "unused"
EITHER: Final = ("pad of", "earlier transaction", "separator", "meta page last page")  # larger: lost room
"""Begins of the names of structures of which some bits are read, and others are not."""
NODE_FIELDS: Final = ("pointer", "data length", "node flags", "key length", "child")
STATE_STEP: Final = 96  # a row of a snapshot's state takes more
RECORDS_STEP: Final = 64  # as does a record of its checkpoint
_WORDS: Final = re.compile(rb'"[^"]*"|[-\d.]+|[{}\[\],:]')


class Place(NamedTuple):
    """A bit of a file below a node's directory. ``structure``: what it is part of."""

    structure: str
    file: str
    at: int
    bit: int


def places(directory: Path) -> dict[str, list[Place]]:
    """Of a node's directory, by structure, in a fixed order."""
    found: dict[str, list[Place]] = defaultdict(list)
    of_files = (_of_store, _of_archive, _of_snapshots, _of_clock)
    for structure, path, at in (byte for each in of_files for byte in each(directory)):
        bits = BITS.get(structure, range(8))
        number = len(found[structure])
        name = str(path.relative_to(directory))
        found[structure].append(Place(structure, name, at, bits[number % len(bits)]))
    return dict(found)


_Byte = tuple[str, Path, int]


def _of_store(directory: Path) -> Iterator[_Byte]:
    file = directory / "store/data.mdb"
    fields = 0
    for number, span in enumerate(spans(file)):
        if span.kind.startswith(WHOLE):
            yield from ((span.kind, file, at) for at in range(span.first, span.end))
            continue
        if span.kind.endswith(NODE_FIELDS):
            fields += 1
            if fields % len(NODE_FIELDS):
                continue
        yield span.kind, file, span.first + number % (span.end - span.first)


def _of_clock(directory: Path) -> Iterator[_Byte]:
    path = directory / "clock.json"
    if path.exists():
        yield from (("clock", path, at) for at in _of_text(path.read_bytes()))


def _of_archive(directory: Path) -> Iterator[_Byte]:
    for folder in sorted((directory / "archive").iterdir()):
        paths = sorted(folder.glob("*.log"))
        for path in paths:
            batches = list(_batches(path.read_bytes()))
            for batch, (first, end) in enumerate(batches):
                is_whole = (path, batch) in ((paths[0], 0), (paths[-1], len(batches) - 1))
                step = 1 if is_whole else HEADER_BYTES  # else one, another in each batch
                begin = first + (0 if is_whole else batch % HEADER_BYTES)
                for at in range(begin, first + HEADER_BYTES, step):
                    yield "archive batch header", path, at
                yield "archive records", path, first + HEADER_BYTES + batch % (end - first - HEADER_BYTES)
        for number, path in enumerate(sorted(folder.glob("*.checksums"))):
            for at in range(path.stat().st_size) if number == 0 else (number,):
                yield "archive sums", path, at
        for path in folder.glob("holes.json"):
            yield from (("archive holes", path, at) for at in _of_text(path.read_bytes()))


def _of_snapshots(directory: Path) -> Iterator[_Byte]:
    folders = sorted((directory / "snapshots").glob("*-*"))
    for folder in folders:
        for path in sorted(folder.iterdir()):
            raw = path.read_bytes()
            if path.name == "manifest":
                yield from (("snapshot manifest", path, at) for at in _of_text(raw))
            elif path.name == "state":
                yield from (("snapshot state", path, at) for at in range(0, len(raw), STATE_STEP))
            else:
                for number, (first, _) in enumerate(_batches(raw)):
                    is_whole = number == 0 and folder == folders[-1]
                    offsets = range(HEADER_BYTES) if is_whole else (number % HEADER_BYTES,)
                    yield from (("snapshot batch header", path, first + at) for at in offsets)
                yield from (("snapshot records", path, at) for at in range(0, len(raw), RECORDS_STEP))


def _batches(raw: bytes) -> Iterator[tuple[int, int]]:
    first = 0
    while first + HEADER_BYTES < len(raw):
        end = first + size_at(raw, first)
        yield first, end
        first = end


def _of_text(raw: bytes) -> Iterator[int]:
    """A byte of each word, and of the white space behind them."""
    for number, word in enumerate(_WORDS.finditer(raw)):
        yield word.start() + number % (word.end() - word.start())
    yield len(raw) - 1
