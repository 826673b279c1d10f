"""Faults of what producers write, in the logs of users' topics."""

from collections.abc import Callable
from typing import Final

from fencepost.records.batch_layout import TRANSACTIONAL
from tests.audit.faults.blocks import ends
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.insert import APPENDED, RENUMBERED, insert, take_out
from tests.audit.faults.tree import METADATA, STATES, Entry, Log, edited

Plant = Callable[[Ground], Planted]
_SEQUENCES: Final = 2**31
LOOKS_MAX: Final = 1000  # at entries of one log, before another is tried: a look may walk all of a long log


def lost_record(renumber: bool) -> Plant:
    """A batch of a producer is gone, not its last; the offsets have a hole, or the sequence alone tells."""

    def plant(ground: Ground) -> Planted:
        log, entry = _data(ground, lambda log, entry: bool(_later(log, entry)))
        said = f"{_name(log)} lost {_batch(entry)}"
        beside = take_out(log, entry, renumber=renumber)
        entries = (*beside, *_later(log, beside[-1], entry.producer)[:1]) if renumber else beside
        check, rule = ("sequences", "gap") if renumber else ("offsets", "hole")
        ground.take(log=log, producer_id=entry.producer[0], entries=entries)
        return Planted(check=check, rules=frozenset({rule}), entries=entries, said=said)

    return plant


def zombie_batch(way: str) -> Plant:
    """Data of an epoch that its producer has left, after a batch or marker of a later one."""

    def plant(ground: Ground) -> Planted:
        log, place = _entry(ground, lambda _, entry: entry.producer[1] >= 1)
        producer_id, epoch = place.producer
        samples = [each for each in log.entries if each.is_data and each.header.is_transactional]
        old = [each for each in samples if each.producer[0] == producer_id and each.producer[1] < epoch]
        sample = ground.choose(old or samples)
        sequence = sample.header.base_sequence if old else 0
        place = log.entries[-1] if way == APPENDED else ground.choose(_until_epoch_ends(log, place))
        raw = edited(
            sample.raw,
            producer_id=producer_id,
            epoch=sample.producer[1] if old else epoch - 1,
            sequence=sequence,
            timestamp_ms=place.header.max_timestamp_ms + 1,
        )
        entry = insert(log, place, raw, way)
        said = f"{_name(log)} got {_batch(entry)} after epoch {epoch}"
        return _planted(ground, log, entry, "fencing", {"zombie"}, said)

    return plant


def double_marker(way: str, *, at_once: bool = False, fresh: bool = False) -> Plant:
    """A marker once more: at once, or later while its producer has that epoch; maybe of a later time.

    One of ours: Kafka's coordinators write theirs again when they do not know whether it was written.
    """

    def plant(ground: Ground) -> Planted:
        log, marker = _entry(ground, lambda log, entry: entry.is_versioned and _stays(log, entry, way))
        place = marker if at_once else ground.choose(_until_epoch_ends(log, marker))
        at_ms = (log.entries[-1] if way == APPENDED else place).header.max_timestamp_ms
        raw = edited(marker.raw, timestamp_ms=at_ms) if fresh else marker.raw
        entry = insert(log, place, raw, way)
        said = (
            f"{_name(log)} got {_batch(marker)} twice, the second time at offset {entry.header.base_offset}"
        )
        same = [each for each in log.entries if each.is_marker and each.producer == marker.producer]
        # Of a time of its own, and without a version, it is no one's copy.
        rules = {"double", "without_transaction"} if fresh else {"double"}
        return _planted(ground, log, entry, "markers", rules, said, *same)

    return plant


def missing_marker(*, renumber: bool = False, last: bool = False) -> Plant:
    """A marker is gone, in the middle or at the end of the log."""

    def plant(ground: Ground) -> Planted:
        log, marker = _entry(
            ground,
            lambda log, entry: entry.is_marker and _has_data(log, entry) and _is_last(log, entry) == last,
        )
        said = f"{_name(log)} lost {_batch(marker)}"
        producer_id = marker.producer[0]
        own = [each for each in log.entries if each.producer[0] == producer_id and each is not marker]
        entries = (*take_out(log, marker, renumber=renumber), *own)
        ground.take(log=log, producer_id=producer_id, entries=entries)
        return Planted(
            check="markers",
            rules=frozenset({"missing"}),
            entries=entries,
            said=said,
            producer_id=producer_id,
        )

    return plant


def regressed_marker(way: str) -> Plant:
    """A marker of an epoch below one that its producer has written with."""

    def plant(ground: Ground) -> Planted:
        log, place = _entry(ground, lambda _, entry: entry.producer[1] >= 1)
        producer_id, epoch = place.producer
        place = log.entries[-1] if way == APPENDED else ground.choose(_until_epoch_ends(log, place))
        sample = ground.choose(_latest_marker(log, place))
        at_ms = place.header.max_timestamp_ms
        raw = edited(sample.raw, producer_id=producer_id, epoch=epoch - 1, timestamp_ms=at_ms)
        entry = insert(log, place, raw, way)
        said = f"{_name(log)} got {_batch(entry)} after epoch {epoch}"
        return _planted(ground, log, entry, "epochs", {"regressed"}, said)

    return plant


