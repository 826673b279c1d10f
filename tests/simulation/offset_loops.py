"""Loops that commit offsets in transactions, in a storm: voters fail between any two steps.

Goal      what a new instance of a loop reads is what its last transaction committed: never the offset of an
          aborted one, never one before it, never "none"; and once the faults end every loop commits again.
Method    the cluster of simulation.py; in each voter the product's transaction server and server of offsets.
          Each loop has a partition of its own. After silence or an error it begins a new instance, which
          fences the one before, waits for stable offsets, and is judged by what it reads then.
Left out  requests that come late or twice: without an epoch of its own for each transaction (KIP-890) a late
          TxnOffsetCommit may join the next one, the protocol's own hole.
Replay    pytest tests/simulation -k offset-seed-17
"""

import uuid
from collections import Counter
from collections.abc import Callable, Generator
from itertools import count
from typing import Any, Final

from fencepost.controller.authorization import Acls
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.topics import find
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.controller.view import View
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.offset_server import OffsetServer
from fencepost.coordinator.transaction_server import TransactionServer
from fencepost.coordinator.transaction_timers import TransactionTimes
from fencepost.node.driver import Service
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import PartitionRecord, TopicRecord
from fencepost.records.types import NodeId, ProducerId
from fencepost.wire.dispatch import Context
from tests.simulation.invariants import Violation, require
from tests.simulation.post import Post, PostWeather
from tests.simulation.process import Process
from tests.simulation.simulation import HEAL_S, Simulation
from tests.simulation.transactions import CLIENTS, Quiet
from tests.simulation.weather import Weather
from tests.wire.answering import Answering

GROUP: Final = "readers"
TOPIC: Final = "numbers"
LOOPS: Final = 3
TOPIC_PARTITIONS: Final = 6
PATIENCE_S: Final = (0.4, 0.9)
TIMEOUT_MS: Final = 1_500
ABORTS: Final = 0.2  # share of transactions that their loop aborts
NAPS: Final = 0.03  # at a step a loop pauses for longer than its transaction may be open
_CLIENT: Final = Context("User:ANONYMOUS", "PLAINTEXT", "simulated", "127.0.0.1:1")
_TIMES: Final = TransactionTimes(timeout_ms_max=60_000, timeouts_interval_ms=200)
_WEATHER: Final = PostWeather(late=0.0, twice=0.0)

Request = InitProducerId | AddOffsets | CommitTransactionOffsets | EndTxn | FetchOffsets
Steps = Generator["Request | float", Any, None]
SILENCE: Final = object()


class OffsetVoter(Process):
    """A voter that coordinates transactions and offsets. Its transactions write to no partition."""

    transactions: TransactionServer
    offsets: OffsetServer
    fresh: Callable[[], ProducerId]

    def _services(self, life: int) -> tuple[Service, ...]:
        replica, driver = self.replica, self.driver
        assert replica is not None
        assert driver is not None
        self.transactions = TransactionServer(
            _TIMES,
            replica,
            self.submit,
            Acls(),
            send=no_marker,
            send_announcements=no_partition,
            call_later=lambda seconds, call: self._carry_out(driver.call_later(seconds, call)),
            background=lambda work, done: self._carry_out(driver.background(work, done)),
            clock=self.clock,
            log=self._log,
        )
        self.transactions.allocate_producer_id = self.fresh
        self.offsets = OffsetServer(
            OffsetRules(),
            self.submit,
            CoordinatorErrors(replica),
            self.transactions.requests,
            lambda _group_id: False,
        )
        return (*super()._services(life), self.transactions)

    def ask(self, request: Request, take: Callable[[Any], None]) -> None:
        """A request arrives. A dead process is silent."""
        if self.up:
            self.run(self._serve, self.life, request, take)

    def _serve(self, life: int, request: Request, take: Callable[[Any], None]) -> None:
        if not self._lives(life):
            return
        reply = Answering(lambda answer, _throttle_ms: take(answer))
        endpoints: dict[type, Callable[..., None]] = {
            InitProducerId: self.transactions.init_producer_id,
            EndTxn: self.transactions.end_txn,
            AddOffsets: self.offsets.add_offsets,
            CommitTransactionOffsets: self.offsets.commit_in_transaction,
            FetchOffsets: self.offsets.fetch,
        }
        try:
            endpoints[type(request)](request, _CLIENT, reply)
        except ApiError as refusal:
            take(refusal)


def no_marker(*what: Any) -> None:
    """Transactions of offsets alone have none."""
    raise AssertionError(f"a marker for a transaction of offsets alone: {what}")


def no_partition(*what: Any) -> None:
    """What is announced has none: topics or brokers have changed."""
    require(not what[-1].announcements, "partitions of a transaction of offsets alone", what=what)


