"""What the logs of some directories leave open, and what their coordinators have of its producers.

Copy        of several copies of a log the one that reaches furthest is read, up to the highest high-watermark
            checkpoint of all; without any to its end.
Open        a turn of ``walks.log`` that no marker ends.
Owner       the last record of each transactional id in the copies of ``__transaction_state`` that are given.
            They are whole if every partition of the topic is there: fencepost's has one; of Kafka's each id
            lies in the partition that the hash of its name says, which shows how many there are.
Memory      a window of a log, a row for each producer of it and for each transactional id.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.audit.decode.batches import Where, decode_segment
from fencepost.audit.decode.local import stop_of_file
from fencepost.audit.decode.plan import LogFile, list_files
from fencepost.audit.decode.transactions import decode_states
from fencepost.audit.walks.columns import (
    COPY_SOURCE,
    FLAG_AFTER_UNREAD,
    FLAG_HOLE,
    FLAG_OPAQUE,
    LOG_SOURCE,
)
from fencepost.audit.walks.copy import COPY
from fencepost.audit.walks.found import widened
from fencepost.audit.walks.log import LOG
from fencepost.audit.walks.walk import Batches
from fencepost.records.open_transactions import DECIDED, ONGOING, Coordinated, OpenTransaction

COORDINATOR_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"
KAFKAS_PARTITIONS: Final = 50  # transaction.state.log.num.partitions, unless it is set
OURS: Final = "archive"  # the folder of fencepost's own copies
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOG_STARTS: Final = "log-start-offset-checkpoint"

_LINE: Final = re.compile(r"(\S+) (\d{1,9}) (\d{1,19})")

Log = tuple[str, int]
"""A topic and a partition."""


class Problem(NamedTuple):
    """What the directories do not say."""

    of: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """A log and what is open in it, the oldest first.

    ``end``        of what is known to be committed.
    ``last_ms``    the latest time in it; -1: there is none.
    ``is_stopped`` its broker had ended cleanly: nothing was written after what is there.
    ``unsure``     the producers behind whose data something is missing that may be their marker.
    """

    topic: str
    partition: int
    directory: str
    end: int
    last_ms: int
    is_stopped: bool
    opened: tuple[OpenTransaction, ...]
    unsure: frozenset[int]


@dataclass(slots=True)
class Coordinators:
    """Every transactional id's last record. ``last_ms``: of the newest record; -1: there is none."""

    by_id: dict[str, Coordinated] = field(default_factory=dict)
    updated_ms: dict[str, int] = field(default_factory=dict)  # of the record
    partitions: set[int] = field(default_factory=set)
    is_whole: bool = False
    last_ms: int = -1
    homes: dict[str, int] = field(default_factory=dict)  # the partition of each id

    def by_producer(self) -> dict[int, Coordinated]:
        """The ids by their producer ids."""
        return {each.producer_id: each for each in self.by_id.values()}


class Directories:
    """The logs below some directories. ``problems``: what could not be read."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.problems: list[Problem] = []
        self._copies: dict[Log, dict[str, list[LogFile]]] = defaultdict(lambda: defaultdict(list))
        for file in list_files(roots):
            if file.fault is not None:
                self.problems.append(Problem(file.path, file.fault))
            elif file.kind == "segment" and file.partition >= 0:
                self._copies[file.topic, file.partition][file.path.rpartition("/")[0]].append(file)

    @property
    def data_logs(self) -> list[Log]:
        """Every partition but the coordinators' and the metadata's."""
        return sorted(each for each in self._copies if each[0] not in (COORDINATOR_TOPIC, METADATA_TOPIC))

    def has(self, log: Log) -> bool:
        """Whether the partition is there."""
        return log in self._copies

    def opened(self, log: Log) -> OpenLog:
        """What is open in a log that is there."""
        directory, files = self._furthest(log)
        start = _checkpoint(Path(directory).parent / LOG_STARTS, log)
        marks = [_checkpoint(Path(each).parent / HIGH_WATERMARKS, log) for each in self._copies[log]]
        known = [each for each in marks if each is not None]
        reading = _Reading(log, directory, _base(files[-1]))
        copied = COPY.run(reading.copy(_facts(log, directory, files, start), self._batches(files)))
        turns: list[dict[str, Any]] = []
        for rows in LOG.run(reading.log(copied)):
            turns += [each for each in rows.to_pylist() if each["kind"] == "turn"]
        end = min(max(known), reading.end) if known else reading.end
        return _open_log(reading, end, turns)

    def coordinators(self) -> Coordinators:
        """What the coordinators' logs that are there say."""
        found = Coordinators()
        is_ours = False
        for log in sorted(self._copies):
            if log[0] != COORDINATOR_TOPIC:
                continue
            directory, files = self._furthest(log)
            is_ours = is_ours or Path(directory).parent.name == OURS
            found.partitions.add(log[1])
            for file in files:
                self._read_states(file, found)
        found.is_whole = is_ours or _is_whole(found)
        return found

    def _read_states(self, file: LogFile, found: Coordinators) -> None:
        stop = self._stop(file)
        where = Where(file.node, file.topic, file.partition, file.path)
        try:
            for rows in decode_states(file.path, where, 0, stop):
                for row in rows.to_pylist():
                    _take(found, row)
        except OSError as error:
            self.problems.append(Problem(file.path, error.strerror or str(error)))

    def _furthest(self, log: Log) -> tuple[str, list[LogFile]]:
        """The copy with the highest segment, of these the one with most bytes in it; its files in order."""

        def reach(copy: tuple[str, list[LogFile]]) -> tuple[int, int, str]:
            last = max(copy[1], key=_base)
            return _base(last), last.size, copy[0]

        directory, files = max(self._copies[log].items(), key=reach)
        return directory, sorted(files, key=_base)

    def _stop(self, file: LogFile) -> int:
        stop = stop_of_file(file)
        if stop.stop == "unreadable":
            self.problems.append(Problem(file.path, stop.reason or "it cannot be read"))
        return stop.valid_end

    def _batches(self, files: Iterable[LogFile]) -> Batches:
        for file in files:
            where = Where(file.node, file.topic, file.partition, file.path)
            try:
                yield from decode_segment(file.path, where, 0, self._stop(file))
            except OSError as error:
                self.problems.append(Problem(file.path, error.strerror or str(error)))


