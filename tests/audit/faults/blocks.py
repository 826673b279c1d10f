"""Faults of the log that says who was given which producer ids, the same in every replica."""

from collections.abc import Callable
from dataclasses import replace

from fencepost.audit.decode.metadata import read_frame
from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.frame import decode_frame, encode_frame
from fencepost.records.invariant import CorruptData
from fencepost.records.schema import AllocateProducerIdsRecord, allocated
from fencepost.records.types import BrokerEpoch, BrokerId, Offset, ProducerId, Term
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.tree import METADATA, Entry, Log, Tree

_NO_CONSEQUENCE = {4, 17, 20}  # ConfigRecord, BrokerRegistrationChangeRecord, NoOpRecord


def ends(tree: Tree) -> list[int]:
    """The end of each block, in the order of the log. Raises NoPlace: no block is in the logs."""
    found = [record.producer_id_end for log in tree.of_topic(METADATA) for record in _records(log)]
    if not found:
        raise NoPlace
    return [int(each) for each in found]


def appended(ground: Ground) -> Planted:
    """The record of a block once more, at the end."""
    entry, _ = ground.choose(_blocks(ground))
    last = _log(ground).entries[-1]
    return _each_replica(
        ground,
        lambda log: _append(log, entry.raw) if log.end == _log(ground).end else None,
        f"the block record at offset {entry.header.base_offset} once more at offset {last.header.end}",
        entry,
    )


def in_place(ground: Ground) -> Planted:
    """The record of a block once more, where a record without consequence was."""
    entry, _ = ground.choose(_blocks(ground))
    offset = entry.header.base_offset
    targets = [each for each in _log(ground).entries if _is_idle(each) and each.header.base_offset > offset]
    target = ground.choose(targets).header.base_offset
    return _each_replica(
        ground,
        lambda log: _replace(log, target, entry.raw),
        f"the block record at offset {offset} once more at offset {target}",
        entry,
    )


def end_repeated(ground: Ground) -> Planted:
    """A block ends where the one before ended: the same ids, given twice."""
    blocks = _blocks(ground)
    if len(blocks) < 3:
        raise NoPlace
    number = ground.random.randrange(1, len(blocks) - 1)
    (_, before), (entry, record) = blocks[number - 1], blocks[number]
    same = allocated(
        BrokerId(record.broker_id), BrokerEpoch(record.broker_epoch), ProducerId(before.producer_id_end)
    )
    header = entry.header
    raw = encode_batch((BatchRecord(None, encode_frame(same)),), timestamp_ms=header.base_timestamp_ms)
    offset = header.base_offset
    return _each_replica(
        ground,
        lambda log: _replace(log, offset, raw),
        f"the block at offset {offset} ends at {before.producer_id_end} as the one before, not at "
        f"{record.producer_id_end}",
        blocks[number - 1][0],
    )


def of_a_past_life(ground: Ground) -> Planted:
    """A block of the epoch that its broker had before it registered again."""
    lives = _lives(ground)
    found = []
    for entry, record in _blocks(ground):
        epochs = [epoch for at, broker, epoch in lives
                  if broker == record.broker_id and at < entry.header.base_offset]  # fmt: skip
        found += [(entry, record, epoch) for epoch in sorted({*epochs} - {record.broker_epoch})]
    return _of_another_epoch(ground, *ground.choose(found))


def of_no_life(ground: Ground) -> Planted:
    """A block of an epoch that its broker has never had."""
    known = {(broker, epoch) for _, broker, epoch in _lives(ground)}
    found = [
        (entry, record, record.broker_epoch + 1)
        for entry, record in _blocks(ground)
        if (record.broker_id, record.broker_epoch) in known
        and (record.broker_id, record.broker_epoch + 1) not in known
    ]
    return _of_another_epoch(ground, *ground.choose(found))


def _of_another_epoch(ground: Ground, entry: Entry, record: AllocateProducerIdsRecord, epoch: int) -> Planted:
    other = allocated(
        BrokerId(record.broker_id), BrokerEpoch(epoch), ProducerId(record.producer_id_end)
    )  # fmt: skip
    header = entry.header
    raw = encode_batch((BatchRecord(None, encode_frame(other)),), timestamp_ms=header.base_timestamp_ms)
    planted = _each_replica(
        ground,
        lambda log: _replace(log, header.base_offset, raw),
        f"the block at offset {header.base_offset} is of epoch {epoch} of broker {record.broker_id}, not of"
        f" {record.broker_epoch}",
        entry,
    )
    return replace(planted, rules=frozenset({"broker_epoch"}))


