"""Faults of whole batches and files: moved, doubled, of another producer, under another name."""

from dataclasses import replace
from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.batch_layout import TRANSACTIONAL
from fencepost.records.types import Offset, Term
from tests.audit.faults.copies import _one_copy, _replicated
from tests.audit.faults.extra import flipped_outcome
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.groups import OFFSETS, _has_offsets
from tests.audit.faults.insert import APPENDED, RENUMBERED, insert, take_out
from tests.audit.faults.pairs import ANY_MARKER, _end_of, _found, _marker, _next_of, _own, _transaction
from tests.audit.faults.producers import Plant, _batch, _data, _entry, _has_data, _later, _name
from tests.audit.faults.tree import Entry, Log, edited

ANY_SEQUENCE: Final = frozenset({"sequences.gap", "sequences.duplicate"})
LATER_LEAST: Final = 2  # batches of its producer, between a batch and its copy


def anothers_marker(ground: Ground) -> Planted:
    """A marker has the id and epoch of another producer, which has no transaction open there."""
    log, marker = _entry(
        ground, lambda log, entry: entry.is_marker and _has_data(log, entry) and bool(_idle(log, entry))
    )
    other = ground.choose(_idle(log, marker))
    own, was = _transaction(log, marker), _batch(marker)
    later = _own(log, marker)[1:]
    marker.raw = edited(marker.raw, producer_id=other[0], epoch=other[1])
    said = f"{_name(log)}: {was} is of producer {other[0]} epoch {other[1]}"
    planted = _found(ground, log, marker, said, "markers", ANY_MARKER, *own, *later)
    return replace(planted, producer_id=-1)  # either of both


def moved_marker(ground: Ground) -> Planted:
    """A marker stands in another partition than its transaction's data."""
    log, marker = _entry(ground, lambda log, entry: entry.is_marker and _has_data(log, entry))
    others = [each for each in ground.partitions() if each is not log]
    other = ground.choose(others)
    before = [
        each for each in other.entries[:-1] if each.header.max_timestamp_ms <= marker.header.max_timestamp_ms
    ]
    place = ground.choose(before[-1:])
    own = [*_transaction(log, marker), *_own(log, marker)[1:]]
    said = f"{_name(log)}: {_batch(marker)} is in {_name(other)}"
    take_out(log, marker, renumber=True)
    own += [each for each in other.entries if each.producer[0] == marker.producer[0]]
    moved = insert(other, place, marker.raw, RENUMBERED)
    ground.take(log=other)
    return _found(ground, log, moved, said, "markers", ANY_MARKER, *own)


def late_marker(ground: Ground) -> Planted:
    """A marker stands behind the first batch of its producer's next transaction, of an epoch of its own.

    Where all have one epoch, nothing in the log says which batch is of which transaction.
    """
    log, marker = _entry(
        ground,
        lambda log, entry: (
            entry.is_marker
            and _has_data(log, entry)
            and bool(_next_of(log, entry))
            and _next_of(log, entry)[0].producer[1] > _transaction(log, entry)[0].producer[1]
            and _next_of(log, entry)[0].header.leader_epoch == entry.header.leader_epoch
            and _one_file(log, entry, _next_of(log, entry)[0])
        ),
    )
    place = _next_of(log, marker)[0]
    entries = log.entries
    start, end = log.index(marker), log.index(place)
    said = f"{_name(log)}: {_batch(marker)} stands behind {_batch(place)}, of the next transaction"
    own = [*_transaction(log, marker), *_next_of(log, marker)]
    between = entries[start + 1 : end + 1]
    log.remove(marker)
    for each in between:
        header = each.header
        each.raw = stamp(each.raw, Offset(header.base_offset - 1), Term(header.leader_epoch))
    last = place.header
    moved = Entry(stamp(marker.raw, Offset(last.end), Term(last.leader_epoch)))
    log.insert_after(place, moved)
    ends = [each for each in _own(log, moved) if each.is_marker][:2]
    rules = ANY_MARKER | {"late", "epochs.regressed"}
    return _found(ground, log, moved, said, "markers", rules, *own, *ends)


