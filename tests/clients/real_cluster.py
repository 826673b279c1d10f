"""A cluster of real processes, started by the command line as a user starts it."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ports import cluster_port

COMMAND_SECONDS_MAX = 60
NODE_IDS = (1, 2, 3)


def fencepost(*arguments: str, status: int = 0) -> str:
    """Run a command to its end; its stdout. Fails unless it exits with ``status``."""
    ended = subprocess.run(
        [sys.executable, "-m", "fencepost.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    said = f"fencepost {' '.join(arguments)}\n{ended.stdout}\n{ended.stderr}"
    assert ended.returncode == status, said
    return ended.stdout


class RealCluster:
    """Three nodes in a folder."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port

    def run(self, *arguments: str, status: int = 0) -> str:
        """A command on this cluster."""
        return fencepost(*arguments, "--dir", str(self.directory), status=status)

    def address(self, node_id: int) -> str:
        """``host:port`` of a node's client listener."""
        return f"127.0.0.1:{self.port + node_id - 1}"

    def bootstrap(self) -> str:
        """Every node's client listener."""
        return ",".join(self.address(node_id) for node_id in NODE_IDS)

    def nodes(self) -> list[dict[str, Any]]:
        """The rows of ``ps``."""
        nodes: list[dict[str, Any]] = json.loads(self.run("ps", "--format", "json"))["nodes"]
        return nodes

    def pids(self) -> list[int]:
        """The nodes' processes, those that run."""
        return [int(node["pid"]) for node in self.nodes() if node["status"] == "running"]

    def leader(self) -> int:
        """The node that leads."""
        (leader,) = [node["node_id"] for node in self.nodes() if node["leader"]]
        return int(leader)

    def history(self) -> list[dict[str, Any]]:
        """Every block that was ever given out, from the committed log."""
        blocks: list[dict[str, Any]] = json.loads(self.run("producer-ids", "history", "--format", "json"))
        return blocks

    def owners(self, producer_ids: list[int]) -> set[int]:
        """The brokers that were given these ids; an id that nobody was given fails."""
        history = self.history()
        owners = set()
        for each in producer_ids:
            (owner,) = [b["broker_id"] for b in history if b["start"] <= each < b["end"]]
            owners.add(int(owner))
        return owners


@contextlib.contextmanager
def real_cluster(directory: Path, *overrides: str) -> Iterator[RealCluster]:
    """Up with these settings, and down at the end."""
    port = cluster_port()
    settings = [word for override in overrides for word in ("--override", override)]
    cluster = RealCluster(directory, port)
    try:
        cluster.run("up", "-n", str(len(NODE_IDS)), "--port", str(port), "--detach", *settings)
        yield cluster
    finally:
        cluster.run("down")
