"""Faults of which partitions a transaction wrote to, by its coordinator."""

from dataclasses import replace
from itertools import pairwise
from typing import Final

import msgspec

from fencepost.records.transaction_parts import TopicPartitions
from tests.audit.faults.coordinators import (
    _Ended,
    _ended,
    _found,
    _marked,
    _name,
    _partitions,
    _rewritten,
)
from tests.audit.faults.extra import NEVER, whole_epochs
from tests.audit.faults.fault import Ground, Planted
from tests.audit.faults.producers import Plant
from tests.audit.faults.states import _states
from tests.audit.faults.tree import STATES, Entry, Log

AMBIGUOUS: Final = (
    "markers of transactions before it are deleted, and all have one epoch: the marker may be that of one of"
    " those"
)


def partition_left_out(*, trimmed: bool) -> Plant:
    """The records of a transaction do not name one of the partitions that it wrote to.

    trimmed   the beginning of that partition's log is deleted, and all transactions have one epoch.
    """

    def plant(ground: Ground) -> Planted:
        known = whole_epochs(ground)
        one, log = ground.choose(
            (each, log)
            for each in _ended(ground)
            if len(_partitions(each.record)) > 1
            if known.get(each.record.producer_id, NEVER) <= each.record.producer_epoch
            for log in _marked(ground, each)
            if _is_ambiguous(each, log) == trimmed and not (trimmed and _is_cleaned(log))
        )
        ground.rely(STATES)
        entries: list[Entry] = []
        for entry in (*one.ongoing, one.prepared):
            (record,) = _states(entry)
            pairs = [each for each in _partitions(record) if each != (log.topic, log.partition)]
            kept = tuple(
                TopicPartitions(topic=name, partition_ids=tuple(number for on, number in pairs if on == name))
                for name in sorted({on for on, _ in pairs})
            )
            entries += _rewritten(ground, one.log, entry, msgspec.structs.replace(record, partitions=kept))
        entries += [each for each in log.entries if each.producer[0] == one.record.producer_id]
        said = f"{_name(one.record)} does not name {log.topic}-{log.partition}, where it wrote"
        rules = {"without_transaction", "foreign", "hanging.orphan"}
        planted = _found(ground, one, entries, said, "markers", rules)
        return replace(planted, files=(log.folder,), unknown=AMBIGUOUS) if trimmed else planted

    return plant


def _is_ambiguous(one: _Ended, log: Log) -> bool:
    """Whether a marker there may be of another transaction, whose own is not kept."""
    is_v2 = one.record.producer_epoch > _states(one.ongoing[0])[0].producer_epoch
    return not is_v2 and log.entries[0].header.base_offset > 0


def _is_cleaned(log: Log) -> bool:
    return any(first.header.end != second.header.base_offset for first, second in pairwise(log.entries))


LEFT_OUT: dict[str, dict[str, Plant]] = {
    "partition left out": {
        "of its records": partition_left_out(trimmed=False),
        "of its records, on a trimmed log": partition_left_out(trimmed=True),
    },
}
