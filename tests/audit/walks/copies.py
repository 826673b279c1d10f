"""Directories with copies of a log, as rows: sound unless a test changes them."""

import copy as copying
from typing import Any

from fencepost.audit.walks.copies import COPIES
from fencepost.audit.walks.copy import COPY
from tests.audit.walks.feed import Row, feed

TOPIC = "orders"
BEGAN_MS = 1_700_000_000_000


class Directory:
    """One node's copy of a partition: batches of ten records, one after the other."""

    def __init__(
        self, node: int = 1, *, topic: str = TOPIC, partition: int = 0, archive: bool = False
    ) -> None:
        self.node, self.topic, self.partition = node, topic, partition
        self.name = f"/n{node}/{'archive' if archive else 'data'}/{topic}-{partition}"
        self.segment = 0
        self.batches: list[Row] = []
        self.facts: list[Row] = []
        self.end = 0
        self._position = 0

    @property
    def path(self) -> str:
        return f"{self.name}/{self.segment:020}.log"

    def roll(self) -> None:
        """The next batch is the first of a new segment."""
        self.segment, self._position = self.end, 0

    def add(self, count: int = 10, *, at: int | None = None, **columns: Any) -> Row:
        """A batch at the end, or of offset ``at``."""
        base = self.end if at is None else at
        row = {
            "topic": self.topic, "partition": self.partition, "copy": self.name, "rank": 1, "path": self.path,
            "position": self._position, "node": self.node, "size": 100, "base_offset": base,
            "last_offset": base + count - 1, "leader_epoch": 1, "crc": 31 * base + 7, "attributes": 0,
            "base_timestamp_ms": BEGAN_MS + base, "max_timestamp_ms": BEGAN_MS + base, "producer_id": -1,
            "producer_epoch": -1, "base_sequence": -1, "record_count": count, **columns,
        }  # fmt: skip
        self._position += row["size"]
        if at is None:
            self.end = base + count
        self.batches.append(row)
        return row

    def fill(self, batches: int, **columns: Any) -> "Directory":
        for _ in range(batches):
            self.add(**columns)
        return self

    def fact(self, item: str, first: int | None = None, second: int | None = None, path: str = "") -> None:
        self.facts.append({
            "topic": self.topic, "partition": self.partition, "copy": self.name, "rank": 0, "path": path,
            "position": len(self.facts), "node": self.node, "item": item, "first": first, "second": second,
        })  # fmt: skip

    def on(self, node: int) -> "Directory":
        """The same on another node."""
        other = copying.deepcopy(self)
        other.node, other.name = node, self.name.replace(f"/n{self.node}/", f"/n{node}/")
        for row in (*other.batches, *other.facts):
            row["node"], row["copy"] = node, other.name
            row["path"] = row["path"].replace(f"/n{self.node}/", f"/n{node}/")
        return other

    def rows(self) -> list[Row]:
        segments = sorted({row["path"] for row in self.batches})
        facts = [
            {**self._fact(), "path": path, "item": "segment", "first": int(path[-24:-4]), "second": 0}
            for path in segments
        ]
        return [*facts, *self.facts, *self.batches]

    def _fact(self) -> Row:
        return {"topic": self.topic, "partition": self.partition, "copy": self.name, "rank": 0, "position": 0,
                "node": self.node}  # fmt: skip


def judged(*directories: Directory, sizes: tuple[int, ...] = (1_000_000,)) -> list[Row]:
    """What the two walks over copies give."""
    placed = feed(COPY, [row for each in directories for row in each.rows()], sizes)
    return feed(COPIES, placed, sizes)


def log_of(rows: list[Row]) -> Row:
    """The one row of kind "log"."""
    (row,) = [row for row in rows if row["kind"] == "log"]
    return row


def offsets(rows: list[Row]) -> list[int]:
    """Of the log's batches that stand in their place."""
    return [row["base_offset"] for row in rows if row["kind"] == "batch"]
