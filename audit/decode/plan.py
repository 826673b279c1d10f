"""Which files the audit reads: every segment, checkpoint, hole and export below some roots, each once.

Roots       a fencepost cluster's directory, a node's data directory, a Kafka ``log.dirs`` entry, one
            partition's directory, or a file. What a directory is shows in what it holds, not in its place.
Partition   a directory that holds segments; topic and number are its name. Fencepost keeps the quorum's own
            logs below ``archive/``, snapshots below ``snapshots/``.
Node        ``node.id`` (or ``broker.id``) of the nearest ``meta.properties`` above the file.
Silence     what could be a log is not left out without a row: a directory that cannot be listed, a link to
            nothing and a root that is not there are rows with a ``fault``; a partition on its way out is a
            row with a ``note``. Not entered are hidden directories but ``.fencepost``, and ``*.part``.

Source      Kafka LogManager, UnifiedLog (names); snapshots/segments.py (holes.json).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.audit.decode.files import LOCAL, Entry, Files
from fencepost.records.blank_check import checked_text
from fencepost.records.invariant import CorruptData

DEPTH_MAX: Final = 16  # directories below a root; a cluster's has six
ENTRIES_MAX: Final = 10_000_000  # of one call: far more files than a machine's log directories hold
_UP_MAX: Final = 3  # directories above a root that are looked at for meta.properties
_PROPERTIES_BYTES_MAX: Final = 64 * 1024
_HOLES_BYTES_MAX: Final = 1024 * 1024
_HEAD_BYTES: Final = 256

_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_CHECKPOINT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PARTITION: Final = re.compile(r"(.+)-(\d{1,9})")
_LEAVING: Final = re.compile(r"(.+)-(\d{1,9})\.[0-9a-zA-Z_-]{1,40}-(delete|future|stray)")
_NODE: Final = re.compile(r"^\s*(?:node|broker)\.id\s*[=:]\s*(\d{1,10})\s*$", re.MULTILINE)
_INDEX: Final = re.compile(r"(\d{20})\.txnindex")
_STATES: Final = re.compile(r"(\d{20})\.snapshot")
_EXPORT: Final = re.compile(r'"format"\s*:\s*"fencepost-znodes"')
_PROPERTIES: Final = "meta.properties"
SIDE_FILES: Final = {
    "replication-offset-checkpoint": "offset-checkpoint",
    "log-start-offset-checkpoint": "offset-checkpoint",
    "cleaner-offset-checkpoint": "offset-checkpoint",
    "recovery-point-offset-checkpoint": "offset-checkpoint",
    "leader-epoch-checkpoint": "leader-epochs",
    "quorum-state": "quorum-state",
    "partition.metadata": "partition-metadata",
    "meta.properties": "properties",
    ".kafka_cleanshutdown": "clean-shutdown",
}
"""By name, which kind of file it is."""

READ_KINDS: Final = frozenset({
    "segment", "checkpoint", "zookeeper-export", "offset-checkpoint", "leader-epochs", "transaction-index",
    "producer-snapshot", "quorum-state", "partition-metadata", "properties",
})  # fmt: skip
"""Kinds of files that ``tables.decode_file`` makes rows of. All but segments are written anew as a whole."""
_HOLES: Final = "holes.json"
_OF_ALL: Final = ("offset-checkpoint", "clean-shutdown", "properties")  # partitions of their directory
_METADATA_TOPIC: Final = "__cluster_metadata"
NO_NODE: Final = -1


class LogFile(NamedTuple):
    """A file to read, or a row that says what could not be read.

    ``kind``    as the table ``columns.FILES`` has it.
    ``size``    bytes when it was listed; of a hole the number of missing offsets from ``base_offset`` on; of
                unread files how many there are.
    ``fault``   why it cannot be read; None: nothing is known against it.
    ``note``    why it is not read although it could be.
    """

    node: int
    topic: str
    partition: int
    path: str
    kind: str
    base_offset: int | None
    size: int
    last_of_partition: bool
    fault: str | None = None
    note: str | None = None


def list_files(roots: Sequence[str], *, files: Files = LOCAL) -> list[LogFile]:
    """Every file below ``roots``, in the order of the roots and of the names. Raises nothing."""
    listing = _Listing(files, ENTRIES_MAX)
    for root in roots:
        path = root.rstrip("/") or "/"
        listing.add_root(path)
    return listing.found


@dataclass(slots=True)
class _Listing:
    files: Files
    entries_left: int
    found: list[LogFile] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add_root(self, path: str) -> None:
        try:
            entry = self.files.entry(path)
            full = self.files.identity(path)
        except OSError as error:
            self._fault(NO_NODE, path, _said(error))
            return
        parent = full.rpartition("/")[0]
        if entry.is_directory:
            self._directory(path, full.rpartition("/")[2], self._node_above(full), 0)
        elif full not in self.seen and parent not in self.seen:
            self.seen.add(full)
            name = parent.rpartition("/")[2]
            self._one_file(path, entry, name, self._node_above(parent))

    def _node_above(self, path: str) -> int:
        for _ in range(_UP_MAX + 1):
            node = self._node_in(path)
            if node != NO_NODE or not path:
                return node
            path = path.rpartition("/")[0]
        return NO_NODE

    def _node_in(self, path: str) -> int:
        try:
            matched = _NODE.search(_text(self.files, f"{path}/{_PROPERTIES}", _PROPERTIES_BYTES_MAX))
        except OSError:
            return NO_NODE
        return int(matched[1]) if matched else NO_NODE

    def _directory(self, path: str, name: str, node: int, depth: int) -> None:
        try:
            identity = self.files.identity(path)
            if identity in self.seen:
                return
            self.seen.add(identity)
            entries = self.files.entries(path)
        except OSError as error:
            self._fault(node, path, _said(error))
            return
        self.entries_left -= len(entries)
        if depth > DEPTH_MAX or self.entries_left < 0:
            limit = f"more than {DEPTH_MAX} directories deep" if depth > DEPTH_MAX else "too many files"
            self._fault(node, path, f"not entered: {limit}")
            return
        if any(each.name == _PROPERTIES for each in entries):
            node = self._node_in(path)
        matched = _LEAVING.fullmatch(name)
        if matched:
            self.found.append(
                LogFile(
                    node, matched[1], int(matched[2]), path, "directory", None, 0, False, None, _note(name)
                )
            )
            return
        for each in entries:
            if each.fault is not None:
                self._fault(node, f"{path}/{each.name}", each.fault)
        read = {each.name for each in entries if f"{identity}/{each.name}" in self.seen}
        self._files_of(
            path, name, node, [each for each in entries if not each.fault and each.name not in read]
        )
        for each in entries:
            if each.is_directory and _is_entered(each.name):
                self._directory(f"{path}/{each.name}", each.name, node, depth + 1)

    def _files_of(self, path: str, name: str, node: int, entries: list[Entry]) -> None:
        segments = sorted(each for each in entries if _SEGMENT.fullmatch(each.name) and not each.is_directory)
        topic, partition = _log_of(name)
        if any(each.name == _HOLES for each in entries):
            self._holes(f"{path}/{_HOLES}", node, topic, partition)
        unread: dict[str, int] = {}
        for each in entries:
            if each.is_directory or each in segments or self._other(f"{path}/{each.name}", each, node):
                continue
            if not self._side_file(path, each, node, topic, partition) and each.name != _HOLES:
                suffix = each.name.partition(".")[2]
                unread[suffix] = unread.get(suffix, 0) + 1
        if segments:
            for suffix, count in unread.items():
                self.found.append(
                    LogFile(node, topic, partition, f"{path}/*.{suffix}", "unread", None, count, False, None,
                            "the audit does not read them")
                )  # fmt: skip
        for each in segments:
            self.found.append(
                LogFile(node, topic, partition, f"{path}/{each.name}", "segment", int(each.name[:20]),
                        each.size, each is segments[-1])
            )  # fmt: skip

    def _one_file(self, path: str, entry: Entry, directory: str, node: int) -> None:
        """A file that is a root itself: it is read, whatever lies beside it."""
        matched = _SEGMENT.fullmatch(entry.name)
        if matched:
            topic, partition = _log_of(directory)
            self.found.append(
                LogFile(node, topic, partition, path, "segment", int(matched[1]), entry.size, True)
            )
        elif not self._other(path, entry, node):
            self._fault(node, path, "neither a segment nor a checkpoint nor an export of znodes")

    def _other(self, path: str, entry: Entry, node: int) -> bool:
        matched = _CHECKPOINT.fullmatch(entry.name)
        if matched:
            base = int(matched[1])
            self.found.append(LogFile(node, _METADATA_TOPIC, 0, path, "checkpoint", base, entry.size, False))
            return True
        if entry.name.endswith(".json") and entry.name != _HOLES:
            try:
                exported = _EXPORT.search(_text(self.files, path, _HEAD_BYTES))
            except OSError:
                exported = None  # a JSON file that cannot be read is not known to be an export
            if exported:
                self.found.append(LogFile(node, "", -1, path, "zookeeper-export", None, entry.size, False))
                return True
        return False

    def _side_file(self, path: str, entry: Entry, node: int, topic: str, partition: int) -> bool:
        """A file beside the segments, or beside the partitions, that says something of them."""
        name = entry.name
        matched = _INDEX.fullmatch(name) or _STATES.fullmatch(name)
        base = int(matched[1]) if matched else None
        if matched:
            kind = "transaction-index" if name.endswith(".txnindex") else "producer-snapshot"
        elif name in SIDE_FILES:
            kind = SIDE_FILES[name]
        else:
            return False
        if kind in _OF_ALL:
            topic, partition = "", -1
        self.found.append(LogFile(node, topic, partition, f"{path}/{name}", kind, base, entry.size, False))
        return True

    def _holes(self, path: str, node: int, topic: str, partition: int) -> None:
        try:
            for first, end in _read_holes(_text(self.files, path, _HOLES_BYTES_MAX)):
                self.found.append(LogFile(node, topic, partition, path, "hole", first, end - first, False))
        except (OSError, ValueError, RecursionError, CorruptData) as error:
            fault = _said(error) if isinstance(error, OSError) else f"not the holes of a log: {error}"
            self.found.append(LogFile(node, topic, partition, path, "hole", None, 0, False, fault))

    def _fault(self, node: int, path: str, fault: str) -> None:
        self.found.append(LogFile(node, "", -1, path, "directory", None, 0, False, fault))


def _is_entered(name: str) -> bool:
    return name == ".fencepost" or not (name.startswith(".") or name.endswith(".part"))


def _log_of(directory: str) -> tuple[str, int]:
    """Topic and partition of a directory's name; -1 if the name has none."""
    matched = _PARTITION.fullmatch(directory)
    return (matched[1], int(matched[2])) if matched else (directory, -1)


