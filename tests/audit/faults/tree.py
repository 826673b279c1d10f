"""The partition logs under a directory as lists of batches that can be taken out, put in and changed.

Entry       one batch, an object of its own: a fault remembers entries; ``write`` tells where they lie.
Replicas    logs of one topic and partition on several nodes; the same change is made in each of them:
            ``mirror`` makes the others what the longest one has become, as far as they reached.
Ends        Kafka's replication-offset-checkpoint says how far a log is committed: where a log gets longer or
            shorter by what is planted, it is written so. A fault may keep it.
Whole       only sound logs are read: a seeder starts from directories that the audit calls clean.
"""

import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crc32c import crc32c

from fencepost.records.batch import Batch, BatchHeader, batch_header, checked_header, decode_batch, stamp
from fencepost.records.end_marker import VERSION_HEADER
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term

METADATA: Final = "__cluster_metadata"
STATES: Final = "__transaction_state"
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
ABORTED: Final = struct.Struct(
    ">hqqqq"
)  # of .txnindex: version, producer id, first, last, last stable offset
_LEAVING: Final = ("-delete", "-future", "-stray")  # ends of a directory's name
_CHECKED_AT: Final = 21
_LENGTH_COUNTS_FROM: Final = 12  # the bytes that follow the field
_CRC: Final = struct.Struct(">I")


@dataclass(eq=False, slots=True)
class Entry:
    """A batch somewhere; two of the same bytes are two. ``places`` are set by ``write``: in each replica.

    damaged   what is written in its place; who plants goes on to see what was there.
    """

    raw: bytes
    damaged: bytes | None = None
    places: list[tuple[Path, int]] = field(default_factory=list)
    was: int = -1  # its base offset when it was read; -1: it was planted
    _decoded: tuple[bytes, BatchHeader] | None = None

    @property
    def written(self) -> bytes:
        return self.raw if self.damaged is None else self.damaged

    @property
    def header(self) -> BatchHeader:
        if self._decoded is None or self._decoded[0] is not self.raw:
            self._decoded = self.raw, batch_header(self.raw)
        return self._decoded[1]

    @property
    def is_marker(self) -> bool:
        header = self.header
        return header.is_control and header.is_transactional

    @property
    def is_versioned(self) -> bool:
        """A marker of ours, which says of which decision it is."""
        return self.is_marker and VERSION_HEADER in self.raw

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
    """A file; ``tail`` is what follows its last batch, ``content`` what it held when it was read."""

    path: Path
    entries: list[Entry]
    tail: bytes = b""
    content: bytes = b""
    read_from: Path | None = None


@dataclass(eq=False, slots=True)
class Log:
    """One partition on one node."""

    folder: Path
    node: int
    topic: str
    partition: int
    segments: list[Segment] = field(default_factory=list)
    end_before: int = -1  # when it was read
    shifts: list[tuple[int, int]] = field(default_factory=list)  # from which offset on, by how many
    keeps_checkpoint: bool = False  # of its high watermark, although its end is another
    last_epoch: int = 0  # leader epoch of what would be appended: the last one that a replica knows of

    @property
    def entries(self) -> list[Entry]:
        return [entry for segment in self.segments for entry in segment.entries]

    @property
    def end(self) -> int:
        """The offset after the last batch."""
        last = next((each.entries[-1] for each in reversed(self.segments) if each.entries), None)
        return last.header.end if last is not None else 0

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
        self.shifts.append((entry.header.base_offset if by > 0 else entry.header.end, by))
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
                entry.places.append((segment.path, position))
                position += len(entry.written)
            content = b"".join(each.written for each in segment.entries) + segment.tail
            if content != segment.content or segment.path != segment.read_from:
                write_anew(segment.path, content)
        if self.shifts:
            _shift_sides(self)
        if self.end != self.end_before and not self.keeps_checkpoint:
            _move_watermark(self, self.end - self.end_before)

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
        logs = [_read(folder) for folder in folders if not folder.name.endswith(_LEAVING)]
        tree = cls(root, [log for log in logs if log.entries])
        for log in tree.logs:
            log.last_epoch = max(map(_last_epoch, tree.replicas(log.topic, log.partition)))
        return tree

    def write(self) -> None:
        for log in self.logs:
            for entry in log.entries:
                entry.places.clear()
        for log in self.logs:
            log.write()

    def mirror(self, log: Log) -> None:
        """The other replicas of a changed log get its batches, but for those at its end that they lacked."""
        for other in self.replicas(log.topic, log.partition):
            if other is log:
                continue
            entries = log.entries
            kept = entries
            if other.end_before < log.end_before:  # what it lacked it still lacks
                mine = [at for at, each in enumerate(entries) if 0 <= each.was < other.end_before]
                kept = entries[: max(mine, default=-1) + 1]
            identities = {id(each) for each in kept}
            other.shifts = log.shifts
            for segment in other.segments:
                segment.path.unlink(missing_ok=True)
            other.segments = [
                Segment(
                    other.folder / segment.path.name,
                    [each for each in segment.entries if id(each) in identities],
                    segment.tail,
                )
                for segment in log.segments
            ]

    def is_replicated_alike(self, log: Log) -> bool:
        """Whether each replica begins at the same offset, in files of the same names."""
        files = [
            [(segment.path.name, len(segment.entries) > 0) for segment in each.segments]
            for each in self.replicas(log.topic, log.partition)
        ]
        return all(each == files[0] for each in files)

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


def copied(source: Path, target: Path) -> None:
    """A copy that shares its files with ``source``: what changes is written by ``write_anew``."""
    shutil.copytree(source, target, symlinks=True, copy_function=os.link)


