"""The small files beside segments and partitions: what brokers wrote down about their logs.

    offset-checkpoint    of a log.dirs entry: text; version, count, then a topic, a partition, an offset each;
                         fencepost's log starts begin with a line that is the checksum of the others
    leader-epochs        leader-epoch-checkpoint: text; version, count, then an epoch and its start each
    transaction-index    .txnindex: 34 bytes for each aborted transaction
    producer-snapshot    .snapshot: version, CRC-32C, count, then 46 bytes for each producer
    quorum-state         JSON of a voter; its first version names the voters
    partition-metadata   partition.metadata: text; the id of the topic that a partition is of
    properties           meta.properties of a log.dirs entry: text; its directory.id, where it has one

Faults      what is not as its writer writes it is one row of RECORD_FAULTS, and the rest is not read.
Source      Kafka CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, AbortedTxn,
            ProducerStateManager.readSnapshot, FileQuorumStateStore, PartitionMetadataFile,
            MetaProperties.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
from crc32c import crc32c

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.rows import Named, Rows
from fencepost.records.invariant import CorruptData

BYTES_MAX: Final = 512 * 1024 * 1024
"""Of one file: eleven million producers, fifteen million aborted transactions of one segment."""

_CHECKPOINTS: Final = {
    "replication-offset-checkpoint": "high-watermark",
    "log-start-offset-checkpoint": "log-start",
    "cleaner-offset-checkpoint": "cleaned",
    "recovery-point-offset-checkpoint": "recovery",
}
_CHECK: Final = "~crc32c 0 "
"""How fencepost's line with the CRC-32C of a checkpoint without it begins (broker/log/log_starts.py)."""

_OFFSET_MAX: Final = 2**63 - 1
_EPOCH_MAX: Final = 2**31 - 1
_LINE: Final = re.compile(r"(\S+) (\d{1,10}) (-?\d{1,19})")
_EPOCH: Final = re.compile(r"(\d{1,10}) (\d{1,19})")
_TOPIC_ID: Final = re.compile(r"version: 0\s+topic_id: (\S{22})\s*")
_CLUSTER_ID: Final = re.compile(r"^\s*cluster\.id\s*[=:]\s*(\S+)\s*$", re.MULTILINE)
_DIRECTORY_ID: Final = re.compile(r"^\s*directory\.id\s*[=:]\s*(\S{22})\s*$", re.MULTILINE)
_ABORTED: Final = struct.Struct(">hqqqq")
_SNAPSHOT: Final = struct.Struct(">hII")
_STATE: Final = struct.Struct(">qhiqiqiq")
_CRC_FROM: Final = 6  # the checksum is of all that follows it

Row = tuple[Any, ...]
Read = Callable[[bytes, Where], Iterator[Row]]


def decode_side_file(kind: str, path: str, where: Where, *, files: Files = LOCAL) -> Named:
    """The rows of a side file's table, or RECORD_FAULTS. Raises OSError."""
    table, read = SIDE_READERS[kind]
    found: list[Row] = []
    faults = Rows("record_faults", where)
    try:
        found += read(_content(path, files), where)
    except CorruptData as error:
        faults.add(0, -1, "record", str(error))
    if found:
        schema = TABLES[table]
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*found, strict=True), schema, strict=True)
        ]
        yield table, pa.RecordBatch.from_arrays(arrays, schema=schema)
    yield from faults.batches()


def _content(path: str, files: Files) -> bytes:
    opened = files.open(path)
    try:
        if opened.size > BYTES_MAX:
            raise CorruptData(f"{opened.size} bytes, at most {BYTES_MAX} expected")
        return opened.read(0, opened.size).tobytes()
    finally:
        opened.close()


def _lines(content: bytes) -> list[str]:
    """Of a text file of version 0, after its count. An empty file is as Kafka makes it first."""
    if not content:
        return []
    try:
        version, count, *lines = content.decode().split("\n")
    except ValueError as error:
        raise CorruptData(f"no checkpoint: {content[:60]!r}") from error
    if version.strip() != "0":
        raise CorruptData(f"version {version[:20]!r}, expected 0")
    lines = [line for line in lines if line]
    if not count.strip().isdecimal() or int(count) != len(lines):
        raise CorruptData(f"it says {count[:20]!r} lines and has {len(lines)}")
    return lines


def _offsets(content: bytes, where: Where) -> Iterator[Row]:
    path = PurePosixPath(where.path)
    kind = _CHECKPOINTS[path.name]
    folder = where.path.rpartition("/")[0]
    for position, line in enumerate(_lines(content)):
        matched = _LINE.fullmatch(line)
        if position == 0 and line.startswith(_CHECK):
            _require_check(content, line)
            continue
        if matched is None or int(matched[2]) > _EPOCH_MAX or int(matched[3]) > _OFFSET_MAX:
            raise CorruptData(f"line {position + 3}: {line[:80]!r}, expected topic, partition and offset")
        topic, partition = matched[1], int(matched[2])
        copy = f"{folder}/{topic}-{partition}"
        yield (where.node, topic, partition, where.path, position, copy, kind, int(matched[3]))


