"""Real nodes: one operating-system process each, started as the command line does, killed by pid.

Waiting     is polling with a deadline, generous because the machine may be busy; nothing here sleeps and
            hopes. What is waited for is an event in a node's log, a metric, or an answer.
Health      a node's log must not hold a traceback or a critical event: ``complaints`` looks for them.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any, TypeVar

from fencepost.cluster import lifecycle, node_process, state
from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import LocalCluster, LocalNode, create_cluster, open_cluster
from fencepost.records.types import NodeId
from tests.harness import forked
from tests.harness.command import contents, fencepost, in_process, stdout_of
from tests.ports import cluster_port

T = TypeVar("T")

COMMAND_SECONDS_MAX = 90
WAIT_SECONDS_MAX = 40.0
POLL_SECONDS = 0.02
FROZEN_SECONDS = 1.0  # no process sleeps so much too long, unless the whole machine stands still

JSON_LOGS = "log.format=json"
NO_QUOTA = "producer.id.allocation.rate=0"
CALM = ("quorum.election.timeout.ms.min=1500", "quorum.election.timeout.ms.max=3000")


def wait_for(what: str, look: Callable[[], T | None], seconds: float = WAIT_SECONDS_MAX) -> T:
    """Look until there is something; fails with ``what`` after ``seconds``, a frozen machine's apart."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not: {what}"
        before = time.monotonic()
        time.sleep(POLL_SECONDS)
        overslept = time.monotonic() - before - POLL_SECONDS
        if overslept > FROZEN_SECONDS:
            deadline += overslept


