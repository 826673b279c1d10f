"""Faults between a transaction's data and its marker: exchanged, early, foreign, of another outcome."""

import struct
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.batch_layout import CONTROL, HEADER_BYTES, TRANSACTIONAL
from fencepost.records.types import Offset, Term
from tests.audit.faults.extra import flipped_outcome
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.insert import APPENDED, RENUMBERED, insert, take_out
from tests.audit.faults.producers import Plant, _batch, _data, _entry, _has_data, _later, _name
from tests.audit.faults.tree import Entry, Log, edited

# Of a marker's record, uncompressed, as Kafka and we write it (audit/decode/control.py).
TYPE_AT: Final = HEADER_BYTES + 7
COORDINATOR_EPOCH_AT: Final = HEADER_BYTES + 12
VERSION_BYTES: Final = 8  # at the end of ours
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")

ANY_MARKER: Final = frozenset(
    {"missing", "double", "early", "wrong_outcome", "without_transaction", "exchanged", "foreign"}
)


def exchanged(*, whole: bool) -> Plant:
    """A COMMIT and an ABORT marker of one producer change places: their outcomes, or whole batches."""

    def plant(ground: Ground) -> Planted:
        log, first = _entry(ground, lambda log, entry: bool(_other_outcome(log, entry)))
        second = _other_outcome(log, first)[0]
        said = (
            f"{_name(log)}: {_batch(first)} and the one at offset {second.header.base_offset} are exchanged"
        )
        if whole:
            one, other = first.header, second.header
            first.raw, second.raw = (
                stamp(second.raw, Offset(one.base_offset), Term(one.leader_epoch)),
                stamp(first.raw, Offset(other.base_offset), Term(other.leader_epoch)),
            )
        else:
            first.raw, second.raw = flipped_outcome(first)[0], flipped_outcome(second)[0]
        return _found(ground, log, first, said, "markers", ANY_MARKER, second)

    return plant


def early(ground: Ground) -> Planted:
    """A marker stands before its transaction's first batch: a zombie's, behind an abort of a later epoch."""
    log, marker = _entry(ground, lambda log, entry: entry.is_marker and _first_of(log, entry) is not None)
    first = _first_of(log, marker)
    if first is None:
        raise NoPlace
    entries = log.entries
    start, end = log.index(first), log.index(marker)
    said = f"{_name(log)}: {_batch(marker)} stands before its data, at {first.header.base_offset}"
    place, producer_id = entries[start - 1], marker.producer[0]
    offset = first.header.base_offset
    log.remove(marker)
    for each in entries[start:end]:
        header = each.header
        each.raw = stamp(each.raw, Offset(header.base_offset + 1), Term(header.leader_epoch))
    moved = Entry(stamp(marker.raw, Offset(offset), Term(first.header.leader_epoch)))
    log.insert_after(place, moved)
    own = [each for each in entries[start:end] if each.producer[0] == producer_id]
    rules = ANY_MARKER | {"hanging.orphan", "fencing.zombie"}
    return _found(ground, log, moved, said, "markers", rules, *own)


def opposite(ground: Ground) -> Planted:
    """Behind a marker stands one of the other outcome, of the same producer and epoch."""
    log, marker = _marker(ground)
    entry = insert(log, marker, flipped_outcome(marker)[0], RENUMBERED)
    said = f"{_name(log)} got {_batch(entry)}, of the other outcome than the one before it"
    return _found(ground, log, entry, said, "markers", ANY_MARKER, marker)


def too_soon(ground: Ground) -> Planted:
    """A marker once more, in the middle of its producer's next transaction on the partition."""
    log, marker = _entry(ground, lambda log, entry: entry.is_marker and len(_next_of(log, entry)) > 1)
    place = _next_of(log, marker)[0]
    entry = insert(log, place, edited(marker.raw, epoch=place.producer[1]), RENUMBERED)
    said = f"{_name(log)} got {_batch(entry)}, in the middle of a transaction"
    own = _next_of(log, marker)
    return _found(ground, log, entry, said, "markers", ANY_MARKER | {"hanging.orphan"}, marker, *own)


def other_epoch(by: int) -> Plant:
    """A marker's producer epoch is another than that of its transaction's end."""

    def plant(ground: Ground) -> Planted:
        log, marker = _entry(
            ground,
            lambda log, entry: entry.is_marker and _has_data(log, entry) and entry.producer[1] + by >= 0,
        )
        was = _batch(marker)
        marker.raw = edited(marker.raw, epoch=marker.producer[1] + by)
        said = f"{_name(log)}: {was} is of epoch {marker.producer[1]}"
        rules = ANY_MARKER | {"epochs.regressed", "epochs.ahead", "fencing.zombie", "epochs.unknown", "epoch"}
        return _found(ground, log, marker, said, "markers", rules, *_transaction(log, marker))

    return plant


