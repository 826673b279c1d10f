"""SyncGroup: parked until the leader's assignments are logged.

Source   Kafka GroupMetadataManager.classicGroupSyncToClassicGroup.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from fencepost.controller.errors import ApiError
from fencepost.controller.group_errors import RebalanceInProgress
from fencepost.controller.groups import syncing
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_operations import GroupOperations
from fencepost.coordinator.groups.join_phases import REBALANCES
from fencepost.coordinator.groups.soft_group import SoftGroup
from fencepost.records.group_metadata import GroupMetadata, GroupState
from fencepost.wire.dispatch import Reply


class SyncRequests:
    """See the module."""

    def __init__(self, operations: GroupOperations) -> None:
        self._operations = operations

    def sync(self, group: SoftGroup, request: SyncGroup, reply: Reply[SyncGroupAnswer]) -> None:
        """An operation: what a SyncGroup leads to."""
        operations = self._operations
        try:
            row, member = syncing.require_sync(operations.image(), request)
        except ApiError as refusal:
            operations.answer(reply, refusal)
            return
        if group.is_open or row.state is GroupState.PREPARING_REBALANCE:
            operations.answer(reply, REBALANCES)
            return
        group.unsynced.discard(member.member_id)
        operations.touch(group, member)
        if row.state is GroupState.STABLE:
            operations.answer(reply, syncing.answer_of(row, member))
            return
        before = group.syncs.get(member.member_id)
        if before is not None:
            later = RebalanceInProgress(f"member {member.member_id!r} has sent a later sync")
            operations.answer(before, later)
        group.syncs[member.member_id] = reply
        if row.leader == member.member_id:
            self._assign(group, row, request)

    def _assign(self, group: SoftGroup, row: Group, request: SyncGroup) -> None:
        """Log the leader's assignments; then every parked sync is answered."""
        operations = self._operations
        members, assignments = tuple(operations.membership(group)), dict(request.assignments)

        def decide(_view: View, now_ms: int) -> GroupMetadata:
            return syncing.assigned(group.group_id, row, members, assignments, now_ms=now_ms)

        def applied(record: GroupMetadata | None) -> None:
            now = operations.row(group)
            syncs, group.syncs = group.syncs, {}
            group.membership = None
            if now is None or record is None:
                return
            waiting = [each for each in record.members if each.member_id in syncs]
            for member in waiting:
                operations.touch(group, member)
            operations.answer_all([(syncs[each.member_id], syncing.answer_of(now, each)) for each in waiting])

        def failed(error: ApiError) -> None:
            operations.prepare(group, error)

        operations.write(group, decide, applied, failed)
