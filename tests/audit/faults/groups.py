"""Faults of what groups committed, the same in every replica of their log."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.batch_layout import TRANSACTIONAL
from fencepost.records.offset_commit import OffsetCommitRecord, decode_offset, encode_offset
from fencepost.records.types import Offset, ProducerId, Term
from tests.audit.faults.extra import flipped_outcome
from tests.audit.faults.fault import Ground, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.tree import Entry, Log, edited

OFFSETS: Final = "__consumer_offsets"
BEYOND_END: Final = 1000
_COMMIT: Final = b"\0\1"  # what the key of a commit begins with


def aborted_offset(ground: Ground) -> Planted:
    """The marker behind the offsets of an aborted transaction says commit."""
    log, marker = ground.choose(
        (log, entry)
        for log in ground.tree.of_topic(OFFSETS)
        for entry in log.entries
        if entry.is_marker and flipped_outcome(entry)[1] and _has_offsets(log, entry)
        if ground.is_free(log, entry.producer[0])
    )
    offset, raw = marker.header.base_offset, flipped_outcome(marker)[0]
    entries = _everywhere(ground, log, offset)
    for each in entries:
        each.raw = edited(stamp(raw, Offset(offset), Term(each.header.leader_epoch)))
    ground.take(producer_id=marker.producer[0], entries=entries)
    said = f"{OFFSETS}-{log.partition}: the marker at offset {offset} says commit, it said abort"
    return Planted(check="groups", rules=frozenset({"aborted"}), entries=entries, said=said)


def offset_back(ground: Ground) -> Planted:
    """A new generation's first transaction on a partition commits less than the last one before did."""
    pair = ground.choose(
        each
        for each in _pairs(ground)
        if 0 < each.before.offset <= each.record.offset and each.record.generation > each.before.generation
    )
    back = msgspec.structs.replace(pair.record, offset=0)
    return _changed(ground, pair, "went_back", back, "0 is committed")


def second_owner(ground: Ground) -> Planted:
    """A member commits where another one did, in the same generation."""
    pair = ground.choose(
        each
        for each in _pairs(ground)
        if (each.before.generation, each.before.member_id) == (each.record.generation, each.record.member_id)
    )
    other = msgspec.structs.replace(pair.record, member_id="another")
    return _changed(ground, pair, "two_owners", other, "another member commits")


def stale_generation(ground: Ground) -> Planted:
    """A producer presented a generation that is over, and was let through."""
    pair = ground.choose(each for each in _pairs(ground) if each.record.generation > 1)
    stale = msgspec.structs.replace(pair.record, generation=pair.record.generation - 1)
    return _changed(ground, pair, "stale_generation", stale, "a commit is of the generation before")


def beyond_end(ground: Ground) -> Planted:
    """A group's last commit on a partition lies beyond the partition's end."""
    last = {(each.record.group_id, each.record.topic, each.record.partition): each for each in _pairs(ground)}
    pair = ground.choose(last.values())
    (log, *_) = ground.tree.replicas(pair.record.topic, pair.record.partition)
    far = msgspec.structs.replace(pair.record, offset=Offset(log.end + BEYOND_END))
    return _changed(ground, pair, "beyond_end", far, f"{far.offset} is committed, the log ends at {log.end}")


def not_transactional(ground: Ground) -> Planted:
    """The offsets of an aborted transaction are not marked as transactional: they take effect at once."""
    log, marker = ground.choose(
        (log, entry)
        for log in ground.tree.of_topic(OFFSETS)
        for entry in log.entries
        if entry.is_marker and not _commits(entry) and _has_offsets(log, entry)
        if ground.is_free(log, entry.producer[0]) and ground.is_judged(entry)
    )
    own = [each for each in log.entries[: log.index(marker)] if each.producer[0] == marker.producer[0]]
    offset = own[-1].header.base_offset
    entries = _everywhere(ground, log, offset)
    for each in entries:
        each.raw = edited(each.raw, attributes=each.header.attributes & ~TRANSACTIONAL)
    ends = _everywhere(ground, log, marker.header.base_offset)
    ground.take(producer_id=marker.producer[0], entries=(*entries, *ends))
    said = f"{OFFSETS}-{log.partition}: the commit at offset {offset} is not marked as transactional"
    rules = frozenset({"not_transactional", "groups.aborted", "markers.bit"})
    return Planted(
        check="markers",
        rules=rules,
        entries=(*entries, *ends),
        said=said,
        producer_id=marker.producer[0],
    )


