"""Faults of what the coordinator says: records of transactions' states that are lost, changed or made up."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.transaction_log import (
    TransactionForgotten,
    TransactionStateRecord,
    encode_transaction,
)
from fencepost.records.types import Offset, ProducerId, Term
from tests.audit.faults.blocks import ends, is_known_to_most
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.states import _states
from tests.audit.faults.tree import STATES, Entry, Log, edited, log_start

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
PREPARED: Final = (PREPARE_COMMIT, PREPARE_ABORT)
OTHER: Final = {
    PREPARE_COMMIT: PREPARE_ABORT,
    PREPARE_ABORT: PREPARE_COMMIT,
    COMPLETE_COMMIT: COMPLETE_ABORT,
    COMPLETE_ABORT: COMPLETE_COMMIT,
}
CUT_SHARE: Final = 0.3
OFFSETS: Final = "__consumer_offsets"
FAR: Final = 50_000
_MARKERS: Final = {
    "markers.missing",
    "markers.wrong_outcome",
    "markers.without_transaction",
    "markers.double",
}


@dataclass(frozen=True, slots=True)
class _Ended:
    """A transaction of the coordinator's log, each of whose records is a batch of its own."""

    log: Log
    ongoing: tuple[Entry, ...]
    prepared: Entry
    completed: Entry
    record: TransactionStateRecord  # the prepared one


def lost(status: str) -> Plant:
    """A record of a transaction's end is gone, and what follows moved up."""

    def plant(ground: Ground) -> Planted:
        one = ground.choose(_ended(ground))
        ground.break_log(STATES)
        entry = one.prepared if status == "prepared" else one.completed
        offset = entry.header.base_offset
        entries = [*_everywhere(ground, one.log, one.completed if status == "prepared" else one.prepared)]
        for log in ground.tree.replicas(STATES, one.log.partition):
            there = log.find(offset)
            if there is not None:
                entries += [each for each in log.neighbours(there) if each is not there]
                entries += _of_id(log, one.record.transactional_id)
                log.shift_after(there, -1)
                log.remove(there)
        said = f"the {status} record of {_name(one.record)} at offset {offset} is gone"
        rules = {"missing", "transition"}
        return _found(ground, one, entries, said, "states", rules | _MARKERS)

    return plant


def flipped(*, both: bool) -> Plant:
    """A transaction was prepared to the other outcome than its markers say; or it ended so, too."""

    def plant(ground: Ground) -> Planted:
        whole = {id(log) for log in ground.partitions()}  # in a compacted one it may be another outcome's
        one = ground.choose(
            each for each in _ended(ground) if any(id(log) in whole for log in _marked(ground, each))
        )
        ground.break_log(STATES)
        changed = [one.prepared, one.completed] if both else [one.prepared]
        entries: list[Entry] = []
        for entry in changed:
            (record,) = _states(entry)
            wanted = msgspec.structs.replace(record, status=OTHER[record.status])
            entries += _rewritten(ground, one.log, entry, wanted)
        entries += _everywhere(ground, one.log, one.completed)
        entries += _markers(ground, one)
        said = f"{_name(one.record)} was prepared to the other outcome" + (", and ended so" if both else "")
        return _found(ground, one, entries, said, "states", {"missing", "transition"} | _MARKERS)

    return plant


def two_ids(ground: Ground) -> Planted:
    """A transactional id has the producer id of another one."""
    mine, other = _two_now(ground)
    record = msgspec.structs.replace(
        mine[1], producer_id=other[1].producer_id, producer_epoch=other[1].producer_epoch, status=EMPTY,
        partitions=None, started_ms=-1,
    )  # fmt: skip
    said = f"coordinator: {record.transactional_id} has the producer id of {other[1].transactional_id}"
    rules = {"shared"}
    return _appended(ground, mine[0], record, said, "ids", rules, other[1].producer_id, other)


def outside(ground: Ground) -> Planted:
    """A transactional id has a producer id that no broker was given."""
    mine, _ = _two_now(ground)
    free = max(ends(ground.tree)) + ground.choose((0, 1, FAR))
    record = msgspec.structs.replace(
        mine[1], producer_id=ProducerId(free), producer_epoch=0, status=EMPTY, partitions=None, started_ms=-1
    )
    said = f"coordinator: {record.transactional_id} has producer id {free}, which was not given out"
    return _appended(ground, mine[0], record, said, "ids", {"outside_blocks"}, free)


def forgotten(ground: Ground) -> Planted:
    """A tombstone of a transactional id whose transaction is open."""
    log, record = ground.choose(
        (log, record)
        for log, record in _now(ground)
        if record.status == ONGOING and ground.is_free(log, record.producer_id)
    )
    said = f"coordinator: {record.transactional_id} is forgotten while its transaction is open"
    wanted = TransactionForgotten(record.transactional_id)
    data = _data_of(ground, record)
    rules = {
        "transition",
        "hanging.orphan",
        "states.forgotten",
        "hanging.open_past_timeout",
        "missing",
    }
    return _appended(ground, log, wanted, said, "states", rules, record.producer_id, more=data)