class Loop:
    """``may_be``: what the group may have committed, as far as this loop knows."""

    def __init__(self, number: int, world: "OffsetSimulation") -> None:
        self._world = world
        self._partition = number
        self._id = f"loop-{number}"
        self._node: NodeId = 0  # type: ignore[assignment]
        self.may_be = {-1}
        self.commits = 0
        self._numbers = count()
        self._steps = self._live()
        world.agenda.after(world.rng.uniform(0.1, 1.0), self._go_on, None)

    def _go_on(self, answer: Any) -> None:
        step = self._steps.send(answer)
        if isinstance(step, float):
            self._world.agenda.after(step, self._go_on, None)
        else:
            self._send(step)

    def _send(self, request: Request) -> None:
        world, waiting = self._world, [True]
        world.counts[type(request).__name__] += 1

        def take(answer: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                self._go_on(answer)

        world.agenda.after(world.rng.uniform(*PATIENCE_S), take, SILENCE)
        node = self._node or world.rng.choice(sorted(world.processes))
        world.post.carry(
            lambda: world.ask(node, request, lambda answer: world.post.carry(lambda: take(answer)))
        )

    # -- one life after the other -------------------------------------------------------------------

    def _live(self) -> Steps:
        while True:
            pair = yield from self._begin()
            yield from self._judge()
            while (yield from self._transact(*pair)):
                self.commits += 1
            yield self._world.rng.uniform(0.01, 0.1)

    def _asked(self, request: Request) -> Generator[Request | float, Any, Any]:
        """Of the node that coordinates: the answer, an error, or SILENCE."""
        answer = yield request
        elsewhere = isinstance(answer, ApiError) and answer.code == ErrorCode.NOT_COORDINATOR
        if elsewhere or answer is SILENCE:
            self._node = self._world.rng.choice(sorted(self._world.processes))
        return answer

    def _begin(self) -> Generator[Request | float, Any, tuple[ProducerId, int]]:
        while True:
            answer = yield from self._asked(InitProducerId(self._id, TIMEOUT_MS))
            if isinstance(answer, InitProducerIdAnswer):
                return answer.producer_id, answer.producer_epoch
            yield self._world.rng.uniform(0.01, 0.1)

    def _judge(self) -> Steps:
        """What is committed now, of transactions that are over."""
        query = FetchOffsets((GroupQuery(GROUP, ((TOPIC, self._partition),)),), require_stable=True)
        while True:
            answer = yield from self._asked(query)
            row = None if isinstance(answer, ApiError) or answer is SILENCE else answer.groups[0].offsets[0]
            if row is not None and row.code == ErrorCode.NONE:
                require(
                    row.offset in self.may_be,
                    "an offset was read that no transaction can have committed",
                    loop=self._id,
                    read=row.offset,
                    may_be=sorted(self.may_be),
                )
                self.may_be = {row.offset}
                return
            yield self._world.rng.uniform(0.01, 0.1)

    def _transact(self, producer_id: ProducerId, epoch: int) -> Generator[Request | float, Any, bool]:
        """Whether it ended as it should: otherwise another instance goes on."""
        pair, offset, rng = (producer_id, epoch), next(self._numbers), self._world.rng
        added = yield from self._asked(AddOffsets(self._id, *pair, GROUP))
        if added is not None:
            return False
        if rng.random() < self._world.naps:
            yield 2.0 * TIMEOUT_MS / 1000
        offsets = (OffsetToCommit(TOPIC, self._partition, offset),)
        sent = yield from self._asked(CommitTransactionOffsets(self._id, GROUP, *pair, offsets))
        if sent is SILENCE or isinstance(sent, ApiError) or sent.rows[0].code != ErrorCode.NONE:
            return False
        commits = rng.random() >= ABORTS
        if commits:
            self.may_be.add(offset)
        ended = yield from self._asked(EndTxn(self._id, *pair, commits))
        if ended is not None:
            return False
        if commits:
            self.may_be = {offset}
        return True


class OffsetSimulation(Simulation):
    """Use as Simulation."""

    process_type = OffsetVoter
    client_type = Quiet

    def __init__(self, seed: int, node_count: int = 3, weather: Weather | None = None) -> None:
        super().__init__(seed, node_count, weather, clients=CLIENTS)
        producer_ids = count(1_000)
        for process in self.processes.values():
            assert isinstance(process, OffsetVoter)
            process.log_level_formatted = LEVEL_MAX
            process.fresh = lambda: ProducerId(next(producer_ids))
        self.post = Post(self.agenda, self.rng, _WEATHER)
        self.counts: Counter[str] = Counter()
        self.naps = NAPS
        self.loops = [Loop(number, self) for number in range(LOOPS)]

    def __enter__(self) -> "OffsetSimulation":
        return self

    def ask(self, node: NodeId, request: Request, take: Callable[[Any], None]) -> None:
        """A request arrives at a node."""
        process = self.processes[node]
        assert isinstance(process, OffsetVoter)
        process.ask(request, take)

    def heal(self) -> None:
        """See Simulation."""
        super().heal()
        self.post.weather = self.post.weather.calmed()
        self.naps = 0.0

    def demand_commits(self) -> None:
        """Without faults every loop commits again."""
        self._guarded(self._demand_commits)

    def _demand_commits(self) -> None:
        before = [each.commits for each in self.loops]
        deadline = self.agenda.now + HEAL_S
        while any(each.commits < was + 3 for each, was in zip(self.loops, before, strict=True)):
            if self.agenda.now >= deadline:
                raise Violation(f"no commits in {HEAL_S} s: {[each.commits for each in self.loops]}")
            self._wait()

    def _activated(self, process: Process, now_ms: int) -> None:
        """The first leader also makes the topic."""
        super()._activated(process, now_ms)
        self._decide(process, make_topic)


def make_topic(view: View, _now_ms: int) -> Decision[None]:
    """A topic whose partitions all loops share, unless it is there."""
    if find(view, TOPIC) is not None:
        return Decision((), None)
    topic_id = uuid.UUID(int=0x0FF5E7)
    partitions = [
        PartitionRecord(
            partition_id=each, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
        )
        for each in range(TOPIC_PARTITIONS)
    ]
    return Decision((TopicRecord(name=TOPIC, topic_id=topic_id), *partitions), None)