def _changed(ground: Ground, pair: "_Pair", rule: str, record: OffsetCommitRecord, what: str) -> Planted:
    header = pair.entry.header
    raw = encode_batch(
        [BatchRecord(*encode_offset(record))],
        timestamp_ms=header.max_timestamp_ms,
        transactional=True,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    entries = _everywhere(ground, pair.log, header.base_offset)
    for each in entries:
        each.raw = stamp(raw, Offset(header.base_offset), Term(each.header.leader_epoch))
    ground.take(entries=(*entries, pair.entry_before))
    said = f"{OFFSETS}-{pair.log.partition}: at offset {header.base_offset} {what}"
    return Planted(check="groups", rules=frozenset({rule}), entries=entries, said=said)


class _Pair(NamedTuple):
    """Two commits of one partition one after the other, by members, in transactions that were committed."""

    log: Log
    entry_before: Entry
    before: OffsetCommitRecord
    entry: Entry
    record: OffsetCommitRecord


def _pairs(ground: Ground) -> Iterator[_Pair]:
    """Those whose records lie in batches of their own, and that no fault has touched."""
    for log in ground.tree.of_topic(OFFSETS):
        last: dict[tuple[str, str, int], tuple[Entry, OffsetCommitRecord]] = {}
        for entry in log.entries:
            records = _records(entry)
            ended = _end_of(log, entry) if entry.header.is_transactional else None
            if entry.header.is_transactional and (ended is None or not _commits(ended)):
                continue
            is_sound = ground.is_untouched(entry) and (ended is None or ground.is_untouched(ended))
            for record in records:
                key = (record.group_id, record.topic, record.partition)
                before = last.pop(key, None)
                if not is_sound:
                    continue
                last[key] = (entry, record)
                if (
                    before is not None
                    and before[1].is_identified
                    and record.is_identified
                    and len(records) == 1
                ):
                    yield _Pair(log, *before, entry, record)


def _end_of(log: Log, entry: Entry) -> Entry | None:
    own = [each for each in log.entries[log.index(entry) :] if each.producer[0] == entry.producer[0]]
    return next((each for each in own if each.is_marker), None)


def _commits(marker: Entry) -> bool:
    return not flipped_outcome(marker)[1]


def _has_offsets(log: Log, marker: Entry) -> bool:
    own = [each for each in log.entries[: log.index(marker)] if each.producer[0] == marker.producer[0]]
    return bool(own) and own[-1].is_data


def _records(entry: Entry) -> list[OffsetCommitRecord]:
    """The commits of a batch; none if it holds anything else."""
    if entry.header.is_control:
        return []
    producer_id, epoch = entry.producer
    found = [
        decode_offset(record.key, record.value, ProducerId(producer_id), epoch)
        for record in entry.batch().records
        if record.key is not None and record.key.startswith(_COMMIT)
    ]
    return [each for each in found if isinstance(each, OffsetCommitRecord)]


def _everywhere(ground: Ground, log: Log, offset: int) -> tuple[Entry, ...]:
    found = [each.find(offset) for each in ground.tree.replicas(OFFSETS, log.partition)]
    return tuple(each for each in found if each is not None)


BEYOND_GROUPS: dict[str, dict[str, Plant]] = {
    "offset beyond the end": {"last commit": beyond_end},
    "offset outside its transaction": {"bit cleared": not_transactional},
}
GROUPS: dict[str, dict[str, Plant]] = {
    "aborted offset": {"commit marker": aborted_offset},
    "offset back": {"to 0": offset_back},
    "second owner": {"member": second_owner},
    "stale generation": {"one before": stale_generation},
}
