"""A group coordinator on a bench: one voter and its GroupServer. Time passes when a test says so."""

import random
from dataclasses import dataclass, field
from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from fencepost.controller import levels
from fencepost.controller.errors import ApiError
from fencepost.controller.groups import tables
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import GroupLimits, JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.coordinator.groups.group_server import GroupServer, GroupTimes
from fencepost.quorum.proposer import PATIENCE_S
from fencepost.records.group_metadata import GroupState
from fencepost.records.levels import GROUP_LOG
from fencepost.wire.dispatch import Context
from tests.coordinator.bench import Answer
from tests.node.stage import ONE, Stage
from tests.quorum.clients import Silence

GROUP = "readers"
ROUNDS_MAX = 200
RANGE = (("range", b"r"),)


@dataclass
class Groups:
    """``stage[1]`` drives the voter; ``server`` is its group coordinator."""

    stage: Stage
    initial_delay_ms: int = 0
    limits: GroupLimits = field(default_factory=GroupLimits)

    def __post_init__(self) -> None:
        self.driver = self.stage[1]
        self.replica = self.driver.replica
        self.entries = 0
        self.server = GroupServer(
            GroupTimes(limits=self.limits, initial_delay_ms=self.initial_delay_ms),
            self.replica,
            self.submit,
            call_later=lambda seconds, call: self._carry_out(self.driver.call_later(seconds, call)),
            clock=lambda: self.stage.now,
            rng=random.Random(7),
            log=cast(FilteringBoundLogger, Silence()),
        )
        self.driver.services = (self.server,)
        propose = self.replica.proposer._propose

        def counting(*what: Any) -> None:
            self.entries += 1
            propose(*what)

        self.replica.proposer._propose = counting  # type: ignore[assignment, method-assign]

    def _carry_out(self, obligations: Any) -> None:
        self.stage.carry_out(1, obligations)

    def submit(self, decide: Any, reply: Any, **how: Any) -> None:
        self._carry_out(self.driver.submit(decide, reply, **how))

    # -- time ---------------------------------------------------------------------------------------

    def lead(self) -> "Groups":
        """Make the node an active leader, of a cluster that may write groups."""
        self.stage.elect(1)
        self.settle()
        answer = Answer()
        self.submit(
            lambda view, _now: levels.decide_upgrade(view, GROUP_LOG, ONE, {ONE: GROUP_LOG}),
            lambda outcome, _ms: answer(outcome),
        )
        self.settle()
        return self

    def depose(self) -> None:
        """The leadership ends, and another one of the same node begins: what is soft is lost."""
        self._carry_out(self.driver.resume(self.server.deposed))
        self._carry_out(self.driver.resume(self.server.activated, 0))
        self.settle()

    def settle(self) -> None:
        """What is due now, until nothing is left to do."""
        proposer = self.replica.proposer
        for _ in range(ROUNDS_MAX):
            self.stage.rest()
            if not proposer.active or proposer.idle:
                assert "service_failed" not in self.stage.lines[ONE].events, "a step of the service failed"
                return
            self.stage.now += PATIENCE_S
            self.stage.tick(1)
        raise AssertionError("never comes to rest")

    def wait(self, seconds: float, step_s: float = 0.05) -> None:
        """Time passes; timers and maintenance ticks come."""
        until = self.stage.now + seconds
        while self.stage.now < until - 1e-9:
            self.stage.now += min(step_s, until - self.stage.now)
            self._carry_out(self.driver.maintain())
            self.settle()

    # -- clients ------------------------------------------------------------------------------------

    def ask(self, endpoint: Any, request: Any, client: str = "client") -> Answer:
        """Send a request, as the listener would, and let what follows happen."""
        answer = Answer()
        try:
            endpoint(request, Context("User:ANONYMOUS", "PLAINTEXT", client, "127.0.0.1:50000"), answer)
        except ApiError as error:
            answer(error)
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
        return self.ask(self.server.join, JoinGroup(member_id=member_id, **(values | changes)), client)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **changes: Any
    ) -> Answer:
        """SyncGroup; the leader's has assignments."""
        given = tuple((assignments or {}).items())
        return self.ask(
            self.server.sync, SyncGroup(GROUP, generation, member_id, assignments=given, **changes)
        )

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Any:
        """Heartbeat: what is answered, once the shared entry is applied."""
        answer = self.ask(self.server.heartbeat, HeartbeatGroup(GROUP, generation, member_id, instance_id))
        for _ in range(3):
            if answer.outcomes:
                break
            self.stage.now += 0.02
            self.stage.tick(1)
            self.settle()
        return answer.answered()

    def leave(self, *leavers: Leaver) -> Any:
        """LeaveGroup: the codes of its members."""
        told = self.ask(self.server.leave, LeaveGroup(GROUP, leavers)).answered()
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
