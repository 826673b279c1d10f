"""SyncGroup: the leader's assignments, logged before any member is answered with its own.

Source   Kafka GroupMetadataManager.classicGroupSyncToClassicGroup; KIP-559.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fencepost.controller.errors import UnknownServerError
from fencepost.controller.group_errors import InconsistentGroupProtocol, UnknownMemberId
from fencepost.controller.groups import identity, tables
from fencepost.controller.groups.joining import GROUP_BYTES_MAX
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember, GroupMetadata, GroupState

EMPTY_ASSIGNMENT: Final = bytes.fromhex("0000 00000000 ffffffff")
"""Of a consumer: version 0, no topics, no user data. Some consumers cannot read one of no bytes at all."""

CONSUMER: Final = "consumer"


class SyncGroup(msgspec.Struct, frozen=True):
    """API key 14. ``protocol_type`` and ``protocol``: null before version 5, and not checked then."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class SyncGroupAnswer(msgspec.Struct, frozen=True):
    """The partitions that the member is assigned, as its leader wrote them."""

    protocol_type: str | None
    protocol: str | None
    assignment: bytes


def require_sync(view: View, request: SyncGroup) -> tuple[Group, GroupMember]:
    """The group and the member that a sync is of, whatever the group's state.

    Raises   UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol, in this order.
    """
    group = tables.get(view, request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        raise UnknownMemberId(f"group {request.group_id!r} has no members: join again")
    member = identity.require_member(view, request.group_id, request.member_id, request.instance_id)
    identity.require_generation(request.group_id, group, request.generation)
    is_other_type = request.protocol_type is not None and request.protocol_type != group.protocol_type
    is_other = request.protocol is not None and request.protocol != group.protocol
    if is_other_type or is_other:
        raise InconsistentGroupProtocol(
            f"group {request.group_id!r} uses {group.protocol!r} of type {group.protocol_type!r}; "
            f"the request is of {request.protocol!r} of type {request.protocol_type!r}"
        )
    return group, member


def assigned(
    group_id: str,
    group: Group,
    members: Iterable[GroupMember],
    assignments: Mapping[str, bytes],
    *,
    now_ms: int,
) -> GroupMetadata:
    """The record of the leader's assignments: a member that they leave out gets none.

    Unknown member ids are ignored.
    Raises   UnknownServerError (-1), as Kafka does, if the group would not fit into one record.
    """
    given = tuple(
        [msgspec.structs.replace(each, assignment=assignments.get(each.member_id, b"")) for each in members]
    )
    size = sum(map(tables.size_of, given))
    if size > GROUP_BYTES_MAX:
        raise UnknownServerError(
            f"group {group_id!r} would take {size} bytes with these assignments; at most {GROUP_BYTES_MAX}"
        )
    row = msgspec.structs.replace(group, state=GroupState.STABLE, state_ms=now_ms)
    return tables.record_of(group_id, row, given)


def answer_of(group: Group, member: GroupMember) -> SyncGroupAnswer:
    """A member's answer, of the group's current assignments."""
    assignment = member.assignment
    if not assignment and group.protocol_type == CONSUMER:
        assignment = EMPTY_ASSIGNMENT
    return SyncGroupAnswer(group.protocol_type, group.protocol, assignment)
