"""What sound logs may hold and looks odd: an audit has no finding for it, and may say that it cannot know."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from tests.audit.faults.fault import Ground, NoPlace
from tests.audit.faults.insert import RENUMBERED, insert
from tests.audit.faults.tree import METADATA, STATES, Entry, Log, Segment, Tree, copied, edited

SEQUENCES: Final = 2**31
PREALLOCATED_BYTES: Final = 4096
Change = Callable[[Ground], str]


def sequences_wrap(ground: Ground) -> str:
    """A producer's numbers go on from 2**31 - 1 to 0, between two batches or in the middle of one.

    Of a log that begins later than its producer did, or the first number would be one too many.
    """
    log, entry = ground.choose(
        (log, entry)
        for log in ground.partitions()
        if len(log.segments) == 1
        for entry in log.entries[1:]
        if entry.is_data and entry.header.base_sequence > 0 and _is_first_epoch(log, entry)
    )
    (segment,) = log.segments
    del segment.entries[0]
    _rename(segment)
    for replica in ground.tree.replicas(log.topic, log.partition):
        for file in replica.folder.glob("*.snapshot"):  # they say other numbers
            file.unlink()
    ground.take(log=log)
    by = SEQUENCES - entry.header.base_sequence - ground.random.randrange(entry.header.record_count)
    for each in log.entries:
        if each.is_data and each.producer == entry.producer:
            each.raw = edited(each.raw, sequence=(each.header.base_sequence + by) % SEQUENCES)
    return f"{log.topic}-{log.partition}: producer {entry.producer[0]} wraps at {entry.header.base_offset}"


def head_removed(ground: Ground) -> str:
    """Retention: the log begins in the middle, with a file of that name."""
    logs = [log for log in ground.partitions() if len(log.segments) == 1 and len(log.entries) > 2]
    log = ground.choose(logs)
    (segment,) = log.segments
    del segment.entries[: ground.random.randrange(1, len(segment.entries) - 1)]
    _rename(segment)
    return f"{log.topic}-{log.partition} begins at {segment.entries[0].header.base_offset}"


def rolled(ground: Ground) -> str:
    """One file is two."""
    log = ground.choose(log for log in ground.tree.logs if len(log.segments[-1].entries) > 1)
    segment = log.segments[-1]
    at = ground.random.randrange(1, len(segment.entries))
    second = Segment(segment.path, segment.entries[at:], segment.tail)
    segment.entries, segment.tail = segment.entries[:at], b""
    second.path = segment.path.with_name(f"{second.entries[0].header.base_offset:020}.log")
    log.segments.append(second)
    return f"{log.topic}-{log.partition} has a file from {second.path.stem} on"


def preallocated(ground: Ground) -> str:
    """Zeros follow the last batch."""
    log = ground.choose(ground.tree.logs)
    log.segments[-1].tail += bytes(PREALLOCATED_BYTES)
    return f"{log.topic}-{log.partition} ends in zeros"


def shorter_replica(ground: Ground) -> str:
    """A node was down when the others wrote their last entries."""
    log = ground.choose(
        log
        for log in ground.tree.logs
        if len(ground.tree.replicas(log.topic, log.partition)) > 1 and len(log.segments[-1].entries) > 1
    )
    entries = log.segments[-1].entries
    del entries[-ground.random.randrange(1, min(5, len(entries))) :]
    return f"node {log.node} lacks the end of {log.topic}"


def not_there(topic: str) -> Change:
    """A log is not among what the audit is pointed at, on any node."""

    def change(ground: Ground) -> str:
        gone = [log for log in ground.tree.logs if log.topic == topic]
        _remove(ground.tree, gone)
        return f"{topic} is not there"

    return change


def partition_not_there(ground: Ground) -> str:
    """The same of one partition."""
    log = ground.choose(ground.tree.partitions())
    _remove(ground.tree, ground.tree.replicas(log.topic, log.partition))
    return f"{log.topic}-{log.partition} is not there"


def marker_repeated(ground: Ground) -> str:
    """Kafka's coordinator wrote a marker again, as it does when it cannot know that it was written."""
    log, marker = ground.choose(
        (log, entry)
        for log in ground.partitions()
        for entry in log.entries[:-1]
        if entry.is_marker and not entry.is_versioned
    )
    insert(log, marker, marker.raw, RENUMBERED)
    ground.take(log=log)
    return f"{log.topic}-{log.partition}: the marker at {marker.header.base_offset} is there twice"


def node_not_there(ground: Ground) -> str:
    """A node's directories are not among what the audit is pointed at."""
    nodes = sorted({log.node for log in ground.tree.logs})
    if len(nodes) < 2:
        raise NoPlace
    node = ground.choose(nodes)
    _remove(ground.tree, [log for log in ground.tree.logs if log.node == node])
    return f"node {node} is not there"


HARMLESS: Final[Mapping[str, Change]] = {
    "sequences wrap": sequences_wrap,
    "head removed": head_removed,
    "rolled": rolled,
    "preallocated": preallocated,
    "shorter replica": shorter_replica,
    "coordinator's log not there": not_there(STATES),
    "metadata log not there": not_there(METADATA),
    "partition not there": partition_not_there,
    "node not there": node_not_there,
    "marker repeated": marker_repeated,
}


def change(source: Path, target: Path, name: str, random: Random) -> str:
    """Copy a directory and change the copy; says what was done. Raises NoPlace."""
    copied(source, target)
    ground = Ground(Tree.read(target), random)
    said = HARMLESS[name](ground)
    ground.write()
    return said


def _remove(tree: Tree, gone: list[Log]) -> None:
    if not gone:
        raise NoPlace
    for log in gone:
        tree.logs.remove(log)
        shutil.rmtree(log.folder)


def _rename(segment: Segment) -> None:
    name = segment.path.with_name(f"{segment.entries[0].header.base_offset:020}.log")
    segment.path.rename(name)
    segment.path = name


def _is_first_epoch(log: Log, entry: Entry) -> bool:
    """Of its producer, here: a later one begins at 0."""
    epochs = [each.producer[1] for each in log.entries if each.producer[0] == entry.producer[0]]
    return entry.producer[1] == epochs[0]
