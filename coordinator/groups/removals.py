"""Members that leave, and those whose time is over: one record for all of a request or of a moment.

Source   Kafka GroupMetadataManager (classicGroupLeaveToClassicGroup, expireClassicGroupMemberHeartbeat);
         KAFKA-7610, KAFKA-9752 (parked joins), KAFKA-12890 (members that do not sync).
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable, Iterable
from functools import partial
from math import inf

from structlog.typing import FilteringBoundLogger

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import FencedInstanceId, UnknownMemberId
from fencepost.controller.groups import leaving
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer, LeftMember
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.groups.group_operations import GroupOperations
from fencepost.coordinator.groups.join_phases import REBALANCES, RETRY_S, JoinPhases
from fencepost.coordinator.groups.soft_group import SoftGroup
from fencepost.records.group_metadata import GroupMetadata, GroupState
from fencepost.wire.dispatch import Reply


class Removals:
    """See the module."""

    def __init__(
        self, operations: GroupOperations, phases: JoinPhases, counts: GroupCounts, log: FilteringBoundLogger
    ) -> None:
        self._operations = operations
        self._phases = phases
        self._log = log
        self._counts = counts

    def leave(self, group: SoftGroup, request: LeaveGroup, reply: Reply[LeaveGroupAnswer]) -> None:
        """An operation: what a LeaveGroup leads to. A pending id is just dropped."""
        membership = self._operations.membership(group)
        left: list[LeftMember] = []
        gone: set[str] = set()
        for leaver in request.members:
            code = ErrorCode.NONE
            if not group.pending.discard(leaver.member_id):
                try:
                    gone.add(leaving.require_leaver(membership, leaver, gone))
                except (UnknownMemberId, FencedInstanceId) as refusal:
                    code = refusal.code
            left.append(LeftMember(leaver.member_id, leaver.instance_id, code))
        answer = LeaveGroupAnswer(tuple(left))

        def then(error: ApiError | None) -> None:
            reply(answer if error is None else self._operations.errors.translate(error), 0)

        self._remove(group, gone, then)

    def _remove(
        self, group: SoftGroup, leaving_ids: Iterable[str], then: Callable[[ApiError | None], None]
    ) -> None:
        """Log that members are gone, call ``then``, and see to those that stay."""
        operations, gone = self._operations, frozenset(leaving_ids)

        def decide(view: View, now_ms: int) -> GroupMetadata | None:
            return leaving.without(view, group.group_id, gone, now_ms=now_ms)

        def applied(record: GroupMetadata | None) -> None:
            for member_id in sorted(gone):
                unknown = UnknownMemberId(f"member {member_id!r} is no longer in group {group.group_id!r}")
                operations.dismiss(group, member_id, unknown)
                if group.membership is not None:
                    group.membership.remove(member_id)
            then(None)
            if record is not None and record.state is not GroupState.EMPTY:
                operations.prepare(group, REBALANCES)
            self._phases.complete_if_due(group)

        operations.write(group, decide, applied, then)

    # -- timers -----------------------------------------------------------------------------------------

    def wake(self, group: SoftGroup) -> None:
        """An operation: what is due by now."""
        now_s = self._operations.clock()
        for member_id in group.pending.take_over(now_s):
            group.pending.discard(member_id)
        over = group.expired(now_s)
        if group.sync_end_s <= now_s:
            over |= group.unsynced
            group.sync_end_s = inf
        if over:
            self._remove(group, over, partial(self._removed, group, over))
        else:
            self._phases.complete_if_due(group)

    def _removed(self, group: SoftGroup, over: frozenset[str], error: ApiError | None) -> None:
        if error is None:
            self._counts.expired += len(over)
            self._log.info("members_expired", group_id=group.group_id, count=len(over), first=min(over))
            return
        again_s = self._operations.clock() + RETRY_S  # the log did not take it
        if group.unsynced & over:
            group.sync_end_s = again_s
        for member_id in over:
            if member_id in group.sessions:
                group.sessions.set(member_id, again_s)
