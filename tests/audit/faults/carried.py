"""Faults of what is in two places, or in another's: directories, batches, markers, side files."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.audit.faults.coordinators import decisions
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.insert import RENUMBERED, insert
from tests.audit.faults.pairs import ANY_MARKER, _end_of, _found, _own, _transaction
from tests.audit.faults.producers import Plant, _batch, _data, _entry, _has_data, _name
from tests.audit.faults.sides import PRODUCER, _logs, _producers
from tests.audit.faults.tree import ABORTED, Entry, Log, edited, write_anew

OLDER: Final = 3  # batches that an older copy lacks


def partition_twice(*, is_older: bool) -> Plant:
    """A partition has its directory in two of its node's log.dirs; one may have stopped earlier."""

    def plant(ground: Ground) -> Planted:
        log, other = ground.choose(
            (log, folder)
            for log in ground.tree.logs
            for folder in _log_dirs(ground, log)
            if len(log.segments[-1].entries) > OLDER and ground.is_free(log)
        )
        again = other / log.folder.name
        shutil.copytree(log.folder, again)
        if is_older:
            last = log.segments[-1]
            content = b"".join(each.raw for each in last.entries[:-OLDER])
            write_anew(again / last.path.name, content)
        ground.take(log=log, in_each=False)
        said = f"node {log.node} has {_name(log)} in {log.folder.parent.name} and in {other.name}"
        return Planted(
            check="replicas",
            rules=frozenset({"twice"}),
            entries=(),
            said=said,
            files=(log.folder, again),
        )

    return plant


def _log_dirs(ground: Ground, log: Log) -> list[Path]:
    """The other entries of log.dirs of the log's node."""
    own = {each.folder.parent for each in ground.tree.logs if each.node == log.node}
    return sorted(each for each in own - {log.folder.parent} if not (each / log.folder.name).exists())


def batch_copied(ground: Ground) -> Planted:
    """A batch of a transaction stands in another partition, too, where its producer is not."""
    log, entry = _data(
        ground, lambda log, entry: _end_of(log, entry) is not None and ground.is_judged(entry, alone=True)
    )
    producer_id = entry.producer[0]
    other = ground.choose(
        each
        for each in ground.partitions()
        if each is not log and all(one.producer[0] != producer_id for one in each.entries)
    )
    place = _before(other, entry)
    copy = insert(other, place, entry.raw, RENUMBERED)
    ground.take(log=other)
    said = f"{_name(log)}: {_batch(entry)} is in {_name(other)}, too, at {copy.header.base_offset}"
    rules = {"gap", "hanging.orphan", "markers.foreign", "markers.late", "fencing.zombie"}
    return _found(ground, log, copy, said, "sequences", rules)


def marker_copied(ground: Ground) -> Planted:
    """A marker stands in another partition, too, where its producer is not."""
    log, marker = _entry(
        ground,
        lambda log, entry: entry.is_marker and _has_data(log, entry) and ground.is_judged(entry, alone=True),
    )
    producer_id = marker.producer[0]
    other = ground.choose(
        each
        for each in ground.partitions()
        if each is not log and all(one.producer[0] != producer_id for one in each.entries)
    )
    copy = insert(other, _before(other, marker), marker.raw, RENUMBERED)
    ground.take(log=other)
    said = f"{_name(log)}: {_batch(marker)} is in {_name(other)}, too, at {copy.header.base_offset}"
    return _found(ground, log, copy, said, "markers", ANY_MARKER)


def _before(log: Log, entry: Entry) -> Entry:
    """The last entry of the log that is no newer; not its end. Raises NoPlace."""
    at_ms = entry.header.max_timestamp_ms
    found = [each for each in log.entries[:-1] if each.header.max_timestamp_ms <= at_ms]
    if not found:
        raise NoPlace
    return found[-1]


def anothers_transaction(ground: Ground) -> Planted:
    """Data and marker of a transaction have the id of another producer, which is not on the partition."""
    log, marker = _entry(ground, lambda log, entry: entry.is_marker and _has_data(log, entry))
    here = {each.producer[0] for each in log.entries}
    others = sorted(
        {
            each.producer
            for one in ground.tree.partitions()
            for each in one.entries
            if each.header.is_transactional and each.producer[0] not in here
            if ground.is_free(one, each.producer[0]) and ground.is_judged(each)
        }
    )
    producer_id, epoch = ground.choose(others)
    own, was = [*_transaction(log, marker), marker], _batch(marker)
    later = [*_own(log, marker)[1:], *decisions(ground, marker)]
    number = 0
    for each in own:
        sequence = number if each.is_data else None
        number += each.header.record_count if each.is_data else 0
        each.raw = edited(each.raw, producer_id=producer_id, epoch=epoch, sequence=sequence)
    said = f"{_name(log)}: all of the transaction that {was} ends is of producer {producer_id} epoch {epoch}"
    rules = ANY_MARKER | {"sequences.gap", "fencing.zombie", "epochs.regressed", "late"}
    ground.take(producer_id=producer_id)
    planted = _found(ground, log, marker, said, "markers", rules, *own, *later)
    return replace(planted, producer_id=-1)  # either of both


def anothers_side_file(pattern: str, rules: set[str]) -> Plant:
    """A file beside a log is that of another partition, under the name of the own one."""

    def plant(ground: Ground) -> Planted:
        logs = _logs(ground)
        for log in logs:
            for file in sorted(log.folder.glob(pattern)):
                mine = file.read_bytes()
                for other in logs:
                    there = sorted(other.folder.glob(pattern))
                    theirs = there[-1].read_bytes() if there else b""
                    is_one = (other.topic, other.partition) != (log.topic, log.partition)
                    if is_one and mine and _is_odd(log, file, theirs) and len(theirs) != len(mine):
                        write_anew(file, theirs)
                        ground.take(log=log, in_each=False)
                        said = f"node {log.node}, {_name(log)}/{file.name}: it is that of {_name(other)}"
                        return Planted(
                            check="integrity", rules=frozenset(rules), entries=(), said=said, files=(file,)
                        )
        raise NoPlace

    return plant


def _is_odd(log: Log, file: Path, theirs: bytes) -> bool:
    """Whether the file says what cannot be true of the log: of a producer or a leader epoch it has not."""
    if file.suffix == ".txnindex":
        return len(theirs) >= ABORTED.size
    if file.suffix == ".snapshot":
        here = {each.producer[0] for each in log.entries}
        states = [PRODUCER.unpack(each) for each in _producers(theirs)] if theirs else []
        return any(state[0] not in here and 0 <= state[3] < int(file.stem) for state in states)
    lines = [line.split() for line in theirs.decode().splitlines()[2:]]
    epochs = {each.header.leader_epoch for each in log.entries}
    return any(int(epoch) not in epochs for epoch, _ in lines) or not epochs <= {int(e) for e, _ in lines}


CARRIED: Final[dict[str, dict[str, Plant]]] = {
    "partition twice": {
        "whole": partition_twice(is_older=False),
        "one is older": partition_twice(is_older=True),
    },
    "batch copied": {"to another partition": batch_copied},
    "marker copied": {"to another partition": marker_copied},
    "transaction of another producer": {"that is not there": anothers_transaction},
    "side file of another": {
        "transaction index": anothers_side_file("*.txnindex", {"index", "side_file"}),
        "producer snapshot": anothers_side_file("*.snapshot", {"snapshot", "side_file"}),
        "leader epochs": anothers_side_file("leader-epoch-checkpoint", {"leader_epochs", "side_file"}),
    },
}
