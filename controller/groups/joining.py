"""JoinGroup: what a join leads to. A join phase collects joins; its end is controller/groups/completing.py's.

Order       is Kafka's: full group, protocols, identity, then the group's state.
Pure        what is not in the image (parked joins, pending ids) is a value: ``Phase``. A join that is parked
            writes nothing; the record that ends the phase says it all (generation and members).
Differs     a static member that rejoins a full group only takes its own place, so it is accepted (as for
            consumer groups, KAFKA-20601). A rejoin with another subscription rebalances (KAFKA-12759).
Source      Kafka GroupMetadataManager.classicGroupJoinToClassicGroup; KIP-394, KIP-345, KIP-559, KAFKA-9885.
"""

from collections.abc import Collection
from typing import Final, TypeAlias

import msgspec

from fencepost.controller.errors import InvalidRequest
from fencepost.controller.group_errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMemberId,
)
from fencepost.controller.groups import tables
from fencepost.controller.groups.identity import NO_MEMBER
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.tables import INSTANCE_ID_BYTES_MAX, Group
from fencepost.records.group_metadata import GroupMember, GroupState

GROUP_BYTES_MAX: Final = 3 * 1024 * 1024
"""Of one group's members, assignments included: they are one record of an entry, whose limit is 4 MiB."""

MEMBERS_MAX: Final = 2_000
"""Of one group, whatever ``group.max.size`` says: one record makes as many rows, in one step of the loop."""

PROTOCOLS_MAX: Final = 100  # of one member


