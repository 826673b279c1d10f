"""A group of consumers in a storm: voters that fail, members that come, go and die.

Goal      no order of events announces a generation twice, gives a partition two owners in a generation, lets
          a member that is gone go on, or fences a process that lives; once the faults end all members are
          stable in one generation that covers every partition.
Method    the cluster of simulation.py; in each voter the product's group server; members as clients are
          (group_members.py), whose answers are compared over all coordinators (group_facts.py).
Replay    pytest tests/simulation -k group-seed-17
"""

from collections.abc import Callable
from typing import Any

from fencepost.controller.errors import ApiError
from fencepost.controller.groups import tables
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import GroupLimits, JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.view import View
from fencepost.coordinator.groups.group_server import GroupServer, GroupTimes
from fencepost.node.driver import Service
from fencepost.records.group_metadata import GroupState
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from fencepost.wire.dispatch import Context
from tests.simulation.group_facts import GroupFacts
from tests.simulation.group_members import GROUP, PARTITIONS, Request, Whims, World, seats
from tests.simulation.invariants import Violation
from tests.simulation.post import Post, PostWeather
from tests.simulation.process import Process
from tests.simulation.simulation import HEAL_S, Simulation
from tests.simulation.transactions import CLIENTS, Quiet
from tests.simulation.weather import Weather
from tests.wire.answering import Answering

TIMES = GroupTimes(limits=GroupLimits(session_timeout_ms_min=100), initial_delay_ms=100)
DYNAMIC, STATIC = 3, 2
_CLIENT = Context("User:ANONYMOUS", "PLAINTEXT", "simulated", "127.0.0.1:1")


class GroupVoter(Process):
    """A voter that coordinates groups."""

    groups: GroupServer

    def _services(self, life: int) -> tuple[Service, ...]:
        replica, driver = self.replica, self.driver
        assert replica is not None
        assert driver is not None
        self.groups = GroupServer(
            TIMES,
            replica,
            self.submit,
            call_later=lambda seconds, call: self._carry_out(driver.call_later(seconds, call)),
            clock=self.clock,
            rng=self._rng,
            log=self._log,
        )
        return (*super()._services(life), self.groups)

    def ask(self, request: Request, take: Callable[[Any], None]) -> None:
        """A request arrives. A dead process is silent."""
        if self.up:
            self.run(self._serve, self.life, request, take)

    def _serve(self, life: int, request: Request, take: Callable[[Any], None]) -> None:
        if not self._lives(life):
            return

        def answered(answer: Any, _throttle_ms: int) -> None:
            take(answer)

        reply = Answering(answered)
        try:
            if isinstance(request, JoinGroup):
                self.groups.join(request, _CLIENT, reply)
            elif isinstance(request, HeartbeatGroup):
                self.groups.heartbeat(request, _CLIENT, reply)
            elif isinstance(request, LeaveGroup):
                self.groups.leave(request, _CLIENT, reply)
            elif isinstance(request, SyncGroup):
                self.groups.sync(request, _CLIENT, reply)
        except ApiError as refusal:
            take(refusal)


class Readers(Simulation):
    """A group of members around a cluster whose voters coordinate groups."""

    post: Post
    facts: GroupFacts

    def make_readers(self) -> None:
        """The members, who begin soon."""
        self.facts = GroupFacts(self._holder_of)
        self.world_of_readers = World(
            self.agenda, self.rng, self.post, self._ask, tuple(sorted(self.processes)), self.facts
        )
        self.seats = seats(self.world_of_readers, DYNAMIC, STATIC)

    def _ask(self, node: NodeId, request: Request, take: Callable[[Any], None]) -> None:
        process = self.processes[node]
        assert isinstance(process, GroupVoter)
        process.ask(request, take)

    def _image(self) -> View | None:
        """The active controller's."""
        replicas = [process.replica for process in self.processes.values()]
        return next((each.image for each in replicas if each is not None and each.proposer.active), None)

    def _holder_of(self, instance_id: str) -> str | None:
        view = self._image()
        return None if view is None else tables.static_member_id(view, GROUP, instance_id)

    def heal(self) -> None:
        """See Simulation. Members stay from now on."""
        super().heal()
        self.post.weather = self.post.weather.calmed()
        self.world_of_readers.whims = Whims().calmed()

    def demand_stability(self) -> None:
        """All members are in one generation, and every partition has one owner of them."""
        self._guarded(self._demand_stability)

    def _demand_stability(self) -> None:
        deadline = self.agenda.now + HEAL_S
        while not self._is_stable():
            if self.agenda.now >= deadline:
                raise Violation(f"not stable {HEAL_S} s after the faults ended: {self._members()}")
            self._wait()

    def _is_stable(self) -> bool:
        instances = [seat.current for seat in self.seats.values()]
        present = [each for each in instances if each is not None and each.assignment is not None]
        generations = {each.generation for each in present}
        if len(generations) != 1 or len(present) < len(instances):
            return False
        (generation,) = generations
        view = self._image()
        row = None if view is None else tables.get(view, GROUP)
        owned = sorted(partition for each in present for partition in (each.assignment or b""))
        return (
            row is not None
            and (row.generation, row.state) == (generation, GroupState.STABLE)
            and owned == list(range(PARTITIONS))
        )

    def _members(self) -> str:
        lives = {name: seat.current for name, seat in self.seats.items()}
        return "; ".join(
            f"{name}: {None if each is None else (each.member_id, each.generation, each.assignment)}"
            for name, each in lives.items()
        )


class GroupSimulation(Readers):
    """Use as Simulation."""

    process_type = GroupVoter
    client_type = Quiet

    def __init__(
        self,
        seed: int,
        node_count: int = 3,
        weather: Weather | None = None,
        *,
        post_weather: PostWeather | None = None,
    ) -> None:
        super().__init__(seed, node_count, weather, clients=CLIENTS)
        for process in self.processes.values():
            process.log_level_formatted = LEVEL_MAX
        self.post = Post(self.agenda, self.rng, post_weather or PostWeather())
        self.make_readers()

    @property
    def world(self) -> World:
        """Of the members."""
        return self.world_of_readers

    def __enter__(self) -> "GroupSimulation":
        return self