def coordinator_epoch(change: Callable[[int], int]) -> Plant:
    """A marker says another epoch of its coordinator: none that there is, or one that is over."""

    def plant(ground: Ground) -> Planted:
        log, marker = _marker(ground)
        raw = bytearray(marker.raw)
        was = _I32.unpack_from(raw, COORDINATOR_EPOCH_AT)[0]
        wanted = change(was)
        if wanted == was:
            raise NoPlace
        _I32.pack_into(raw, COORDINATOR_EPOCH_AT, wanted)
        marker.raw = edited(bytes(raw))
        said = f"{_name(log)}: {_batch(marker)} says coordinator epoch {wanted}, not {was}"
        return _found(ground, log, marker, said, "markers", {"epochs.coordinator"})

    return plant


def other_type(wanted: int) -> Plant:
    """A control batch of a producer that is no end of a transaction."""

    def plant(ground: Ground) -> Planted:
        log, marker = _marker(ground)
        raw, own = bytearray(marker.raw), _transaction(log, marker)
        _I16.pack_into(raw, TYPE_AT, wanted)
        marker.raw = edited(bytes(raw))
        said = f"{_name(log)}: {_batch(marker)} is a control record of type {wanted}"
        return _found(ground, log, marker, said, "markers", {"control_type"}, *own)

    return plant


def other_version(ground: Ground) -> Planted:
    """Ours: a marker carries the version of another transaction's end."""
    log, marker = _entry(ground, lambda log, entry: entry.is_versioned and _has_data(log, entry))
    versions = {each.raw[-VERSION_BYTES - 1 :] for each in log.entries if each.is_versioned}
    other = ground.choose(sorted(versions - {marker.raw[-VERSION_BYTES - 1 :]}))
    marker.raw = edited(marker.raw[: -len(other)] + other)
    said = f"{_name(log)}: {_batch(marker)} carries the version of another one"
    return _found(ground, log, marker, said, "markers", ANY_MARKER | {"version"})


def cleared_bit(*, every: bool) -> Plant:
    """Data of a transaction is not marked as transactional: one batch, or all of it on the partition."""

    def plant(ground: Ground) -> Planted:
        log, entry = _data(ground, lambda log, entry: _end_of(log, entry) is not None)
        own = _transaction(log, entry)
        said = f"{_name(log)}: {_batch(entry)} is not marked as transactional"
        changed = own if every else [entry]
        for each in changed:
            each.raw = edited(each.raw, attributes=each.header.attributes & ~TRANSACTIONAL)
        end = _end_of(log, entry)
        rules = ANY_MARKER | {"not_transactional", "sequences.not_transactional", "bit"}
        return _found(ground, log, entry, said, "markers", rules, *own, *([end] if end else []))

    return plant


def control_bit(*, on_data: bool) -> Plant:
    """A marker is data by its attributes, or data a control batch."""

    def plant(ground: Ground) -> Planted:
        if on_data:
            log, entry = _data(ground, lambda log, entry: _end_of(log, entry) is not None)
        else:
            log, entry = _marker(ground)
        before, own = _batch(entry), _transaction(log, entry)
        entry.raw = edited(entry.raw, attributes=entry.header.attributes ^ CONTROL)
        said = f"{_name(log)}: {before} has the control bit {'set' if on_data else 'cleared'}"
        more = (*own, *_later(log, entry, entry.producer)[:1])
        return _found(ground, log, entry, said, "markers", {"control_bit"}, *more)

    return plant


def whole_transaction(ground: Ground) -> Planted:
    """A transaction's data and marker are gone from a partition; what follows moved up."""
    log, marker = _entry(
        ground,
        lambda log, entry: entry.is_marker and _first_of(log, entry) is not None and _goes_on(log, entry),
    )
    own = [*_transaction(log, marker), marker]
    said = f"{_name(log)}: all of the transaction that {_batch(marker)} ends is gone"
    producer_id = marker.producer[0]
    entries: list[Entry] = []
    for each in own:
        entries += take_out(log, each, renumber=True)
    entries += [each for each in log.entries if each.producer[0] == producer_id]
    ground.take(log=log, producer_id=producer_id, entries=entries)
    rules = ANY_MARKER | {"sequences.gap"}
    return Planted(check="markers", rules=rules, entries=tuple(entries), said=said, producer_id=producer_id)


