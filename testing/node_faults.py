"""Cuts between nodes, and their clocks: said to each node by a file and a socket (node/testing_port.py)."""

import itertools
import json
import socket
from typing import Final

from fencepost.cluster.local_cluster import LocalCluster, LocalNode
from fencepost.settings.durable_file import write_durably
from fencepost.settings.short_path import short_path
from fencepost.testing.cluster_failed import ClusterFailed

STATE: Final = "testing.json"
SOCKET: Final = "testing.sock"
ANSWER_S_MAX: Final = 10.0


class NodeFaults:
    """What is in force for the nodes of one cluster; those that start later find it in their folder."""

    def __init__(self, local: LocalCluster) -> None:
        self._local = local
        self._cut: set[frozenset[int]] = set()
        self._advanced_ms = 0

    def cut(self, one: int, other: int) -> None:
        """Neither reaches the other. Raises ClusterFailed."""
        if one == other:
            raise ClusterFailed(f"node {one} cannot be cut off from itself")
        self._cut.add(frozenset((one, other)))
        self._say()

    def isolate(self, node: int) -> None:
        """Neither it nor any other reach one another. Raises ClusterFailed."""
        self._cut |= {
            frozenset((node, int(each.node_id))) for each in self._local.nodes if each.node_id != node
        }
        self._say()

    def heal(self) -> None:
        """All reach all. Raises ClusterFailed."""
        self._cut.clear()
        self._say()

    def advance(self, by_ms: int) -> None:
        """Every node's clock is so much later. Raises ClusterFailed."""
        if by_ms < 0:
            raise ClusterFailed(f"a clock is advanced, not set back: expected 0 ms or more, got {by_ms}")
        self._advanced_ms += by_ms
        self._say()

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
            if node.status() == "running":
                _poke(node)


def _poke(node: LocalNode) -> None:
    try:
        with short_path(node.config.directory / SOCKET) as path, socket.socket(socket.AF_UNIX) as poked:
            poked.settimeout(ANSWER_S_MAX)
            poked.connect(path)
            poked.sendall(b"reload\n")
            if not poked.makefile("rb").readline():
                raise OSError("it does not answer")
    except OSError as error:
        raise ClusterFailed(f"node {node.node_id} takes no fault: {error}") from error
