"""A group coordinator on a bench: one voter and its GroupServer. Time passes when a test says so."""

import random
from dataclasses import dataclass, field, replace
from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels
from fencepost.controller.groups import tables
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import GroupLimits, JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.coordinator.groups.group_server import GroupServer, GroupTimes
from fencepost.records.group_metadata import GroupState
from fencepost.records.levels import GROUP_LOG
from tests.coordinator.coordinator_node import CLIENT, Answer, CoordinatorNode
from tests.node.stage import ONE
from tests.quorum.clients import Silence

GROUP = "readers"
RANGE = (("range", b"r"),)


@dataclass
class Groups(CoordinatorNode):
    """``server`` is the node's coordinator of groups."""

    initial_delay_ms: int = 0
    limits: GroupLimits = field(default_factory=GroupLimits)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.server = GroupServer(
            GroupTimes(limits=self.limits, initial_delay_ms=self.initial_delay_ms),
            self.replica,
            self.submit,
            call_later=self.call_later,
            clock=lambda: self.stage.now,
            rng=random.Random(7),
            log=cast(FilteringBoundLogger, Silence()),
        )
        self.driver.services = (self.server,)

    # -- time ---------------------------------------------------------------------------------------

    def lead(self) -> "Groups":
        """Make the node an active leader, of a cluster that may write groups."""
        self.elect()
        self.decide(lambda view, _now: levels.decide_upgrade(view, GROUP_LOG, ONE, {ONE: GROUP_LOG}))
        return self

    def depose(self) -> None:
        """The leadership ends, and another one of the same node begins: what is soft is lost."""
        self.carry_out(self.driver.resume(self.server.deposed))
        self.carry_out(self.driver.resume(self.server.activated, 0))
        self.settle()

    # -- clients ------------------------------------------------------------------------------------

    def request(self, endpoint: Any, request: Any, client: str = "client") -> Answer:
        """Send a request of a client, and let what follows happen."""
        answer = self.ask(endpoint, request, replace(CLIENT, client_id=client))
        self.settle()
        return answer

    def join(self, member_id: str = "", *, client: str = "client", **changes: Any) -> Answer:
        """JoinGroup, of version 3 if nothing else is said: an id is not required first."""
        values: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "knows_required_ids": False,
        }
        return self.request(self.server.join, JoinGroup(member_id=member_id, **(values | changes)), client)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **changes: Any
    ) -> Answer:
        """SyncGroup; the leader's has assignments."""
        given = tuple((assignments or {}).items())
        return self.request(
            self.server.sync, SyncGroup(GROUP, generation, member_id, assignments=given, **changes)
        )

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Any:
        """Heartbeat: what is answered, once the shared entry is applied."""
        answer = self.request(
            self.server.heartbeat, HeartbeatGroup(GROUP, generation, member_id, instance_id)
        )
        for _ in range(3):
            if answer.outcomes:
                break
            self.stage.now += 0.02
            self.stage.tick(1)
            self.settle()
        return answer.answered()

    def leave(self, *leavers: Leaver) -> Any:
        """LeaveGroup: the codes of its members."""
        told = self.request(self.server.leave, LeaveGroup(GROUP, leavers)).answered()
        return [each.error_code for each in told.members] if hasattr(told, "members") else told

    def stable(self, *clients: str, **changes: Any) -> list[str]:
        """A stable group; the ids of its members, the leader first. Each has its id as assignment."""
        answers = [self.join(client=client, **changes) for client in clients]
        while any(answer.answered() is ... for answer in answers):
            known = [answer for answer in answers if answer.answered() is not ...]
            assert known, "nothing moves"
            answers = [
                self.join(answer.answered().member_id, **changes) if answer in known else answer
                for answer in answers
            ]
        joined = [answer.answered() for answer in answers]
        generation = joined[0].generation
        ids = [each.member_id for each in joined]
        leader = joined[0].leader
        ordered = [leader, *[each for each in ids if each != leader]]
        parked = [self.sync(each, generation) for each in ordered[1:]]
        synced = self.sync(leader, generation, {each: each.encode() for each in ids})
        assert [each.answered().assignment for each in (synced, *parked)] == [
            each.encode() for each in ordered
        ]
        return ordered

    # -- the image ----------------------------------------------------------------------------------

    @property
    def row(self) -> tables.Group:
        """The group's row."""
        row = tables.get(self.replica.image, GROUP)
        assert row is not None
        return row

    def state(self) -> GroupState:
        """The group's state, in the image."""
        return self.row.state

    @property
    def members(self) -> list[str]:
        """The ids of its members, in the image."""
        return list(tables.member_ids(self.replica.image, GROUP))