def misplaced(ground: Ground) -> Planted:
    """A transactional id's record in another partition of its coordinators' topic than where it belongs."""
    (log, record), _ = _two_now(ground)
    others = [each for each in ground.tree.of_topic(STATES) if each.partition != log.partition]
    said = f"coordinator: {record.transactional_id} is in a partition where it does not belong"
    rules = {"misplaced", "partition", "ids.two_ids", "epochs.misplaced"}
    return _appended(ground, ground.choose(others), record, said, "states", rules, record.producer_id)


def noise(ground: Ground) -> Planted:
    """The value of a coordinator's record cannot be read, under a right checksum."""
    one = ground.choose(_ended(ground))
    ground.break_log(STATES)
    entry = one.completed
    key = entry.batch().records[0].key or b""
    at = entry.raw.index(key, 61) + len(key) + 1
    body = entry.raw[61:at] + b"\x00\x63" + entry.raw[at + 2 :]  # value version 99
    entries = []
    for log in ground.tree.replicas(STATES, one.log.partition):
        there = log.find(entry.header.base_offset)
        if there is not None:
            there.raw = edited(there.raw, body=body)
            entries.append(there)
    said = f"coordinator: the value of the record at offset {entry.header.base_offset} cannot be read"
    return _found(ground, one, entries, said, "integrity", {"record", "version"})


def cut(ground: Ground) -> Planted:
    """Each copy of a coordinator's log lacks its last third: as if it had been restored from before."""
    log = ground.choose(each for each in ground.tree.of_topic(STATES) if len(each.entries) > 10)
    ground.break_log(STATES)
    entries: list[Entry] = []
    first = log.entries[int(len(log.entries) * (1 - CUT_SHARE))].header.base_offset
    for each in ground.tree.replicas(STATES, log.partition):
        each.keeps_checkpoint = True
        for segment in each.segments:
            segment.entries = [one for one in segment.entries if one.header.base_offset < first]
        entries += each.entries[-1:]
    ground.take(entries=entries)
    said = f"coordinator: each copy of {STATES}-{log.partition} ends at offset {first}"
    rules = frozenset({"coordinator.short", "replicas.short"})
    folders = tuple(each.folder for each in ground.tree.replicas(STATES, log.partition))
    return Planted(check="coordinator", rules=rules, entries=tuple(entries), said=said, files=folders)


def _ended(ground: Ground) -> list[_Ended]:
    """Transactions that the coordinator began, prepared and completed where nothing was compacted away."""
    found = []
    for log in ground.tree.of_topic(STATES):
        ongoing: dict[str, list[Entry]] = {}
        prepared: dict[str, Entry] = {}
        for entry in log.entries:
            records = _states(entry)
            if len(records) != 1 or not ground.is_judged(entry):
                for each in records:  # what ends or begins there shares its batch with other records
                    ongoing.pop(each.transactional_id, None)
                    prepared.pop(each.transactional_id, None)
                continue
            (record,) = records
            name = record.transactional_id
            if record.status == ONGOING:
                ongoing.setdefault(name, []).append(entry)
            elif record.status in PREPARED and name in ongoing:
                prepared[name] = entry
            elif record.status in (COMPLETE_COMMIT, COMPLETE_ABORT) and name in prepared:
                before = prepared.pop(name)
                if ground.is_free(log, record.producer_id) and entry is not log.entries[-1]:
                    found.append(_Ended(log, tuple(ongoing.pop(name)), before, entry, _states(before)[0]))
    return found


def _now(ground: Ground) -> list[tuple[Log, TransactionStateRecord]]:
    """Each transactional id's log and last record."""
    found = {}
    for log in ground.tree.of_topic(STATES):
        for entry in log.entries:
            for record in _states(entry):
                found[record.transactional_id] = (log, record)
    return list(found.values())


def _two_now(
    ground: Ground,
) -> tuple[tuple[Log, TransactionStateRecord], tuple[Log, TransactionStateRecord]]:
    """Two ids without a transaction."""
    idle = [
        (log, record)
        for log, record in _now(ground)
        if record.status in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
        and ground.is_free(log, record.producer_id)
    ]
    if len(idle) < 2:
        raise NoPlace
    mine, other = ground.random.sample(idle, 2)
    return mine, other


