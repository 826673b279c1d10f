"""The group coordinator's endpoints of membership: API keys 11 to 16.

Where       the active controller's, on its node's client listener. Elsewhere the answer is NOT_COORDINATOR
            (16); requests that come between the election and the activation wait for it.
Decisions   controller/groups; answers leave when the entry of their batch is applied. Without an entry leave
            only answers that say nothing of a group: 14, 15, 16, 24, 26, 35, 42, and 79, whose id is new.
Time        members' sessions are of this leadership: a new leader gives each a whole one. A tick that comes
            late says that this node stood still: what members sent meanwhile is read before any expires.
Source      Kafka KafkaApis, GroupCoordinatorService, GroupMetadataManager (classic groups).
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable
from functools import partial
from itertools import islice
from random import Random
from typing import Final
from uuid import UUID

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, NotCoordinator
from fencepost.controller.group_errors import UnknownMemberId
from fencepost.controller.groups import joining, tables
from fencepost.controller.groups.describe import (
    DescribeGroups,
    DescribeGroupsAnswer,
    ListGroups,
    ListGroupsAnswer,
)
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import GroupLimits, JoinGroup, JoinGroupAnswer, Sender
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer, LeftMember
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.controller.groups.tables import ROSTERS
from fencepost.controller.view import View
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.group_census import GroupCensus
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.groups.group_lists import GroupLists
from fencepost.coordinator.groups.group_operations import CallLater, GroupOperations
from fencepost.coordinator.groups.heartbeats import Heartbeats
from fencepost.coordinator.groups.join_phases import JoinPhases
from fencepost.coordinator.groups.removals import Removals
from fencepost.coordinator.groups.sync_requests import SyncRequests
from fencepost.quorum.port import Outcome, R, Submit
from fencepost.quorum.replica import Replica
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS

WALK_ROWS_MAX: Final = 100  # groups that are met again between two looks at anything else,
WALK_MEMBERS_MAX: Final = 2_000  # and members: some 5 ms
MEETING_COST: Final = 10  # of a group, in members
WOKEN_MAX: Final = 200  # groups whose timers are looked at in one tick
LATE_S: Final = 0.5  # between two ticks, which come twenty times a second
READ_S: Final = 1.0
"""After a late tick nothing expires for so long: the loop reads in this time what members had sent."""


class GroupTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of groups."""

    limits: GroupLimits = GroupLimits()
    initial_delay_ms: int = 3_000


