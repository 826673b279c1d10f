"""Operations on groups, one after the other in each group; the records that they write; and their answers.

Record first   who waits for a record is answered when it is applied. A refusal rides on an entry, too.
Soft state     changes when a record's outcome is known, never inside a decision: see soft_group.py.
Take-over      a group that another coordinator left is met with whole sessions, and its phase begins anew.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Final, TypeAlias

from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from fencepost.controller.groups import tables
from fencepost.controller.groups.membership import Membership
from fencepost.controller.groups.tables import Group
from fencepost.controller.view import View
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.soft_group import Refuse, SoftGroup
from fencepost.coordinator.groups.wakeups import Wakeups
from fencepost.quorum.port import Outcome, R, Submit
from fencepost.records.group_metadata import GroupMember, GroupMetadata, GroupState
from fencepost.wire.dispatch import Reply

QUEUED_MAX: Final = 10_000  # operations on one group that wait for a record
ANSWERS_MAX: Final = 200  # of one record, in one step of the loop: some 5 ms
SOFT_GROUPS_MAX: Final = 200_000  # then no other group is made; those that have members go on

CallLater: TypeAlias = Callable[[float, Callable[[], None]], None]


class GroupOperations:
    """See the module. Used on the node's one thread; ``begin`` starts a leadership, ``end`` ends it."""

    def __init__(
        self,
        image: Callable[[], View],
        submit: Submit,
        errors: CoordinatorErrors,
        call_later: CallLater,
        *,
        initial_delay_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.image = image
        self.errors = errors
        self.initial_delay_s = initial_delay_s
        self.clock = clock
        self._submit = submit
        self._call_later = call_later
        self._leadership = 0
        self.begin()

    def begin(self) -> None:
        """Nothing is known but the image."""
        self._leadership += 1
        self.groups: dict[str, SoftGroup] = {}
        self.wakeups = Wakeups()

    def end(self) -> None:
        """All that wait find the next coordinator. What a record in flight answers is answered by it."""
        groups = tuple(self.groups.values())
        self.begin()
        refusal = NotCoordinator("this node no longer coordinates groups; join again")
        for group in groups:
            joins, group.joins = group.joins, {}
            syncs, group.syncs = group.syncs, {}
            queue = tuple(group.queue)
            group.queue.clear()
            for join in joins.values():
                join.reply(refusal, 0)
            for sync in syncs.values():
                sync(refusal, 0)
            for _, refuse in queue:
                refuse(refusal, 0)

    # -- one group --------------------------------------------------------------------------------------

    def find(self, group_id: str) -> SoftGroup | None:
        """What is known of a group; None if it has no members, and none are about to join."""
        known = self.groups.get(group_id)
        if known is None and tables.is_key(group_id) and tables.member_ids(self.image(), group_id):
            return self.meet(group_id)
        return known

    def group(self, group_id: str) -> SoftGroup:
        """What is known of a group, made if need be. Raises CoordinatorLoadInProgress if that is too many."""
        known = self.find(group_id)
        if known is None:
            if len(self.groups) >= SOFT_GROUPS_MAX:
                raise CoordinatorLoadInProgress(f"{SOFT_GROUPS_MAX} groups are active; retry later")
            known = self.groups[group_id] = SoftGroup(group_id)
        return known

    def meet(self, group_id: str) -> SoftGroup:
        """A group that has members. Its sessions begin now, unless it was met before."""
        known = self.groups.get(group_id)
        if known is None:
            known = self.groups[group_id] = SoftGroup(group_id)
            self._take_over(known)
        return known

    def _take_over(self, group: SoftGroup) -> None:
        row = self.row(group)
        if row is None or row.state is GroupState.EMPTY:
            return
        membership, now_s = self.membership(group), self.clock()
        for member in membership:
            self.touch(group, member)
        group.protocol_type = row.protocol_type
        if row.state is GroupState.PREPARING_REBALANCE:
            group.open_phase(now_s, membership.rebalance_timeout_ms() / 1000, initial_delay_s=None)
        elif row.state is GroupState.COMPLETING_REBALANCE:
            group.await_syncs(now_s, membership)
        else:
            group.membership = None
        self._schedule(group)

    def is_preparing(self, group_id: str) -> bool:
        """A join phase of the group is under way."""
        group = self.groups.get(group_id)
        return group is not None and group.is_open

    def run(self, group: SoftGroup, operation: Callable[[], None], refuse: Refuse) -> None:
        """Run an operation when no record of the group is in flight. Raises CoordinatorLoadInProgress."""
        if group.busy or group.queue:
            if len(group.queue) >= QUEUED_MAX:
                raise CoordinatorLoadInProgress(f"{QUEUED_MAX} requests of this group wait; retry later")
            group.queue.append((operation, refuse))
            return
        operation()
        self._settle(group)

    def _settle(self, group: SoftGroup) -> None:
        """Run what waited, and forget the group if nothing is left to know."""
        while group.queue and not group.busy:
            operation, _ = group.queue.popleft()
            operation()
        if not group.is_idle:
            self._schedule(group)
        elif self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def _schedule(self, group: SoftGroup) -> None:
        self.wakeups.set(group.group_id, group.wake_s())

    def row(self, group: SoftGroup) -> Group | None:
        """The group's row, as of the last applied record."""
        return tables.get(self.image(), group.group_id)

    def membership(self, group: SoftGroup) -> Membership:
        """The group's members, with those whose joins are parked."""
        if group.membership is None:
            group.membership = Membership.of(self.image(), group.group_id)
        return group.membership

    def touch(self, group: SoftGroup, member: GroupMember) -> None:
        """A request of the member has come: its session begins anew."""
        group.sessions.set(member.member_id, self.clock() + member.session_timeout_ms / 1000)

    # -- the log ----------------------------------------------------------------------------------------

    def answer(self, reply: Reply[R], outcome: Outcome[R]) -> None:
        """Answer when an entry proves that this node coordinates."""

        def decide(_view: View, _now_ms: int) -> Decision[Outcome[R]]:
            return Decision((), outcome)

        self._submit(decide, self.errors.before(reply), closing=reply)

    def answer_all(self, answers: Sequence[tuple[Reply[R], R]]) -> None:
        """Answer who waited for one record, in this order, the loop free between ANSWERS_MAX of them."""
        for reply, answer in answers[:ANSWERS_MAX]:
            reply(answer, 0)
        rest = answers[ANSWERS_MAX:]
        if rest:
            self._call_later(0.0, partial(self.answer_all, rest))

    def write(
        self,
        group: SoftGroup,
        decide: Callable[[View, int], GroupMetadata | None],
        applied: Callable[[GroupMetadata | None], None],
        failed: Callable[[ApiError], None],
    ) -> None:
        """Write a record of the group, or none; its next operation runs when the outcome is known."""
        leadership = self._leadership
        group.busy = True

        def decided(view: View, now_ms: int) -> Decision[GroupMetadata | None]:
            record = decide(view, now_ms)
            return Decision(() if record is None else (record,), record)

        def done(outcome: Outcome[GroupMetadata | None], _throttle_ms: int) -> None:
            group.busy = False
            if isinstance(outcome, ApiError):
                failed(outcome)
            elif leadership != self._leadership:
                failed(
                    CoordinatorNotAvailable("this node no longer coordinates groups; the outcome is unknown")
                )
            else:
                applied(outcome)
            if leadership == self._leadership:
                self._settle(group)

        self._submit(decided, done)

    # -- what several operations do ---------------------------------------------------------------------

    def prepare(self, group: SoftGroup, refusal: ApiError) -> None:
        """Open a join phase if none is open; parked syncs get ``refusal``."""
        if group.is_open:
            return
        row, membership = self.row(group), self.membership(group)
        was_empty = row is None or row.state is GroupState.EMPTY
        if row is not None and not was_empty:
            group.protocol_type = row.protocol_type
        delay_s = self.initial_delay_s if was_empty else None
        group.open_phase(self.clock(), membership.rebalance_timeout_ms() / 1000, initial_delay_s=delay_s)
        syncs, group.syncs = group.syncs, {}
        group.unsynced, group.sync_end_s = set(), inf
        for reply in syncs.values():
            self.answer(reply, refusal)

    def dismiss(self, group: SoftGroup, member_id: str, refusal: ApiError) -> None:
        """Answer what is parked of a member that is not one any more, once an entry proves it."""
        group.sessions.discard(member_id)
        group.unsynced.discard(member_id)
        join, sync = group.joins.pop(member_id, None), group.syncs.pop(member_id, None)
        if join is not None:
            self.answer(join.reply, refusal)
        if sync is not None:
            self.answer(sync, refusal)
