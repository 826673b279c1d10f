"""Further faults of the coordinator's log: records exchanged, of another id, made up; and a block of ids."""

from dataclasses import replace
from typing import Final

import msgspec

from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.frame import encode_frame
from fencepost.records.schema import AllocateProducerIdsRecord, allocated
from fencepost.records.transaction_parts import TopicPartitions
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from tests.audit.faults import blocks
from tests.audit.faults.coordinators import (
    _MARKERS,
    _appended,
    _ended,
    _found,
    _name,
    _now,
    _of_id,
    _partitions,
    _rewritten,
)
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.states import _states
from tests.audit.faults.tree import METADATA, STATES, Entry

HOUR_MS: Final = 3_600_000
FAR: Final = 1_000_000


def exchanged(ground: Ground) -> Planted:
    """The records that prepare and complete a transaction have changed places."""
    one = ground.choose(_ended(ground))
    ground.break_log(STATES)
    (prepared,), (completed,) = _states(one.prepared), _states(one.completed)
    entries = _rewritten(ground, one.log, one.prepared, completed)
    entries += _rewritten(ground, one.log, one.completed, prepared)
    for log in ground.tree.replicas(STATES, one.log.partition):
        entries += _of_id(log, one.record.transactional_id)
    said = f"{_name(one.record)}: its prepared and completed records have changed places"
    return _found(ground, one, entries, said, "states", {"missing", "transition"} | _MARKERS)


def of_another_id(ground: Ground) -> Planted:
    """The record that prepares a transaction has the key of another transactional id."""
    one = ground.choose(_ended(ground))
    others = [
        r for log, r in _now(ground) if log is one.log and r.transactional_id != one.record.transactional_id
    ]
    other = ground.choose(others)
    ground.break_log(STATES)
    (record,) = _states(one.prepared)
    wanted = msgspec.structs.replace(record, transactional_id=other.transactional_id)
    entries = _rewritten(ground, one.log, one.prepared, wanted)
    for log in ground.tree.replicas(STATES, one.log.partition):
        entries += _of_id(log, one.record.transactional_id) + _of_id(log, other.transactional_id)
    said = f"{_name(one.record)}: the record that prepares it is {other.transactional_id}'s"
    return _found(ground, one, entries, said, "ids", {"shared", "states.missing"})


def never_written(ground: Ground) -> Planted:
    """The records of a transaction name a partition more, which has no marker of it."""
    one = ground.choose(_ended(ground))
    ground.rely(STATES)
    named = set(_partitions(one.record))
    log = ground.choose(
        log
        for log in ground.partitions()
        if (log.topic, log.partition) not in named
        and any(e.producer[0] == one.record.producer_id for e in log.entries)
    )
    entries: list[Entry] = []
    for entry in (*one.ongoing, one.prepared):
        (record,) = _states(entry)
        pairs = [*_partitions(record), (log.topic, log.partition)]
        parts = tuple(
            TopicPartitions(topic=name, partition_ids=tuple(number for on, number in pairs if on == name))
            for name in sorted({on for on, _ in pairs})
        )
        entries += _rewritten(ground, one.log, entry, msgspec.structs.replace(record, partitions=parts))
    entries += [e for e in log.entries if e.producer[0] == one.record.producer_id]
    said = f"{_name(one.record)} names {log.topic}-{log.partition}, where it has no marker"
    return _found(ground, one, entries, said, "markers", {"missing"})


def open_again(ground: Ground) -> Planted:
    """A transactional id's last transaction is open again, at the end of the coordinator's log."""
    one = ground.choose(_ended(ground))
    now = {r.transactional_id: r for _, r in _now(ground)}[one.record.transactional_id]
    (record,) = _states(one.ongoing[-1])
    wanted = msgspec.structs.replace(
        record,
        producer_epoch=now.producer_epoch,
        producer_id=now.producer_id,
        started_ms=record.started_ms - HOUR_MS,
    )
    if now.status in (1, 2, 3):
        raise NoPlace
    said = f"coordinator: {record.transactional_id} has a transaction open again"
    return _appended(
        ground, one.log, wanted, said, "hanging", {"open_past_timeout", "epochs.reused"}, now.producer_id
    )


def epoch_of_end(ground: Ground) -> Planted:
    """The record that prepares a transaction has an epoch two above."""
    one = ground.choose(_ended(ground))
    ground.break_log(STATES)
    (record,) = _states(one.prepared)
    entries = _rewritten(
        ground,
        one.log,
        one.prepared,
        msgspec.structs.replace(record, producer_epoch=record.producer_epoch + 2),
    )
    for log in ground.tree.replicas(STATES, one.log.partition):
        entries += _of_id(log, one.record.transactional_id)
    said = f"{_name(one.record)} was prepared with an epoch two above"
    return _found(
        ground,
        one,
        entries,
        said,
        "states",
        {"epoch", "missing"},
    )


def skipped(ground: Ground) -> Planted:
    """A block ends far above where it should: those after it end below."""
    entry, record = ground.choose(blocks._blocks(ground)[1:-1])
    wrong = allocated(
        BrokerId(record.broker_id), BrokerEpoch(record.broker_epoch), ProducerId(record.producer_id_end + FAR)
    )
    header = entry.header
    raw = encode_batch((BatchRecord(None, encode_frame(wrong)),), timestamp_ms=header.base_timestamp_ms)
    planted = blocks._each_replica(
        ground,
        lambda log: blocks._replace(log, header.base_offset, raw),
        f"the block at offset {header.base_offset} ends at {wrong.producer_id_end}",
        entry,
    )
    below = [
        each
        for log in ground.tree.replicas(METADATA, 0)
        for each, block in ((one, _block_of(one)) for one in log.entries)
        if block is not None and each.header.base_offset > header.base_offset
    ]
    return replace(planted, entries=(*planted.entries, *below))


def _block_of(entry: Entry) -> AllocateProducerIdsRecord | None:
    is_one = entry.header.record_count == 1 and not entry.header.is_control
    return blocks._block(entry.batch().records[0].value or b"") if is_one else None


STATE_RECORDS: dict[str, dict[str, Plant]] = {
    "states exchanged": {"prepared and completed": exchanged},
    "state of another id": {"prepared": of_another_id},
    "partition never written": {"named": never_written},
    "open again": {"at the end": open_again},
    "epoch of an end": {"two above": epoch_of_end},
    "block of another length": {"far above": skipped},
    "block of another epoch": {"that was over": blocks.of_a_past_life, "never had": blocks.of_no_life},
}
