"""The end of a join phase: one record with the next generation and its members; then joins are answered.

Why         Kafka announces a generation in JoinGroup and logs it with the leader's SyncGroup: if the
            coordinator fails in between, the next one gives the same generation out again, to other members,
            and the fence of KIP-447 has a hole. Here the record comes first: a generation has one member
            list under all coordinators.
Static      members that did not join again stay until their session ends; if no other is there, the phase
            goes on (KAFKA-8220).
Source      Kafka GroupMetadataManager.completeClassicGroupJoin, ClassicGroup.initNextGeneration.
"""

from collections.abc import Collection

import msgspec

from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.tables import Group
from fencepost.records.group_metadata import GroupMetadata, GroupState
from fencepost.records.invariant import invariant


def staying(membership: Membership, parked: Collection[str]) -> Membership:
    """Who is in the next generation: all whose joins are parked, and static members."""
    return Membership(each for each in membership if each.member_id in parked or each.instance_id is not None)


def leader_of(group: Group | None, membership: Membership, parked: Collection[str]) -> str | None:
    """The leader goes on if it joined again; otherwise the first that did leads. None: none did."""
    if group is not None and group.leader in parked and group.leader in membership:
        return group.leader
    return next((each.member_id for each in membership if each.member_id in parked), None)


def next_generation(
    group_id: str,
    group: Group | None,
    protocol_type: str,
    membership: Membership,
    leader: str | None,
    *,
    now_ms: int,
) -> GroupMetadata:
    """The record of the next generation, with the members that stay; without members the group is Empty.

    Assignments of before are left out: the leader's SyncGroup decides them.
    """
    generation = 1 if group is None else group.generation + 1
    if not len(membership):
        return GroupMetadata(
            group_id=group_id,
            protocol_type=protocol_type,
            generation=generation,
            state=GroupState.EMPTY,
            state_ms=now_ms,
        )
    protocol = membership.vote(leader)
    invariant(protocol is not None, "members that share no protocol", group_id=group_id)
    return GroupMetadata(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state=GroupState.COMPLETING_REBALANCE,
        state_ms=now_ms,
        members=tuple(
            [
                msgspec.structs.replace(each, assignment=b"") if each.assignment else each
                for each in membership
            ]
        ),
    )
