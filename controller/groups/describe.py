"""DescribeGroups and ListGroups: groups as an administrator sees them, those with offsets alone included.

State       is the image's, but for a join phase under way, which the coordinator says: PreparingRebalance.
Metadata    and assignments are shown in Stable alone, as in Kafka: in between they are of two generations.
Source      Kafka GroupMetadataManager.describeGroups, GroupMetadataManager.listGroups; KIP-518, KIP-848,
            KIP-1043.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import offset_tables, offsets, tables
from fencepost.controller.groups.tables import GROUPS, Group
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupMember, GroupState

DEAD: Final = "Dead"  # of a group that is not known, below version 6
CLASSIC: Final = "classic"
PREPARING: Final = GroupState.PREPARING_REBALANCE.wire_name
NO_OPERATIONS: Final = -(2**31)  # the client did not request them


class DescribeGroups(msgspec.Struct, frozen=True):
    """API key 15."""

    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedMember(msgspec.Struct, frozen=True):
    """A member of a described group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True):
    """A group, or why it is not described."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NO_OPERATIONS


class DescribeGroupsAnswer(msgspec.Struct, frozen=True):
    """In the order of the request."""

    groups: tuple[DescribedGroup, ...]


class ListGroups(msgspec.Struct, frozen=True):
    """API key 16. An empty filter selects all; a name that is not known selects nothing."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(msgspec.Struct, frozen=True):
    """A group of a list. One without a protocol type exists by its offsets alone."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


class ListGroupsAnswer(msgspec.Struct, frozen=True):
    """In the order of group ids, those with offsets alone last."""

    groups: tuple[ListedGroup, ...]


def describe_group(view: View, group_id: str, *, is_preparing: bool) -> DescribedGroup:
    """A group as of the image; ``is_preparing``: a join phase is under way."""
    group = offsets.find(view, group_id)
    if group is None and is_preparing:
        return DescribedGroup(group_id, state=PREPARING)
    if group is None:
        missing = f"Group {group_id} not found."
        return DescribedGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing, DEAD)
    state = PREPARING if is_preparing else group.state.wire_name
    is_stable = state == GroupState.STABLE.wire_name
    return DescribedGroup(
        group_id,
        state=state,
        protocol_type=group.protocol_type,
        protocol=(group.protocol or "") if is_stable else "",
        members=tuple([_described(each, group, is_stable) for each in tables.members(view, group_id)]),
    )


def _described(member: GroupMember, group: Group, is_stable: bool) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata_of(group.protocol) if is_stable else b"",
        member.assignment if is_stable else b"",
    )


class Filters:
    """What a list selects, by names in any case."""

    __slots__ = ("_states", "_types")

    def __init__(self, request: ListGroups) -> None:
        self._states = _names(request.states)
        self._types = _names(request.types)

    def select(self, group: ListedGroup) -> bool:
        """Whether the group is one of the list."""
        return (not self._states or group.state.lower() in self._states) and (
            not self._types or group.group_type in self._types
        )


def _names(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)


def list_slice(
    view: View, after: str | None, rows_max: int, is_preparing: Callable[[str], bool]
) -> tuple[list[ListedGroup], str | None]:
    """Groups that have had members, beyond ``after``; and where to go on, None at the end.

    ``is_preparing``: a join phase of that group is under way.
    """
    listed: list[ListedGroup] = []
    for group_id, group in view.scan(GROUPS, after):
        state = PREPARING if is_preparing(group_id) else group.state.wire_name
        listed.append(ListedGroup(group_id, group.protocol_type, state))
        if len(listed) >= rows_max:
            return listed, group_id
    return listed, None


def list_simple_slice(view: View, after: str | None, rows_max: int) -> tuple[list[ListedGroup], str | None]:
    """Groups that exist by their offsets alone, beyond ``after``; and where to go on, None at the end."""
    listed: list[ListedGroup] = []
    for number, (group_id, counts) in enumerate(view.scan(offset_tables.COUNTS, after), start=1):
        if (counts.committed or counts.pending) and tables.get(view, group_id) is None:
            listed.append(ListedGroup(group_id, "", GroupState.EMPTY.wire_name))
        if number >= rows_max:
            return listed, group_id
    return listed, None