def foreign_id(way: str, *, transactional: bool = False) -> Plant:
    """Data of a producer id that no producer was ever given: the first free one, or one far away."""

    def plant(ground: Ground) -> Planted:
        log, sample = _data(ground, lambda *_: True)
        free = max(ends(ground.tree))
        producer_id = ground.choose((free, free + 1, free + 12_345, 2**40))
        attributes = sample.header.attributes & ~TRANSACTIONAL | (TRANSACTIONAL if transactional else 0)
        raw = edited(sample.raw, producer_id=producer_id, epoch=0, sequence=0, attributes=attributes)
        entry = insert(log, ground.choose(log.entries[:-1]), raw, way)
        said = f"{_name(log)} got {_batch(entry)}; ids are given out below {free}"
        return _planted(ground, log, entry, "ids", {"outside_blocks"}, said)

    return plant


def sequence_gap(*, new_epoch: bool = False) -> Plant:
    """From one batch on a producer's sequence is too far; or its new epoch does not begin at 0."""

    def plant(ground: Ground) -> Planted:
        def fits(log: Log, entry: Entry) -> bool:
            header = entry.header
            is_first = header.base_sequence == 0
            return (
                is_first and header.producer_epoch > 0 and _seen_before(log, entry)
                if new_epoch
                else not is_first
            )

        log, entry = _data(ground, fits)
        gap = ground.choose((1, 7, 1000, 1_000_000))
        said = f"{_name(log)}: {gap} skipped before {_batch(entry)}"
        for each in (entry, *_later(log, entry)):
            each.raw = edited(each.raw, sequence=(each.header.base_sequence + gap) % _SEQUENCES)
        return _planted(ground, log, entry, "sequences", {"gap"}, said)

    return plant


def sequence_duplicate(ground: Ground) -> Planted:
    """A batch once more, in its own transaction."""
    log, sample = _data(ground, lambda log, entry: entry is not log.entries[-1])
    entry = insert(log, sample, sample.raw, RENUMBERED)
    said = f"{_name(log)} got {_batch(sample)} twice"
    return _planted(ground, log, entry, "sequences", {"duplicate"}, said, sample)


def _planted(
    ground: Ground, log: Log, entry: Entry, check: str, rules: set[str], said: str, *more: Entry
) -> Planted:
    ground.take(log=log, producer_id=entry.producer[0], entries=(entry, *more))
    return Planted(
        check=check,
        rules=frozenset(rules),
        entries=(entry, *more),
        said=said,
        producer_id=entry.header.producer_id,
    )


def _entry(ground: Ground, fits: Callable[[Log, Entry], bool]) -> tuple[Log, Entry]:
    """Of a producer with transactions, in a log without a fault. Raises NoPlace."""
    ground.rely(METADATA, STATES)
    for log in ground.partitions():
        free = [
            each
            for each in log.entries
            if each.header.is_transactional
            and ground.is_free(log, each.producer[0])
            and ground.is_judged(each)
        ]
        for _ in range(min(len(free), LOOKS_MAX)):
            each = ground.choose(free)
            if fits(log, each):
                return log, each
    raise NoPlace


def _data(ground: Ground, fits: Callable[[Log, Entry], bool]) -> tuple[Log, Entry]:
    return _entry(ground, lambda log, entry: entry.is_data and fits(log, entry))


def _later(log: Log, entry: Entry, producer: tuple[int, int] | None = None) -> list[Entry]:
    """Data of the same producer and epoch after the entry."""
    wanted = producer or entry.producer
    return [each for each in log.entries[log.index(entry) + 1 :] if each.is_data and each.producer == wanted]


def _until_epoch_ends(log: Log, entry: Entry) -> list[Entry]:
    """The entry, and what follows it until its producer writes with a later epoch; not the log's last."""
    found = []
    for each in log.entries[log.index(entry) : -1]:
        if each.producer[0] == entry.producer[0] and each.producer[1] > entry.producer[1]:
            break
        found.append(each)
    if not found:
        raise NoPlace
    return found


def _stays(log: Log, entry: Entry, way: str) -> bool:
    """Whether the marker's epoch is its producer's last one here: else one at the end would be a regress."""
    if entry is log.entries[-1]:
        return way == APPENDED
    if way != APPENDED:
        return True
    return all(
        each.producer[1] <= entry.producer[1] for each in log.entries if each.producer[0] == entry.producer[0]
    )


def _has_data(log: Log, marker: Entry) -> bool:
    """Whether the transaction that it ends has written here."""
    before = [each for each in log.entries[: log.index(marker)] if each.producer[0] == marker.producer[0]]
    return bool(before) and before[-1].is_data


def _latest_marker(log: Log, place: Entry) -> list[Entry]:
    """The last one up to ``place``, if there is one: of its coordinator no later epoch was seen."""
    return [each for each in log.entries[: log.index(place) + 1] if each.is_marker][-1:]


def _is_last(log: Log, entry: Entry) -> bool:
    return entry is log.entries[-1]


def _seen_before(log: Log, entry: Entry) -> bool:
    return any(each.producer[0] == entry.producer[0] for each in log.entries[: log.index(entry)])


def _name(log: Log) -> str:
    return f"{log.topic}-{log.partition}"


def _batch(entry: Entry) -> str:
    header = entry.header
    kind = "marker" if entry.is_marker else "batch"
    return (
        f"the {kind} at offset {header.base_offset} of producer {header.producer_id} epoch "
        f"{header.producer_epoch}" + (f" sequence {header.base_sequence}" if entry.is_data else "")
    )
