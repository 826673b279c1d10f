"""DeleteGroups and OffsetDelete: groups and offsets are forgotten when an operator says so.

Slices      a group may have more offsets than an entry holds: they go in several decisions, the group last.
Open        a transaction with pending offsets of the group does not keep it: its offsets go, and its end
            finds nothing, as in Kafka.
Simple      a group that exists by its offsets alone ends with the last of them, with a tombstone of its own:
            without it a broker of Apache Kafka that reads the log has an empty group. An abort, which may
            drop the last pending one, writes none; Kafka's next sweep forgets such a group.
Source      Kafka GroupMetadataManager.deleteGroups, OffsetMetadataManager.deleteOffsets, .deleteAllOffsets.
"""

from itertools import islice
from typing import Final

import msgspec

from fencepost.controller import levels, topics
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode
from fencepost.controller.group_errors import GroupIdNotFound, NonEmptyGroup
from fencepost.controller.groups import offset_tables, tables
from fencepost.controller.groups.offset_messages import DeleteOffsets, PartitionCode, PartitionCodes
from fencepost.controller.groups.offset_tables import OFFSETS, WAITING, OffsetKey
from fencepost.controller.groups.offsets import find, places_of, require_group_id
from fencepost.controller.groups.subscriptions import CONSUMER, subscribed_topics
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupForgotten, GroupState
from fencepost.records.logged import ROW_COST, StateRecord
from fencepost.records.offset_commit import OffsetForgotten

TOMBSTONES_MAX: Final = 400  # of one decision: some 15 ms of every node's loop
UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FORGOTTEN_COST: Final = 5 * ROW_COST  # the rows and indexes of an offset


class GroupDeleted(msgspec.Struct, frozen=True):
    """What became of a group. ``more``: some of its offsets are left; decide again."""

    more: bool


def decide_delete_group(view: View, group_id: str) -> Decision[GroupDeleted]:
    """Forget a group without members and its offsets: up to TOMBSTONES_MAX of them now.

    Raises   UnsupportedVersion, InvalidGroupId, GroupIdNotFound, NonEmptyGroup.
    """
    levels.require_group_log(view)
    require_group_id(group_id)
    group = find(view, group_id)
    if group is None:
        raise GroupIdNotFound(f"nothing is known of group {group_id!r}")
    if group.state is not GroupState.EMPTY:
        raise NonEmptyGroup(f"group {group_id!r} has members: stop them, then delete it")
    keys = [each.key for each in islice(places_of(view, group_id), TOMBSTONES_MAX + 1)]
    more = len(keys) > TOMBSTONES_MAX
    keys = keys[:TOMBSTONES_MAX]  # the last one goes with the group, which may exist by it alone
    records: list[StateRecord] = [OffsetForgotten(*key) for key in keys]
    if not more:
        records.append(GroupForgotten(group_id))
    return Decision(tuple(records), GroupDeleted(more), extra_cost=FORGOTTEN_COST * len(keys))


def decide_delete_offsets(view: View, request: DeleteOffsets) -> Decision[PartitionCodes]:
    """Forget what is committed and pending of these partitions; what nothing is of is answered 0, too.

    A partition that does not exist is answered 3, before anything is said of the group, as by Kafka.
    Raises   UnsupportedVersion, InvalidGroupId, GroupIdNotFound, NonEmptyGroup (not of consumers).
    """
    levels.require_group_log(view)
    places = list(dict.fromkeys(request.partitions))
    if not any(_exists(view, *each) for each in places):
        return Decision((), PartitionCodes(tuple([PartitionCode(*each, UNKNOWN) for each in places])))
    require_group_id(request.group_id)
    group = find(view, request.group_id)
    if group is None:
        raise GroupIdNotFound(f"nothing is known of group {request.group_id!r}")
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        raise NonEmptyGroup(
            f"group {request.group_id!r} has members of type {group.protocol_type!r}: stop them first"
        )
    records: list[StateRecord] = []
    rows: list[PartitionCode] = []
    for topic, partition in places:
        if not _exists(view, topic, partition):
            rows.append(PartitionCode(topic, partition, UNKNOWN))
            continue
        if is_subscribed(view, request.group_id, group, topic):
            rows.append(PartitionCode(topic, partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        key = offset_tables.key_of(request.group_id, topic, partition)
        if key is not None and is_kept(view, key):
            records.append(OffsetForgotten(*key))
        rows.append(PartitionCode(topic, partition))
    extra_cost = FORGOTTEN_COST * len(records)
    if tables.get(view, request.group_id) is None and forgets_group(view, request.group_id, len(records)):
        records.append(GroupForgotten(request.group_id))
    return Decision(tuple(records), PartitionCodes(tuple(rows)), extra_cost=extra_cost)


def _exists(view: View, name: str, partition: int) -> bool:
    topic = topics.find(view, name)
    return topic is not None and 0 <= partition < topic.partition_count


def is_kept(view: View, key: OffsetKey) -> bool:
    """Something is committed or pending."""
    waiting = view.get(WAITING, key)
    return bool(waiting) or view.get(OFFSETS, key) is not None


def is_subscribed(view: View, group_id: str, group: Group, topic: str) -> bool:
    """Members of the group read the topic, or may: what they read is not known."""
    if group.state is GroupState.EMPTY:
        return False
    names = subscribed_topics(view, group_id, group)
    return names is None or topic in names


def forgets_group(view: View, group_id: str, forgotten: int) -> bool:
    """With so many offsets less nothing is left of the group, and no open transaction has some of it."""
    group, counts = tables.get(view, group_id), offset_tables.counts_of(view, group_id)
    may_end = forgotten > 0 if group is None else group.state is GroupState.EMPTY
    return may_end and counts.committed + counts.pending <= forgotten and not counts.transactions
