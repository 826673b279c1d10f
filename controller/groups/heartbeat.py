"""Heartbeat: is the member still in the group's current generation?

Source   Kafka GroupMetadataManager.classicGroupHeartbeatToClassicGroup.
"""

import msgspec

from fencepost.controller.group_errors import RebalanceInProgress, UnknownMemberId
from fencepost.controller.groups import identity, tables
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupState


class HeartbeatGroup(msgspec.Struct, frozen=True):
    """API key 12."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


def require_alive(view: View, request: HeartbeatGroup, *, is_preparing: bool) -> None:
    """Returns if the member may go on. ``is_preparing``: a join phase is under way.

    Raises   UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress, in this order.
    """
    group = tables.get(view, request.group_id)
    if group is None:
        raise UnknownMemberId(f"group {request.group_id!r} does not exist: join without a member id")
    identity.require_member(view, request.group_id, request.member_id, request.instance_id)
    identity.require_generation(request.group_id, group, request.generation)
    if is_preparing or group.state is GroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group {request.group_id!r} rebalances: join again")