def _base(file: LogFile) -> int:
    return file.base_offset or 0


class _Reading:
    """One copy on its way through the walks. ``last_break``: the last offset where something is missing."""

    def __init__(self, log: Log, directory: str, end: int) -> None:
        self.where, self.directory = log, directory
        self.end = end
        self.last_break = -1
        self.last_ms = -1

    def copy(self, facts: pa.RecordBatch, batches: Batches) -> Batches:
        """COPY_SOURCE of RECORD_BATCHES."""
        yield facts
        for rows in batches:
            count = rows.num_rows
            copy = pa.repeat(pa.scalar(self.directory, pa.string()), count)
            yield widened(rows, COPY_SOURCE, copy=copy, rank=np.ones(count, np.int8))

    def log(self, copied: Batches) -> Batches:
        """LOG_SOURCE of COPY_RESULT."""
        for piece in copied:
            rows = piece.filter(pc.equal(piece.column("rank"), 1))
            if not rows.num_rows:
                continue
            place = rows.column("place").to_numpy()
            flags = rows.column("flags").to_numpy()
            is_opaque = (flags & FLAG_OPAQUE) != 0
            base = np.where(is_opaque, place, rows.column("base_offset").fill_null(-1).to_numpy())
            last = np.where(is_opaque, place, rows.column("last_offset").fill_null(-1).to_numpy())
            broken = base[(flags & (FLAG_HOLE | FLAG_OPAQUE | FLAG_AFTER_UNREAD)) != 0]
            self.last_break = max(self.last_break, int(broken.max(initial=-1)))
            self.end = max(self.end, int(last.max()) + 1)
            sound = rows.column("max_timestamp_ms").fill_null(-1).to_numpy()[~is_opaque]
            self.last_ms = max(self.last_ms, int(sound.max(initial=-1)))
            yield widened(rows, LOG_SOURCE, base_offset=base, last_offset=last)


def _facts(log: Log, directory: str, files: list[LogFile], start: int | None) -> pa.RecordBatch:
    said: list[tuple[str, str, int | None]] = [("", "untold", None)]
    if start is not None:
        said.append(("", "log-start", start))
    said += [(file.path, "segment", _base(file)) for file in files]
    same = {"topic": log[0], "partition": log[1], "copy": directory, "rank": 0, "node": files[0].node}
    rows = [
        {**same, "path": path, "position": number, "item": item, "first": first}
        for number, (path, item, first) in enumerate(said)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=COPY_SOURCE)


def _open_log(reading: _Reading, end: int, turns: list[dict[str, Any]]) -> OpenLog:
    still = [each for each in turns if each["marker_offset"] is None and each["batches"]]
    opened = [
        OpenTransaction(
            *reading.where,
            each["producer_id"],
            each["data_epoch"],
            each["data_offset"],
            first_ms=-1 if each["data_ms"] is None else each["data_ms"],
        )
        for each in still
    ]
    return OpenLog(
        topic=reading.where[0],
        partition=reading.where[1],
        directory=reading.directory,
        end=end,
        last_ms=reading.last_ms,
        is_stopped=(Path(reading.directory).parent / CLEAN_SHUTDOWN).exists(),
        opened=tuple(sorted(opened, key=lambda each: each.start_offset)),
        unsure=frozenset(each.producer_id for each in opened if reading.last_break > each.start_offset),
    )


def _checkpoint(file: Path, log: Log) -> int | None:
    """The offset of a partition in one of Kafka's checkpoint files; None: it has none, or cannot be read."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                matched = _LINE.fullmatch(line.strip())
                if matched and (matched[1], int(matched[2])) == log:
                    return int(matched[3])
    except OSError:
        return None
    return None


def _take(found: Coordinators, row: dict[str, Any]) -> None:
    name = row["transactional_id"]
    found.last_ms = max(found.last_ms, row["timestamp_ms"])
    if row["forgotten"]:
        found.by_id.pop(name, None)
        return
    found.homes[name] = row["partition"]
    found.updated_ms[name] = row["updated_ms"]
    found.by_id[name] = Coordinated(
        transactional_id=name,
        state=row["state"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        timeout_ms=row["timeout_ms"],
        started_ms=row["started_ms"] if row["state"] in DECIDED | {ONGOING} else -1,
        partitions=frozenset((each["topic"], each["partition"]) for each in row["partitions"] or ()),
        home=row["partition"],
    )


def _is_whole(found: Coordinators) -> bool:
    """Whether all partitions of Kafka's topic are there: each id lies where so many of them put it."""
    count = len(found.partitions)
    if found.partitions != set(range(count)):
        return False
    if any(_home(name, count) != partition for name, partition in found.homes.items()):
        return False
    return count == KAFKAS_PARTITIONS or (count > 1 and len(set(found.homes.values())) > 1)


def _home(transactional_id: str, count: int) -> int:
    """Kafka's TransactionStateManager.partitionFor: the absolute value of Java's hash of the name."""
    units = transactional_id.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2])) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == -(2**31) else abs(signed) % count
