"""Faults of the coordinator's log, the same in every replica."""

from dataclasses import dataclass

import msgspec

from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import TransactionStateRecord, decode_transaction, encode_transaction
from fencepost.records.types import Offset, Term
from tests.audit.faults.fault import Ground, Planted
from tests.audit.faults.tree import STATES, Entry, Log

EMPTY = 0


@dataclass(frozen=True, slots=True)
class _Left:
    """A transactional id that had this epoch, and has a later one now."""

    log: Log
    epoch: int
    now: TransactionStateRecord


def reused_epoch(ground: Ground) -> Planted:
    """A transactional id is back at an epoch that it had left."""
    left = ground.choose(_left(ground))
    ground.rely(STATES)
    old = msgspec.structs.replace(
        left.now, producer_epoch=left.epoch, status=EMPTY, partitions=None, started_ms=-1, fences=()
    )
    ends = [log.end for log in ground.tree.replicas(STATES, left.log.partition)]
    entries = []
    for log in ground.tree.replicas(STATES, left.log.partition):
        if log.end == max(ends):
            last = log.entries[-1]
            raw = encode_batch(
                (BatchRecord(*encode_transaction(old)),), timestamp_ms=last.header.max_timestamp_ms
            )
            entry = Entry(stamp(raw, Offset(last.header.end), Term(log.last_epoch)))
            log.insert_after(last, entry)
            entries.append(entry)
    ground.take(producer_id=left.now.producer_id, entries=entries)
    said = (
        f"coordinator: {left.now.transactional_id} (producer {left.now.producer_id}) is at epoch "
        f"{left.epoch} again, after {left.now.producer_epoch}"
    )
    rules = frozenset({"reused", "regressed"})
    return Planted(check="epochs", rules=rules, entries=tuple(entries), said=said)


def lost(ground: Ground) -> Planted:
    """Records of transactions' states are gone, and their offsets with them. Kafka's log may have holes."""
    logs = [log for log in ground.tree.of_topic(STATES) if log.folder.parent.name == "archive"]
    first = ground.choose(log for log in logs if len(log.entries) > 2)
    entry = ground.choose(each for each in first.entries[1:-1] if ground.is_untouched(each))
    ground.break_log(STATES)
    offset = entry.header.base_offset
    beside: list[Entry] = []
    for log in ground.tree.replicas(STATES, first.partition):
        there = log.find(offset)
        if there is not None and there is not log.entries[-1]:
            beside += [each for each in log.neighbours(there) if each is not there]
            log.remove(there)
    ground.take(entries=beside)
    said = f"coordinator: the batch at offset {offset} of its log is lost"
    return Planted(check="offsets", rules=frozenset({"hole"}), entries=tuple(beside), said=said)


def _left(ground: Ground) -> list[_Left]:
    """Every transactional id with every epoch of its present producer id that it left."""
    found = []
    for log in ground.tree.of_topic(STATES):
        epochs: dict[str, dict[tuple[int, int], None]] = {}
        now: dict[str, TransactionStateRecord] = {}
        for entry in log.entries:
            for record in _states(entry):
                seen = epochs.setdefault(record.transactional_id, {})
                seen[record.producer_id, record.producer_epoch] = None
                now[record.transactional_id] = record
        for name, record in now.items():
            if ground.is_free(log, record.producer_id) and record.status not in {1, 2, 3}:
                found += [
                    _Left(log, epoch, record)
                    for producer_id, epoch in epochs[name]
                    if producer_id == record.producer_id and epoch < record.producer_epoch
                ]
    return found


def _states(entry: Entry) -> list[TransactionStateRecord]:
    if entry.header.is_control:
        return []
    try:
        decoded = [decode_transaction(record.key, record.value) for record in entry.batch().records]
    except CorruptData:  # Kafka's older version of it
        return []
    return [each for each in decoded if isinstance(each, TransactionStateRecord)]
