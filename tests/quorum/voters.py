"""Voters on a bench: real drivers whose every frame and every moment is moved by a script.

Nothing happens by itself: time stands still until ``wait``, no voter campaigns until ``campaign``, no frame
arrives until it is delivered, no turn comes until ``turn``. So a test can put the world into exactly the
order that hurts. Every event goes through the driver that ships (node/driver.py).
"""

import random
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from fencepost.node.driver import Background, Driver, Halt, Obligation, Send, TickAfter, Turn
from fencepost.quorum.linger import LINGER_S
from fencepost.quorum.messages import Message, decode
from fencepost.quorum.raft_log import use_clock
from fencepost.quorum.replica import FLUSH_WAIT_S, Replica
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from tests.quorum.clients import Silence
from tests.simulation.power_loss import close_files

M = TypeVar("M")

CLUSTER: Final = "bench"
FOREVER_S: Final = (100_000.0, 200_000.0)  # election timeouts: a voter campaigns when a script says so
TURNS_MAX: Final = 50
FRAMES_MAX: Final = 10_000  # that wait in one direction: more come from a loop that never ends


class Voters:
    """``voters[1]`` is the Replica of node 1. Frames wait in ``frames[source, target]``, oldest first."""

    def __init__(
        self,
        root: Path,
        node_count: int = 3,
        *,
        initial_voters: bool = True,
        connected: bool = True,
        reads: Mapping[int, int] | None = None,
        **config: Any,
    ) -> None:
        self.now = 1000.0
        self.wall_ms = 1_763_600_000_000
        self.root = root
        self.ids = [NodeId(n) for n in range(1, node_count + 1)]
        self.directories = {node: uuid.UUID(int=0xD0 + node) for node in self.ids}
        self.frames: dict[tuple[NodeId, NodeId], list[Message]] = defaultdict(list)
        self.drivers: dict[NodeId, Driver] = {}
        self.jobs: list[tuple[NodeId, Background]] = []
        self.on_send: Callable[[Replica, NodeId, Message], None] = lambda _replica, _target, _message: None
        self.reads = dict(reads or {})  # the highest log level of a node's software, from its next start on
        self._config: dict[str, Any] = {"election_s": FOREVER_S, "sync": False} | config
        self._initial = dict(self.directories) if initial_voters else None
        self._initially_formatted = set(self.ids)
        use_clock(lambda: self.now, random.Random(1))
        for node in self.ids:
            self.start(node)
        if connected:
            self.connect()

    def __getitem__(self, node: int) -> Replica:
        return self.drivers[NodeId(node)].replica

    @property
    def replicas(self) -> dict[NodeId, Replica]:
        """Those that run, by node."""
        return {node: driver.replica for node, driver in self.drivers.items()}

    # -- life and death ---------------------------------------------------------------------------

    def start(self, node: int) -> Replica:
        """Start a node on what its directory holds. It is not connected to any other yet."""
        source = NodeId(node)
        self.drivers[source] = Driver(
            ReplicaConfig(
                node_id=source,
                directory_id=self.directories[source],
                cluster_id=CLUSTER,
                voter_ids=frozenset(self.ids),
                initial_voters=self._initial if source in self._initially_formatted else None,
                directory=self.root / f"node-{node}",
                log_level_max=self.reads.get(source, LEVEL_MAX),
                **self._config,
            ),
            disk_free_bytes_min=0,
            migrating=False,
            clock=lambda: self.now,
            wall_ms=lambda: self.wall_ms,
            rng=random.Random(node),
            log=self.log_of(source),
        )
        return self[node]

    def log_of(self, _node: NodeId) -> Any:
        """What a node logs to."""
        return Silence()

    def crash(self, node: int) -> None:
        """Kill a node: what was not flushed is gone, its peers see it go."""
        abandon(self.drivers.pop(NodeId(node)).replica)
        self.disconnect(node)

    def wipe(self, node: int, directory: int) -> None:
        """Lose a dead node's directory; it is formatted again with another directory id."""
        shutil.rmtree(self.root / f"node-{node}")
        self.directories[NodeId(node)] = uuid.UUID(int=directory)
        self._initially_formatted.discard(NodeId(node))

    def close(self) -> None:
        """Let go of every file."""
        for replica in self.replicas.values():
            abandon(replica)
        self.drivers.clear()

    # -- obligations ------------------------------------------------------------------------------

    def carry_out(self, node: int, obligations: Sequence[Obligation]) -> Sequence[Obligation]:
        """Frames and work wait for the script. Raises what a driver halts with."""
        for each in obligations:
            if isinstance(each, Send):
                self._send(NodeId(node), each.peer, decode(each.frame))
            elif isinstance(each, Background):
                self.jobs.append((NodeId(node), each))
            elif isinstance(each, Halt):
                raise each.error
        return obligations

    def _send(self, source: NodeId, target: NodeId, message: Message) -> None:
        self.on_send(self[source], target, message)
        waiting = self.frames[source, target]
        assert len(waiting) < FRAMES_MAX, f"{source} sends {target} {type(message).__name__} without end"
        waiting.append(message)

    # -- connections ------------------------------------------------------------------------------

    def connect(self, *nodes: int) -> None:
        """Connect these (all by default) with every node that runs."""
        for node in nodes or tuple(self.drivers):
            for peer in tuple(self.drivers):
                if peer != node:
                    self.meet(node, peer)
                    self.join(node, peer)

    def meet(self, a: int, b: int) -> None:
        """The handshake of two nodes."""
        one, other = NodeId(a), NodeId(b)
        bound = {node: dict(self[node].electorate.bound()) for node in (a, b)}
        self.met(b, one, self.directories[one], bound[a], self[a].config.log_level_max)
        self.met(a, other, self.directories[other], bound[b], self[b].config.log_level_max)

    def met(
        self, node: int, peer: NodeId, directory: uuid.UUID, bound: Mapping[NodeId, uuid.UUID], level_max: int
    ) -> None:
        """``peer`` authenticates to ``node``."""
        self.carry_out(node, self.drivers[NodeId(node)].met(peer, directory, bound, level_max))

    def join(self, a: int, b: int) -> None:
        """Two nodes can send to each other from now on."""
        for node, peer in self._both(a, b):
            self.carry_out(node, self.drivers[node].connected(peer))

    def part(self, a: int, b: int) -> None:
        """Two nodes cannot send to each other any more; neither sees a connection close."""
        for node, peer in self._both(a, b):
            self.carry_out(node, self.drivers[node].disconnected(peer))

    def disconnect(self, node: int) -> None:
        """A node's connections close, in both directions; what is on them is lost."""
        for peer in self.ids:
            if peer == node:
                continue
            self.frames[NodeId(node), peer].clear()
            self.frames[peer, NodeId(node)].clear()
            for one, other in self._both(peer, node):
                self.carry_out(one, self.drivers[one].disconnected(other))
                self.carry_out(one, self.drivers[one].lost(other))

    def _both(self, a: int, b: int) -> list[tuple[NodeId, NodeId]]:
        """(node, its peer) of each of the two that runs."""
        pairs = ((NodeId(a), NodeId(b)), (NodeId(b), NodeId(a)))
        return [(node, peer) for node, peer in pairs if node in self.drivers]

    # -- time and turns ---------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes; no node does anything."""
        self.now += seconds
        self.wall_ms += int(seconds * 1000)

    def turn(self, *nodes: int) -> None:
        """Turns of these nodes (all by default) until they have nothing more to do."""
        for node in nodes or tuple(self.drivers):
            for _ in range(TURNS_MAX):
                obliged = {type(each) for each in self.step(node)}
                if TickAfter in obliged:
                    self.now += LINGER_S
                elif Turn not in obliged:
                    break
            else:
                raise AssertionError(f"node {node} never comes to rest")

    def step(self, node: int) -> Sequence[Obligation]:
        """One turn of a node."""
        return self.carry_out(node, self.drivers[NodeId(node)].turn())

    def heartbeat(self, *nodes: int) -> None:
        """A heartbeat period passes and these nodes (all by default) take a turn."""
        self.wait(0.06)
        self.turn(*nodes)

    def maintenance_tick(self, *nodes: int) -> None:
        """The slow timer of these nodes (all by default), then turns."""
        for node in nodes or tuple(self.drivers):
            self.maintain(node)
        self.turn(*nodes)

    def maintain(self, node: int) -> None:
        """The slow timer of a node, which takes no turn yet."""
        self.carry_out(node, self.drivers[NodeId(node)].maintain())

    def hand_over(self, node: int) -> bool:
        """A clean stop begins. Whether another voter was requested to campaign."""
        driver = self.drivers[NodeId(node)]
        self.carry_out(node, driver.hand_over())
        return driver.handed_over

    def flush(self, node: int) -> None:
        """The flush of a node's image, which comes every half a second."""
        self.wait(1.1 * FLUSH_WAIT_S)
        self.maintain(node)

    def work(self, error: BaseException | None = None) -> None:
        """What other threads were given is done, or fails."""
        jobs, self.jobs = self.jobs, []
        for node, job in jobs:
            if error is None:
                job.task.run()
            else:
                job.task.fail(error)
            if node in self.drivers:
                self.carry_out(node, self.drivers[node].ended(job.task))

    # -- frames -----------------------------------------------------------------------------------

    def take(self, source: int, target: int, kind: type[M]) -> M:
        """Take the oldest frame of a kind off the wire."""
        waiting = self.frames[NodeId(source), NodeId(target)]
        for at, message in enumerate(waiting):
            if isinstance(message, kind):
                del waiting[at]
                return message
        raise AssertionError(f"no {kind.__name__} from {source} to {target}: {waiting}")

    def drop(self, source: int, target: int) -> None:
        """Lose what is on the wire in one direction."""
        self.frames[NodeId(source), NodeId(target)].clear()

    def deliver(self, source: int, target: int, *messages: Message) -> None:
        """Deliver frames (all that wait by default) that arrived together, and the turns that follow."""
        if not messages:
            messages = tuple(self.frames[NodeId(source), NodeId(target)])
            self.frames[NodeId(source), NodeId(target)].clear()
        self.receive(target, source, *messages)
        self.turn(target)

    def receive(self, target: int, source: int, *messages: Message) -> None:
        """Frames arrive together; the turn that is due for them has not come yet."""
        driver = self.drivers[NodeId(target)]
        self.carry_out(
            target, driver.tick()
        )  # a turn is due anyway, or each frame would have its own at once
        for message in messages:
            self.carry_out(target, driver.received(NodeId(source), message))

    def flow(self, *nodes: int, rounds: int = 100) -> None:
        """Deliver everything between these nodes (all by default) until nothing is on the wire."""
        among = set(nodes) or set(self.drivers)
        for _ in range(rounds):
            pairs = [pair for pair, waiting in sorted(self.frames.items()) if waiting and set(pair) <= among]
            if not pairs:
                return
            for source, target in pairs:
                if target in self.drivers:
                    self.deliver(source, target)
                else:
                    self.drop(source, target)
        raise AssertionError(f"frames never end: {pairs}")


def abandon(replica: Replica) -> None:
    """Let go of every file as a dying process does."""
    replica.store.abandon()
    for archive in replica.archiver.archives.values():
        close_files(archive)