class GroupServer:
    """See the module. Soft state is of one leadership: ``activated`` and ``deposed`` say who leads."""

    def __init__(
        self,
        times: GroupTimes,
        replica: Replica,
        submit: Submit,
        *,
        call_later: CallLater,
        clock: Callable[[], float],
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self._limits = times.limits
        self._replica = replica
        self._submit = submit
        self._call_later = call_later
        self._clock = clock
        self._rng = rng
        self._errors = CoordinatorErrors(replica)
        self.operations = GroupOperations(
            self._image,
            submit,
            self._errors,
            call_later,
            initial_delay_s=times.initial_delay_ms / 1000,
            clock=clock,
        )
        self.counts = GroupCounts()
        self.census = GroupCensus(self._image, self.operations)
        self.phases = JoinPhases(self.operations, times.limits, self.counts)
        self._syncs = SyncRequests(self.operations)
        self._removals = Removals(self.operations, self.phases, self.counts, log)
        self._heartbeats = Heartbeats(self.operations, submit, call_later)
        self._lists = GroupLists(self.operations, submit, call_later)
        self._active = False
        self._leadership = 0
        self._ticked_s = self._reading_until_s = clock()

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        own = (
            served(JOIN_GROUP, self.join),
            served(SYNC_GROUP, self.sync),
            served(HEARTBEAT, self.heartbeat),
            served(LEAVE_GROUP, self.leave),
            served(DESCRIBE_GROUPS, self.describe),
            served(LIST_GROUPS, self.list_groups),
        )
        return dict(own)

    def _image(self) -> View:
        return self._replica.image

    # -- leadership ---------------------------------------------------------------------------------

    def activated(self, _now_ms: int) -> None:
        """This node coordinates from now on: each member of each group has a whole session."""
        self._leadership += 1
        self._active = True
        self._ticked_s = self._reading_until_s = self._clock()
        self.operations.begin()
        self.census.begin()
        self._walk(self._leadership, None)

    def deposed(self) -> None:
        """This node's leadership has ended: all that wait are sent to the next coordinator."""
        self._leadership += 1
        self._active = False
        self._heartbeats.end()
        self.operations.end()
        self.census.begin()

    def _walk(self, leadership: int, after: str | None) -> None:
        """Meet the groups that have members, by their index, in slices."""
        if leadership != self._leadership:
            return
        members = 0
        for group_id, ids in list(islice(self._image().scan(ROSTERS, after), WALK_ROWS_MAX)):
            self.operations.meet(group_id)
            after, members = group_id, members + MEETING_COST + len(ids)
            if members >= WALK_MEMBERS_MAX:
                break
        if members:
            self._call_later(0.0, partial(self._walk, leadership, after))

    # -- time ---------------------------------------------------------------------------------------

    def maintain(self, _now_ms: int) -> None:
        """Every few milliseconds while this node coordinates: what is due in groups."""
        now_s = self._clock()
        if now_s - self._ticked_s > LATE_S:
            self._reading_until_s = now_s + READ_S
        self._ticked_s = now_s
        if now_s < self._reading_until_s:
            return
        self.census.maintain(now_s)
        operations = self.operations
        for _ in range(WOKEN_MAX):
            group_id = operations.wakeups.next_due(now_s)
            if group_id is None:
                return
            group = operations.groups.get(group_id)
            if group is not None:
                operations.run(group, partial(self._removals.wake, group), _no_one)

    def sweep(self, _now_ms: int) -> None:
        """See driver.Service: its timers are finer than that."""

    # -- endpoints ----------------------------------------------------------------------------------

    def join(self, request: JoinGroup, context: Context, reply: Reply[JoinGroupAnswer]) -> None:
        """API key 11."""
        joining.require_valid(request, self._limits)
        client_host = "/" + context.peer.rpartition(":")[0]
        fresh = str(UUID(int=self._rng.getrandbits(128), version=4))
        sender = Sender(context.client_id or "", client_host, fresh)

        def serve() -> None:
            group = self.operations.group(request.group_id)
            step = partial(self.phases.join, group, request, sender, reply)
            self.operations.run(group, step, reply)

        self._when_active(serve, reply)

    def sync(self, request: SyncGroup, context: Context, reply: Reply[SyncGroupAnswer]) -> None:
        """API key 14."""
        joining.require_group_id(request.group_id)

        def serve() -> None:
            group = self.operations.find(request.group_id)
            if group is None:
                self.operations.answer(reply, _unknown(request.group_id))
                return
            self.operations.run(group, partial(self._syncs.sync, group, request, reply), reply)

        self._when_active(serve, reply)

    def heartbeat(self, request: HeartbeatGroup, context: Context, reply: Reply[None]) -> None:
        """API key 12."""
        joining.require_group_id(request.group_id)
        self._when_active(partial(self._heartbeats.add, request, reply), reply)

    def leave(self, request: LeaveGroup, context: Context, reply: Reply[LeaveGroupAnswer]) -> None:
        """API key 13."""
        joining.require_group_id(request.group_id)

        def serve() -> None:
            group = self.operations.find(request.group_id)
            if group is None:
                code = UnknownMemberId.code
                left = tuple(LeftMember(each.member_id, each.instance_id, code) for each in request.members)
                self.operations.answer(reply, LeaveGroupAnswer(left))
                return
            self.operations.run(group, partial(self._removals.leave, group, request, reply), reply)

        self._when_active(serve, reply)

    def describe(self, request: DescribeGroups, context: Context, reply: Reply[DescribeGroupsAnswer]) -> None:
        """API key 15."""
        self._when_active(partial(self._lists.describe, request, reply), reply)

    def list_groups(self, request: ListGroups, context: Context, reply: Reply[ListGroupsAnswer]) -> None:
        """API key 16."""
        self._when_active(partial(self._lists.list_groups, request, reply), reply)

    def touch(self, group_id: str, member_id: str) -> None:
        """A member has committed offsets: it is alive."""
        group = self.operations.groups.get(group_id)
        member = tables.member(self._image(), group_id, member_id)
        if group is not None and member is not None:
            self.operations.touch(group, member)

    def _when_active(self, serve: Callable[[], None], reply: Reply[R]) -> None:
        """Serve a request; one that comes before the activation waits for it. Raises UnsupportedVersion."""
        if self._active:
            levels.require_group_log(self._image())
            serve()
            return

        def waited(outcome: Outcome[None], _throttle_ms: int) -> None:
            if isinstance(outcome, ApiError):
                reply(self._errors.translate(outcome), 0)
            elif not self._active:
                reply(NotCoordinator("this node no longer coordinates groups"), 0)
            else:
                try:
                    self._when_active(serve, reply)
                except ApiError as refusal:
                    reply(refusal, 0)

        self._submit(lambda _view, _now_ms: Decision((), None), waited, closing=reply)


def _unknown(group_id: str) -> UnknownMemberId:
    return UnknownMemberId(f"group {group_id!r} has no members: join without a member id")


def _no_one(_refusal: ApiError, _throttle_ms: int = 0, /) -> None:
    """A timer waits for no answer."""
