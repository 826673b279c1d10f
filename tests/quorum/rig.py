"""Voters on a bench: real Replicas whose every frame and every moment is moved by a script.

Nothing happens by itself: time stands still until ``wait``, nobody campaigns until ``campaign``, no frame
arrives until it is delivered. So a test can put the world into exactly the order that hurts.
"""

import random
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from fencepost.controller import brokers, producer_ids, voters
from fencepost.controller.brokers import Endpoint, HeartbeatTracker, RegisterBroker
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.quorum.journal import REGULAR
from fencepost.quorum.linger import LINGER_S
from fencepost.quorum.messages import Message, decode
from fencepost.quorum.port import Decide
from fencepost.quorum.raft_log import use_clock
from fencepost.quorum.replica import Replica
from fencepost.quorum.replica_config import ReplicaConfig
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import encode_control
from fencepost.records.entry import Entry, encode_entry
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, Log, NodeId, ProposalNumber, Term
from tests.simulation.power_loss import close_files

M = TypeVar("M")

CLUSTER = "bench"
FOREVER_S = (100_000.0, 200_000.0)  # election timeouts: nobody campaigns unless told
BROKER = BrokerId(7)
TURNS_MAX = 50
FRAMES_MAX: Final = 10_000  # that wait in one direction: more come from a loop that never ends


