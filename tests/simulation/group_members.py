"""Members of one group as consumers are: they join, sync, send heartbeats, leave, die and come back.

A *seat* is one consumer's place: static (an instance id) or dynamic. Each *instance* at a seat is a process,
with steps one after another. An instance that died may still have requests under way; one that left or was
replaced may go on with heartbeats, as a zombie.
"""

import random
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import MemberIdRequired
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinGroup, JoinGroupAnswer
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer, Leaver
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
)
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.group_facts import GroupFacts, consumers_assignment, numbers_in
from tests.simulation.post import Post

GROUP: Final = "readers"
PARTITIONS: Final = 6
SESSION_MS: Final = 1_500
REBALANCE_MS: Final = 1_200
HEARTBEAT_S: Final = (0.05, 0.3)
JOIN_PATIENCE_S: Final = (1.4, 2.5)  # longer than a rebalance may take
PATIENCE_S: Final = (0.3, 0.8)
RESTART_S: Final = (0.02, 1.0)
PROTOCOLS: Final = ((("range", b"r"),), (("sticky", b"s"), ("range", b"r")), (("range", b"r2"),))
SILENCE: Final = object()

GroupRequest = JoinGroup | SyncGroup | HeartbeatGroup | LeaveGroup
OffsetRequest = CommitOffsets | FetchOffsets | InitProducerId | AddOffsets | CommitTransactionOffsets | EndTxn
Request = GroupRequest | OffsetRequest
Steps = Generator["Request | Pause", Any, Any]
Ask = Callable[[NodeId, Request, Callable[[Any], None]], None]


class Pause(NamedTuple):
    """A step: let time pass."""

    seconds: float


class Whims(NamedTuple):
    """How often members do what members do, at each of their steps."""

    dies: float = 0.01
    leaves: float = 0.01
    zombie: float = 0.3  # an instance that left or was replaced sends another heartbeat
    changes: float = 0.02  # it subscribes to something else
    doubles: float = 0.01  # of a static one: a second process with its instance id begins beside it

    def calmed(self) -> "Whims":
        """They stay."""
        return Whims(0.0, 0.0, 0.0, 0.0, 0.0)


class World:
    """What all members share."""

    def __init__(
        self,
        agenda: Agenda,
        rng: random.Random,
        post: Post,
        ask: Ask,
        nodes: tuple[NodeId, ...],
        facts: GroupFacts,
    ) -> None:
        self.agenda = agenda
        self.rng = rng
        self.post = post
        self.ask = ask
        self.nodes = nodes
        self.facts = facts
        self.whims = Whims()
        self.instance_type: type[Instance] = Instance


class Seat:
    """One consumer's place: an instance lives, or is about to."""

    def __init__(self, name: str, instance_id: str | None, world: World) -> None:
        self.name = name
        self.instance_id = instance_id
        self.world = world
        self.current: Instance | None = None
        self.count = 0
        world.agenda.after(world.rng.uniform(0.1, 1.0), self.start)

    def start(self) -> None:
        """Another process takes the seat."""
        if self.current is None:
            self.count += 1
            self.current = self.world.instance_type(self, self.count)
            self.current.go_on(None)

    def double(self) -> None:
        """A second process begins, which takes the place of the first; that one learns of it when it asks."""
        self.world.facts.count("doubles")
        self.current = None
        self.start()

    def ended(self, instance: "Instance") -> None:
        """It died, left, or was fenced."""
        if self.current is instance:
            self.current = None
            self.world.agenda.after(self.world.rng.uniform(*RESTART_S), self.start)


