"""Faults in other places: at the end of a log, on compacted topics, within one copy or file."""

from dataclasses import replace
from itertools import pairwise
from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.types import Offset, Term
from tests.audit.faults.copies import _one_copy, _replicated
from tests.audit.faults.extra import _OPEN, _now
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.insert import APPENDED, insert
from tests.audit.faults.pairs import ANY_MARKER, _found, _marker, _own, _transaction
from tests.audit.faults.producers import Plant, _batch, _entry, _has_data, _name
from tests.audit.faults.tree import METADATA, STATES, Entry, Log, edited

SECTOR_BYTES: Final = 512
ZEROS: Final = frozenset({"unreadable", "crc"})


def phantom(ground: Ground) -> Planted:
    """A transaction, data and marker, of the next sequence and the present epoch: no coordinator knows it."""
    now = _now(ground)

    def fits(log: Log, entry: Entry) -> bool:
        state = now.get(entry.producer[0])
        return (
            state is not None
            and state.status not in _OPEN
            and state.producer_epoch == entry.producer[1]
            and entry.is_marker
            and _has_data(log, entry)
            and len(_own(log, entry)) == 1
            and _transaction(log, entry)[-1].producer == entry.producer
        )

    log, marker = _entry(ground, fits)
    sample = _transaction(log, marker)[-1]
    at_ms = log.entries[-1].header.max_timestamp_ms + 1
    following = sample.header.base_sequence + sample.header.record_count
    data = insert(log, marker, edited(sample.raw, sequence=following, timestamp_ms=at_ms), APPENDED)
    end = insert(log, marker, edited(marker.raw, timestamp_ms=at_ms), APPENDED)
    said = f"{_name(log)} got a transaction of {_batch(data)} that no coordinator knows"
    return _found(ground, log, end, said, "markers", {"without_transaction", "double"}, data)


def two_in_one(ground: Ground) -> Planted:
    """A marker's batch has two records: the second one is the first once more."""
    log, marker = _marker(ground)
    if marker is log.entries[-1]:
        raise NoPlace
    one = marker.raw[HEADER_BYTES:]
    other = bytearray(one)
    other[3] = 2  # its offset delta: 1, as a zigzag varint
    was = _batch(marker)
    marker.raw = edited(marker.raw, body=one + bytes(other), record_count=2, last_offset_delta=1)
    log.shift_after(marker, 1)
    said = f"{_name(log)}: {was} is there twice in its batch"
    return _found(ground, log, marker, said, "markers", {"double", "control_type", "integrity.count"})


def emptied_marker(ground: Ground) -> Planted:
    """A marker's batch has no record, as the log cleaner leaves it; its topic is not compacted."""
    log, marker = _marker(ground)
    own = _transaction(log, marker)
    marker.raw = edited(marker.raw, body=b"", record_count=0)
    said = f"{_name(log)}: {_batch(marker)} has no record"
    return _found(ground, log, marker, said, "markers", {"control_type", "integrity.count", "missing"}, *own)


def on_compacted(change: str) -> Plant:
    """On a compacted topic, where nothing is cleaned yet: data that nothing ends, or a marker's outcome."""

    def plant(ground: Ground) -> Planted:
        ground.rely(METADATA, STATES)
        now = _now(ground)
        found = []
        for log in ground.tree.partitions():
            if not _is_cleaned(log) or not ground.is_free(log) or not ground.tree.is_replicated_alike(log):
                continue
            for entry in log.entries[-12:]:
                state = now.get(entry.producer[0])
                if not entry.is_marker or state is None or not ground.is_judged(entry):
                    continue
                is_last = len(_own(log, entry)) == 1 and state.status not in _OPEN
                if is_last and state.producer_epoch == entry.producer[1] and _has_data(log, entry):
                    found.append((log, entry))
        log, marker = ground.choose(found)
        sample = _transaction(log, marker)[-1]
        at_ms = log.entries[-1].header.max_timestamp_ms + 1
        following = sample.header.base_sequence + sample.header.record_count
        raw = edited(sample.raw, sequence=following, timestamp_ms=at_ms, epoch=marker.producer[1])
        if change == "hanging":
            entry = insert(log, marker, raw, APPENDED)
            said = f"{_name(log)}, compacted, got {_batch(entry)}, after its producer's last transaction"
            return _found(ground, log, entry, said, "hanging", {"orphan", "late"}, marker)
        epoch = marker.producer[1]
        marker.raw = edited(marker.raw, epoch=epoch + 7)
        said = f"{_name(log)}, compacted: {_batch(marker)}, it was of epoch {epoch}"
        rules = ANY_MARKER | {"epoch", "epochs.ahead", "hanging.orphan"}
        return _found(ground, log, marker, said, "markers", rules, *_transaction(log, marker))

    return plant


def _is_cleaned(log: Log) -> bool:
    return any(one.header.end != other.header.base_offset for one, other in pairwise(log.entries))


