"""Where bits of a node's files are flipped: places by structure, drawn by a seed.

Structures  of the store by its pages (tests/harness/page_layout.py): headers, pointers, nodes, rows of each
            table, unused space; archive, snapshots, segments of a partition and their indexes, of a compacted
            one, too, small files.
"""

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.harness.page_layout import spans

TORN_READS_MAX: Final = 50  # of the file of a running node
TOPIC: Final = "flips"
COMPACTED: Final = "compacted"
SMALL_FILES: Final = (
    "meta.properties", "meta.properties.copy", "clock.json", "bootstrap.json", "hosted-logs",
    "log-start-offset-checkpoint", "log-start-offset-checkpoint.copy", "cleaner-offset-checkpoint",
    ".lock", ".kafka_cleanshutdown", "store-starts",
)  # fmt: skip
OF_PARTITIONS: Final = (
    ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checksums", "leader-epoch-checkpoint",
    "partition.metadata",
)  # fmt: skip
OF_COMPACTED: Final = (".log", ".checksums", "cleaned.metadata", "cleaned.metadata.copy")


def _of_store(*kinds: str) -> Callable[[Path, random.Random], Iterator[tuple[Path, int]]]:
    """A byte of one of the spans whose kind begins so."""

    def places(home: Path, rng: random.Random) -> Iterator[tuple[Path, int]]:
        file = home / "store" / "data.mdb"
        for _ in range(TORN_READS_MAX):
            try:
                found = [span for span in spans(file) if span.kind.startswith(kinds)]
            except (struct.error, ValueError, RecursionError):  # it was written meanwhile
                continue
            if found:
                span = rng.choice(found)
                yield file, rng.randrange(span.first, span.end)
            return

    return places


def _bytes_of(pattern: str) -> Callable[[Path, random.Random], Iterator[tuple[Path, int]]]:
    def places(home: Path, rng: random.Random) -> Iterator[tuple[Path, int]]:
        files = sorted(each for each in home.glob(pattern) if each.is_file() and each.stat().st_size)
        if files:
            file = rng.choice(files)
            yield file, rng.randrange(file.stat().st_size)

    return places


STRUCTURES: Final[dict[str, Callable[[Path, random.Random], Iterator[tuple[Path, int]]]]] = {
    "meta page": _of_store("meta page"),
    "unused of the earlier meta page": _of_store("unused of the earlier meta page"),
    "branch page": _of_store("branch"),
    "leaf page header": _of_store("leaf page"),
    "leaf page node": _of_store("leaf pointer", "leaf node"),
    "overflow page": _of_store("overflow"),
    "unused space of a page": _of_store("unused space of a page"),
    "free list": _of_store("free list"),
    "record of a table": _of_store("table ", "tables key"),
    **{f"row of {table}": _of_store(f"{table} ") for table in ("meta", "journal", "image", "sums")},
    "archive": _bytes_of("archive/*/*.log"),
    "archive index": _bytes_of("archive/*/*index"),
    **{f"snapshot {name}": _bytes_of(f"snapshots/*/{name}*") for name in ("manifest", "state", "0")},
    **{f"partition {name}": _bytes_of(f"{TOPIC}-*/*{name}") for name in OF_PARTITIONS},
    **{f"compacted {name}": _bytes_of(f"{COMPACTED}-*/*{name}") for name in OF_COMPACTED},
    **{f"file {name}": _bytes_of(name) for name in SMALL_FILES},
}
