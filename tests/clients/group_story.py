"""Members of a group come, go and are killed, and so is the coordinator: the partitions are always shared.

Member     a process: PROGRAM BOOTSTRAP GROUP TOPIC WAY. It writes its partitions as a JSON list whenever they
           change, and leaves the group at SIGTERM. kafkajs and sarama write ``failed`` and an error, too,
           where their consumer gives up; they go on as their own examples do.
Ways       of sarama, joined by ``+``. ``idless``: JoinGroup 1, which knows no ids before it has joined.
           ``impatient``: it gives a JoinGroup up after 2 s. ``slow``: it writes ``revoked`` and waits for a
           line before it joins its first rebalance; it is alive meanwhile.
Traps      kafkajs gives up at COORDINATOR_LOAD_IN_PROGRESS (14) to a JoinGroup, so none may be answered while
           there is a leader or one activates: the join is parked until then. sarama joins without an id again
           after a lost answer, so that it leaves ghosts behind; it retries four times, 2 s apart.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from fencepost.records.types import NodeId
from fencepost.wire.connection import Connection
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from tests.clients import go_programs
from tests.clients.players import HERE, ROOT, installed_kafkajs
from tests.clients.stories import Killed, StoryFailed
from tests.harness.nodes import Nodes, wait_for

PARTITIONS: Final = 4
SECONDS_MAX: Final = 60.0
GHOST_SECONDS_MAX: Final = 30.0
"""A ghost's session is 6 s, and a rebalance takes a heartbeat. Parked, a new member would have 300 s."""
KILLS: Final = 4
JOINING: Final = 3
LOADING: Final = "The coordinator is loading"  # so kafkajs logs code 14, and says it when it gives up
RESTARTED: Final = frozenset({"kafka-python", "kafkajs", "sarama"})
"""The killed leader runs again at once: kafka-python may wait for ever for a coordinator that refuses the
connection; kafkajs and sarama consume only while every partition has a leader (there is one replica)."""


def _kafkajs() -> tuple[list[str], Path]:
    return ["node", str(HERE / "kafkajs/member.js")], installed_kafkajs()


def _python(library: str) -> tuple[list[str], Path]:
    return [sys.executable, "-m", "tests.clients.group_member", library], ROOT


Command = Callable[[], tuple[list[str], Path]]
"""The program and the folder that it runs in. Raises NotHere."""
COMMANDS: Final[Mapping[str, Command]] = {
    **{name: partial(_python, name) for name in ("confluent-kafka", "kafka-python", "aiokafka")},
    "kafkajs": _kafkajs,
    "sarama": partial(go_programs.built, "member"),
}
PIP: Final = ("confluent-kafka", "kafka-python", "aiokafka")


class Member:
    """A consumer in a process of its own."""

    def __init__(self, command: list[str], folder: Path, log: Path) -> None:
        self._log = log
        self._errors = log.with_suffix(".err")
        with log.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

    @property
    def assignments(self) -> list[list[int]]:
        """What it was assigned, one after the other."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("[")]

    @property
    def partitions(self) -> list[int]:
        """What it is assigned now."""
        return (self.assignments or [[]])[-1]

    def said(self, word: str) -> list[str]:
        """The lines that begin with this word."""
        return [line for line in self._log.read_text().splitlines() if line.startswith(word)]

    def logged(self, text: str) -> bool:
        """Its library has written this to its log of errors."""
        return text in self._errors.read_text(errors="replace")

    def go_on(self) -> None:
        """It may join."""
        stdin: IO[bytes] | None = self.process.stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.flush()

    def leave(self) -> None:
        """It closes its consumer."""
        self.process.terminate()
        self.process.wait(SECONDS_MAX)

    def kill(self) -> None:
        """It dies without a word; nothing happens if it has ended."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def members_of(library: str, cluster: Nodes, logs: Path) -> Iterator[Callable[..., Member]]:
    """Starts members of one new group, by name and way. Raises NotHere."""
    command, folder = COMMANDS[library]()
    group = f"{library}-{os.urandom(3).hex()}"
    cluster.up()
    cluster.run("topics", "create", "--topic", group, "--partitions", PARTITIONS)
    # kafka-python, where it joins before it sees its topic, is given no partition, for five minutes.
    for node_id in cluster.node_ids:
        wait_for(f"node {node_id} shows the topic", partial(_shows, cluster, node_id, group))
    with ExitStack() as stack:

        def member(name: str, way: str = "-") -> Member:
            words = [*command, cluster.bootstrap, group, group, *([] if library in PIP else [way])]
            made = Member(words, folder, logs / f"{group}-{name}.out")
            stack.callback(made.kill)
            return made

        yield member