class Nodes:
    """The processes of one local cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self._children: list[Popen[bytes]] = []

    @property
    def directory(self) -> Path:
        return self.cluster.directory

    @property
    def bootstrap(self) -> str:
        """Every node's client listener, for a Kafka client."""
        return self.cluster.bootstrap

    @property
    def node_ids(self) -> list[NodeId]:
        return [node.node_id for node in self.cluster.nodes]

    def node(self, node_id: int) -> LocalNode:
        return self.cluster.node(node_id)

    def home(self, node_id: int) -> Path:
        """The node's ``log.dirs``."""
        return self.node(node_id).config.directory

    def directory_id(self, node_id: int) -> str:
        """Of the node's directory, as ``storage info`` shows it."""
        (row,) = self.read("storage", "info", "--node", str(node_id))["nodes"]
        return str(row["directory_id"])

    def voter_id(self, node_id: int) -> str:
        """Of the node's store, as ``storage info`` shows it."""
        (row,) = self.read("storage", "info", "--node", str(node_id))["nodes"]
        return str(row["voter_id"])

    def address(self, node_id: int, purpose: str) -> tuple[str, int]:
        """Where the node listens: ``client``, ``controller``, ``raft`` or ``metrics``."""
        host, port = self.node(node_id).ports()[purpose]
        return host, port

    def client_address(self, node_id: int) -> str:
        """``host:port`` of the node's client listener."""
        return "{}:{}".format(*self.address(node_id, "client"))

    # -- commands -----------------------------------------------------------------------------------

    def run(self, *arguments: object, status: int = 0) -> str:
        """A command on this cluster."""
        return stdout_of(in_process(*arguments, "--dir", self.directory), status)

    def read(self, *arguments: object, status: int = 0) -> Any:
        """What a command on this cluster prints as JSON."""
        return contents(self.run(*arguments, "--format", "json", status=status))

    # -- processes ----------------------------------------------------------------------------------

    def pid(self, node_id: int) -> int:
        pid = self.node(node_id).pid()
        assert pid is not None, f"node {node_id} is {self.node(node_id).status()}"
        return pid

    def kill(self, *node_ids: int) -> None:
        """SIGKILL to the pids that ``ps`` shows, all at once; returns when they are dead."""
        pids = [self.pid(node_id) for node_id in node_ids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for node_id in node_ids:
            self.await_status(node_id, "dead")

    def send(self, node_id: int, number: signal.Signals) -> None:
        """A signal; for STOP and CONT returns when it took effect."""
        os.kill(self.pid(node_id), number)
        if number in (signal.SIGSTOP, signal.SIGCONT):
            self.await_status(node_id, "stopped" if number == signal.SIGSTOP else "running")

    def await_status(self, node_id: int, status: node_process.Status) -> None:
        wait_for(f"node {node_id} is {status}", lambda: self.node(node_id).status() == status)

    def start(self, *node_ids: int) -> None:
        """Start dead nodes again; returns when their controller listeners answer."""
        nodes = [self.node(node_id) for node_id in node_ids]
        with forked.nodes():
            children = lifecycle.start_nodes(self.cluster, nodes)
        self._children += children.values()
        state.await_answering(nodes, children)

    def up(self) -> None:
        """Start what does not run; returns when every broker is live."""
        with forked.nodes():
            self._children += lifecycle.bring_up(self.cluster).values()

    def down(self) -> None:
        """End whatever still runs, stopped processes included, and reap it."""
        for node in self.cluster.nodes:
            if node.status() == "stopped":
                os.kill(self.pid(node.node_id), signal.SIGCONT)
        self.run("down")
        for child in self._children:
            child.wait(timeout=COMMAND_SECONDS_MAX)

    def rss_anon_kib(self, node_id: int) -> int:
        """RssAnon of the node's process."""
        text = Path(f"/proc/{self.pid(node_id)}/status").read_text("ascii")
        (line,) = [line for line in text.splitlines() if line.startswith("RssAnon:")]
        return int(line.split()[1])

    # -- what the nodes say ---------------------------------------------------------------------------

    def leader(self) -> NodeId:
        """Who leads, as ``ps`` says it: a node that just answered with a committed entry."""
        return wait_for("a node leads", lambda: state.leader_id(self.cluster))

    def leadership(self) -> tuple[NodeId, int]:
        """(leader, its epoch) as the leader answers: metrics are up to 0.1 s old (node/metrics_port.py)."""

        def look() -> tuple[NodeId, int] | None:
            epoch, leader = asyncio.run(state.find_leadership(self.cluster))
            return None if leader is None else (leader, epoch)

        return wait_for("a node leads", look)

    def followers(self) -> list[NodeId]:
        leader = self.leader()
        return [node_id for node_id in self.node_ids if node_id != leader]

    def await_followed(self) -> NodeId:
        """Who leads, once every node says that it does."""

        def look() -> NodeId | None:
            leader = self.leader()
            leaders = {int(self.metrics(each)["fencepost_raft_leader_id"]) for each in self.node_ids}
            return leader if leaders == {leader} else None

        return wait_for("every node follows one leader", look)

    def metrics(self, node_id: int) -> dict[str, float]:
        """The node's numbers by name; a role is ``role.leader`` = 1."""
        host, port = self.address(node_id, "metrics")
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=5) as answer:
            return parse_metrics(answer.read().decode())

    def epoch(self, node_id: int) -> int:
        """The term that the node itself is in, by its metrics, up to 0.1 s old."""
        return int(self.metrics(node_id)["fencepost_raft_epoch"])

    def log_size(self, node_id: int) -> int:
        """Where the node's log ends now: a mark for ``events``."""
        log = self.node(node_id).directory / node_process.LOG
        return log.stat().st_size if log.exists() else 0

    def events(self, node_id: int, name: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """What the node logged after the mark ``since``: all of it, or the events of one name."""
        found = read_events(self.node(node_id).directory / node_process.LOG, since)
        return [event for event in found if name is None or event["event"] == name]

    def await_event(self, node_id: int, name: str, since: int = 0, **fields: Any) -> dict[str, Any]:
        """The first such event after the mark."""

        def look() -> dict[str, Any] | None:
            for event in self.events(node_id, name, since):
                if all(event.get(key) == value for key, value in fields.items()):
                    return event
            return None

        return wait_for(f"node {node_id} logs {name} {fields}", look)

    def complaints(self) -> list[str]:
        """Log lines that no node should ever write: tracebacks, critical events, exceptions of ours."""
        return [
            f"node {node.node_id}: {event}"
            for node in self.cluster.nodes
            for event in self.events(node.node_id)
            if event.get("level") == "critical"
            or event["event"] == "exception_not_caught"
            or "unreadable" in event
        ]

    def history(self) -> list[dict[str, Any]]:
        """Every block that was ever allocated, from the committed log."""
        blocks: list[dict[str, Any]] = self.read("producer-ids", "history")
        return blocks

    def log_tails(self) -> str:
        """How the nodes' logs end, for the report of a failed test."""
        return "\n".join(
            f"--- node {node.node_id}: {node.status()}\n{node_process.log_tail(node.directory, 40)}"
            for node in self.cluster.nodes
        )

    def digests(self) -> dict[NodeId, tuple[int, str]]:
        """Image version and digest of each node, by ``fencepost storage info``.

        The brokers' heartbeats are entries, so versions move on all the time.
        """
        nodes = self.read("storage", "info")["nodes"]
        return {NodeId(row["node_id"]): (row["image_version"], row["image_digest"]) for row in nodes}

    def await_equal_images(self) -> None:
        """Some version is seen on every node, with one digest; none is ever seen with two (I3).

        Each node saves its image at moments of its own, so a version may pass one after the other.
        """
        digests: dict[int, str] = {}
        seen_on: dict[int, set[NodeId]] = {}

        def look() -> bool:
            found = self.digests()
            for node_id, (version, digest) in found.items():
                assert digests.setdefault(version, digest) == digest, (
                    f"two digests of version {version}: {found}"
                )
                seen_on.setdefault(version, set()).add(node_id)
            return any(len(nodes) == len(self.node_ids) for nodes in seen_on.values())

        wait_for("the nodes' images are equal at one version", look)


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text by name; the role as ``role.STATE``."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            name = name.replace('fencepost_raft_role{fencepost_raft_role="', "role.").removesuffix('"}')
            found[name] = float(value)
    return found


def read_events(log: Path, since: int = 0) -> list[dict[str, Any]]:
    """A log of JSON lines, but for a last one still being written; a line that is none is ``unreadable``."""
    if not log.exists():
        return []
    with log.open("rb") as stream:
        stream.seek(since)
        raw = stream.read()
    events = []
    for line in raw[: raw.rfind(b"\n") + 1].splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": line.decode("utf-8", "replace"), "unreadable": True}
        events.append(event)
    return events


def revive(nodes: Nodes) -> Nodes:
    """What an earlier test left dead is started again, so that each test begins with a whole cluster."""
    dead = []
    for node in nodes.cluster.nodes:
        if node.status() == "stopped":
            nodes.send(node.node_id, signal.SIGCONT)
        elif node.pid() is None:
            dead.append(node.node_id)
    if dead:
        nodes.start(*dead)
    nodes.leader()
    return nodes


@contextlib.contextmanager
def running(directory: Path, *overrides: str, count: int = 3, follower: int | None = None) -> Iterator[Nodes]:
    """A new cluster with these settings, up; at the end its logs are clean, it is down.

    ``follower``: a node that campaigns later than the others, so that it seldom leads.
    """
    nodes = Nodes(create_cluster(directory, count, cluster_port(), (JSON_LOGS, *overrides)))
    if follower is not None:
        with (nodes.node(follower).directory / "node.properties").open("a") as properties:
            properties.writelines(f"{each}\n" for each in CALM)
    with ended_clean(nodes):
        nodes.up()
        yield nodes


@contextlib.contextmanager
def running_as_typed(directory: Path, cwd: Path) -> Iterator[Nodes]:
    """The same by ``fencepost up``, typed in a folder."""
    where = ("--dir", directory, "--port", cluster_port())
    stdout_of(fencepost("up", "-n", 3, *where, "--detach", "--override", JSON_LOGS, cwd=cwd))
    nodes = Nodes(open_cluster(cwd / directory))
    with ended_clean(nodes):
        yield nodes


@contextlib.contextmanager
def ended_clean(nodes: Nodes) -> Iterator[None]:
    """Down at the end, with clean logs unless something else failed."""
    try:
        yield
        complaints = nodes.complaints()
    finally:
        nodes.down()
    assert not complaints, "\n".join(complaints)


def wipe(nodes: Nodes, node_id: int) -> None:
    """``rm -rf`` a dead node's directory and format it again, as an operator replaces a disk."""
    shutil.rmtree(nodes.home(node_id))
    config = nodes.node(node_id).directory / "node.properties"
    format_storage(config, nodes.cluster.cluster_id)


def format_storage(config: Path, cluster_id: str) -> None:
    """``fencepost storage format``."""
    stdout_of(in_process("storage", "format", "--config", config, "--cluster-id", cluster_id))


def start_process(folder: Path, config: Path, children: list[Popen[bytes]]) -> Popen[bytes]:
    """``fencepost node --config``, its log in ``folder``; added to those that the caller ends."""
    with forked.nodes():
        child = node_process.start(folder, ["node", "--config", str(config)])
    children.append(child)
    return child


def end_processes(children: Sequence[Popen[bytes]]) -> None:
    """SIGKILL and reap."""
    for child in children:
        child.kill()
        child.wait(timeout=COMMAND_SECONDS_MAX)


def urls_refused() -> tuple[type[Exception], ...]:
    """What asking a node for its metrics may raise while it is not there."""
    return (urllib.error.URLError, OSError, Failed)
