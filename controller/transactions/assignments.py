"""What transactional ids work on: partitions of groups, recorded by group-aware InitProducerId (KIP-447).

Record      tag 1006 of a transaction record: all that the id has from then on, by group. Without the tag it
            has what it had before; an empty list takes all away.
Invariant   OWNERS is the inverse of ASSIGNMENTS.
Taken       a record takes its partitions from every other id. It is decided once the others are fenced, and
            their transactions complete. Only the PrepareAbort of an id that is fenced takes nothing: it
            remembers for whose partitions it is, until these are complete.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from fencepost.controller.groups.offset_tables import OFFSETS, OffsetKey
from fencepost.controller.view import MutableView, Table, View
from fencepost.records.transaction_parts import GroupAssignment, TopicPartitions
from fencepost.records.types import Log

OWNERS_MAX: Final = 100  # ids of one partition: one that has it, and those that were fenced for it just now

ASSIGNMENTS: Final[Table[str, tuple[GroupAssignment, ...]]] = Table(
    "transaction_assignments",
    tuple[GroupAssignment, ...],
    str.encode,
    bytes.decode,
    log=Log.TRANSACTION_STATE,
)
"""By transactional id."""
OWNERS: Final[Table[OffsetKey, tuple[str, ...]]] = Table(
    "transaction_owners",
    tuple[str, ...],
    OFFSETS.encode_key,
    OFFSETS.decode_key,
    log=Log.TRANSACTION_STATE,
)
"""The transactional ids of a group's partition, in the order in which they got it."""
ASSIGNMENT_TABLES: Final = (ASSIGNMENTS, OWNERS)


def assigned(view: View, transactional_id: str) -> tuple[GroupAssignment, ...]:
    """What an id works on."""
    return view.get(ASSIGNMENTS, transactional_id) or ()


def owner_count(view: View, key: OffsetKey) -> int:
    """How many transactional ids have a partition."""
    owners = view.get(OWNERS, key)
    return 0 if owners is None else len(owners)


def keys_of(assignments: Iterable[GroupAssignment]) -> Iterator[OffsetKey]:
    """(group, topic, partition) of all of them."""
    for each in assignments:
        for topic in each.partitions:
            for index in topic.partition_ids:
                yield each.group_id, topic.topic, index


def with_keys(
    assignments: tuple[GroupAssignment, ...], generation: int, keys: Iterable[OffsetKey]
) -> tuple[GroupAssignment, ...]:
    """``assignments``, and the partitions of ``keys`` besides; a group that is new has ``generation``."""
    generations = {each.group_id: each.generation for each in assignments}
    return _grouped({*keys_of(assignments), *keys}, generations, generation)


def replay(
    view: MutableView, transactional_id: str, assignments: tuple[GroupAssignment, ...], *, takes: bool
) -> None:
    """Total. The id has these partitions, and no others; if it ``takes`` them, no other id has them."""
    before = view.get(ASSIGNMENTS, transactional_id)
    if before is not None:
        view.delete(ASSIGNMENTS, transactional_id)
        for key in keys_of(before):
            _put_owners(view, key, _without(view, key, transactional_id))
    if not assignments:
        return
    view.put(ASSIGNMENTS, transactional_id, assignments)
    taken: dict[str, set[OffsetKey]] = {}
    for key in keys_of(assignments):
        others = _without(view, key, transactional_id)
        if takes:
            for other in others:
                taken.setdefault(other, set()).add(key)
            others = ()
        view.put(OWNERS, key, (*others, transactional_id))
    for other in sorted(taken):
        _take(view, other, taken[other])


def _take(view: MutableView, transactional_id: str, keys: set[OffsetKey]) -> None:
    before = view.get(ASSIGNMENTS, transactional_id) or ()
    generations = {each.group_id: each.generation for each in before}
    left = _grouped(set(keys_of(before)) - keys, generations, -1)
    if left:
        view.put(ASSIGNMENTS, transactional_id, left)
    else:
        view.delete(ASSIGNMENTS, transactional_id)


def _without(view: View, key: OffsetKey, transactional_id: str) -> tuple[str, ...]:
    return tuple([each for each in view.get(OWNERS, key) or () if each != transactional_id])


def _put_owners(view: MutableView, key: OffsetKey, owners: tuple[str, ...]) -> None:
    if owners:
        view.put(OWNERS, key, owners)
    else:
        view.delete(OWNERS, key)


def _grouped(
    keys: Iterable[OffsetKey], generations: dict[str, int], generation: int
) -> tuple[GroupAssignment, ...]:
    """Assignments of these keys in ascending order, without any that is empty."""
    found: dict[str, dict[str, list[int]]] = {}
    for group_id, topic, index in sorted(keys):
        found.setdefault(group_id, {}).setdefault(topic, []).append(index)
    return tuple(
        [
            GroupAssignment(
                group_id,
                generations.get(group_id, generation),
                tuple([TopicPartitions(topic, tuple(indexes)) for topic, indexes in topics.items()]),
            )
            for group_id, topics in found.items()
        ]
    )
