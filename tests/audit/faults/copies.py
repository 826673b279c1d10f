"""Faults of one copy of a log, or of a directory: a batch that lacks, a copy cut short or exchanged."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.broker.log.checkpoints import PARTITION_FILE
from tests.audit.faults.extra import flipped_outcome
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.producers import Plant, _batch, _name
from tests.audit.faults.tree import Entry, Log, Segment, edited

NODES_LEAST: Final = 3
FILES_LEAST: Final = 2  # of a partition, and one more behind them
GONE: Final = (
    "the records are in no directory that was given: metadata says that a node has them, no log shows what"
)


def differs(change: Callable[[Entry], bytes], fits: Callable[[Entry], bool]) -> Plant:
    """One replica of a user's partition says something else than the others."""

    def plant(ground: Ground) -> Planted:
        log, replicas, odd = _replicated(ground)
        common = min(each.end for each in replicas)
        entry = ground.choose(
            each
            for each in log.entries[1:-1]
            if fits(each) and each.header.end <= common and ground.is_judged(each)
        )
        offset = entry.header.base_offset
        mine = odd.find(offset)
        if mine is None:
            raise NoPlace
        said = f"node {odd.node}'s copy of {_name(log)}: another batch than the others' {_batch(entry)}"
        mine.raw = change(mine)
        entries = [copy for each in replicas for copy in [each.find(offset)] if copy is not None]
        return _one_copy(ground, log, entries, said, "replicas", {"diverged", "crc"})

    return plant


def lacks(ground: Ground) -> Planted:
    """One replica has no batch where the others have one, in the middle of the log."""
    log, replicas, odd = _replicated(ground)
    entry = ground.choose(odd.entries[1:-2])
    offset = entry.header.base_offset
    beside = [each for each in odd.neighbours(entry) if each is not entry]
    odd.remove(entry)
    entries = [copy for each in replicas for copy in [each.find(offset)] if copy is not None]
    said = f"node {odd.node}'s copy of {_name(log)} lacks {_batch(entry)}"
    return _one_copy(
        ground, log, [*beside, *entries], said, "replicas", {"hole", "lacks", "diverged", "offsets.hole"}
    )


def short(*, every: bool) -> Plant:
    """A copy, or each, ends below what its own directory says is committed."""

    def plant(ground: Ground) -> Planted:
        log, replicas, odd = _replicated(ground)
        _watermarked(odd)
        cut = replicas if every else [odd]
        least = min(each.end for each in replicas)
        first = [each for each in log.entries if each.header.end <= least][-4].header.base_offset
        for each in cut:
            each.keeps_checkpoint = True
            for segment in each.segments:
                segment.entries = [one for one in segment.entries if one.header.base_offset < first]
        said = f"{_name(log)} ends at offset {first} " + ("on each node" if every else f"on node {odd.node}")
        ends = [each.entries[-1] for each in cut]
        files = tuple(each.segments[-1].path for each in cut)
        return replace(_one_copy(ground, log, ends, said, "replicas", {"short"}), files=files)

    return plant


def segment_gone(*, every: bool) -> Plant:
    """A file in the middle of a partition is gone, on one node or on each."""

    def plant(ground: Ground) -> Planted:
        logs = [log for log in ground.partitions() if len(log.segments) > 2]
        log = ground.choose(logs)
        replicas = ground.tree.replicas(log.topic, log.partition)
        if not every and len(replicas) < NODES_LEAST:
            raise NoPlace
        name = ground.choose(each for each in log.segments[1:-1] if each.entries).path.name
        entries: list[Entry] = []
        for each in replicas if every else [ground.choose(replicas)]:
            segment = next(one for one in each.segments if one.path.name == name)
            at = each.segments.index(segment)
            entries += [*each.segments[at - 1].entries[-1:], *each.segments[at + 1].entries[:1]]
            gone = segment.entries[0].header.base_offset
            there = [other.find(gone) for other in replicas if not every]
            entries += [copy for copy in there if copy is not None]
            each.segments.remove(segment)
            segment.path.unlink()
        said = f"{_name(log)}: the file {name} is gone" + ("" if every else " on one node")
        rules = {"hole"} if every else {"replicas.diverged", "hole"}
        return _one_copy(ground, log, entries, said, "offsets", rules)

    return plant


def misnamed(ground: Ground) -> Planted:
    """A file's name says another offset than its first batch."""
    logs = [log for log in ground.tree.partitions() if ground.is_free(log) and len(log.entries) > 2]
    log = ground.choose(logs)
    segment = log.segments[-1]
    entry = segment.entries[0] if segment.entries else ground.choose(())
    name = segment.path.with_name(f"{int(segment.path.stem) + 1:020}.log")
    segment.path.rename(name)
    segment.path = name
    said = f"{_name(log)}: the file that begins at {entry.header.base_offset} is called {name.name}"
    return _one_copy(ground, log, [entry], said, "offsets", {"integrity.unreadable"})