class Answers:
    """What a client was told, in order: a response, or the ApiError."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, answer: Any, _throttle_ms: int) -> None:
        self.all.append(answer)

    def close(self, reason: str, /) -> None:
        """See dispatch.Reply."""
        self.all.append(ConnectionError(reason))

    @property
    def codes(self) -> list[str]:
        """Errors by name, blocks as [first, end), anything else as it is."""
        return [told(answer) for answer in self.all]


def told(answer: Any) -> str:
    """An answer as a script says it."""
    if isinstance(answer, ApiError):
        return type(answer).__name__
    if isinstance(answer, ProducerIdBlock):
        return f"[{answer.first}, {answer.first + answer.length})"
    return str(answer)


class Rig:
    """``rig[1]`` is the Replica of node 1. Frames wait in ``rig.frames[source, target]``, oldest first."""

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
        self.replicas: dict[NodeId, Replica] = {}
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []  # work in the background
        self.on_send: Callable[[Replica, NodeId, Message], None] = lambda _replica, _target, _message: None
        self.reads = dict(reads or {})  # the highest log level of a node's software, from its next start on
        self._config: dict[str, Any] = {"election_s": FOREVER_S, "sync": False} | config
        self._initial = dict(self.directories) if initial_voters else None
        self._told_initially = set(self.ids)
        use_clock(lambda: self.now, random.Random(1))
        for node in self.ids:
            self.start(node)
        if connected:
            self.connect()

    def __getitem__(self, node: int) -> Replica:
        return self.replicas[NodeId(node)]

    # -- life and death ---------------------------------------------------------------------------

    def start(self, node: int) -> Replica:
        """Start a node on what its directory holds. It is connected to nobody yet."""
        source = NodeId(node)

        def send(target: NodeId, frame: bytes) -> None:
            message = decode(frame)
            self.on_send(self.replicas[source], target, message)
            waiting = self.frames[source, target]
            assert len(waiting) < FRAMES_MAX, f"{source} sends {target} {type(message).__name__} without end"
            waiting.append(message)

        self.replicas[source] = Replica(
            ReplicaConfig(
                node_id=source,
                directory_id=self.directories[source],
                cluster_id=CLUSTER,
                voter_ids=frozenset(self.ids),
                initial_voters=self._initial if source in self._told_initially else None,
                directory=self.root / f"node-{node}",
                log_level_max=self.reads.get(source, LEVEL_MAX),
                **self._config,
            ),
            send=send,
            clock=lambda: self.now,
            wall_ms=lambda: self.wall_ms,
            background=lambda work, done: self.jobs.append((work, done)),
            rng=random.Random(node),
            log=self.log_of(source),
        )
        return self.replicas[source]

    def log_of(self, _node: NodeId) -> Any:
        """What a node logs to."""
        return Silence()

    def crash(self, node: int) -> None:
        """Kill a node: what was not flushed is gone, its peers see it go."""
        replica = self.replicas.pop(NodeId(node))
        abandon(replica)
        self.disconnect(node)

    def wipe(self, node: int, directory: int) -> None:
        """Lose a dead node's directory; it is formatted again with another directory id."""
        shutil.rmtree(self.root / f"node-{node}")
        self.directories[NodeId(node)] = uuid.UUID(int=directory)
        self._told_initially.discard(NodeId(node))

    def close(self) -> None:
        """Let go of every file."""
        for replica in self.replicas.values():
            abandon(replica)
        self.replicas.clear()

    # -- connections ------------------------------------------------------------------------------

    def connect(self, *nodes: int) -> None:
        """Connect these (all by default) with everybody who runs."""
        for node in nodes or tuple(self.replicas):
            for peer in tuple(self.replicas):
                if peer != node:
                    self.meet(node, peer)
                    self[node].connected(peer)
                    self[peer].connected(NodeId(node))

    def meet(self, a: int, b: int) -> None:
        """The handshake of two nodes."""
        one, other = NodeId(a), NodeId(b)
        bound = {node: dict(self[node].electorate.bound()) for node in (a, b)}
        self[b].met(one, self.directories[one], bound[a], self[a].config.log_level_max)
        self[a].met(other, self.directories[other], bound[b], self[b].config.log_level_max)

    def disconnect(self, node: int) -> None:
        """A node's connections close, in both directions; what is on them is lost."""
        for peer in self.ids:
            if peer == node:
                continue
            self.frames[NodeId(node), peer].clear()
            self.frames[peer, NodeId(node)].clear()
            if peer in self.replicas:
                self[peer].disconnected(NodeId(node))
                self[peer].lost(NodeId(node))
            if NodeId(node) in self.replicas:
                self[node].disconnected(peer)
                self[node].lost(peer)

    # -- time and turns ---------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes; nobody does anything."""
        self.now += seconds
        self.wall_ms += int(seconds * 1000)

    def turn(self, *nodes: int) -> None:
        """Turns of these nodes (all by default) until they have nothing more to do."""
        for node in nodes or tuple(self.replicas):
            for _ in range(TURNS_MAX):
                if self[node].turn():
                    continue
                if not self[node].proposer.lingering:
                    break
                self.now += LINGER_S
            else:
                raise AssertionError(f"node {node} never comes to rest")

    def heartbeat(self, *nodes: int) -> None:
        """A heartbeat period passes and these nodes (all by default) take a turn."""
        self.wait(0.06)
        self.turn(*nodes)

    def maintenance_tick(self, *nodes: int) -> None:
        """The slow timer of these nodes (all by default), then turns."""
        for node in nodes or tuple(self.replicas):
            self[node].maintenance_tick()
        self.turn(*nodes)

    def work(self) -> None:
        """Do what was asked of the background."""
        jobs, self.jobs = self.jobs, []
        for work, done in jobs:
            done(work())

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
        """Deliver frames (all that wait by default), then let the target take its turns."""
        if not messages:
            messages = tuple(self.frames[NodeId(source), NodeId(target)])
            self.frames[NodeId(source), NodeId(target)].clear()
        for message in messages:
            self[target].received(NodeId(source), message)
        self.turn(target)

    def flow(self, *nodes: int, rounds: int = 100) -> None:
        """Deliver everything between these nodes (all by default) until nothing is on the wire."""
        among = set(nodes) or set(self.replicas)
        for _ in range(rounds):
            pairs = [pair for pair, waiting in sorted(self.frames.items()) if waiting and set(pair) <= among]
            if not pairs:
                return
            for source, target in pairs:
                if target in self.replicas:
                    self.deliver(source, target)
                else:
                    self.drop(source, target)
        raise AssertionError(f"frames never end: {pairs}")

    # -- what scripts say -------------------------------------------------------------------------

    def campaign(self, node: int) -> None:
        """Its election deadline passes."""
        self.turn(node)  # or it would think that it was away itself
        self[node].raft._SyncObj__raftElectionDeadline = self.now - 1
        self.turn(node)

    def elect(self, node: int, *voters: int) -> None:
        """Make a node an active leader with the help of these (all by default), and let things settle."""
        among = (node, *voters) if voters else ()
        self.turn()
        self.flow(*among)
        self.campaign(node)
        self.flow(*among)
        if not self[node].proposer.active:  # its followers' logs differ from its own
            self.settle(*among)
        assert self[node].proposer.active, f"node {node} is not active"

    def settle(self, *nodes: int) -> None:
        """Heartbeats and frames until everybody knows what is committed."""
        for _ in range(3):
            self.heartbeat(*nodes)
            self.flow(*nodes)

    def ask(self, node: int, decide: Decide[Any]) -> Answers:
        """Submit a decision. The node takes no turn: the script decides when."""
        answers = Answers()
        self[node].proposer.submit(decide, answers)
        return answers

    def allocate(self, node: int, length: int = 1000, epoch: int | None = None) -> Answers:
        """Submit an allocation for ``BROKER``, registered with ``register``."""
        return self.ask(node, self.decide_allocate(node, length, epoch))

    def decide_allocate(self, node: int, length: int = 1000, epoch: int | None = None) -> Decide[Any]:
        """What ``allocate`` submits."""
        sent = self.epoch_of(node) if epoch is None else BrokerEpoch(epoch)
        request = producer_ids.AllocateProducerIds(BROKER, sent)
        return lambda view, _now: producer_ids.decide_allocate(view, request, length)

    def epoch_of(self, node: int) -> BrokerEpoch:
        broker = self[node].image.get(brokers.BROKERS, BROKER)
        return BrokerEpoch(-1) if broker is None else broker.epoch

    def register(self, node: int) -> None:
        """Register ``BROKER`` and let it be applied everywhere that is reached."""
        request = RegisterBroker(
            BROKER, CLUSTER, uuid.UUID(int=1), uuid.UUID(int=2), (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
        )
        heartbeats = HeartbeatTracker(0, 9000)
        answers = self.ask(
            node,
            lambda view, now_ms: brokers.decide_register(
                view, request, cluster_id=CLUSTER, heartbeats=heartbeats, now_ms=now_ms
            ),
        )
        self.turn(node)
        self.flow()
        self.settle()
        assert answers.all, "the registration was not answered"

    def read(self, node: int) -> Answers:
        """Submit a linearizable read of the first free producer id."""
        return self.ask(node, lambda view, _now: Decision((), producer_ids.latest(view).end))

    def voters_entry(self, bound: Mapping[NodeId, uuid.UUID]) -> bytes:
        """The command of an entry that holds a Voters record and that the fence will not let through."""
        record = encode_control(voters.voters_record(bound))
        batch = encode_batch([BatchRecord(*record)], timestamp_ms=self.wall_ms, control=True)
        entry = Entry(ImageVersion(0), Term(0), NodeId(1), ProposalNumber(0), ((Log.METADATA, batch),))
        return REGULAR + encode_entry(entry)

    def commands(self, node: int) -> list[tuple[int, int]]:
        """(index, term) of every entry in a node's journal."""
        return [(index, term) for _, index, term in self[node].journal]

    def images(self, nodes: Iterable[int] = ()) -> dict[int, int]:
        """Node -> first free producer id, by its own image."""
        return {int(n): int(producer_ids.latest(self[n].image).end) for n in nodes or self.replicas}


def abandon(replica: Replica) -> None:
    """Let go of every file as a dying process does."""
    replica.store.abandon()
    for archive in replica.archiver.archives.values():
        close_files(archive)


class Silence:
    """A log that nobody reads."""

    def info(self, event: str, **facts: object) -> None: ...
    def warning(self, event: str, **facts: object) -> None: ...
    def error(self, event: str, **facts: object) -> None: ...
