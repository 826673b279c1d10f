"""LeaveGroup and the end of sessions: members go, and that is logged before anyone is answered.

Why         Kafka removes a member from memory while others stay: a coordinator that takes over has it again,
            and its partitions lie idle for a session. Here the record says who is left, and that they are to
            join again (PreparingRebalance), which the next coordinator sees to.
Source      Kafka GroupMetadataManager.classicGroupLeaveToClassicGroup, expireClassicGroupMemberHeartbeat.
"""

from collections.abc import Collection

import msgspec

from fencepost.controller.errors import ErrorCode
from fencepost.controller.group_errors import FencedInstanceId, UnknownMemberId
from fencepost.controller.groups import tables
from fencepost.controller.groups.identity import NO_MEMBER
from fencepost.controller.groups.membership import Membership
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMetadata, GroupState


class Leaver(msgspec.Struct, frozen=True):
    """A member that leaves; with an instance id and no member id an administrator removes it."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(msgspec.Struct, frozen=True):
    """API key 13. Below version 3 it has one member, without an instance id."""

    group_id: str
    members: tuple[Leaver, ...]


class LeftMember(msgspec.Struct, frozen=True):
    """What became of a leaver."""

    member_id: str
    instance_id: str | None
    error_code: ErrorCode


class LeaveGroupAnswer(msgspec.Struct, frozen=True):
    """In the order of the request."""

    members: tuple[LeftMember, ...]


def require_leaver(membership: Membership, leaver: Leaver, gone: Collection[str]) -> str:
    """The member id of a leaver. ``gone``: those that the same request has named before.

    Raises   UnknownMemberId, FencedInstanceId.
    """
    member_id, instance_id = leaver.member_id, leaver.instance_id
    if instance_id is not None:
        holder = membership.holder_of(instance_id)
        if holder is None or holder in gone:
            raise UnknownMemberId(f"no member has instance id {instance_id!r}")
        if member_id not in (NO_MEMBER, holder):
            raise FencedInstanceId(f"instance id {instance_id!r} belongs to a newer member")
        return holder
    if member_id not in membership or member_id in gone:
        raise UnknownMemberId(f"no member has id {member_id!r}")
    return member_id


def without(view: View, group_id: str, leaving: Collection[str], *, now_ms: int) -> GroupMetadata | None:
    """The record of a group whose members ``leaving`` are gone; None if none of them is in the image.

    The last to go leave an Empty group of the next generation, as the end of a join phase would.
    """
    group = tables.get(view, group_id)
    ids = tables.member_ids(view, group_id)
    if group is None or not any(each in leaving for each in ids):
        return None
    members = tuple([each for each in tables.members(view, group_id) if each.member_id not in leaving])
    if not members:
        row = tables.Group(group.protocol_type, group.generation + 1, GroupState.EMPTY, state_ms=now_ms)
        return tables.record_of(group_id, row, ())
    leader = group.leader if group.leader not in leaving else members[0].member_id
    row = msgspec.structs.replace(group, state=GroupState.PREPARING_REBALANCE, leader=leader, state_ms=now_ms)
    return tables.record_of(group_id, row, members)
