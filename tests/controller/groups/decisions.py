"""What the coordinator decides of a group's membership and of its offsets, from the image it is given.

Members have names. One whose name begins with "s" is static, and its name is its instance id; one whose
name ends with "0" subscribes to the topics of these tests, the others to none. Who is not there, or may not,
writes nothing: a refusal is raised or answered, as in the product.
"""

import struct
from collections.abc import Collection
from typing import Any

from fencepost.controller.decision import Decision
from fencepost.controller.groups import (
    completing,
    heartbeat,
    leaving,
    offset_expiry,
    replacing,
    syncing,
    tables,
)
from fencepost.controller.groups.assigned_partitions import partitions_in
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import NO_MEMBER, Identity
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.offset_expiry import Retention
from fencepost.controller.groups.offset_tables import OFFSETS
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember, GroupState
from fencepost.records.transaction_log import TopicPartitions
from tests.controller.groups.worlds import member
from tests.controller.transactions.worlds import ORDERS

TOPICS = ("a.b", ORDERS)


def is_static(name: str) -> bool:
    return name.startswith("s")


def id_of(view: View, group_id: str, name: str) -> str:
    """The member id of that name; of one that is not there what it would be."""
    holder = tables.static_member_id(view, group_id, name) if is_static(name) else None
    return holder or f"{name}-0"


def _member(member_id: str, name: str) -> GroupMember:
    topics = TOPICS if name.endswith("0") else ()
    subscription = struct.pack(">hi", 0, len(topics))
    for each in topics:
        subscription += struct.pack(">h", len(each)) + each.encode()
    instance_id = name if is_static(name) else None
    return member(member_id, instance_id=instance_id, protocols=(("range", subscription),))


def identity_of(view: View, group_id: str, name: str, behind: int = 0) -> Identity:
    """How it presents itself, or as in a generation before."""
    row = tables.get(view, group_id)
    generation = 0 if row is None else max(0, row.generation - behind)
    return Identity(id_of(view, group_id, name), name if is_static(name) else None, generation)


# -- membership ------------------------------------------------------------------------------------------


def completes(group_id: str, names: Collection[str], view: View, now_ms: int) -> Decision[Any]:
    """A join phase ends, in which these have joined; of those before only static members stay."""
    row, membership = tables.get(view, group_id), Membership.of(view, group_id)
    ids = [id_of(view, group_id, name) for name in names]
    for member_id, name in zip(ids, names, strict=True):
        membership.put(_member(member_id, name))
    had_members = bool(tables.member_ids(view, group_id))
    membership = completing.staying(membership, ids)
    leader = completing.leader_of(row, membership, ids)
    if (leader is None and len(membership)) or not (len(membership) or had_members):
        return Decision((), None)
    record = completing.next_generation(group_id, row, "consumer", membership, leader, now_ms=now_ms)
    return Decision((record,), record)


def _assignment(partition: int, generation: int) -> bytes:
    """A consumer's: one partition of the first of the topics, and user data that differ."""
    name = TOPICS[0].encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">iiii", 1, partition, 4, generation)


def assigned_partitions(view: View, group_id: str, member_id: str) -> tuple[TopicPartitions, ...]:
    """What the member was given; nothing before it was."""
    row = tables.member(view, group_id, member_id)
    found = None if row is None else partitions_in(row.assignment)
    return tuple([TopicPartitions(topic, tuple(sorted(indexes))) for topic, indexes in (found or {}).items()])


def assigns(group_id: str, view: View, now_ms: int) -> Decision[Any]:
    """The leader's SyncGroup."""
    row = tables.get(view, group_id)
    if row is None or row.state is not GroupState.COMPLETING_REBALANCE:
        return Decision((), None)
    members = tables.members(view, group_id)
    given = {each.member_id: _assignment(number, row.generation) for number, each in enumerate(members)}
    record = syncing.assigned(group_id, row, members, given, now_ms=now_ms)
    return Decision((record,), record)


def removes(group_id: str, names: Collection[str], view: View, now_ms: int) -> Decision[Any]:
    """They leave, or their sessions are over."""
    gone = [id_of(view, group_id, name) for name in names]
    record = leaving.without(view, group_id, gone, now_ms=now_ms)
    return Decision(() if record is None else (record,), record)


def replaces(group_id: str, name: str, number: int, view: View, now_ms: int) -> Decision[Any]:
    """A static member comes back, under another id."""
    row, old_id = tables.get(view, group_id), tables.static_member_id(view, group_id, name)
    before = None if old_id is None else tables.member(view, group_id, old_id)
    if row is None or old_id is None or before is None:
        return Decision((), None)
    new = replacing.inherited(before, _member(f"{name}-{number}", name))
    membership = Membership.of(view, group_id)
    membership.replace(old_id, new)
    leader = new.member_id if row.leader == old_id else row.leader
    stays = replacing.goes_on(row, before, membership, leader)
    record = replacing.replaced(
        group_id, row, old_id, membership, new.member_id, goes_on=stays, now_ms=now_ms
    )
    return Decision((record,), record)


def heartbeats(group_id: str, name: str, view: View, _now_ms: int) -> Decision[Any]:
    """Writes nothing. Raises what is answered."""
    row = tables.get(view, group_id)
    request = HeartbeatGroup(
        group_id,
        0 if row is None else row.generation,
        id_of(view, group_id, name) if row is not None else NO_MEMBER,
        name if is_static(name) else None,
    )
    heartbeat.require_alive(view, request, is_preparing=False)
    return Decision((), None)


# -- sweeps ----------------------------------------------------------------------------------------------


def expires(view: View, now_ms: int) -> Decision[Any]:
    """Everything that is not in use now."""
    retention = Retention(now_ms + 10_000, 0, 1_000, None)
    keys = tuple([key for key, _ in view.items(OFFSETS)])
    return offset_expiry.decide_expire(view, retention, keys)


def forgets_topics(view: View, _now_ms: int) -> Decision[Any]:
    """Offsets of topics that are gone."""
    return offset_expiry.decide_forget_topics(view, offset_expiry.due_by_topic(view)[0])


def forgets_groups(view: View, _now_ms: int) -> Decision[Any]:
    """Groups of which nothing is left."""
    return offset_expiry.decide_forget_groups(view, offset_expiry.due_empty_groups(view)[0])
