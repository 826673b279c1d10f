"""Who may act for a group: the checks of member id, instance id and generation, in Kafka's order.

Fence       a static member that was replaced is answered FENCED_INSTANCE_ID (82), which ends its process, so
            it is decided from the image alone, and leaves when an entry of its batch is applied.
Committers  the same checks for commits of offsets, plain and transactional (KIP-447).
Source      Kafka ClassicGroup.validateMember, validateOffsetCommit; KIP-345, KIP-447, KAFKA-14201.
"""

import msgspec

from fencepost.controller.group_errors import (
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from fencepost.controller.groups import tables
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember, GroupState

NO_GENERATION = -1
NO_MEMBER = ""


class Identity(msgspec.Struct, frozen=True):
    """What a request says of its sender. Without a generation it is not a member of a generation."""

    member_id: str = NO_MEMBER
    instance_id: str | None = None
    generation: int = NO_GENERATION


def require_member(view: View, group_id: str, member_id: str, instance_id: str | None) -> GroupMember:
    """The member that a request is of.

    Raises   UnknownMemberId (25) if the instance or the member is unknown; FencedInstanceId (82) if another
             member has the instance id.
    """
    if instance_id is not None:
        holder = tables.static_member_id(view, group_id, instance_id)
        if holder is None:
            raise UnknownMemberId(f"group {group_id!r} has no member with instance id {instance_id!r}")
        if holder != member_id:
            raise FencedInstanceId(
                f"instance id {instance_id!r} of group {group_id!r} belongs to a newer member"
            )
    member = tables.member(view, group_id, member_id)
    if member is None:
        raise UnknownMemberId(f"group {group_id!r} has no member {member_id!r}: join again")
    return member


def require_generation(group_id: str, group: Group, generation: int) -> None:
    """Raises IllegalGeneration (22) unless it is the group's current one."""
    if generation != group.generation:
        raise IllegalGeneration(
            f"group {group_id!r} is at generation {group.generation}, the request is of {generation}"
        )


def require_committer(
    view: View, group_id: str, group: Group, identity: Identity, *, transactional: bool
) -> None:
    """``identity`` may commit offsets of the group now.

    Raises   UnknownMemberId (25), FencedInstanceId (82), IllegalGeneration (22), in this order; if not
             ``transactional``, RebalanceInProgress (27) while the assignments are not decided.
    """
    is_empty = group.state is GroupState.EMPTY
    if identity.generation < 0 and is_empty:
        return  # a consumer that assigns partitions to itself, whatever ids it sends
    if identity.generation >= 0 or identity.member_id != NO_MEMBER or identity.instance_id is not None:
        require_member(view, group_id, identity.member_id, identity.instance_id)
        require_generation(group_id, group, identity.generation)
    elif not transactional and not is_empty:
        raise UnknownMemberId(f"group {group_id!r} has members: a commit without a member id is refused")
    if not transactional and group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgress(f"group {group_id!r} waits for its leader's assignments: retry then")