def doubled_transaction(ground: Ground) -> Planted:
    """The last transaction of a producer, data and marker, stands there once more at the end."""
    log, marker = _entry(
        ground, lambda log, entry: entry.is_marker and _has_data(log, entry) and len(_own(log, entry)) == 1
    )
    own = [*_transaction(log, marker), marker]
    said = f"{_name(log)}: all of the transaction that {_batch(marker)} ends is there once more"
    again = [insert(log, log.entries[-1], each.raw, APPENDED) for each in own]
    rules = {"duplicate", "gap", "fencing.zombie", "hanging.orphan"} | {
        f"markers.{each}" for each in ANY_MARKER
    }
    return _found(ground, log, again[0], said, "sequences", rules, *own, *again)


def repeated_later(ground: Ground) -> Planted:
    """A batch once more, some batches of its producer later."""
    log, sample = _data(ground, lambda log, entry: len(_later(log, entry)) > LATER_LEAST)
    place = _later(log, sample)[LATER_LEAST - 1]
    entry = insert(log, place, sample.raw, RENUMBERED)
    said = f"{_name(log)} got {_batch(sample)} twice, the second time at offset {entry.header.base_offset}"
    return _found(
        ground,
        log,
        entry,
        said,
        "sequences",
        {"duplicate", "gap"} | {f"markers.{each}" for each in ANY_MARKER} | {"hanging.orphan"},
        sample,
        *_later(log, entry)[:1],
    )


def anothers_data(ground: Ground) -> Planted:
    """A batch of a transaction has the id and epoch of another producer."""
    log, entry = _data(ground, lambda log, entry: _end_of(log, entry) is not None and bool(_idle(log, entry)))
    other = ground.choose(_idle(log, entry))
    was, own = _batch(entry), [*_transaction(log, entry), *_later(log, entry)[:1]]
    end = _end_of(log, entry)
    entry.raw = edited(entry.raw, producer_id=other[0], epoch=other[1])
    theirs = [each for each in log.entries if each.producer[0] == other[0]]
    said = f"{_name(log)}: {was} is of producer {other[0]} epoch {other[1]}"
    left = {"hanging.orphan", "fencing.zombie"}  # a zombie's, if its coordinator left that epoch
    rules = ANY_SEQUENCE | {f"markers.{each}" for each in (*ANY_MARKER, "late")} | left
    return _found(ground, log, entry, said, "sequences", rules, *own, *theirs, *([end] if end else []))


def no_epoch(ground: Ground) -> Planted:
    """A batch of a producer has no epoch."""
    log, entry = _data(ground, lambda log, entry: bool(_later(log, entry)))
    was = _batch(entry)
    own = [*_transaction(log, entry), *_later(log, entry)[:1]]
    end = _end_of(log, entry)
    entry.raw = edited(entry.raw, epoch=-1)
    said = f"{_name(log)}: {was} has the epoch -1"
    return _found(ground, log, entry, said, "epochs", {"none"}, *own, *([end] if end else []))


def numbered_marker(ground: Ground) -> Planted:
    """A marker has a sequence, as only data has."""
    log, marker = _marker(ground)
    marker.raw = edited(marker.raw, sequence=5)
    said = f"{_name(log)}: {_batch(marker)} has the sequence 5"
    return _found(ground, log, marker, said, "markers", {"sequence"})


def unmarked_marker(ground: Ground) -> Planted:
    """A marker is a control batch, and not transactional."""
    log, marker = _marker(ground)
    marker.raw = edited(marker.raw, attributes=marker.header.attributes & ~TRANSACTIONAL)
    said = f"{_name(log)}: {_batch(marker)} has no transactional bit"
    return _found(ground, log, marker, said, "markers", {"transactional_bit"})