def _lives(ground: Ground) -> list[tuple[int, int, int]]:
    """Offset, broker and epoch of each registration in the log."""
    found: list[tuple[int, int, int]] = []
    for entry in _log(ground).entries:
        for record in [] if entry.header.is_control else entry.batch().records:
            said = read_frame(record.value)
            if hasattr(said, "incarnation_id"):
                found.append((entry.header.base_offset, int(said.broker_id), int(said.broker_epoch)))
    return found


def lost(ground: Ground) -> Planted:
    """A metadata record is gone, and its offset with it: it may have been a block's."""
    entries = [each for each in _log(ground).entries[1:-1] if ground.is_untouched(each)]
    blocks = [entry for entry, _ in _blocks(ground) if entry is not _log(ground).entries[-1]]
    entry = ground.choose(ground.choose([each for each in (entries, blocks) if each]))
    ground.break_log(METADATA)
    offset = entry.header.base_offset
    beside: list[Entry] = []
    for log in ground.tree.replicas(METADATA, 0):
        there = log.find(offset)
        if there is not None:
            beside += [each for each in log.neighbours(there) if each is not there]
            log.remove(there)
    ground.take(entries=beside)
    said = f"the metadata log lost the batch at offset {offset}"
    return Planted(check="blocks", rules=frozenset({"hole"}), entries=tuple(beside), said=said)


def _each_replica(
    ground: Ground, change: Callable[[Log], Entry | None], said: str, repeated: Entry
) -> Planted:
    """``repeated``: the record whose ids are given twice; no other fault is to touch it either."""
    ground.rely(METADATA)
    replicas = ground.tree.replicas(METADATA, 0)
    if not is_known_to_most(replicas):
        raise NoPlace
    originals = [log.find(repeated.header.base_offset) for log in replicas]
    entries = [entry for log in replicas for entry in [change(log)] if entry is not None]
    ground.take(entries=[*entries, *(each for each in originals if each is not None)])
    rules = frozenset({"overlap", "end_not_growing"})
    return Planted(check="blocks", rules=rules, entries=tuple(entries), said=f"metadata: {said}")


def is_known_to_most(replicas: list[Log]) -> bool:
    """Whether the end of the longest replica is committed: ours archives nothing else, Kafka's voters may."""
    whole = [each for each in replicas if each.end == replicas[0].end]
    return len(whole) * 2 > len(replicas) or replicas[0].folder.parent.name == "archive"


def _append(log: Log, raw: bytes) -> Entry:
    last = log.entries[-1]
    entry = Entry(stamp(raw, Offset(last.header.end), Term(last.header.leader_epoch)))
    log.insert_after(last, entry)
    return entry


def _replace(log: Log, offset: int, raw: bytes) -> Entry | None:
    entry = log.find(offset)
    if entry is not None:
        entry.raw = stamp(raw, Offset(offset), Term(entry.header.leader_epoch))
    return entry


def _log(ground: Ground) -> Log:
    replicas = ground.tree.replicas(METADATA, 0)
    if not replicas or not all(ground.is_free(each) for each in replicas):
        raise NoPlace
    return replicas[0]


def _blocks(ground: Ground) -> list[tuple[Entry, AllocateProducerIdsRecord]]:
    """Batches of nothing but one block record, without a fault. Raises NoPlace."""
    found = []
    for entry in _log(ground).entries:
        if entry.header.record_count == 1 and not entry.header.is_control and ground.is_untouched(entry):
            record = _block(entry.batch().records[0].value or b"")
            if record is not None:
                found.append((entry, record))
    if not found:
        raise NoPlace
    return found


def _records(log: Log) -> list[AllocateProducerIdsRecord]:
    values = [
        record.value or b""
        for entry in log.entries
        if not entry.header.is_control
        for record in entry.batch().records
    ]
    return [record for record in map(_block, values) if record is not None]


def _block(value: bytes) -> AllocateProducerIdsRecord | None:
    if value[:2] != bytes((1, AllocateProducerIdsRecord.record_key)):
        return None
    try:
        record = decode_frame(value)
    except CorruptData:
        return None
    return record if isinstance(record, AllocateProducerIdsRecord) else None


def _is_idle(entry: Entry) -> bool:
    header = entry.header
    if header.is_control or header.record_count != 1:
        return False
    value = entry.batch().records[0].value or b""
    return value[:1] == b"\1" and value[1] in _NO_CONSEQUENCE