def _note(name: str) -> str:
    return {
        "delete": "a deleted partition on its way out",
        "future": "a copy that a broker was still making",
        "stray": "a partition that its broker no longer hosts",
    }[name.rpartition("-")[2]]


def _text(files: Files, path: str, bytes_max: int) -> str:
    opened = files.open(path)
    try:
        return opened.read(0, bytes_max).tobytes().decode(errors="replace")
    finally:
        opened.close()


def _read_holes(text: str) -> Iterator[tuple[int, int]]:
    """``{"version": 1, "holes": [[first, end], ...]}``, ascending. Raises ValueError, CorruptData."""
    document: Any = json.loads(checked_text(text.encode()))
    if not isinstance(document, dict) or document.get("version") != 1:
        raise ValueError(f"expected version 1, found {text[:80]!r}")
    holes = document.get("holes")
    if not isinstance(holes, list):
        raise ValueError(f"expected a list of holes, found {text[:80]!r}")
    before = -1
    for hole in holes:
        if not _is_pair(hole) or not before < hole[0] < hole[1]:
            raise ValueError(f"expected ascending holes, found {hole!r} after {before}"[:200])
        before = hole[1]
        yield hole[0], hole[1]


def _is_pair(hole: Any) -> bool:
    return isinstance(hole, list) and len(hole) == 2 and all(type(bound) is int for bound in hole)


def _said(error: OSError) -> str:
    return error.strerror or str(error)