def _shows(cluster: Nodes, node_id: NodeId, topic: str) -> bool:
    """The broker knows a leader for each partition."""
    return asyncio.run(_leaders(cluster.address(node_id, "client"), topic)) == PARTITIONS


async def _leaders(address: tuple[str, int], topic: str) -> int:
    connection = await Connection.open(*address)
    try:
        (found,) = (await connection.call(METADATA, Metadata((TopicQuery(topic),), False))).topics
    finally:
        connection.close()
    return sum(each.leader_id >= 0 for each in found.partitions)


def share(*members: Member, seconds: float = SECONDS_MAX) -> None:
    """Wait until these have all partitions, each once, and each of them some."""

    def shared() -> bool:
        parts = [member.partitions for member in members]
        owned = sorted(partition for part in parts for partition in part)
        return all(parts) and owned == list(range(PARTITIONS))

    wait_for(f"{len(members)} members share the partitions", shared, seconds)


def come_and_go(library: str, cluster: Nodes, logs: Path, way: str = "-") -> str:
    """Members join, leave and are killed, and so is the leader. Raises StoryFailed, NotHere."""
    with members_of(library, cluster, logs) as member:
        alice = member("alice", way)
        share(alice)
        bob = member("bob", way)
        share(alice, bob)
        bob.kill()  # its session ends
        share(alice)
        carol = member("carol", way)
        share(alice, carol)
        leader = cluster.leader()
        cluster.kill(leader)
        if library in RESTARTED:
            cluster.start(leader)
        dave = member("dave", way)
        share(alice, carol, dave)
        cluster.up()
        carol.leave()
        share(alice, dave)
        return f"they share {PARTITIONS} partitions; {_given_up(alice, carol, dave)}"


def joins_while_leaders_die(library: str, cluster: Nodes, logs: Path) -> str:
    """Members join while there is no leader, or one just elected. Raises StoryFailed, NotHere."""
    with members_of(library, cluster, logs) as member:
        alice = member("alice")
        share(alice)
        others: list[Member] = []
        for kill in range(KILLS):
            for each in others:
                each.process.send_signal(signal.SIGTERM)
            killed = Killed(cluster)
            others = [member(f"bob-{kill}-{number}") for number in range(JOINING)]
            killed.restart()
            share(alice, *others)
            if any(each.logged(LOADING) for each in (alice, *others)):
                raise StoryFailed(f"a JoinGroup was answered '{LOADING}', see {logs}")
        return f"{KILLS} kills, {JOINING} joins at each, none answered with 14; {_given_up(alice, *others)}"


def parked_for_long(library: str, cluster: Nodes, logs: Path, *, way: str, ghosts: bool) -> str:
    """A member gives its parked join up again and again, and joins again; one is killed while it is parked.

    With ids there is no ghost: the first generation after it has the members that there are. Without ids a
    ghost is in it, and is gone with its session. Raises StoryFailed, NotHere.
    """
    with members_of(library, cluster, logs) as member:
        alice = member("alice", f"slow+{way}")
        share(alice)
        bob = member("bob", f"impatient+{way}")
        wait_for("the rebalance begins", lambda: alice.said("revoked"), SECONDS_MAX)
        wait_for("bob gives up twice", lambda: len(bob.said("failed")) >= 2, SECONDS_MAX)
        if ghosts:
            bob.kill()
            bob = member("bob-again", way)
        alice.go_on()
        share(alice, bob, seconds=GHOST_SECONDS_MAX)
        after = len(alice.assignments[1])
        if not ghosts and after != PARTITIONS // 2:
            raise StoryFailed(
                f"{after} of {PARTITIONS} partitions for one of two: there is a ghost, see {logs}"
            )
        return (
            f"shared by two after {len(alice.assignments) - 1} rebalances, {after} partitions after the first"
        )


def _given_up(*members: Member) -> str:
    """How often their libraries gave up; they have joined again since."""
    said = [line for each in members for line in each.said("failed")]
    return f"their library gave up {len(said)} times" + (f", at last: {said[-1]}" if said else "")


Scenario = Callable[[Nodes, Path], str]
GO: Final = "members come and go, the leader is killed"
PARKED: Final = "a join is parked for longer than it waits"
SCENARIOS: Final[Mapping[str, Mapping[str, Scenario]]] = {
    "kafkajs": {
        GO: partial(come_and_go, "kafkajs"),
        "members join while leaders are killed": partial(joins_while_leaders_die, "kafkajs"),
    },
    "sarama": {
        GO: partial(come_and_go, "sarama"),
        f"{GO}, no ids": partial(come_and_go, "sarama", way="idless"),
        PARKED: partial(parked_for_long, "sarama", way="-", ghosts=False),
        f"{PARKED}, no ids": partial(parked_for_long, "sarama", way="idless", ghosts=True),
    },
}
"""By library: those that pip has not. The others are in test_groups.py."""
