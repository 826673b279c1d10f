"""Where bits of a node's files are flipped: places by structure, drawn by a seed.

Structures  pages of the store by their kind and part (headers, pointers, what they hold, unused space), rows
            of each of its tables, archive, snapshots, segments of a partition and their indexes, of a
            compacted one, too, small files.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import lmdb

from fencepost.snapshots.reader import MAP_BYTES

PAGE: Final = 4096
PAGE_HEADER: Final = 16  # page number 8, unused 2, kind 2, lower 2, upper 2
KINDS: Final = {1: "branch", 2: "leaf", 4: "overflow", 8: "meta"}
TOPIC: Final = "flips"
COMPACTED: Final = "compacted"
SMALL_FILES: Final = (
    "meta.properties", "meta.properties.copy", "clock.json", "bootstrap.json", "hosted-logs",
    "log-start-offset-checkpoint", "log-start-offset-checkpoint.copy", "cleaner-offset-checkpoint",
    ".lock", ".kafka_cleanshutdown",
)  # fmt: skip
OF_PARTITIONS: Final = (
    ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checksums", "leader-epoch-checkpoint",
    "partition.metadata",
)  # fmt: skip
OF_COMPACTED: Final = (".log", ".checksums", "cleaned.metadata", "cleaned.metadata.copy")


def _pages(home: Path, rng: random.Random, kind: str, part: str) -> Iterator[tuple[Path, int]]:
    """Where to flip, in a random order, one page after the other."""
    file = home / "store" / "data.mdb"
    raw = file.read_bytes()
    pages = list(range(len(raw) // PAGE))
    rng.shuffle(pages)
    for page in pages:
        header = raw[page * PAGE : page * PAGE + PAGE_HEADER]
        flags = int.from_bytes(header[10:12], "little")
        if int.from_bytes(header[:8], "little") != page or KINDS.get(flags & 0xF) != kind:
            continue
        lower, upper = (int.from_bytes(header[at : at + 2], "little") for at in (12, 14))
        first, end = {
            "header": (0, PAGE_HEADER),
            "pointers": (PAGE_HEADER, lower),
            "nodes": (upper, PAGE),
            "unused": (lower, upper),
            "content": (PAGE_HEADER, PAGE_HEADER + 136 if kind == "meta" else PAGE),
        }[part]
        if PAGE_HEADER <= first < end <= PAGE or part == "header":
            yield file, page * PAGE + rng.randrange(first, end)


def _bytes_of(pattern: str) -> Callable[[Path, random.Random], Iterator[tuple[Path, int]]]:
    def places(home: Path, rng: random.Random) -> Iterator[tuple[Path, int]]:
        files = sorted(each for each in home.glob(pattern) if each.is_file() and each.stat().st_size)
        if files:
            file = rng.choice(files)
            yield file, rng.randrange(file.stat().st_size)

    return places


def _row(table: str) -> Callable[[Path, random.Random], Iterator[tuple[Path, int]]]:
    """A byte of a row: found by its value, which must be there once or be the newest of its copies."""

    def places(home: Path, rng: random.Random) -> Iterator[tuple[Path, int]]:
        env = lmdb.open(str(home / "store"), max_dbs=8, map_size=MAP_BYTES, readonly=True, lock=False)
        try:
            with env.begin() as txn:
                db = env.open_db(table.encode(), txn=txn, create=False)
                rows = [(bytes(key), bytes(value)) for key, value in txn.cursor(db=db)]
        finally:
            env.close()
        rng.shuffle(rows)
        raw = (home / "store" / "data.mdb").read_bytes()
        for key, value in rows:
            at = raw.find(key + value)
            if at >= 0:
                yield home / "store" / "data.mdb", at + rng.randrange(len(key + value))

    return places


STRUCTURES: Final[dict[str, Callable[[Path, random.Random], Iterator[tuple[Path, int]]]]] = {
    **{
        f"page {kind} {part}": lambda home, rng, kind=kind, part=part: _pages(home, rng, kind, part)  # type: ignore[misc]
        for kind, parts in {
            "meta": ("header", "content"),
            "branch": ("header", "pointers", "nodes", "unused"),
            "leaf": ("header", "pointers", "nodes", "unused"),
            "overflow": ("header", "content"),
        }.items()
        for part in parts
    },
    **{f"row of {table}": _row(table) for table in ("meta", "journal", "image", "sums")},
    "archive": _bytes_of("archive/*/*.log"),
    "archive index": _bytes_of("archive/*/*index"),
    **{f"snapshot {name}": _bytes_of(f"snapshots/*/{name}*") for name in ("manifest", "state", "0")},
    **{f"partition {name}": _bytes_of(f"{TOPIC}-*/*{name}") for name in OF_PARTITIONS},
    **{f"compacted {name}": _bytes_of(f"{COMPACTED}-*/*{name}") for name in OF_COMPACTED},
    **{f"file {name}": _bytes_of(name) for name in SMALL_FILES},
}
