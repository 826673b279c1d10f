"""Join phases: joins are parked until all members have joined again, or time is up; then one record ends it.

Source   Kafka GroupMetadataManager (classic groups); KIP-134 (initial delay), KIP-345, KIP-394, KAFKA-7909,
         KAFKA-8220.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from functools import partial
from typing import Final

from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress
from fencepost.controller.group_errors import FencedInstanceId, MemberIdRequired, RebalanceInProgress
from fencepost.controller.groups import completing, joining, replacing, tables
from fencepost.controller.groups.joining import (
    AnswerNow,
    GroupLimits,
    JoinGroup,
    JoinGroupAnswer,
    Park,
    Replace,
    Sender,
)
from fencepost.controller.groups.membership import Membership
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.groups.group_operations import GroupOperations
from fencepost.coordinator.groups.soft_group import ParkedJoin, SoftGroup
from fencepost.records.group_metadata import GroupMember, GroupMetadata
from fencepost.wire.dispatch import Reply

RETRY_S: Final = 1.0  # after a record that the log did not take
PENDING_MAX: Final = 1_000  # ids that were given out for one group and have not joined yet
REBALANCES: Final = RebalanceInProgress("the group rebalances: join again")


class JoinPhases:
    """See the module."""

    def __init__(self, operations: GroupOperations, limits: GroupLimits, counts: GroupCounts) -> None:
        self._operations = operations
        self._limits = limits
        self._counts = counts

    def join(
        self, group: SoftGroup, request: JoinGroup, sender: Sender, reply: Reply[JoinGroupAnswer]
    ) -> None:
        """An operation: what a valid JoinGroup leads to."""
        row, membership = self._operations.row(group), self._operations.membership(group)
        try:
            step = joining.join_step(request, sender, row, membership, group.phase, self._limits)
        except MemberIdRequired as required:
            self._give_id(group, request, required, reply)
            return
        except ApiError as refusal:
            self._operations.answer(reply, refusal)
            return
        if isinstance(step, Park):
            self._park(group, request, step.member, reply, is_new=step.is_new)
        elif isinstance(step, Replace):
            self._replace(group, request, step, reply)
        else:
            self._say_again(group, membership, step, reply)

    def _give_id(
        self, group: SoftGroup, request: JoinGroup, required: MemberIdRequired, reply: Reply[JoinGroupAnswer]
    ) -> None:
        if len(group.pending) >= PENDING_MAX:
            full = f"{PENDING_MAX} members of group {group.group_id!r} are about to join; retry later"
            reply(CoordinatorLoadInProgress(full), 0)
            return
        until_s = self._operations.clock() + request.session_timeout_ms / 1000
        group.pending.set(required.member_id, until_s)
        reply(required, 0)

    def _say_again(
        self, group: SoftGroup, membership: Membership, step: AnswerNow, reply: Reply[JoinGroupAnswer]
    ) -> None:
        row = self._operations.row(group)
        if row is not None:
            self._operations.touch(group, step.member)
            self._operations.answer(reply, joining.answer_of(row, membership, step.member.member_id))

    def _park(
        self,
        group: SoftGroup,
        request: JoinGroup,
        member: GroupMember,
        reply: Reply[JoinGroupAnswer],
        *,
        is_new: bool,
    ) -> None:
        before = group.joins.get(member.member_id)
        if before is not None:
            is_new = before.is_new
            later = RebalanceInProgress(f"member {member.member_id!r} has sent a later join")
            self._operations.answer(before.reply, later)
        self._operations.membership(group).put(member)
        group.pending.discard(member.member_id)
        group.joins[member.member_id] = ParkedJoin(reply, is_new, self._operations.clock())
        self._operations.touch(group, member)
        if group.is_open:
            group.added = group.added or is_new
        else:
            group.protocol_type = request.protocol_type
            self._operations.prepare(group, REBALANCES)
        self.complete_if_due(group)

    # -- the end of a phase -----------------------------------------------------------------------------

    def complete_if_due(self, group: SoftGroup) -> None:
        """End the phase if all members have joined again, or its time is over. Part of an operation."""
        operations = self._operations
        if group.is_open and not group.busy and group.is_due(operations.clock(), operations.initial_delay_s):
            self._complete(group)

    def _complete(self, group: SoftGroup) -> None:
        """Log the next generation; then every parked join is answered."""
        operations, parked = self._operations, group.joins.keys()
        row = operations.row(group)
        membership = completing.staying(operations.membership(group), parked)
        leader = completing.leader_of(row, membership, parked)
        if leader is None and len(membership):  # static members alone, and none of them is back
            group.membership = membership
            group.phase_end_s = operations.clock() + membership.rebalance_timeout_ms() / 1000
            return
        if not len(membership) and not tables.member_ids(operations.image(), group.group_id):
            group.close_phase()  # nothing of it is logged
            return

        def decide(_view: View, now_ms: int) -> GroupMetadata:
            return completing.next_generation(
                group.group_id, row, group.protocol_type, membership, leader, now_ms=now_ms
            )

        def failed(_error: ApiError) -> None:
            group.phase_end_s = operations.clock() + RETRY_S

        operations.write(group, decide, partial(self._completed, group), failed)

    def _completed(self, group: SoftGroup, record: GroupMetadata | None) -> None:
        operations, joins = self._operations, group.joins
        group.close_phase()
        row = operations.row(group)
        if record is None or row is None:
            return
        self._counts.rebalances += 1
        membership = operations.membership(group)
        for member_id in [each for each in group.sessions if each not in membership]:
            group.sessions.discard(member_id)
        for member in membership:
            if member.member_id in joins:
                operations.touch(group, member)
        group.await_syncs(operations.clock(), membership)
        first = (row.leader or "",) if row.leader in joins else ()  # all others wait for what it assigns
        ordered = (*first, *[each for each in joins if each not in first])
        operations.answer_all(
            [(joins[each].reply, joining.answer_of(row, membership, each)) for each in ordered]
        )

    # -- static members that come back ------------------------------------------------------------------

    def _replace(
        self, group: SoftGroup, request: JoinGroup, step: Replace, reply: Reply[JoinGroupAnswer]
    ) -> None:
        operations, old_id = self._operations, step.member_id
        row, soft = operations.row(group), operations.membership(group)
        before, logged = soft.get(old_id), tables.member(operations.image(), group.group_id, old_id)
        member = step.member if before is None else replacing.inherited(before, step.member)
        if row is None or logged is None:  # it joined in this phase: nothing of it is logged
            self._take_place(group, old_id, member)
            self._park(group, request, member, reply, is_new=True)
            return
        membership = Membership.of(operations.image(), group.group_id)
        membership.replace(old_id, member)
        leader = member.member_id if row.leader == old_id else row.leader
        goes_on = not group.is_open and replacing.goes_on(row, logged, membership, leader)

        def decide(_view: View, now_ms: int) -> GroupMetadata:
            return replacing.replaced(
                group.group_id, row, old_id, membership, member.member_id, goes_on=goes_on, now_ms=now_ms
            )

        def applied(_record: GroupMetadata | None) -> None:
            self._take_place(group, old_id, member)
            now = operations.row(group)
            if goes_on and now is not None:
                operations.touch(group, member)
                group.membership = None
                reply(replacing.answer_of(request, row, now, membership, member.member_id), 0)
            else:
                self._park(group, request, member, reply, is_new=False)

        def failed(error: ApiError) -> None:
            reply(operations.errors.translate(error), 0)

        operations.write(group, decide, applied, failed)

    def _take_place(self, group: SoftGroup, old_id: str, member: GroupMember) -> None:
        fenced = FencedInstanceId(f"instance id {member.instance_id!r} came back as another member")
        self._operations.dismiss(group, old_id, fenced)
        self._operations.membership(group).replace(old_id, member)
