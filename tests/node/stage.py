"""Drivers on a stage: real voters whose obligations a test carries out, one by one.

Nothing happens by itself: time stands still, frames wait in ``wire``, turns in ``soon``, ticks in ``later``.
"""

import heapq
import random
import uuid
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from structlog.typing import FilteringBoundLogger

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.view import View
from fencepost.node.driver import Background, CallAfter, Driver, End, Halt, Obligation, Send, TickAfter, Turn
from fencepost.quorum.messages import Message, decode
from fencepost.quorum.raft_log import use_clock
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from tests.quorum.clients import Silence
from tests.quorum.voters import FOREVER_S, abandon

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
CLUSTER: Final = "stage"
FREE_MIN: Final = 1_000  # bytes
EVENTS_MAX: Final = 10_000


class Notes:
    """A service that writes down which calls it gets, and may fail."""

    def __init__(self) -> None:
        self.record_heartbeat: list[str] = []
        self.failure: BaseException | None = None

    def _note(self, what: str) -> None:
        self.record_heartbeat.append(what)
        if self.failure is not None:
            raise self.failure

    def activated(self, now_ms: int) -> None:
        self._note("activated")

    def deposed(self) -> None:
        self._note("deposed")

    def maintain(self, now_ms: int) -> None:
        self._note("maintain")

    def sweep(self, now_ms: int) -> None:
        self._note("sweep")


class Lines(Silence):
    """A log whose events are kept."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.warnings: list[str] = []

    def error(self, event: str, **facts: object) -> None:
        self.events.append(event)

    def warning(self, event: str, **facts: object) -> None:
        self.warnings.append(event)


class Replies:
    """What a client was answered, in order: a response, or the ApiError's class."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, outcome: Any, _throttle_ms: int = 0) -> None:
        self.all.append(type(outcome) if isinstance(outcome, ApiError) else outcome)


