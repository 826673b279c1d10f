"""A group of members that commit offsets, while the coordinator fails at every step of what they request.

Goal      no failover, at whatever step, announces a generation with two member lists, loses an acknowledged
          commit, lets an owner of an older generation commit, or leaves an offset neither pending nor
          committed; once the faults end the group is stable and every partition is committed again.
Method    the cluster and the members of groups.py, which commit (loop_members.py); in each voter the
          product's servers of groups, offsets and transactions; failovers.py says when the coordinator
          fails. What is answered is compared over all coordinators (commit_facts.py).
Left out  requests that come late or twice: see offset_loops.py.
Replay    pytest tests/simulation -k failover-seed-17
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
)
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.node.driver import Service
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context
from tests.simulation.commit_facts import CommitFacts
from tests.simulation.failovers import ARRIVES, LATER, SERVED, WAYS, Failovers
from tests.simulation.group_members import PARTITIONS, Request, Whims
from tests.simulation.groups import GroupSimulation, GroupVoter
from tests.simulation.invariants import Violation
from tests.simulation.loop_members import TIMEOUT_MS, LoopMember
from tests.simulation.offset_loops import OffsetVoter, make_topic
from tests.simulation.post import PostWeather
from tests.simulation.process import Process
from tests.simulation.simulation import HEAL_S
from tests.simulation.weather import Weather
from tests.wire.answering import Answering

STEPPED: Final = (
    JoinGroup,
    SyncGroup,
    HeartbeatGroup,
    LeaveGroup,
    CommitOffsets,
    CommitTransactionOffsets,
    EndTxn,
)
WHIMS: Final = Whims(dies=0.003, leaves=0.03, zombie=0.8, changes=0.02, doubles=0.03)
_CLIENT: Final = Context("User:ANONYMOUS", "PLAINTEXT", "simulated", "127.0.0.1:1")
WEATHER: Final = Weather(downtime_s=(0.05, 0.4))
_POST: Final = PostWeather(lost=0.005, late=0.0, twice=0.0)


class ConnectionClosed(ApiError):
    """No answer will come; a client looks for the coordinator."""

    code = ErrorCode.NOT_COORDINATOR


class LoopVoter(OffsetVoter, GroupVoter):
    """A voter that coordinates groups, their offsets and transactions of offsets alone."""

    failovers: Failovers

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._unanswered: dict[int, Callable[[Any], None]] = {}
        self._asked = 0

    def ask(self, request: Request, take: Callable[[Any], None]) -> None:
        """See GroupVoter. Whose connection is refused, or closed with the process, soon learns of it."""
        if self.up:
            self._unanswered[self._asked] = take
            self.run(self._serve, self.life, request, partial(self._answer, self._asked))
            self._asked += 1
        else:
            take(ConnectionClosed())

    def _answer(self, number: int, answer: Any) -> None:
        take = self._unanswered.pop(number, None)
        if take is not None:
            take(answer)

    def kill(self, *, power_loss: bool = False) -> None:
        """See Process."""
        super().kill(power_loss=power_loss)
        for number in tuple(self._unanswered):
            self._agenda.after(self._rng.uniform(0.0, 0.005), self._answer, number, ConnectionClosed())

    def _services(self, life: int) -> tuple[Service, ...]:
        services = super()._services(life)
        self.offsets.on_committed = self.groups.touch
        self.offsets.is_preparing = self.groups.operations.is_preparing
        return services

    def _serve(self, life: int, request: Request, take: Callable[[Any], None]) -> None:
        if not self._lives(life):
            return
        self.failovers.meets(self, request, ARRIVES)

        def answered(answer: Any, _throttle_ms: int) -> None:
            if not self.failovers.loses(self, request, answer):
                take(answer)

        endpoints: dict[type, Callable[..., None]] = {
            JoinGroup: self.groups.join,
            SyncGroup: self.groups.sync,
            HeartbeatGroup: self.groups.heartbeat,
            LeaveGroup: self.groups.leave,
            InitProducerId: self.transactions.init_producer_id,
            EndTxn: self.transactions.end_txn,
            AddOffsets: self.offsets.add_offsets,
            CommitOffsets: self.offsets.commit,
            CommitTransactionOffsets: self.offsets.commit_in_transaction,
            FetchOffsets: self.offsets.fetch,
        }
        try:
            endpoints[type(request)](request, _CLIENT, Answering(answered))
        except ApiError as refusal:
            take(refusal)
        self.failovers.meets(self, request, LATER)
        self.failovers.meets(self, request, SERVED)


class GroupLoops(GroupSimulation):
    """Use as Simulation."""

    process_type = LoopVoter
    facts: CommitFacts

    def __init__(
        self,
        seed: int,
        node_count: int = 3,
        weather: Weather = WEATHER,
        *,
        ways: Sequence[str] = WAYS,
        whims: Whims = WHIMS,
    ) -> None:
        super().__init__(seed, node_count, weather, post_weather=_POST)
        self.failovers = Failovers(self, STEPPED, ways)
        self.facts = CommitFacts(self._holder_of, lambda: self.agenda.now, TIMEOUT_MS / 1000)
        self.world.facts, self.world.whims = self.facts, whims
        self.world.instance_type = LoopMember
        producer_ids = count(1_000)
        for process in self.processes.values():
            assert isinstance(process, LoopVoter)
            process.failovers = self.failovers
            process.fresh = lambda: ProducerId(next(producer_ids))

    def __enter__(self) -> "GroupLoops":
        return self

    def run_through(self, seconds_max: float) -> None:
        """Until the coordinator failed at each step in each way, or so much time has passed."""
        deadline = self.agenda.now + seconds_max
        while self.failovers.missing and self.agenda.now < deadline:
            self.run(0.5)

    def heal(self) -> None:
        """See Simulation."""
        super().heal()
        self.failovers.on = False

    def demand_commits(self) -> None:
        """Without faults every partition is committed again."""
        self._guarded(self._demand_commits)

    def _demand_commits(self) -> None:
        before = [self.facts.last_value(each) for each in range(PARTITIONS)]
        deadline = self.agenda.now + HEAL_S
        while any(self.facts.last_value(each) <= before[each] for each in range(PARTITIONS)):
            if self.agenda.now >= deadline:
                raise Violation(f"no commits in {HEAL_S} s after the faults ended: {before}")
            self._wait()

    def _activated(self, process: Process, now_ms: int) -> None:
        """The first leader also makes the topic."""
        super()._activated(process, now_ms)
        self._decide(process, make_topic)