def _require_check(content: bytes, line: str) -> None:
    """Raises CorruptData: its first line is not the checksum of the others."""
    others = _lines(content)[1:]
    checked = "\n".join(("0", str(len(others)), *others, "")).encode()
    if line != f"{_CHECK}{crc32c(checked)}":
        raise CorruptData(f"{line!r}: the checksum of the other lines is {crc32c(checked)}")


def _epochs(content: bytes, where: Where) -> Iterator[Row]:
    before = (-1, -1)
    for position, line in enumerate(_lines(content)):
        matched = _EPOCH.fullmatch(line)
        if matched is None or int(matched[1]) > _EPOCH_MAX or int(matched[2]) > _OFFSET_MAX:
            raise CorruptData(f"line {position + 3}: {line[:80]!r}, expected an epoch and its first offset")
        epoch, start = int(matched[1]), int(matched[2])
        if epoch <= before[0] or start < before[1]:
            raise CorruptData(f"epoch {epoch} from {start} on, after epoch {before[0]} from {before[1]} on")
        before = (epoch, start)
        yield (*_of(where, position), epoch, start)


def _aborted(content: bytes, where: Where) -> Iterator[Row]:
    if len(content) % _ABORTED.size:
        raise CorruptData(f"{len(content)} bytes, entries have {_ABORTED.size} each")
    before = -1
    for number, (version, producer_id, first, last, stable) in enumerate(_ABORTED.iter_unpack(content)):
        position = number * _ABORTED.size
        if version != 0:
            raise CorruptData(f"entry at {position}: version {version}, expected 0")
        if not (producer_id >= 0 and 0 <= first <= last and last > before):
            said = f"producer {producer_id}, offsets {first} to {last} after {before}"
            raise CorruptData(f"entry at {position}: {said}, expected ascending ones")
        before = last
        yield (*_of(where, position), producer_id, first, last, stable)


def _states(content: bytes, where: Where) -> Iterator[Row]:
    if len(content) < _SNAPSHOT.size:
        raise CorruptData(f"{len(content)} bytes, a snapshot has {_SNAPSHOT.size} or more")
    version, crc, count = _SNAPSHOT.unpack_from(content)
    if version != 1:
        raise CorruptData(f"version {version}, expected 1")
    if crc32c(content[_CRC_FROM:]) != crc:
        raise CorruptData("the checksum is wrong")
    end = _SNAPSHOT.size + count * _STATE.size  # fencepost remembers more behind it, as Kafka allows
    if len(content) < end:
        raise CorruptData(f"{len(content)} bytes for {count} producers of {_STATE.size} each")
    offset = int(PurePosixPath(where.path).name[:20])
    for number, state in enumerate(_STATE.iter_unpack(content[_SNAPSHOT.size : end])):
        yield (*_of(where, _SNAPSHOT.size + number * _STATE.size), offset, *state)


def _voters(content: bytes, where: Where) -> Iterator[Row]:
    try:
        document = json.loads(content)
        voters = document.get("currentVoters") or []
        found = [int(each["voterId"]) for each in voters]
        epoch = int(document["leaderEpoch"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptData(f"no state of a quorum: {content[:60]!r}") from error
    for voter in found:
        yield (where.node, where.topic, where.partition, where.path, 0, -1, epoch, voter)


def _topic_id(content: bytes, where: Where) -> Iterator[Row]:
    if not content:
        return
    matched = _TOPIC_ID.fullmatch(content.decode(errors="replace"))
    if matched is None:
        raise CorruptData(f"{content[:60]!r}, expected version 0 and a topic_id")
    yield (*_of(where, 0), "partition", None, matched[1])


def _directory_id(content: bytes, where: Where) -> Iterator[Row]:
    matched = _DIRECTORY_ID.search(content.decode(errors="replace"))
    if matched is not None and where.node >= 0:
        yield (*_of(where, 0), "log-dir", where.node, matched[1])
    cluster = _CLUSTER_ID.search(content.decode(errors="replace"))
    if cluster is not None:
        yield (*_of(where, 0), "cluster", where.node, cluster[1])


def _of(where: Where, position: int) -> Row:
    return (*where, position, where.path.rpartition("/")[0])


SIDE_READERS: Final[dict[str, tuple[str, Read]]] = {
    "offset-checkpoint": ("offset_checkpoints", _offsets),
    "leader-epochs": ("leader_epochs", _epochs),
    "transaction-index": ("aborted_transactions", _aborted),
    "producer-snapshot": ("producer_states", _states),
    "quorum-state": ("voters", _voters),
    "partition-metadata": ("directories", _topic_id),
    "properties": ("directories", _directory_id),
}
"""By kind of file, its table and what reads it."""
