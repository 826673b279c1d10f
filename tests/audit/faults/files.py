"""Faults of one file: a byte that flipped, a replica that says something else."""

from collections.abc import Callable
from typing import Final

from fencepost.records.batch import stamp
from fencepost.records.types import Offset, Term
from tests.audit.faults.fault import Ground, NoPlace, Planted
from tests.audit.faults.tree import METADATA, STATES, Entry, Log, edited, log_start

CRC_FIELD: Final = range(17, 21)
MAGIC: Final = range(16, 17)
LENGTH: Final = range(8, 12)
REPLICATED: Final = (METADATA, STATES)


def flipped_byte(where: range | None = None, topic: str | None = None) -> Callable[[Ground], Planted]:
    """One bit of a batch is another one: of what its checksum covers, or of the bytes ``where``."""

    def plant(ground: Ground) -> Planted:
        names = {topic} if topic else {log.topic for log in ground.tree.logs}
        logs = [
            log
            for log in ground.tree.logs
            if ground.is_free(log) and log.topic in names and len(log.entries) > 2
        ]
        log = ground.choose(logs)
        start = log_start(log)  # what is deleted no one reads any more
        kept = [each for each in log.entries[:-1] if each.header.base_offset >= start]
        entry = ground.choose(each for each in kept if ground.is_untouched(each))
        if log.topic.startswith("__") and len(ground.tree.replicas(log.topic, log.partition)) == 1:
            ground.break_log(log.topic)
        at = ground.random.choice(where or range(21, len(entry.raw)))
        bit = 1 << ground.random.randrange(8)
        raw = bytearray(entry.raw)
        raw[at] ^= bit
        said = (
            f"node {log.node}, {log.topic}-{log.partition}: byte {at} of the batch at offset "
            f"{entry.header.base_offset} is {raw[at]:#04x}, was {entry.raw[at]:#04x}"
        )
        beside = log.neighbours(entry)
        entry.damaged = bytes(raw)
        is_users = not log.topic.startswith("__")
        ground.take(log=log if is_users else None, entries=beside, in_each=False)
        return Planted(check="integrity", rules=frozenset({"crc", "unreadable"}), entries=(entry,), said=said)

    return plant


def diverged_replica(change: Callable[[Ground, Entry], bytes], count: int = 1) -> Callable[[Ground], Planted]:
    """One node's copy of a log of which there are three says something else at ``count`` batches."""

    def plant(ground: Ground) -> Planted:
        topic = ground.choose(each for each in REPLICATED if len(ground.tree.replicas(each, 0)) > 2)
        replicas = ground.tree.replicas(topic, 0)
        common = min(replicas, key=lambda log: log.end).entries
        fit = [
            index
            for index in range(1, len(common) - count - 1)
            if all(
                copy is not None and ground.is_untouched(copy)
                for each in common[index : index + count]
                for copy in (log.find(each.header.base_offset) for log in replicas)
            )
        ]
        first = ground.choose(fit)
        offsets = [each.header.base_offset for each in common[first : first + count]]
        odd = ground.random.choice(replicas)
        for offset in offsets:
            mine = _at(odd, offset)
            mine.raw = change(ground, mine)
        entries = [_at(log, offset) for log in replicas for offset in offsets]
        ground.take(entries=entries)
        said = f"node {odd.node}'s {topic}: another batch than the others have at {offsets}"
        return Planted(check="replicas", rules=frozenset({"diverged"}), entries=tuple(entries), said=said)

    return plant


def other_leader_epoch(_: Ground, entry: Entry) -> bytes:
    """Outside the checksum."""
    header = entry.header
    return stamp(entry.raw, Offset(header.base_offset), Term(header.leader_epoch + 1))


def other_time(_: Ground, entry: Entry) -> bytes:
    return edited(entry.raw, timestamp_ms=entry.header.base_timestamp_ms + 1)


def other_value(ground: Ground, entry: Entry) -> bytes:
    """A byte near the end of the last record; the checksum is made right."""
    raw = bytearray(entry.raw)
    raw[-2 - ground.random.randrange(4)] ^= 1
    return edited(bytes(raw))


def _at(log: Log, offset: int) -> Entry:
    entry = log.find(offset)
    if entry is None:
        raise NoPlace
    return entry