class Stage:
    """``stage[1]`` is the driver of node 1; ``notes`` and ``lines`` are by node, too."""

    def __init__(self, root: Path, node_count: int = 1) -> None:
        self.now = 1000.0
        self.ids = [NodeId(n) for n in range(1, node_count + 1)]
        self.wire: list[tuple[NodeId, NodeId, Message]] = []
        self.soon: list[NodeId] = []
        self.later: list[NodeId] = []
        self.jobs: list[tuple[NodeId, Background]] = []
        self.timers: list[tuple[float, int, NodeId, CallAfter]] = []  # a heap
        self._timers_set = count()
        self.ended: list[NodeId] = []  # whose clean stop may end
        self.flushes = dict.fromkeys(self.ids, 0)
        self.lines = {node: Lines() for node in self.ids}
        self.notes = {node: Notes() for node in self.ids}
        directories = {node: uuid.UUID(int=0xD0 + node) for node in self.ids}
        use_clock(lambda: self.now, random.Random(1))
        self.drivers = {node: self._driver(node, root, directories) for node in self.ids}
        for node in self.ids:
            for peer in self.ids:
                if node != peer:
                    bound = self[peer].replica.electorate.bound()
                    self.carry_out(node, self[node].met(peer, directories[peer], dict(bound), LEVEL_MAX))
                    self.carry_out(node, self[node].connected(peer))
        self.rest()

    def __getitem__(self, node: int) -> Driver:
        return self.drivers[NodeId(node)]

    def _driver(self, node: NodeId, root: Path, directories: dict[NodeId, uuid.UUID]) -> Driver:
        driver = Driver(
            ReplicaConfig(
                node_id=node,
                directory_id=directories[node],
                cluster_id=CLUSTER,
                voter_ids=frozenset(self.ids),
                initial_voters=directories,
                directory=root / f"node-{node}",
                election_s=FOREVER_S,
                sync=False,
            ),
            disk_free_bytes_min=FREE_MIN,
            migrating=False,
            clock=lambda: self.now,
            wall_ms=lambda: 1_790_000_000_000,
            rng=random.Random(node),
            log=cast(FilteringBoundLogger, self.lines[node]),
        )
        driver.services = (self.notes[node],)
        commit = driver.replica.store.commit

        def counting() -> bool:
            self.flushes[node] += 1
            return commit()

        driver.replica.store.commit = counting  # type: ignore[method-assign]
        return driver

    def close(self) -> None:
        """Let go of every file."""
        for driver in self.drivers.values():
            abandon(driver.replica)

    # -- obligations ------------------------------------------------------------------------------

    def carry_out(self, node: int, obligations: Sequence[Obligation]) -> Sequence[Obligation]:
        """Put each where it waits. Returns them, for a test to look at."""
        for each in obligations:
            if isinstance(each, Send):
                self.wire.append((NodeId(node), each.peer, decode(each.frame)))
            elif isinstance(each, Turn):
                self.soon.append(NodeId(node))
            elif isinstance(each, TickAfter):
                self.later.append(NodeId(node))
            elif isinstance(each, CallAfter):
                due = (self.now + each.seconds, next(self._timers_set), NodeId(node), each)
                heapq.heappush(self.timers, due)
            elif isinstance(each, Background):
                self.jobs.append((NodeId(node), each))
            elif isinstance(each, End):
                self.ended.append(NodeId(node))
            elif isinstance(each, Halt):
                raise each.error
        return obligations

    def turn(self, node: int) -> Sequence[Obligation]:
        """The turn that waits."""
        self.soon.remove(NodeId(node))
        return self.carry_out(node, self[node].turn())

    def deliver(self) -> Sequence[Obligation]:
        """The oldest frame on the wire."""
        source, target, message = self.wire.pop(0)
        return self.carry_out(target, self[target].received(source, message))

    def rest(self) -> None:
        """Turns and frames until nothing waits; what waits for company waits no longer."""
        for _ in range(EVENTS_MAX):
            if not self.step():
                return
        raise AssertionError("never comes to rest")

    def step(self) -> bool:
        """The next of what waits, or is due. False: nothing does."""
        if self.soon:
            self.turn(self.soon[0])
        elif self.wire:
            self.deliver()
        elif self.later:
            self.now += 0.003
            node = self.later.pop(0)
            self.carry_out(node, self[node].tick())
        elif self.timers and self.timers[0][0] <= self.now:
            _, _, node, timer = heapq.heappop(self.timers)
            self.carry_out(node, self[node].resume(timer.call))
        else:
            return False
        return True

    def work(self) -> None:
        """Do what was asked of other threads. What it raises is its result."""
        jobs, self.jobs = self.jobs, []
        for node, job in jobs:
            try:
                job.task.run()
            except Exception as error:  # noqa: BLE001 - whatever it is
                job.task.fail(error)
            self.carry_out(node, self[node].ended(job.task))

    def tick(self, node: int) -> Sequence[Obligation]:
        return self.carry_out(node, self[node].tick())

    def elect(self, node: int = 1) -> None:
        """Make a node an active leader, and let things settle."""
        self.campaign(node)
        self.rest()
        for _ in range(3):
            self.now += 0.06
            self.tick(node)
            self.rest()
        assert self[node].replica.proposer.active

    def campaign(self, node: int) -> None:
        """Its election deadline passes; the turn that finds it so waits."""
        self.tick(node)  # or it would think that it was away itself
        self.rest()
        if len(self.ids) > 1:
            self[node].replica.raft._SyncObj__raftElectionDeadline = self.now - 1
        self.tick(node)

    def submit(self, node: int, response: object = "done", *, deferrable: bool = False) -> Replies:
        """A decision without records; it is carried out as far as it obliges to anything."""
        replies = Replies()

        def decide(_view: View, _now_ms: int) -> Decision[object]:
            return Decision((), response)

        self.carry_out(node, self[node].submit(decide, replies, deferrable=deferrable))
        return replies


def kinds(obligations: Sequence[Obligation]) -> list[str]:
    """What they are, frames by their message."""
    return [
        type(decode(each.frame)).__name__ if isinstance(each, Send) else type(each).__name__
        for each in obligations
    ]
