"""The clusters that ``bench groups`` measures: its own, and one that runs already."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from fencepost.bench.coordinators import Address
from fencepost.bench.group_load import AwaitNodes
from fencepost.bench.own_cluster import OwnCluster
from fencepost.bench.process import child
from fencepost.bench.stalls import stalls_of
from fencepost.cluster.console import Failed
from fencepost.cluster.lifecycle import start_nodes
from fencepost.cluster.state import await_live
from fencepost.records.types import NodeId

CLUSTER: Final = "cluster"
PEER: Final = "peer"
COMMAND_SECONDS_MAX: Final = 60.0
RESTART_SECONDS_MAX: Final = 180.0
PEER_SECONDS_MAX: Final = 10.0


class Subject(Protocol):
    """A cluster, and how one of its nodes dies and comes back."""

    @property
    def name(self) -> str:
        """CLUSTER or PEER."""

    @property
    def addresses(self) -> list[Address]:
        """Its brokers."""

    @property
    def can_kill(self) -> bool:
        """Whether ``kill`` may be called."""

    def kill(self, node_id: int) -> int:
        """SIGKILL. Returns the monotonic time just before it, in nanoseconds. Raises Failed."""

    def restore(self, node_id: int) -> None:
        """Start the node again; returns when the cluster is whole. Raises Failed."""


def bootstrap_of(subject: Subject) -> str:
    """What a Kafka client is given as ``bootstrap.servers``."""
    return ",".join(f"{host}:{port}" for host, port in subject.addresses)


@dataclass(frozen=True, slots=True)
class Own:
    """The bench's own cluster. ``stalls_ms``: the longest of each work, of killed processes, too."""

    cluster: OwnCluster
    show: Callable[[str], None]
    stalls_ms: dict[str, float] = field(default_factory=dict)
    name: str = CLUSTER
    can_kill: bool = True

    @property
    def addresses(self) -> list[Address]:
        """See Subject."""
        listeners = (node.config.client_listener for node in self.cluster.cluster.nodes)
        return [(each.address.host, each.address.port) for each in listeners if each is not None]

    def kill(self, node_id: int) -> int:
        """See Subject."""
        self.note_stalls(node_id)
        before_ns = time.monotonic_ns()
        os.kill(self.cluster.children[NodeId(node_id)].pid, signal.SIGKILL)  # our own child
        return before_ns

    def restore(self, node_id: int) -> None:
        """See Subject."""
        own = self.cluster
        own.children[NodeId(node_id)].wait()
        own.children.update(start_nodes(own.cluster, [own.cluster.node(node_id)]))
        await_live(own.cluster, own.children, self.show)

    def note_stalls(self, node_id: int) -> None:
        """Read what a node measured so far."""
        found = stalls_of(self.cluster.cluster.node(node_id).config.metrics_port)
        for work, longest_ms in found.items():
            self.stalls_ms[work] = max(longest_ms, self.stalls_ms.get(work, 0.0))


@dataclass(frozen=True, slots=True)
class Peer:
    """A cluster that runs already. Its nodes are killed and started by commands, if there are any."""

    addresses: list[Address]
    kill_command: str | None = None
    start_command: str | None = None
    name: str = PEER

    @property
    def can_kill(self) -> bool:
        """See Subject."""
        return self.kill_command is not None and self.start_command is not None

    def kill(self, node_id: int) -> int:
        """See Subject."""
        before_ns = time.monotonic_ns()
        self._run(self.kill_command, node_id)
        return before_ns

    def restore(self, node_id: int) -> None:
        """See Subject."""
        self._run(self.start_command, node_id)
        self.require_whole(RESTART_SECONDS_MAX)

    def require_whole(self, timeout_s: float) -> None:
        """Each address is a broker, and shows as many of them. Raises Failed if that is not so in time."""
        with child("peer", "fencepost.bench.group_load") as waiting:
            whole = AwaitNodes(self.addresses, len(self.addresses), timeout_s)
            waiting.ask(whole, type(None))

    def _run(self, command: str | None, node_id: int) -> None:
        words = [each.replace("{node}", str(node_id)) for each in shlex.split(command or "")]
        try:
            ended = subprocess.run(
                words,
                timeout=COMMAND_SECONDS_MAX,
                check=False,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"{shlex.join(words)}: {error}") from error
        if ended.returncode:
            raise Failed(f"{shlex.join(words)}: status {ended.returncode}")
