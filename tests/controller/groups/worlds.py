"""Groups to decide on: images made by replaying records, as a node makes them."""

import msgspec

from fencepost.controller.groups import tables
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.group_metadata import GroupMember, GroupMetadata, GroupState

GROUP = "readers"
RANGE = (("range", b"r"),)
NOW_MS = 1_000_000


def member(
    member_id: str,
    *,
    instance_id: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = RANGE,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    assignment: bytes = b"",
) -> GroupMember:
    return GroupMember(
        member_id,
        instance_id,
        "client",
        "/127.0.0.1",
        rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
        assignment,
    )


def group(
    *members: GroupMember,
    state: GroupState = GroupState.STABLE,
    generation: int = 3,
    protocol: str | None = "range",
    protocol_type: str = "consumer",
    leader: str | None = None,
    group_id: str = GROUP,
) -> GroupMetadata:
    return GroupMetadata(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol if members else None,
        leader=leader or (members[0].member_id if members else None),
        state=state if members else GroupState.EMPTY,
        state_ms=NOW_MS,
        members=members,
    )


def image(*records: GroupMetadata) -> Overlay:
    view = Overlay(EmptyView())
    for record in records:
        tables.replay(view, record)
    return view


def later(record: GroupMetadata, **changes: object) -> GroupMetadata:
    return msgspec.structs.replace(record, **changes)
