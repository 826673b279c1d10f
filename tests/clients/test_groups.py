"""Groups of real consumers on three nodes: members join, leave and are killed, and so is the leader."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC = "shared"
PARTITIONS = 4
SECONDS_MAX = 60.0


class Member:
    """A consumer in a process of its own."""

    def __init__(self, library: str, nodes: Nodes, directory: Path, name: str) -> None:
        self._said = directory / f"{library}-{name}.out"
        arguments = ("-m", "tests.clients.group_member", library, nodes.bootstrap, f"group-{library}", TOPIC)
        with self._said.open("wb") as out, (directory / f"{library}-{name}.err").open("wb") as errors:
            self.process = subprocess.Popen((sys.executable, *arguments), stdout=out, stderr=errors)

    @property
    def partitions(self) -> list[int] | None:
        """What it is assigned, None before it said so."""
        lines = self._said.read_text().splitlines()
        partitions: list[int] | None = json.loads(lines[-1]) if lines else None
        return partitions

    def leave(self) -> None:
        """It closes its consumer."""
        self.process.terminate()
        self.process.wait(30)

    def kill(self) -> None:
        """It dies without a word; nothing happens if it has ended."""
        self.process.kill()
        self.process.wait(30)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("groups") / "cluster") as started:
        started.run("topics", "create", "--topic", TOPIC, "--partitions", PARTITIONS)
        yield started


def share(*members: Member) -> None:
    """Wait until these have all partitions, each once, and each of them some."""

    def shared() -> bool | None:
        parts = [member.partitions or [] for member in members]
        owned = sorted(partition for part in parts for partition in part)
        return True if all(parts) and owned == list(range(PARTITIONS)) else None

    wait_for(f"{len(members)} members share the partitions", shared, SECONDS_MAX)


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_members_come_and_go_and_the_leader_dies(cluster: Nodes, library: str, tmp_path: Path) -> None:
    cluster.up()
    with ExitStack() as stack:

        def member(name: str) -> Member:
            made = Member(library, cluster, tmp_path, name)
            stack.callback(made.kill)
            return made

        alice = member("alice")
        share(alice)
        bob = member("bob")
        share(alice, bob)
        bob.kill()  # its session ends
        share(alice)
        carol = member("carol")
        share(alice, carol)
        leader = cluster.leader()
        cluster.kill(leader)
        if library == "kafka-python":  # it may wait for ever for a coordinator that refuses the connection
            cluster.start(leader)
        dave = member("dave")
        share(alice, carol, dave)
        cluster.up()
        carol.leave()
        share(alice, dave)
