"""What a test does with the nodes of a running cluster: it kills, pauses, reads, asks. Each method blocks."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, NoReturn, TypeVar

from fencepost.client import Admin, ClientError, ConsumerRecord
from fencepost.cluster import forked, leader_move, lifecycle, node_process, state
from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.local_cluster import HOST, LocalCluster, LocalNode
from fencepost.cluster.target import brokers_of, controllers_of
from fencepost.records.types import NodeId
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import Faults
from fencepost.testing.node_faults import NodeFaults
from fencepost.testing.proxies import Proxies
from fencepost.testing.reading import read_topic
from fencepost.testing.tls import TlsFiles
from fencepost.wire.requests import ListedGroup, ListedTransaction

__tracebackhide__ = True  # a failing test is shown, and debugged, at its own line

T = TypeVar("T")

Which = int | Literal["leader", "follower"]
"""A node by its id; ``leader``: the active controller, which coordinates transactions and groups."""

STABLE_S_MAX: Final = 60.0
POLL_S: Final = 0.02
COMMAND_S_MAX: Final = 60.0
END_S_MAX: Final = 15.0
EVENTS_MAX: Final = 1000
UNPICKLED: Final = "a cluster cannot be pickled; give the other process cluster.bootstrap"
SIGNALLED: Final = {
    signal.SIGKILL: "was killed",
    signal.SIGSTOP: "was stopped",
    signal.SIGCONT: "goes on",
}
MARKERS_MISSING: Final = ("PrepareCommit", "PrepareAbort")


class RunningCluster:
    """What ``with Cluster(...) as cluster`` gives. Its methods raise ClusterFailed."""

    def __init__(
        self, local: LocalCluster, proxies: Proxies | None = None, tls: TlsFiles | None = None
    ) -> None:
        self._made = local
        self._has_ended = False
        self._starting = threading.Lock()  # no node is started once the cluster has ended
        self._made_by = os.getpid()
        self._proxies = proxies
        self._tls = tls
        self._node_faults = NodeFaults(local)
        self.events: deque[tuple[float, str]] = deque(maxlen=EVENTS_MAX)
        if proxies is not None:
            proxies.faults.topic_id = self._topic_id
        self._children: list[subprocess.Popen[bytes]] = []

    def bring_up(self) -> None:
        """Start every node that does not run, and wait until the cluster is live."""
        try:
            self._children += lifecycle.bring_up(self._local, forked.spawn).values()
        except Failed as error:
            fail(error)

    def kill_all(self) -> None:
        """End every process, in whatever state it is. From here on each method raises ClusterFailed."""
        with self._starting:
            self._has_ended = True
        for node in self._made.nodes:
            recorded = node_process.recorded(node.directory)
            if recorded is not None:
                recorded.send(signal.SIGKILL)
        for child in self._children:
            child.wait(timeout=END_S_MAX)

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """What a Kafka client is given as ``bootstrap.servers``; the proxies', if there are faults."""
        self._require_there()
        if self._proxies is None:
            return self._made.bootstrap
        return ",".join(f"{HOST}:{port}" for port in self._proxies.ports)

    @property
    def tls(self) -> TlsFiles:
        """What a client needs for TLS."""
        if self._tls is None:
            raise ClusterFailed("this cluster is in the clear; write: Cluster(tls=True)")
        return self._tls

    @property
    def has_faults(self) -> bool:
        """Whether requests of clients go through proxies."""
        return self._proxies is not None

    @property
    def faults(self) -> Faults:
        """Faults of single requests of clients; those of this object itself go past them."""
        if self._proxies is None:
            raise ClusterFailed("this cluster has no proxies; write: Cluster(faults=True)")
        self._require_there()
        return self._proxies.faults

    @property
    def directory(self) -> Path:
        """The cluster's folder: ``nodes/N`` has log.txt and data of node N."""
        return self._made.directory

    @property
    def node_ids(self) -> list[int]:
        """1 to the number of nodes."""
        return [int(node.node_id) for node in self._made.nodes]

    def status(self, node: int) -> str:
        """``running``, ``stopped`` (paused), ``dead`` or ``down``."""
        return self._node(node).status()

    def leader(self, *, timeout_s: float = STABLE_S_MAX) -> int:
        """The active controller, once there is one. Raises ClusterFailed."""

        def look() -> NodeId | None:
            return _run(lambda: state.find_leader(self._local))

        return int(self._awaited("a node leads", look, timeout_s))

    def log(self, node: int, line_count: int = 50) -> str:
        """The last lines of a node's log."""
        return node_process.log_tail(self._node(node).directory, line_count)

    # -- what happens to it ---------------------------------------------------------------------------------

    def kill(self, which: Which = "leader") -> int:
        """End a node as a power cut ends it (SIGKILL); it is dead on return. Returns its id."""
        return self._signal(which, signal.SIGKILL)

    def pause(self, which: Which = "leader") -> int:
        """Stop a node's process (SIGSTOP): connections stay open and nothing is answered. Returns its id."""
        return self._signal(which, signal.SIGSTOP)

    def resume(self, *nodes: int) -> None:
        """Let paused nodes go on; without an id, all of them. Raises ClusterFailed: one of those is dead."""
        for node in self._named(nodes, "dead", "start it"):
            if node.status() == "stopped":
                self._signal(int(node.node_id), signal.SIGCONT)
                self._node_faults.have_taken(node)

    def start(self, *nodes: int) -> None:
        """Start dead nodes again, and wait until they answer; without an id, all of them.

        Raises ClusterFailed if one that is named is paused.
        """
        chosen = self._named(nodes, "stopped", "let it go on with resume")
        if os.getpid() != self._made_by:
            raise ClusterFailed(
                f"this process was forked, and a node that it starts would end with it; "
                f"start nodes in process {self._made_by}, which made the cluster"
            )
        dead = [node for node in chosen if node.status() in ("dead", "down")]
        try:
            with self._starting:
                children = lifecycle.start_nodes(self._local, dead, forked.spawn)
                self._children += children.values()
            state.await_answering(dead, children)
        except Failed as error:
            fail(error)
        for node in dead:
            self._happened(f"node {node.node_id} runs again")

    def move_leader(self, node: int | None = None) -> int:
        """Hand leadership to a node, or to any other, without a death. Returns the id of who leads now."""
        require_no_loop()
        chosen = None if node is None else int(self._node(node).node_id)
        try:
            return int(leader_move.move_leader(controllers_of(self._local), chosen)[1].leader_id)
        except (Failed, Unreadable) as error:
            fail(error)

    def cut(self, one: int, other: int) -> None:
        """Cut two nodes off from each other: no connection lives or is made. Clients reach both."""
        self._node_faults.cut(int(self._node(one).node_id), int(self._node(other).node_id))

    def isolate(self, which: Which = "leader") -> int:
        """Cut a node off from all others. Clients reach it. Returns its id."""
        node = self._chosen(which)
        self._node_faults.isolate(int(self._node(node).node_id))
        return node

    def heal(self) -> None:
        """End every cut."""
        self._require_there()
        self._node_faults.heal()

    def advance_clock(self, seconds: float) -> None:
        """Move every node's clock on: transactions time out, retention and expiry come due.

        Elections, heartbeats and group sessions go by another clock, and are as they were. All calls
        together: at most ``ADVANCED_S_MAX``. Raises ClusterFailed.
        """
        self._require_there()
        self._node_faults.advance(seconds)

    def wait_stable(self, *, timeout_s: float = STABLE_S_MAX) -> None:
        """Wait until every node is live and no transaction waits for its markers. Raises ClusterFailed."""
        for node in self._local.nodes:
            if (status := node.status()) != "running":
                first = "resume" if status == "stopped" else "start"
                raise ClusterFailed(
                    f"it cannot get stable: node {node.node_id} is {status}; {first} it first"
                )
        try:
            state.await_live(self._local, {}, lambda _words: None, timeout_s=timeout_s)
        except Failed as error:
            fail(error)

        def look() -> bool:
            return not self.ask(lambda admin: admin.list_transactions(states=MARKERS_MISSING))

        self._awaited("no transaction waits for its markers", look, timeout_s)

    def create_topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        """Make a topic; producers may write to it on return."""
        settings = {key: text_of(value) for key, value in (config or {}).items()}
        self.ask(lambda admin: admin.create_topic(name, partitions=partitions, configs=settings))

        def look() -> bool:
            found = self.ask(Admin.list_topics).get(name)
            return found is not None and len(found.leaders) >= max(1, partitions)

        self._awaited(f"topic {name} is led", look, STABLE_S_MAX)

    # -- what it knows --------------------------------------------------------------------------------------

    def transactions(self) -> list[ListedTransaction]:
        """Every transactional id with its producer id and state."""
        return self.ask(Admin.list_transactions)

    def groups(self) -> list[ListedGroup]:
        """Every consumer group with its state."""
        return self.ask(Admin.list_groups)

    def read(
        self, topic: str, *, isolation: str = "read_committed", timeout_s: float = 30.0
    ) -> list[ConsumerRecord]:
        """A topic's records from first to last, by partition and offset, as the isolation level shows them.

        Raises ClusterFailed if a transaction stays open before the end.
        """
        try:
            return _run(lambda: read_topic(brokers_of(self._local), topic, isolation, timeout_s))
        except (TimeoutError, ClientError) as error:
            fail(error)

    def explain(self, name: str) -> str:
        """A transactional id, ``TOPIC-PARTITION`` or producer id in sentences, as ``fencepost explain``."""
        command = ["explain", "--dir", str(self._local.directory), "--", name]
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", node_process.MODULE, *command],
                capture_output=True,
                text=True,
                timeout=COMMAND_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ClusterFailed(f"after {COMMAND_S_MAX:.0f} s no answer to: explain {name}") from None
        if not done.stdout:
            raise ClusterFailed(done.stderr.strip().removeprefix("Error: "))
        return done.stdout.strip()

    # -- inside ---------------------------------------------------------------------------------------------

    def _topic_id(self, name: str) -> uuid.UUID | None:
        with ThreadPoolExecutor(1) as aside:  # a fault may be armed on an event loop
            topic = aside.submit(self.ask, Admin.list_topics).result().get(name)
        return None if topic is None else topic.topic_id

    @property
    def _local(self) -> LocalCluster:
        self._require_there()
        return self._made

    def _require_there(self) -> None:
        if self._has_ended:
            raise ClusterFailed("this cluster ended with its with block; it can be used no more")

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(UNPICKLED)

    def _named(self, nodes: tuple[int, ...], unfit: str, advice: str) -> list[LocalNode]:
        """Nodes by their ids, or all of them. Raises ClusterFailed if one that is named is ``unfit``."""
        for node in map(self._node, nodes):
            if node.status() == unfit:
                raise ClusterFailed(f"node {node.node_id} is {unfit}: {advice}")
        return [self._node(node_id) for node_id in nodes or self.node_ids]

    def _awaited(self, what: str, look: Callable[[], T | None], timeout_s: float) -> T:
        deadline_s = time.monotonic() + timeout_s
        while not (found := look()):
            if time.monotonic() >= deadline_s:
                nodes = ", ".join(f"node {node.node_id} is {node.status()}" for node in self._local.nodes)
                raise ClusterFailed(f"after {timeout_s:.0f} s still not: {what} ({nodes})")
            time.sleep(POLL_S)
        return found

    def _node(self, node_id: int) -> LocalNode:
        try:
            return self._local.node(node_id)
        except WrongUsage as error:
            fail(error)

    def _chosen(self, which: Which) -> int:
        if isinstance(which, int):
            return which
        leader = self.leader()
        if which == "leader":
            return leader
        if which != "follower":
            raise ClusterFailed(f"expected a node's id, 'leader' or 'follower', got {which!r}")
        for node in self._local.nodes:
            if node.node_id != leader and node.status() == "running":
                return int(node.node_id)
        raise ClusterFailed("no follower runs")

    def _signal(self, which: Which, number: signal.Signals) -> int:
        node_id = self._chosen(which)
        node = self._node(node_id)
        if not lifecycle.send(node, number):
            raise ClusterFailed(f"node {node_id} is {node.status()}: there is nothing to send {number.name}")
        self._happened(f"node {node_id}{', the leader,' if which == 'leader' else ''} {SIGNALLED[number]}")
        return node_id

    def _happened(self, what: str) -> None:
        self.events.append((time.time(), what))

    @property
    def proxies(self) -> Proxies | None:
        """Those that requests of clients go through, if there are faults."""
        return self._proxies

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        """What an admin client finds out: ``cluster.ask(Admin.list_topics)``. Raises ClusterFailed."""

        target = brokers_of(self._local)

        async def ask() -> T:
            async with Admin(target.name, client_id="fencepost-testing", tls=target.tls) as admin:
                return await question(admin)

        try:
            return _run(ask)
        except ClientError as error:
            fail(error)


def _run(conversation: Callable[[], Awaitable[T]]) -> T:
    require_no_loop()

    async def hold() -> T:
        return await conversation()

    return asyncio.run(hold())


def require_no_loop() -> None:
    """Raises ClusterFailed in a thread that runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ClusterFailed(
        "this method blocks, and an event loop runs in this thread; "
        "write: await asyncio.to_thread(METHOD, ...), or: async with Cluster() as cluster"
    )


def text_of(value: object) -> str:
    """A setting as a properties file has it: True is ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def fail(error: Exception) -> NoReturn:
    """Raises ClusterFailed with the words of what a command would have printed."""
    raise ClusterFailed(str(error)) from None
