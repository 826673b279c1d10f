"""The partition logs under a directory as lists of batches that can be taken out, put in and changed.

Entry       one batch, an object of its own: a fault remembers entries; ``write`` tells where they lie.
Replicas    logs of one topic and partition on several nodes; the same change is made in each of them.
Whole       only sound logs are read: a seeder starts from directories that the audit calls clean.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crc32c import crc32c

from fencepost.records.batch import Batch, BatchHeader, batch_header, checked_header, decode_batch, stamp
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term

METADATA: Final = "__cluster_metadata"
STATES: Final = "__transaction_state"
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CHECKED_AT: Final = 21
_CRC: Final = struct.Struct(">I")


@dataclass(eq=False, slots=True)
class Entry:
    """A batch somewhere; two of the same bytes are two. ``path`` and ``position`` are set by ``write``.

    damaged   what is written in its place; who plants goes on to see what was there.
    """

    raw: bytes
    damaged: bytes | None = None
    path: Path | None = None
    position: int = -1

    @property
    def written(self) -> bytes:
        return self.raw if self.damaged is None else self.damaged

    @property
    def header(self) -> BatchHeader:
        return batch_header(self.raw)

    @property
    def is_marker(self) -> bool:
        header = self.header
        return header.is_control and header.is_transactional

    @property
    def is_data(self) -> bool:
        header = self.header
        return not header.is_control and header.producer_id >= 0

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch."""
        header = self.header
        return header.producer_id, header.producer_epoch

    def batch(self) -> Batch:
        """Opened; raises CorruptData if it is compressed."""
        return decode_batch(self.raw)[0]


@dataclass(eq=False, slots=True)
class Segment:
    """A file; ``tail`` is what follows its last batch."""

    path: Path
    entries: list[Entry]
    tail: bytes = b""


@dataclass(eq=False, slots=True)
class Log:
    """One partition on one node."""

    folder: Path
    node: int
    topic: str
    partition: int
    segments: list[Segment] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        return [entry for segment in self.segments for entry in segment.entries]

    @property
    def end(self) -> int:
        """The offset after the last batch."""
        entries = self.entries
        return entries[-1].header.end if entries else 0

    def find(self, base_offset: int) -> Entry | None:
        field = base_offset.to_bytes(8, "big", signed=True)  # the first of a batch
        return next((each for each in self.entries if each.raw.startswith(field)), None)

    def index(self, entry: Entry) -> int:
        return next(index for index, each in enumerate(self.entries) if each is entry)

    def neighbours(self, entry: Entry) -> tuple[Entry, ...]:
        """The entry, the one before and the one after, as far as there are."""
        index = self.index(entry)
        return tuple(self.entries[max(0, index - 1) : index + 2])

    def remove(self, entry: Entry) -> None:
        self._segment(entry).entries.remove(entry)  # by identity: entries have no other equality

    def insert_after(self, place: Entry, entry: Entry) -> None:
        entries = self._segment(place).entries
        entries.insert(entries.index(place) + 1, entry)

    def shift_after(self, entry: Entry, by: int) -> None:
        """Move the offsets of all that follows; the later files get the names that follow."""
        entries = self.entries
        later = entries[self.index(entry) + 1 :]
        for each in later:
            header = each.header
            each.raw = stamp(each.raw, Offset(header.base_offset + by), Term(header.leader_epoch))
        for segment in self.segments[self.segments.index(self._segment(entry)) + 1 :]:
            name = segment.path.with_name(f"{int(segment.path.stem) + by:020}.log")
            segment.path.rename(name)
            segment.path = name

    def write(self) -> None:
        for segment in self.segments:
            position = 0
            for entry in segment.entries:
                entry.path, entry.position = segment.path, position
                position += len(entry.written)
            segment.path.write_bytes(b"".join(each.written for each in segment.entries) + segment.tail)

    def _segment(self, entry: Entry) -> Segment:
        return next(each for each in self.segments if any(one is entry for one in each.entries))


@dataclass(eq=False, slots=True)
class Tree:
    """All logs under a directory."""

    root: Path
    logs: list[Log]

    @classmethod
    def read(cls, root: Path) -> "Tree":
        """Raises CorruptData if a log is not sound."""
        folders = sorted({each.parent for each in root.rglob("*.log") if each.stem.isdigit()})
        logs = [_read(folder) for folder in folders if not folder.name.endswith("-delete")]
        return cls(root, [log for log in logs if log.entries])

    def write(self) -> None:
        for log in self.logs:
            log.write()

    def replicas(self, topic: str, partition: int) -> list[Log]:
        """The longest first."""
        found = [each for each in self.logs if (each.topic, each.partition) == (topic, partition)]
        return sorted(found, key=lambda log: (-log.end, log.node))

    def of_topic(self, topic: str) -> list[Log]:
        """The longest replica of each of its partitions."""
        partitions = sorted({each.partition for each in self.logs if each.topic == topic})
        return [self.replicas(topic, partition)[0] for partition in partitions]

    def partitions(self) -> Iterator[Log]:
        """The partitions of users' topics, the longest replica of each."""
        names = sorted({each.topic for each in self.logs if not each.topic.startswith("__")})
        for name in names:
            yield from self.of_topic(name)


def edited(
    raw: bytes,
    *,
    producer_id: int | None = None,
    epoch: int | None = None,
    sequence: int | None = None,
    timestamp_ms: int | None = None,
    attributes: int | None = None,
) -> bytes:
    """The same batch with another header, its CRC right; the records are as they were, compressed or not.

    ``timestamp_ms`` moves the base and the greatest time alike.
    """
    values = list(_HEADER.unpack_from(raw))
    if timestamp_ms is not None:
        values[7], values[8] = timestamp_ms, timestamp_ms + values[8] - values[7]
    for index, value in ((5, attributes), (9, producer_id), (10, epoch), (11, sequence)):
        if value is not None:
            values[index] = value
    whole = bytearray(_HEADER.pack(*values) + raw[_HEADER.size :])
    _CRC.pack_into(whole, 17, crc32c(memoryview(whole)[_CHECKED_AT:]))
    return bytes(whole)


def _read(folder: Path) -> Log:
    topic, _, partition = folder.name.rpartition("-")
    segments = []
    for path in sorted(folder.glob("*.log")):
        raw = path.read_bytes()
        position, entries = 0, []
        while position < len(raw) and any(raw[position : position + 61]):
            size = checked_header(raw, position).size
            entries.append(Entry(raw[position : position + size]))
            position += size
        segments.append(Segment(path, entries, raw[position:]))
    return Log(folder, _node(folder), topic, int(partition), segments)


def _node(folder: Path) -> int:
    """Of the nearest meta.properties above. Raises CorruptData: there is none."""
    for parent in folder.parents:
        file = parent / "meta.properties"
        if file.exists():
            lines = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines() if "=" in line)
            return int(lines.get("node.id", lines.get("broker.id", "-1")))
    raise CorruptData(f"no meta.properties above {folder}")
