"""Cuts between nodes, and their clocks: said to each node by a file and a socket (node/testing_port.py)."""

import itertools
import json
import socket
import threading
import time
from typing import Final

from fencepost.cluster.local_cluster import LocalCluster, LocalNode
from fencepost.settings.durable_file import write_durably
from fencepost.settings.short_path import short_path
from fencepost.testing.cluster_failed import ClusterFailed

STATE: Final = "testing.json"
SOCKET: Final = "testing.sock"
ANSWER_S_MAX: Final = 10.0
POLL_S: Final = 0.02
ADVANCED_S_MAX: Final = 1e9
"""32 years: more than any timeout or retention of a test, and times stay those that a calendar knows."""


class NodeFaults:
    """What is in force for the nodes of one cluster; those that start later find it in their folder."""

    def __init__(self, local: LocalCluster) -> None:
        self._local = local
        self._turn = threading.RLock()  # a test's threads come one after the other
        self._cut: set[frozenset[int]] = set()
        self._advanced_ms = 0

    def cut(self, one: int, other: int) -> None:
        """Neither reaches the other. Raises ClusterFailed."""
        if one == other:
            raise ClusterFailed(f"node {one} cannot be cut off from itself")
        with self._turn:
            self._cut.add(frozenset((one, other)))
            self._say()

    def isolate(self, node: int) -> None:
        """Neither it nor any other reach one another. Raises ClusterFailed."""
        with self._turn:
            self._cut |= {
                frozenset((node, int(each.node_id))) for each in self._local.nodes if each.node_id != node
            }
            self._say()

    def heal(self) -> None:
        """All reach all. Raises ClusterFailed."""
        with self._turn:
            self._cut.clear()
            self._say()

    def advance(self, by_s: float) -> None:
        """Every node's clock is so much later. Raises ClusterFailed."""
        with self._turn:
            if not 0 <= by_s <= ADVANCED_S_MAX - self._advanced_ms / 1000:
                raise ClusterFailed(
                    f"a clock is advanced, not set back: expected 0 s or more, all calls together at most "
                    f"{ADVANCED_S_MAX:.0f} s, got {by_s:g}"
                )
            self._advanced_ms += int(by_s * 1000)
            self._say()

    def have_taken(self, node: LocalNode) -> None:
        """A running node takes what its file says; one that starts or goes on does so in a moment."""
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while node.status() == "running":
            try:
                _poke(node)
            except OSError as error:
                if time.monotonic() >= deadline_s:
                    raise ClusterFailed(f"node {node.node_id} takes no fault: {error}") from error
                time.sleep(POLL_S)
            else:
                return

    def _say(self) -> None:
        for node in self._local.nodes:
            peers = [
                each for each in self._local.nodes if frozenset((each.node_id, node.node_id)) in self._cut
            ]
            addresses = itertools.chain.from_iterable(each.ports().values() for each in peers)
            state = {
                "cut": [(each.host, each.port) for each in addresses],
                "advanced_ms": self._advanced_ms,
            }
            write_durably(node.config.directory / STATE, json.dumps(state) + "\n")
        for node in self._local.nodes:
            self.have_taken(node)


def _poke(node: LocalNode) -> None:
    """Raises OSError."""
    with short_path(node.config.directory / SOCKET) as path, socket.socket(socket.AF_UNIX) as poked:
        poked.settimeout(ANSWER_S_MAX)
        poked.connect(path)
        poked.sendall(b"reload\n")
        if not poked.makefile("rb").readline():
            raise OSError("it does not answer")