def offsets_marker(change: str) -> Plant:
    """In a log of groups' offsets a marker is gone, or one of the other outcome follows it."""

    def plant(ground: Ground) -> Planted:
        log, marker = ground.choose(
            (log, entry)
            for log in ground.tree.of_topic(OFFSETS)
            for entry in log.entries[:-1]
            if entry.is_marker
            and any(each.is_data for each in _own(log, entry)[1:])
            and _has_offsets(log, entry)
            and ground.is_judged(entry)
            if ground.is_free(log, entry.producer[0]) and _is_last_file(log, entry)
        )
        own = [each for each in log.entries if each.producer[0] == marker.producer[0]]
        was = _batch(marker)
        if change == "gone":
            take_out(log, marker, renumber=True)
            entry = next(
                (
                    each
                    for each in own
                    if each.header.base_offset >= marker.header.base_offset and each is not marker
                ),
                own[-1],
            )
        else:
            entry = insert(log, marker, flipped_outcome(marker)[0], RENUMBERED)
        ground.take(log=log)
        said = f"{OFFSETS}-{log.partition}: {was} " + (
            "is gone" if change == "gone" else "is followed by one of the other outcome"
        )
        return _found(
            ground,
            log,
            entry,
            said,
            "markers",
            ANY_MARKER | {"groups.aborted", "late"},
            *(each for each in own if each is not marker),
        )

    return plant


def file_doubled(ground: Ground) -> Planted:
    """On one node a partition's last file is there once more, under the name of what would follow."""
    log, _, odd = _replicated(ground)
    last = odd.segments[-1]
    if not last.entries or last.tail:
        raise NoPlace
    path = last.path.with_name(f"{odd.end:020}.log")
    content = b"".join(each.raw for each in last.entries)
    path.write_bytes(content)
    said = f"node {odd.node}'s copy of {_name(log)}: {last.path.name} once more as {path.name}"
    planted = _one_copy(
        ground, log, [], said, "integrity", {"unreadable", "offsets.overlap", "replicas.diverged"}
    )
    return replace(planted, files=(path,))


def anothers_file(ground: Ground) -> Planted:
    """On one node a file of a partition has the content of another partition's file of the same name."""
    log, replicas, odd = _replicated(ground)
    mine = odd.segments[0]
    others = [
        each.segments[0]
        for each in ground.tree.logs
        if each is not odd
        and not each.topic.startswith("__")
        and each.segments[0].path.name == mine.path.name
        and each.segments[0].entries
        and each.topic != odd.topic
    ]
    theirs = ground.choose(others)
    theirs_name = theirs.path.parent.name
    said = f"node {odd.node}'s copy of {_name(log)}: {mine.path.name} has the batches of {theirs_name}"
    mine.entries = [Entry(each.raw) for each in theirs.entries]
    odd.keeps_checkpoint = True
    planted = _one_copy(
        ground, log, [], said, "replicas", {"diverged", "offsets.hole", "offsets.overlap", "short"}
    )
    return replace(planted, files=tuple(each.folder for each in replicas))


def _idle(log: Log, entry: Entry) -> list[tuple[int, int]]:
    """Producers that wrote before the entry and after it, with no transaction open there; their epochs."""
    last: dict[int, Entry] = {}
    at = log.index(entry)
    for each in log.entries[:at]:
        if each.header.is_transactional:
            last[each.producer[0]] = each
    last.pop(entry.producer[0], None)
    return [each.producer for each in last.values() if each.is_marker]


def _one_file(log: Log, one: Entry, other: Entry) -> bool:
    return any(
        any(each is one for each in segment.entries) and any(each is other for each in segment.entries)
        for segment in log.segments
    )


def _is_last_file(log: Log, entry: Entry) -> bool:
    return any(each is entry for each in log.segments[-1].entries)


DISPLACED: dict[str, dict[str, Plant]] = {
    "marker of another producer": {"that is idle": anothers_marker},
    "moved marker": {"to another partition": moved_marker},
    "late marker": {"in the next transaction": late_marker},
    "doubled transaction": {"at the end": doubled_transaction},
    "repeated batch": {"some batches later": repeated_later},
    "batch of another producer": {"that is idle": anothers_data},
    "no epoch": {"-1": no_epoch},
    "numbered marker": {"5": numbered_marker},
    "marker's transactional bit": {"cleared": unmarked_marker},
    "marker of offsets": {"gone": offsets_marker("gone"), "other outcome behind": offsets_marker("other")},
    "file doubled": {"at the end": file_doubled},
    "file of another partition": {"the first": anothers_file},
}