def _appended(
    ground: Ground,
    log: Log,
    record: TransactionStateRecord | TransactionForgotten,
    said: str,
    check: str,
    rules: Iterable[str],
    producer_id: int,
    other: tuple[Log, TransactionStateRecord] | None = None,
    more: Iterable[Entry] = (),
) -> Planted:
    """The record at the end of each replica that reaches the end."""
    ground.rely(STATES)
    entries: list[Entry] = []
    replicas = ground.tree.replicas(STATES, log.partition)
    whole = [each for each in replicas if each.end == replicas[0].end]
    if not is_known_to_most(replicas):
        raise NoPlace
    for each in whole:
        last = each.entries[-1]
        at_ms = last.header.max_timestamp_ms
        raw = encode_batch((BatchRecord(*encode_transaction(record)),), timestamp_ms=at_ms)
        entry = Entry(stamp(raw, Offset(last.header.end), Term(each.last_epoch)))
        each.insert_after(last, entry)
        entries.append(entry)
    entries += more
    if other is not None:
        for each in ground.tree.replicas(STATES, other[0].partition):
            entries += _of_id(each, other[1].transactional_id)
    ground.take(producer_id=producer_id, entries=entries)
    return Planted(
        check=check, rules=frozenset(rules), entries=tuple(entries), said=said, producer_id=producer_id
    )


def _found(
    ground: Ground, one: _Ended, entries: Iterable[Entry], said: str, check: str, rules: Iterable[str]
) -> Planted:
    producer_id = one.record.producer_id
    beside = [*entries, *_markers(ground, one)]
    ground.take(producer_id=producer_id, entries=beside)
    return Planted(
        check=check, rules=frozenset(rules), entries=tuple(beside), said=said, producer_id=producer_id
    )


def _rewritten(ground: Ground, log: Log, entry: Entry, record: TransactionStateRecord) -> list[Entry]:
    """The batch with this record instead of its own, in each replica."""
    raw = encode_batch(
        (BatchRecord(*encode_transaction(record)),), timestamp_ms=entry.header.base_timestamp_ms
    )
    found = [*_everywhere(ground, log, entry)]
    for each in found:
        header = each.header
        each.raw = stamp(raw, Offset(header.base_offset), Term(header.leader_epoch))
    return found


def decisions(ground: Ground, marker: Entry) -> list[Entry]:
    """Where transactions of its epoch were decided: a marker that a log lacks at its end is named there."""
    return [
        entry
        for log in ground.tree.of_topic(STATES)
        for entry in log.entries
        for record in _states(entry)
        if record.status in PREPARED and (record.producer_id, record.producer_epoch) == marker.producer
    ]


def _everywhere(ground: Ground, log: Log, entry: Entry) -> list[Entry]:
    offset = entry.header.base_offset
    found = [each.find(offset) for each in ground.tree.replicas(STATES, log.partition)]
    return [each for each in found if each is not None]


def _of_id(log: Log, transactional_id: str) -> list[Entry]:
    return [
        entry
        for entry in log.entries
        if any(record.transactional_id == transactional_id for record in _states(entry))
    ]


def _markers(ground: Ground, one: _Ended) -> list[Entry]:
    """Of the transaction's producer: written between its preparation and its end, and not deleted since."""
    first, last = one.prepared.header.base_timestamp_ms, one.completed.header.max_timestamp_ms
    return [
        entry
        for log in (*ground.tree.partitions(), *ground.tree.of_topic(OFFSETS))
        for entry in log.entries
        if entry.is_marker and entry.producer[0] == one.record.producer_id
        if first <= entry.header.max_timestamp_ms <= last and entry.header.base_offset >= log_start(log)
    ]


def _marked(ground: Ground, one: _Ended) -> list[Log]:
    """The partitions that they are on."""
    markers = {id(each) for each in _markers(ground, one)}
    return [log for log in ground.tree.partitions() if any(id(each) in markers for each in log.entries)]


def _data_of(ground: Ground, record: TransactionStateRecord) -> list[Entry]:
    return [
        entry
        for log in ground.tree.partitions()
        for entry in log.entries
        if entry.is_data and entry.producer[0] == record.producer_id
    ]


def _partitions(record: TransactionStateRecord) -> list[tuple[str, int]]:
    return [(each.topic, partition) for each in record.partitions or () for partition in each.partition_ids]


def _name(record: TransactionStateRecord) -> str:
    return f"coordinator: the transaction of {record.transactional_id} (producer {record.producer_id})"


COORDINATORS: dict[str, dict[str, Plant]] = {
    "lost state": {"prepared": lost("prepared"), "completed": lost("completed")},
    "other outcome": {"prepared": flipped(both=False), "prepared and completed": flipped(both=True)},
    "two transactional ids": {"one producer id": two_ids},
    "id never given": {"to a transactional id": outside},
    "forgotten while open": {"tombstone": forgotten},
    "misplaced state": {"other partition": misplaced},
    "unreadable state": {"version": noise},
    "coordinator's log cut": {"by a third": cut},
}