def write_anew(file: Path, content: bytes) -> None:
    """Another file in the place of this one."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def edited(
    raw: bytes,
    *,
    producer_id: int | None = None,
    epoch: int | None = None,
    sequence: int | None = None,
    timestamp_ms: int | None = None,
    attributes: int | None = None,
    last_offset_delta: int | None = None,
    record_count: int | None = None,
    body: bytes | None = None,
) -> bytes:
    """The same batch with another header, its CRC right; the records are as they were, compressed or not.

    ``timestamp_ms`` moves the base and the greatest time alike. ``body``: other bytes for the records.
    """
    values = list(_HEADER.unpack_from(raw))
    body = raw[_HEADER.size :] if body is None else body
    values[1] = _HEADER.size + len(body) - _LENGTH_COUNTS_FROM
    if timestamp_ms is not None:
        values[7], values[8] = timestamp_ms, timestamp_ms + values[8] - values[7]
    for index, value in (
        (5, attributes), (6, last_offset_delta), (9, producer_id), (10, epoch), (11, sequence),
        (12, record_count),
    ):  # fmt: skip
        if value is not None:
            values[index] = value
    whole = bytearray(_HEADER.pack(*values) + body)
    _CRC.pack_into(whole, 17, crc32c(memoryview(whole)[_CHECKED_AT:]))
    return bytes(whole)


def _read(folder: Path) -> Log:
    topic, _, partition = folder.name.rpartition("-")
    segments = []
    for path in sorted(folder.glob("*.log")):
        raw = path.read_bytes()
        position, entries = 0, []
        while any(raw[position : position + _HEADER.size]) and not _is_torn(raw, position):
            size = checked_header(raw, position).size
            entries.append(Entry(raw[position : position + size]))
            entries[-1].was = entries[-1].header.base_offset
            position += size
        segments.append(Segment(path, entries, raw[position:], raw, path))
    log = Log(folder, _node(folder), topic, int(partition), segments)
    log.end_before = log.end
    return log


def _last_epoch(log: Log) -> int:
    """The last leader epoch that the directory knows of: a leader that wrote nothing is in its file alone."""
    file = log.folder / "leader-epoch-checkpoint"
    lines = file.read_text("utf-8").splitlines()[2:] if file.exists() else []
    return max([log.entries[-1].header.leader_epoch, *(int(line.split()[0]) for line in lines)])


def _shift_sides(log: Log) -> None:
    """Index and epochs move with the log; snapshots of producers are deleted, as Kafka does at will."""
    for file in log.folder.glob("*.snapshot"):
        file.unlink()
    for file in log.folder.glob("leader-epoch-checkpoint"):
        version, count, *lines = file.read_text("utf-8").splitlines()
        epochs = [(epoch, int(start)) for epoch, start in (line.split() for line in lines)]
        for first, by in log.shifts:
            epochs = [(epoch, start + by * (start >= first)) for epoch, start in epochs]
        lines = [version, count, *(f"{epoch} {start}" for epoch, start in epochs)]
        write_anew(file, "".join(f"{line}\n" for line in lines).encode())
    for file in log.folder.glob("*.txnindex"):
        content = file.read_bytes()
        entries = [ABORTED.unpack_from(content, at) for at in range(0, len(content), ABORTED.size)]
        for first, by in log.shifts:
            # With a marker that was taken out its entry goes, or another marker would have its place.
            entries = [_shifted(each, first, by) for each in entries if not first + by <= each[3] < first]
        moved = b"".join(ABORTED.pack(*entry) for entry in entries)
        if moved != content:
            write_anew(file, moved)


def _shifted(entry: tuple[int, ...], first: int, by: int) -> tuple[int, ...]:
    """An entry of a .txnindex. Where nothing was open beside its marker it is stable right behind that."""
    version, producer_id, *offsets, stable = entry
    moved = [at + by * (at >= first) for at in offsets]
    is_last = stable == offsets[-1] + 1
    return (version, producer_id, *moved, moved[-1] + 1 if is_last else stable + by * (stable >= first))


def log_start(log: Log) -> int:
    """Below it records are deleted, whether or not they are still in a file."""
    file = log.folder.parent / "log-start-offset-checkpoint"
    lines = file.read_text("utf-8").splitlines()[2:] if file.exists() else []
    named = [line.split() for line in lines]
    return max((int(at) for topic, number, at in named if (topic, int(number)) == (log.topic, log.partition)),
               default=0)  # fmt: skip


def _move_watermark(log: Log, by: int) -> None:
    """In the checkpoint of the log's directory, if that names the log."""
    file = log.folder.parent / "replication-offset-checkpoint"
    if not file.exists():
        return
    lines = file.read_text("utf-8").splitlines()
    name = f"{log.topic} {log.partition} "
    moved = [f"{name}{int(line[len(name) :]) + by}" if line.startswith(name) else line for line in lines]
    write_anew(file, "".join(f"{line}\n" for line in moved).encode())


def _is_torn(raw: bytes, position: int) -> bool:
    """Whether the file ends within the batch that begins there, as a node leaves it that was killed."""
    rest = len(raw) - position
    return rest < _HEADER.size or rest < _LENGTH_COUNTS_FROM + _HEADER.unpack_from(raw, position)[1]


def _node(folder: Path) -> int:
    """Of the nearest meta.properties above. Raises CorruptData: there is none."""
    for parent in folder.parents:
        file = parent / "meta.properties"
        if file.exists():
            lines = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines() if "=" in line)
            return int(lines.get("node.id", lines.get("broker.id", "-1")))
    raise CorruptData(f"no meta.properties above {folder}")