class Instance:
    """One life of a member."""

    def __init__(self, seat: Seat, number: int) -> None:
        self._seat = seat
        self._world = seat.world
        self._rng = seat.world.rng
        self._name = f"{seat.name}#{number}"
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self._protocols = self._rng.choice(PROTOCOLS)
        self._node = self._rng.choice(self._world.nodes)
        self._lives = True
        self._steps = self._live()

    # -- steps ------------------------------------------------------------------------------------

    def go_on(self, answer: Any) -> None:
        """Take the next step, or die without a word."""
        if not self._lives:
            return
        if self._rng.random() < self._world.whims.dies:
            self._end("died")
            return
        try:
            step = self._steps.send(answer)
        except StopIteration:
            self._end("left")
            return
        if isinstance(step, Pause):
            self._world.agenda.after(step.seconds, self.go_on, None)
        else:
            self._send(step)

    def _end(self, how: str) -> None:
        self._world.facts.count(how)
        self._lives = False
        self._seat.ended(self)

    def _send(self, request: Request) -> None:
        """Once; the answer, or SILENCE, is the step's outcome."""
        world, waiting = self._world, [True]
        sent = world.facts.sent(request)

        def take(answer: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                self.go_on(answer)

        def leaves(answer: Any) -> None:
            """The answer leaves the coordinator."""
            world.facts.answered(sent, self._seat.instance_id, request, answer)
            world.post.carry(lambda: take(answer))

        node = self._node
        patience_s = JOIN_PATIENCE_S if isinstance(request, JoinGroup | SyncGroup) else PATIENCE_S
        world.agenda.after(self._rng.uniform(*patience_s), take, SILENCE)
        world.post.carry(lambda: world.ask(node, request, leaves))

    # -- one life ---------------------------------------------------------------------------------

    def _live(self) -> Steps:
        while True:
            joined = yield self._join()
            if isinstance(joined, JoinGroupAnswer):
                self.member_id, self.generation = joined.member_id, joined.generation
                stays = yield from self._take_part(joined)
                if not stays:
                    yield from self._leave()
                    return
            elif isinstance(joined, MemberIdRequired):
                self.member_id = joined.member_id
            elif self._is_over(joined):
                return
            else:
                yield Pause(self._rng.uniform(0.01, 0.1))

    def _take_part(self, joined: JoinGroupAnswer) -> Generator[Request | Pause, Any, bool]:
        """Sync, then heartbeats until something is to be done. False: it leaves."""
        synced = yield self._sync(joined)
        if self._is_over(synced):
            return False
        if not isinstance(synced, SyncGroupAnswer):
            return True
        self.assignment = numbers_in(synced.assignment)
        while True:
            yield Pause(self._rng.uniform(*HEARTBEAT_S))
            whims = self._world.whims
            if self._rng.random() < whims.leaves and self._seat.instance_id is None:
                return False
            if self._rng.random() < whims.changes:
                self._protocols = self._rng.choice(PROTOCOLS)
                return True
            if self._rng.random() < whims.doubles and self._seat.instance_id is not None:
                self._seat.double()
            answer = yield from self._work()
            if answer is not None and not self._may_go_on(answer):
                self.assignment = None
                return not self._is_over(answer)

    def _work(self) -> Steps:
        """What it does again and again: what the last request of it was answered."""
        return (yield self._heartbeat())

    def _leave(self) -> Steps:
        if self._seat.instance_id is not None:
            return  # static members never say that they leave; this one was fenced
        leaving = LeaveGroup(GROUP, (Leaver(self.member_id),))
        answer = yield leaving
        if isinstance(answer, LeaveGroupAnswer):
            while self._rng.random() < self._world.whims.zombie:
                yield self._heartbeat()

    def _may_go_on(self, answer: Any) -> bool:
        """The answer says nothing of the group."""
        if answer is SILENCE or (isinstance(answer, ApiError) and answer.code in ELSEWHERE):
            self._node = self._rng.choice(self._world.nodes)
            return True
        return False

    def _is_over(self, answer: Any) -> bool:
        """Take an error in; True if the instance must end."""
        if answer is SILENCE:
            self._node = self._rng.choice(self._world.nodes)
        elif isinstance(answer, ApiError):
            if answer.code in ELSEWHERE:
                self._node = self._rng.choice(self._world.nodes)
            elif answer.code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id, self.generation = "", -1
            elif answer.code == ErrorCode.FENCED_INSTANCE_ID:
                return True
        return False

    # -- requests ---------------------------------------------------------------------------------

    def _join(self) -> JoinGroup:
        return JoinGroup(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            instance_id=self._seat.instance_id,
            protocol_type="consumer",
            protocols=self._protocols,
        )

    def _sync(self, joined: JoinGroupAnswer) -> SyncGroup:
        assignments: dict[str, list[int]] = {each.member_id: [] for each in joined.members}
        if joined.skip_assignment or joined.leader != joined.member_id:
            assignments = {}
        ids = sorted(assignments)
        self._rng.shuffle(ids)
        for partition in range(PARTITIONS if ids else 0):
            assignments[ids[partition % len(ids)]].append(partition)
        return SyncGroup(
            GROUP,
            self.generation,
            self.member_id,
            self._seat.instance_id,
            assignments=tuple((name, consumers_assignment(each)) for name, each in assignments.items()),
        )

    def _heartbeat(self) -> HeartbeatGroup:
        return HeartbeatGroup(GROUP, self.generation, self.member_id, self._seat.instance_id)


ELSEWHERE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def seats(world: World, dynamic: int, static: int) -> Mapping[str, Seat]:
    """So many consumers of each kind."""
    made = [Seat(f"d{number}", None, world) for number in range(dynamic)]
    made += [Seat(f"s{number}", f"i{number}", world) for number in range(static)]
    return {seat.name: seat for seat in made}