def late_data(*, future: bool) -> Plant:
    """A batch of a transaction that has ended, once more behind its marker, with the next sequence."""

    def plant(ground: Ground) -> Planted:
        log, marker = _entry(
            ground,
            lambda log, entry: (
                entry.is_marker and _has_data(log, entry) and not _goes_on(log, entry, any_epoch=True)
            ),
        )
        sample = _transaction(log, marker)[-1]
        at_ms = log.entries[-1].header.max_timestamp_ms + (FUTURE_MS if future else 1)
        raw = edited(
            sample.raw,
            sequence=sample.header.base_sequence + sample.header.record_count,
            timestamp_ms=at_ms,
        )
        entry = insert(log, marker, raw, APPENDED)
        said = f"{_name(log)} got {_batch(entry)}, after its transaction's marker"
        rules = {"orphan", "late", "fencing.zombie", "markers.missing"}
        return _found(ground, log, entry, said, "hanging", rules)

    return plant


FUTURE_MS: Final = 10 * 365 * 86_400_000


def _found(
    ground: Ground,
    log: Log,
    entry: Entry,
    said: str,
    check: str,
    rules: Iterable[str],
    *more: Entry,
) -> Planted:
    producer_id = entry.producer[0]
    ground.take(log=log, producer_id=producer_id, entries=(entry, *more))
    return Planted(
        check=check, rules=frozenset(rules), entries=(entry, *more), said=said, producer_id=producer_id
    )


def _marker(ground: Ground) -> tuple[Log, Entry]:
    return _entry(ground, lambda log, entry: entry.is_marker and _has_data(log, entry))


def _other_outcome(log: Log, marker: Entry) -> list[Entry]:
    """The producer's next marker, if it says the other outcome; both end data here."""
    if not (marker.is_marker and _has_data(log, marker)):
        return []
    later = _own(log, marker)
    following = [each for each in later[1:] if each.is_marker][:1]
    return [
        each
        for each in following
        if _has_data(log, each) and flipped_outcome(each)[1] != flipped_outcome(marker)[1]
    ]


def _transaction(log: Log, entry: Entry) -> list[Entry]:
    """The data of the transaction that the entry is part of or ends."""
    own = [each for each in log.entries if each.producer[0] == entry.producer[0]]
    index = next(number for number, each in enumerate(own) if each is entry)
    start = index
    while start > 0 and not own[start - 1].is_marker:
        start -= 1
    end = index
    while end < len(own) and not own[end].is_marker:
        end += 1
    return own[start:end]


def _first_of(log: Log, marker: Entry) -> Entry | None:
    """The first batch that the marker ends; None: it ends none, or that one begins its file."""
    own = _transaction(log, marker)
    if not own:
        return None
    segment = next(each for each in log.segments if any(one is marker for one in each.entries))
    is_inside = any(one is own[0] for one in segment.entries) and segment.entries[0] is not own[0]
    return own[0] if is_inside else None


def _own(log: Log, entry: Entry) -> list[Entry]:
    """The entry and what its producer wrote after it."""
    return [each for each in log.entries[log.index(entry) :] if each.producer[0] == entry.producer[0]]


def _next_of(log: Log, marker: Entry) -> list[Entry]:
    """The data of its producer's next transaction here."""
    later = _own(log, marker)[1:]
    return _transaction(log, later[0]) if later and later[0].is_data else []


def _end_of(log: Log, entry: Entry) -> Entry | None:
    return next((each for each in _own(log, entry) if each.is_marker), None)


def _goes_on(log: Log, marker: Entry, *, any_epoch: bool = False) -> bool:
    """Whether its producer writes again here, with the same epoch unless ``any_epoch``."""
    later = _own(log, marker)[1:]
    return bool(later) and (any_epoch or later[0].producer[1] == marker.producer[1])


PAIRS: dict[str, dict[str, Plant]] = {
    "exchanged markers": {"outcomes": exchanged(whole=False), "batches": exchanged(whole=True)},
    "early marker": {"before its data": early},
    "opposite marker": {"behind": opposite},
    "marker too soon": {"between batches": too_soon},
    "marker of another epoch": {
        "one above": other_epoch(1),
        "one below": other_epoch(-1),
        "far above": other_epoch(500),
    },
    "coordinator epoch": {
        "-5": coordinator_epoch(lambda _: -5),
        "one back": coordinator_epoch(lambda was: was - 1),
        "far above": coordinator_epoch(lambda was: was + 1000),
    },
    "control type": {"leader change": other_type(2), "not known": other_type(77)},
    "transactional bit": {"one batch": cleared_bit(every=False), "all of it": cleared_bit(every=True)},
    "control bit": {"of a marker": control_bit(on_data=False), "of data": control_bit(on_data=True)},
    "transaction gone": {"renumbered": whole_transaction},
    "late data": {"at the end": late_data(future=False), "of a future time": late_data(future=True)},
}