class JoinGroup(msgspec.Struct, frozen=True):
    """API key 11. ``knows_required_ids``: version 4 and later; ``skips_assignment``: version 9 and later."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    instance_id: str | None = None
    reason: str | None = None
    knows_required_ids: bool = True
    skips_assignment: bool = True


class JoinedMember(msgspec.Struct, frozen=True):
    """What the leader is given of a member, to make assignments from."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinGroupAnswer(msgspec.Struct, frozen=True):
    """The member is in this generation. ``members`` for the leader alone."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class GroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``group.min.session.timeout.ms``, ``group.max.session.timeout.ms`` and ``group.max.size``."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    members_max: int = MEMBERS_MAX


class Sender(msgspec.Struct, frozen=True):
    """Whose request it is: what a new member is known by. ``fresh``: a text that no other id has."""

    client_id: str
    client_host: str
    fresh: str


class Phase(msgspec.Struct, frozen=True):
    """What the coordinator knows of a group beside its row: parked joins, and ids that it gave out.

    ``is_open``        a join phase is under way; the group is in PreparingRebalance.
    ``protocol_type``  of the joins that are parked; the group's if there are none.
    """

    is_open: bool = False
    protocol_type: str = ""
    parked: Collection[str] = ()
    pending: Collection[str] = ()


class Park(msgspec.Struct, frozen=True):
    """Park the join until the phase ends, or begin one. The member is this from now on."""

    member: GroupMember
    is_new: bool


class AnswerNow(msgspec.Struct, frozen=True):
    """The member is in the current generation as it is: say it again, an answer was lost."""

    member: GroupMember


class Replace(msgspec.Struct, frozen=True):
    """A static member came back: ``member`` takes the place of ``member_id``."""

    member_id: str
    member: GroupMember


Step: TypeAlias = Park | AnswerNow | Replace


def require_valid(request: JoinGroup, limits: GroupLimits) -> None:
    """What the request alone says. Raises InvalidGroupId, InvalidSessionTimeout, InvalidRequest."""
    require_group_id(request.group_id)
    shortest, longest = limits.session_timeout_ms_min, limits.session_timeout_ms_max
    if not shortest <= request.session_timeout_ms <= longest:
        raise InvalidSessionTimeout(
            f"a session timeout of {request.session_timeout_ms} ms; expected {shortest} to {longest} "
            "(group.min.session.timeout.ms, group.max.session.timeout.ms)"
        )
    instance_id = request.instance_id
    if instance_id is not None and not 0 < len(instance_id.encode(errors="replace")) <= INSTANCE_ID_BYTES_MAX:
        raise InvalidRequest(f"an instance id of {len(instance_id)}; at most {INSTANCE_ID_BYTES_MAX} bytes")
    if len(request.protocols) > PROTOCOLS_MAX:
        raise InvalidRequest(f"{len(request.protocols)} protocols; at most {PROTOCOLS_MAX}")


def require_group_id(group_id: str) -> None:
    """Raises InvalidGroupId (24) for the empty id, or one that is longer than a key of the image may be."""
    if not tables.is_key(group_id):
        raise InvalidGroupId(
            f"a group id of {len(group_id)} characters; expected 1 to {tables.GROUP_ID_BYTES_MAX} bytes"
        )


def join_step(
    request: JoinGroup,
    sender: Sender,
    group: Group | None,
    membership: Membership,
    phase: Phase,
    limits: GroupLimits,
) -> Step:
    """What a valid join leads to. ``membership``: the group's, with those whose joins are parked.

    Raises   UnknownMemberId, GroupMaxSizeReached, InconsistentGroupProtocol, FencedInstanceId; and
             MemberIdRequired, whose id is then pending.
    """
    is_unnamed = request.member_id == NO_MEMBER
    if group is None and not phase.is_open and not is_unnamed and request.member_id not in phase.pending:
        raise UnknownMemberId(f"group {request.group_id!r} does not exist: join without a member id")
    _require_room(request, group, membership, phase, limits)
    _require_protocols(request, group, membership, phase)
    step = (_new if is_unnamed else _known)(request, sender, group, membership, phase)
    if not isinstance(step, AnswerNow):
        _require_bytes(request, membership, step)
    return step


def _require_room(
    request: JoinGroup, group: Group | None, membership: Membership, phase: Phase, limits: GroupLimits
) -> None:
    """Shed whom a full group has no place for: of a group that is too large, the last to join again."""
    members_max = min(limits.members_max, MEMBERS_MAX)
    instance_id = request.instance_id
    is_back = instance_id is not None and membership.holder_of(instance_id) is not None
    if phase.is_open:
        accepted = request.member_id in phase.parked or len(phase.parked) < members_max
    elif group is None or group.state is GroupState.EMPTY:
        accepted = True
    else:
        accepted = request.member_id in membership or is_back or len(membership) < members_max
    if not accepted:
        raise GroupMaxSizeReached(f"group {request.group_id!r} has {members_max} members (group.max.size)")


def _require_protocols(request: JoinGroup, group: Group | None, membership: Membership, phase: Phase) -> None:
    names = {name for name, _ in request.protocols}
    if not names or not request.protocol_type:
        raise InconsistentGroupProtocol("a join without a protocol type or without protocols")
    if not len(membership):
        return
    of_group = phase.protocol_type if phase.is_open or group is None else group.protocol_type
    if request.protocol_type != of_group:
        raise InconsistentGroupProtocol(
            f"protocol type {request.protocol_type!r}; group {request.group_id!r} has {of_group!r}"
        )
    if not names & membership.supported():
        raise InconsistentGroupProtocol(
            f"none of {sorted(names)} is supported by all members of group {request.group_id!r}"
        )


def _new(
    request: JoinGroup, sender: Sender, group: Group | None, membership: Membership, phase: Phase
) -> Step:
    instance_id = request.instance_id
    member = _member(request, sender, _new_id(instance_id or sender.client_id, sender.fresh))
    if instance_id is not None:
        holder = membership.holder_of(instance_id)
        return Park(member, is_new=True) if holder is None else Replace(holder, member)
    if request.knows_required_ids:
        raise MemberIdRequired(member.member_id)
    return Park(member, is_new=True)


def _known(
    request: JoinGroup, sender: Sender, group: Group | None, membership: Membership, phase: Phase
) -> Step:
    if request.member_id in phase.pending:
        return Park(_member(request, sender, request.member_id), is_new=True)
    if request.instance_id is not None:
        holder = membership.holder_of(request.instance_id)
        if holder is None:
            raise UnknownMemberId(
                f"group {request.group_id!r} has no member with instance id {request.instance_id!r}"
            )
        if holder != request.member_id:
            raise FencedInstanceId(
                f"instance id {request.instance_id!r} of group {request.group_id!r} belongs to a newer member"
            )
    before = membership.get(request.member_id)
    if before is None:
        raise UnknownMemberId(
            f"group {request.group_id!r} has no member {request.member_id!r}: join without a member id"
        )
    member = _member(request, sender, request.member_id, before)
    if phase.is_open or group is None:
        return Park(member, is_new=False)
    is_same = before.protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_same:
        return AnswerNow(before)
    if group.state is GroupState.STABLE and is_same and group.leader != request.member_id:
        return AnswerNow(before)
    return Park(member, is_new=False)


def _require_bytes(request: JoinGroup, membership: Membership, step: Park | Replace) -> None:
    """A group's members are one record: past what that may hold, no member is added, and none grows."""
    replaced = step.member_id if isinstance(step, Replace) else step.member.member_id
    before = membership.get(replaced)
    size = tables.size_of(step.member) - (0 if before is None else tables.size_of(before))
    if size > 0 and membership.bytes + size > GROUP_BYTES_MAX:
        raise GroupMaxSizeReached(
            f"the members of group {request.group_id!r} would take {membership.bytes + size} bytes; "
            f"at most {GROUP_BYTES_MAX}"
        )


def _member(
    request: JoinGroup, sender: Sender, member_id: str, before: GroupMember | None = None
) -> GroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return GroupMember(
        member_id,
        request.instance_id if before is None else before.instance_id,
        sender.client_id,
        sender.client_host,
        request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        b"" if before is None else before.assignment,
    )


def _new_id(prefix: str, fresh: str) -> str:
    """Kafka's form, of a bounded length: it is part of a key."""
    cut = prefix.encode(errors="replace")[:INSTANCE_ID_BYTES_MAX].decode(errors="ignore")
    return f"{cut}-{fresh}"


def joined(members: Membership, protocol: str | None) -> tuple[JoinedMember, ...]:
    """What the leader is given."""
    return tuple(
        [JoinedMember(each.member_id, each.instance_id, each.metadata_of(protocol)) for each in members]
    )


def answer_of(group: Group, membership: Membership, member_id: str) -> JoinGroupAnswer:
    """A member's answer, of the group's current generation."""
    leads = group.leader == member_id
    return JoinGroupAnswer(
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        member_id,
        joined(membership, group.protocol) if leads else (),
    )