def zeroed(*, every: bool) -> Plant:
    """A sector of zeros within a file, on one node or on each."""

    def plant(ground: Ground) -> Planted:
        log, replicas, odd = _replicated(ground)
        if not ground.tree.is_replicated_alike(log):
            raise NoPlace
        segment = log.segments[0]
        entries = segment.entries[2:-4]
        first = ground.choose(entries)
        offset, size = first.header.base_offset, 0
        offsets = []
        for each in log.entries[log.index(first) :]:
            offsets.append(each.header.base_offset)
            size += len(each.raw)
            if size >= SECTOR_BYTES:
                break
        if size < SECTOR_BYTES or log.entries[-1].header.base_offset <= offsets[-1]:
            raise NoPlace
        copies = replicas if every else [odd]
        found = [[copy.find(at) for at in offsets] for copy in copies]
        for entries_there in found:
            if not all(entries_there):
                raise NoPlace
        for entries_there in found:
            left = SECTOR_BYTES
            for there in filter(None, entries_there):
                here = min(left, len(there.raw))
                there.damaged = b"\0" * here + there.raw[here:]
                left -= here
        where = "each node" if every else f"node {odd.node}"
        said = f"{_name(log)}: {SECTOR_BYTES} bytes from offset {offset} on are 0 on {where}"
        files = tuple(each.segments[0].path for each in copies)
        planted = _one_copy(ground, log, [], said, "integrity", {*ZEROS, "replicas.diverged", "offsets.hole"})
        return replace(planted, files=files)

    return plant


def emptied_file(ground: Ground) -> Planted:
    """A file in the middle of a partition has no bytes, on one node."""
    log = ground.choose(each for each in ground.partitions() if len(each.segments) > 2)
    replicas = ground.tree.replicas(log.topic, log.partition)
    if len(replicas) < 2:
        raise NoPlace
    name = ground.choose(each for each in log.segments[1:-1] if each.entries).path.name
    odd = ground.choose(replicas)
    segment = next(each for each in odd.segments if each.path.name == name)
    at = odd.segments.index(segment)
    gone = segment.entries[0].header.base_offset
    there = [each.find(gone) for each in replicas if each is not odd]
    beside = [*odd.segments[at - 1].entries[-1:], *odd.segments[at + 1].entries[:1]]
    segment.entries = []
    said = f"{_name(log)}: the file {name} is empty on node {odd.node}"
    entries = [*beside, *filter(None, there)]
    return _one_copy(ground, log, entries, said, "offsets", {"replicas.diverged", "hole"})


def twice_in_one_copy(ground: Ground) -> Planted:
    """One copy has a batch twice in a row, bytes and offsets."""
    log, _, odd = _replicated(ground)
    entry = ground.choose(odd.entries[1:-2])
    again = Entry(entry.raw)
    odd.insert_after(entry, again)
    said = f"node {odd.node}'s copy of {_name(log)} has {_batch(entry)} twice in a row"
    rules = {"diverged", "offsets.overlap", "integrity.unreadable"}
    return _one_copy(ground, log, [entry, again], said, "replicas", rules)


def shifted_in_one_copy(ground: Ground) -> Planted:
    """From one batch on the offsets of one copy are one above."""
    log, replicas, odd = _replicated(ground)
    at = ground.random.randrange(2, len(odd.segments[-1].entries) - 2) if len(odd.segments) == 1 else 0
    if not at:
        raise NoPlace
    first = odd.entries[at]
    offset = first.header.base_offset
    for each in odd.entries[at:]:
        header = each.header
        each.raw = stamp(each.raw, Offset(header.base_offset + 1), Term(header.leader_epoch))
    odd.keeps_checkpoint = True
    said = f"node {odd.node}'s copy of {_name(log)}: from offset {offset} on all offsets are one above"
    planted = _one_copy(ground, log, [first], said, "replicas", {"diverged", "hole", "offsets.hole"})
    return replace(planted, files=tuple(each.folder for each in replicas))


def ahead_at_the_end(ground: Ground) -> Planted:
    """The last batch of a partition says an offset a thousand above, in each replica."""
    log = ground.choose(ground.partitions())
    replicas = ground.tree.replicas(log.topic, log.partition)
    if any(each.end != log.end for each in replicas) or len(log.entries) < 3:
        raise NoPlace
    entry, before = log.entries[-1], log.entries[-2]
    was = _batch(entry)
    entry.raw = stamp(entry.raw, Offset(entry.header.base_offset + 1000), Term(entry.header.leader_epoch))
    said = f"{_name(log)}: {was} says offset {entry.header.base_offset}"
    return _found(ground, log, entry, said, "offsets", {"hole", "displaced"}, before)


ELSEWHERE: Final[dict[str, dict[str, Plant]]] = {
    "phantom transaction": {"at the end": phantom},
    "marker's batch": {"two records": two_in_one, "no record": emptied_marker},
    "compacted topic": {"hanging": on_compacted("hanging"), "marker": on_compacted("marker")},
    "zeros": {"one node": zeroed(every=False), "each node": zeroed(every=True)},
    "empty file": {"one node": emptied_file},
    "one copy": {"twice in a row": twice_in_one_copy, "offsets above": shifted_in_one_copy},
    "offset ahead": {"at the end": ahead_at_the_end},
}