def each_others_name(ground: Ground) -> Planted:
    """Two files of a partition, one behind the other, have each other's name on each node."""
    log = ground.choose(log for log in ground.partitions() if len(log.segments) > FILES_LEAST)
    at = ground.random.randrange(len(log.segments) - FILES_LEAST)
    entries = []
    for each in ground.tree.replicas(log.topic, log.partition):
        one, other = each.segments[at : at + 2]
        if not (one.entries and other.entries):
            raise NoPlace
        one.path, other.path = other.path, one.path
        entries.append(one.entries[0])
    said = f"{_name(log)}: two files have each other's name, {other.path.name} and {one.path.name}"
    return _one_copy(ground, log, entries, said, "integrity", {"unreadable"})


def partition_gone(*, every: bool) -> Plant:
    """A partition's directory is not where metadata says that it is: on one of its nodes, or on all."""

    def plant(ground: Ground) -> Planted:
        log = ground.choose(each for each in ground.tree.partitions() if ground.is_free(each))
        replicas = ground.tree.replicas(log.topic, log.partition)
        if not every and len(replicas) < 2:
            raise NoPlace
        gone = replicas if every else [ground.choose(replicas)]
        for each in gone:
            ground.tree.logs.remove(each)
            shutil.rmtree(each.folder)
        said = f"{_name(log)}: its directory is gone from node {', '.join(str(each.node) for each in gone)}"
        ground.take(log=log, in_each=False)
        folders = tuple(each.folder for each in gone)
        return Planted(
            check="replicas", rules=frozenset({"missing"}), entries=(), said=said, files=folders, unknown=GONE
        )

    return plant


def exchanged(ground: Ground) -> Planted:
    """On one node the directories of two partitions have each other's name."""
    log, _, odd = _replicated(ground)
    others = [
        each
        for each in ground.tree.logs
        if each.node == odd.node and each.folder.parent == odd.folder.parent and each is not odd
        if not each.topic.startswith("__") and ground.is_free(each) and len(each.entries) > 2
        if len(ground.tree.replicas(each.topic, each.partition)) >= NODES_LEAST
    ]
    other = ground.choose(others)
    said = f"node {odd.node}: {_name(odd)} and {_name(other)} have each other's batches"
    mine, theirs = odd.segments, other.segments
    odd.segments = [_moved(segment, odd) for segment in theirs]
    other.segments = [_moved(segment, other) for segment in mine]
    for each in (odd, other):
        each.keeps_checkpoint = True
    _exchange_side_files(odd.folder, other.folder)
    ground.take(log=other, in_each=False)
    entries = [*odd.entries[:3], *other.entries[:3]]
    for one in (odd, other):
        for each in ground.tree.replicas(one.topic, one.partition):
            entries += each.entries[:3]
    rules = {"diverged", "exchanged", "integrity.topic_id", "replicas.topic_id"}
    files = (odd.folder / PARTITION_FILE, other.folder / PARTITION_FILE)
    return replace(_one_copy(ground, log, entries, said, "replicas", rules), files=files)


def _exchange_side_files(one: Path, other: Path) -> None:
    """What lies beside the segments goes with them."""
    mine, theirs = (
        {
            each.name: each.read_bytes()
            for each in folder.iterdir()
            if each.is_file() and each.suffix != ".log"
        }
        for folder in (one, other)
    )
    for folder, gone, come in ((one, mine, theirs), (other, theirs, mine)):
        for name in gone:
            (folder / name).unlink()
        for name, content in come.items():
            (folder / name).write_bytes(content)


def _moved(segment: Segment, log: Log) -> Segment:
    return Segment(log.folder / segment.path.name, segment.entries, segment.tail)


def _replicated(ground: Ground) -> tuple[Log, list[Log], Log]:
    """A partition of a user's with three replicas, all of them, and one of them by chance."""
    logs = [
        log
        for log in ground.partitions()
        if len(ground.tree.replicas(log.topic, log.partition)) >= NODES_LEAST and len(log.entries) > 12
    ]
    log = ground.choose(logs)
    replicas = ground.tree.replicas(log.topic, log.partition)
    return log, replicas, ground.choose(replicas)


def _watermarked(log: Log) -> None:
    """Raises NoPlace: the directory does not say what is committed."""
    file = log.folder.parent / "replication-offset-checkpoint"
    if not file.exists() or f"{log.topic} {log.partition} {log.end}" not in file.read_text("utf-8"):
        raise NoPlace


def _one_copy(
    ground: Ground, log: Log, entries: list[Entry], said: str, check: str, rules: set[str]
) -> Planted:
    ground.take(log=log, entries=entries, in_each=False)
    return Planted(check=check, rules=frozenset(rules), entries=tuple(entries), said=said)


def _other_producer(entry: Entry) -> bytes:
    return edited(entry.raw, producer_id=entry.producer[0] + 1)


COPIES: dict[str, dict[str, Plant]] = {
    "other replica": {
        "marker": differs(lambda entry: flipped_outcome(entry)[0], lambda entry: entry.is_marker),
        "producer": differs(_other_producer, lambda entry: entry.is_data),
        "lacks a batch": lacks,
    },
    "short copy": {"one node": short(every=False), "each node": short(every=True)},
    "file gone": {"one node": segment_gone(every=False), "each node": segment_gone(every=True)},
    "file misnamed": {"one offset": misnamed, "each other's": each_others_name},
    "partition gone": {"one node": partition_gone(every=False), "each node": partition_gone(every=True)},
    "directories exchanged": {"two partitions": exchanged},
}
