"""A static member that comes back takes its own place, under a new member id (KIP-345).

Logged      in every state, before the old id is answered FENCED_INSTANCE_ID (82), which ends its process.
            Kafka logs it in Stable only, and a coordinator that takes over would fence the process that
            lives (KAFKA-10284). The place, the leadership and the assignment go with the instance.
Rebalance   unless the group is Stable, would choose the same protocol, and the subscription is the same
            (KAFKA-12759): then the member goes on with the old one's assignment (KIP-814).
Source      Kafka GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
"""

import msgspec

from fencepost.controller.groups import tables
from fencepost.controller.groups.joining import JoinGroup, JoinGroupAnswer, joined
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.tables import Group
from fencepost.records.group_metadata import GroupMember, GroupMetadata, GroupState


def inherited(before: GroupMember, member: GroupMember) -> GroupMember:
    """The new member as the old one's heir; protocols and both timeouts are its own (KAFKA-14009)."""
    return msgspec.structs.replace(member, assignment=before.assignment)


def goes_on(group: Group, before: GroupMember, membership: Membership, leader: str | None) -> bool:
    """The group needs no rebalance. ``membership``: with the new member in its place."""
    return (
        group.state is GroupState.STABLE
        and membership.vote(leader) == group.protocol
        and any(
            each.metadata_of(group.protocol) == before.metadata_of(group.protocol)
            for each in membership
            if each.instance_id == before.instance_id
        )
    )


def replaced(
    group_id: str,
    group: Group,
    member_id: str,
    membership: Membership,
    new_id: str,
    *,
    goes_on: bool,
    now_ms: int,
) -> GroupMetadata:
    """The record of the group with the new member in its place, in the same generation."""
    leader = new_id if group.leader == member_id else group.leader
    row = msgspec.structs.replace(group, leader=leader)
    if not goes_on:
        row = msgspec.structs.replace(row, state=GroupState.PREPARING_REBALANCE, state_ms=now_ms)
    return tables.record_of(group_id, row, tuple(membership))


def answer_of(
    request: JoinGroup, before: Group, group: Group, membership: Membership, member_id: str
) -> JoinGroupAnswer:
    """Of a member that goes on. It must not assign: version 9 can say so, before it the old id leads."""
    leads = group.leader == member_id
    answer = JoinGroupAnswer(
        group.generation, group.protocol_type, group.protocol, group.leader or "", member_id
    )
    if not leads:
        return answer
    if request.skips_assignment:
        members = joined(membership, group.protocol)
        return msgspec.structs.replace(answer, members=members, skip_assignment=True)
    return msgspec.structs.replace(answer, leader=before.leader or "")
