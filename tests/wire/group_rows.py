"""Rows of the APIs about members of groups."""

from typing import Any

from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups import describe as d
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinedMember, JoinGroup, JoinGroupAnswer
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer, Leaver, LeftMember
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS
from tests.wire.row import Row, ms

# JoinGroup


def _visible_join(version: int, said: JoinGroup) -> JoinGroup:
    return replace(
        said,
        rebalance_timeout_ms=said.rebalance_timeout_ms if version >= 1 else said.session_timeout_ms,
        instance_id=said.instance_id if version >= 5 else None,
        reason=said.reason if version >= 8 else None,
        knows_required_ids=version >= 4,
        skips_assignment=version >= 9,
    )


def _flat_join(version: int, entity: Any) -> JoinGroup:
    return JoinGroup(
        group_id=entity.group_id,
        session_timeout_ms=ms(entity.session_timeout),
        rebalance_timeout_ms=ms(entity.rebalance_timeout if version >= 1 else entity.session_timeout),
        member_id=entity.member_id,
        protocol_type=entity.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in entity.protocols),
        instance_id=getattr(entity, "group_instance_id", None),
        reason=getattr(entity, "reason", None),
        knows_required_ids=version >= 4,
        skips_assignment=version >= 9,
    )


def _visible_joined(version: int, said: JoinGroupAnswer) -> JoinGroupAnswer:
    members = tuple(replace(each, instance_id=None) for each in said.members)
    return replace(
        said,
        protocol_type=said.protocol_type if version >= 7 else None,
        skip_assignment=said.skip_assignment and version >= 9,
        members=said.members if version >= 5 else members,
    )


def _flat_joined(version: int, entity: Any) -> JoinGroupAnswer:
    return JoinGroupAnswer(
        entity.generation_id,
        getattr(entity, "protocol_type", None),
        entity.protocol_name,
        entity.leader,
        entity.member_id,
        tuple(
            JoinedMember(each.member_id, getattr(each, "group_instance_id", None), each.metadata)
            for each in entity.members
        ),
        getattr(entity, "skip_assignment", False),
    )


JOIN = Row(
    JOIN_GROUP,
    JoinGroup(
        "readers",
        45_000,
        300_000,
        "alice-1",
        "consumer",
        (("range", b"\0\1orders"), ("cooperative-sticky", b"")),
        "alice",
        "rebalance enforced by the application",
    ),
    JoinGroupAnswer(
        7,
        "consumer",
        "range",
        "alice-1",
        "alice-1",
        (JoinedMember("alice-1", "alice", b"\0\1orders"), JoinedMember("bob-2", None, b"")),
        True,
    ),
    _visible_join,
    _visible_joined,
    _flat_join,
    _flat_joined,
)


# SyncGroup


def _visible_sync(version: int, said: SyncGroup) -> SyncGroup:
    return replace(
        said,
        instance_id=said.instance_id if version >= 3 else None,
        protocol_type=said.protocol_type if version >= 5 else None,
        protocol=said.protocol if version >= 5 else None,
    )


def _flat_sync(version: int, entity: Any) -> SyncGroup:
    return SyncGroup(
        entity.group_id,
        entity.generation_id,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
        getattr(entity, "protocol_type", None),
        getattr(entity, "protocol_name", None),
        tuple((each.member_id, each.assignment) for each in entity.assignments),
    )


def _visible_synced(version: int, said: SyncGroupAnswer) -> SyncGroupAnswer:
    return said if version >= 5 else SyncGroupAnswer(None, None, said.assignment)


def _flat_synced(version: int, entity: Any) -> SyncGroupAnswer:
    return SyncGroupAnswer(
        getattr(entity, "protocol_type", None), getattr(entity, "protocol_name", None), entity.assignment
    )


SYNC = Row(
    SYNC_GROUP,
    SyncGroup(
        "readers",
        7,
        "alice-1",
        "alice",
        "consumer",
        "range",
        (("alice-1", b"\0\1orders-0"), ("bob-2", b"")),
    ),
    SyncGroupAnswer("consumer", "range", b"\0\1orders-0"),
    _visible_sync,
    _visible_synced,
    _flat_sync,
    _flat_synced,
)


# Heartbeat

BEAT = Row(
    HEARTBEAT,
    HeartbeatGroup("readers", 7, "alice-1", "alice"),
    None,
    lambda version, said: replace(said, instance_id=said.instance_id if version >= 3 else None),
    flat_request=lambda version, entity: HeartbeatGroup(
        entity.group_id, entity.generation_id, entity.member_id, getattr(entity, "group_instance_id", None)
    ),
)


# LeaveGroup


def _visible_leave(version: int, said: LeaveGroup) -> LeaveGroup:
    members = tuple(replace(each, reason=None) for each in said.members)
    return said if version >= 5 else replace(said, members=members)


def _flat_leave(version: int, entity: Any) -> LeaveGroup:
    if version < 3:
        return LeaveGroup(entity.group_id, (Leaver(entity.member_id),))
    return LeaveGroup(
        entity.group_id,
        tuple(
            Leaver(each.member_id, each.group_instance_id, getattr(each, "reason", None))
            for each in entity.members
        ),
    )


def _visible_left(version: int, said: LeaveGroupAnswer) -> LeaveGroupAnswer:
    return said if version >= 3 else LeaveGroupAnswer((LeftMember("", None, ErrorCode.NONE),))


def _flat_left(version: int, entity: Any) -> LeaveGroupAnswer:
    if version < 3:
        return LeaveGroupAnswer((LeftMember("", None, ErrorCode(entity.error_code.value)),))
    return LeaveGroupAnswer(
        tuple(
            LeftMember(each.member_id, each.group_instance_id, ErrorCode(each.error_code.value))
            for each in entity.members
        )
    )


LEAVE = Row(
    LEAVE_GROUP,
    LeaveGroup("readers", (Leaver("alice-1", None, "the consumer is being closed"),)),
    LeaveGroupAnswer((LeftMember("alice-1", None, ErrorCode.NONE),)),
    _visible_leave,
    _visible_left,
    _flat_leave,
    _flat_left,
)

# DescribeGroups


def _visible_described(version: int, said: d.DescribeGroupsAnswer) -> d.DescribeGroupsAnswer:
    rows = []
    for each in said.groups:
        is_dead = each.error_code == ErrorCode.GROUP_ID_NOT_FOUND and version < 6
        members = tuple(replace(member, instance_id=None) for member in each.members)
        rows.append(
            replace(
                each,
                error_code=ErrorCode.NONE if is_dead else each.error_code,
                error_message=each.error_message if version >= 6 else None,
                members=each.members if version >= 4 else members,
                authorized_operations=each.authorized_operations if version >= 3 else d.NO_OPERATIONS,
            )
        )
    return d.DescribeGroupsAnswer(tuple(rows))


def _flat_described(version: int, entity: Any) -> d.DescribeGroupsAnswer:
    return d.DescribeGroupsAnswer(
        tuple(
            d.DescribedGroup(
                each.group_id,
                ErrorCode(each.error_code.value),
                getattr(each, "error_message", None),
                each.group_state,
                each.protocol_type,
                each.protocol_data,
                tuple(
                    d.DescribedMember(
                        member.member_id,
                        getattr(member, "group_instance_id", None),
                        member.client_id,
                        member.client_host,
                        member.member_metadata,
                        member.member_assignment,
                    )
                    for member in each.members
                ),
                getattr(each, "authorized_operations", d.NO_OPERATIONS),
            )
            for each in entity.groups
        )
    )


DESCRIBE = Row(
    DESCRIBE_GROUPS,
    d.DescribeGroups(("readers", "gone"), True),
    d.DescribeGroupsAnswer(
        (
            d.DescribedGroup(
                "readers",
                state="Stable",
                protocol_type="consumer",
                protocol="range",
                members=(d.DescribedMember("alice-1", "alice", "client", "/127.0.0.1", b"s", b"a"),),
                authorized_operations=328,
            ),
            d.DescribedGroup("gone", ErrorCode.GROUP_ID_NOT_FOUND, "Group gone not found.", "Dead"),
        )
    ),
    lambda version, said: said if version >= 3 else replace(said, include_authorized_operations=False),
    _visible_described,
    lambda version, entity: d.DescribeGroups(
        entity.groups, getattr(entity, "include_authorized_operations", False)
    ),
    _flat_described,
)


# ListGroups


def _visible_listed(version: int, said: d.ListGroupsAnswer) -> d.ListGroupsAnswer:
    return d.ListGroupsAnswer(
        tuple(
            replace(
                each,
                state=each.state if version >= 4 else "",
                group_type=each.group_type if version >= 5 else d.CLASSIC,
            )
            for each in said.groups
        )
    )


def _flat_listed(version: int, entity: Any) -> d.ListGroupsAnswer:
    return d.ListGroupsAnswer(
        tuple(
            d.ListedGroup(
                each.group_id,
                each.protocol_type,
                getattr(each, "group_state", ""),
                getattr(each, "group_type", d.CLASSIC),
            )
            for each in entity.groups
        )
    )


LIST = Row(
    LIST_GROUPS,
    d.ListGroups(("Stable", "empty"), ("classic",)),
    d.ListGroupsAnswer(
        (d.ListedGroup("readers", "consumer", "Stable"), d.ListedGroup("simple", "", "Empty"))
    ),
    lambda version, said: d.ListGroups(
        said.states if version >= 4 else (), said.types if version >= 5 else ()
    ),
    _visible_listed,
    lambda version, entity: d.ListGroups(
        getattr(entity, "states_filter", ()), getattr(entity, "types_filter", ())
    ),
    _flat_listed,
)

GROUP_ROWS = (JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST)
