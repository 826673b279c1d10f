"""``python -m tests.processes.instructions``: what the guards cost a node, in instructions of its processor.

Counted   by valgrind's callgrind, in user mode, all threads of one node of three. It leads, coordinates the
          transactions and has every partition: all guards that a client passes are in it. Other nodes' work
          and the kernel's is left out. It is the same without guards, so the real ratio is below this one.
Load      eight producers of librdkafka (protocol V1), by a principal with ACLs; nodes are super users. Each
          window is the same number of transactions; what starts, and what warms up, is in none.
Clocks    of all nodes are as much slower as a counted node is (tests/harness/slow_clocks.py): its timers are
          due as often for each transaction as they are without valgrind.
Spread    of the windows of each kind: a ratio means nothing within it.
"""

import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from fencepost.client.transactional_producer import Outcome, Record, TransactionalProducer
from fencepost.cluster import lifecycle, node_process
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.settings.authorizer_config import STANDARD_AUTHORIZER
from tests.harness import slow_clocks
from tests.harness.nodes import wait_for
from tests.ports import cluster_port
from tests.secret_files import write_secret

COUNTED: Final = 1  # the lowest id campaigns first in a new cluster
PRODUCERS: Final = 8
TOPIC: Final = "t"
SECONDS_MAX: Final = 600.0
ACCESS: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "socket.timeout.ms": 300_000,
    "transaction.timeout.ms": 600_000,
    "message.timeout.ms": 600_000,
}
CALLGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no")
SMALLER_MAP: Final = """
from fencepost.snapshots import reader
reader.MAP_BYTES = 1 << 34
from fencepost.cli.main import main
main()
"""
"""The node, with a store that valgrind has room to map: it has none for a terabyte."""
TOTALS: Final = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class CountedCluster:
    """Three nodes, of which one is counted. ``access``: settings of librdkafka for a user."""

    def __init__(self, folder: Path, slower: int, *, guarded: bool) -> None:
        folder.mkdir()
        self._folder = folder
        self._dumps = 0
        write_secret(folder / "users", "broker=broker-password\nalice=alice-password\n")
        write_secret(folder / "broker", "broker-password\n")
        settings = [
            "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            f"sasl.plain.users.file={folder / 'users'}",
            "sasl.username=broker",
            f"sasl.password.file={folder / 'broker'}",
        ]
        if guarded:
            settings += [f"authorizer.class.name={STANDARD_AUTHORIZER}", "super.users=User:broker"]
        self.cluster: LocalCluster = create_cluster(folder / "cluster", 3, cluster_port(), settings)
        library = slow_clocks.compiled(folder)
        self._environment = slow_clocks.environment(library, slower) | {"PYTHONHASHSEED": "0"}

    def access(self, user: str) -> dict[str, Any]:
        login = {"sasl.username": user, "sasl.password": f"{user}-password"}
        return {"bootstrap.servers": self.cluster.bootstrap, **ACCESS, **login}

    def start(self) -> None:
        """Returns when all brokers serve."""
        lifecycle.start_nodes(self.cluster, self.cluster.nodes, self._spawn)
        admin = AdminClient(self.access("broker") | {"log_level": 0})

        def live() -> bool:
            try:
                return len(admin.list_topics(timeout=30).brokers) == len(self.cluster.nodes)
            except KafkaException:
                return False

        wait_for("all brokers serve", live, SECONDS_MAX)

    def stop(self) -> None:
        for node in self.cluster.nodes:
            lifecycle.send(node, signal.SIGKILL)

    def _spawn(
        self, command: Sequence[str], directory: Path, environment: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        words = list(command)
        if directory.name == str(COUNTED):
            begin = words.index("-m")
            words[begin : begin + 2] = ["-c", SMALLER_MAP]
            words = [*CALLGRIND, f"--callgrind-out-file={self._folder / 'count'}", *words]
        return node_process.spawn(words, directory, environment | self._environment)

    def control(self, *words: str) -> None:
        """A command to callgrind."""
        pid = self.cluster.node(COUNTED).pid()
        subprocess.run(("callgrind_control", *words, str(pid)), check=True, capture_output=True)

    def count(self) -> int:
        """The instructions since the last count."""
        self._dumps += 1
        self.control("--dump")
        file = self._folder / f"count.{self._dumps}"

        def total() -> int | None:
            found = TOTALS.search(file.read_text("utf-8")) if file.exists() else None
            return None if found is None else int(found[1])

        return wait_for("the count is written", total, SECONDS_MAX)


def prepare(cluster: CountedCluster, *, guarded: bool) -> None:
    """A topic whose partitions are the counted node's, and what alice may do."""
    admin = AdminClient(cluster.access("broker"))
    placed = NewTopic(TOPIC, PRODUCERS, replica_assignment=[[COUNTED]] * PRODUCERS)
    admin.create_topics([placed], operation_timeout=300, request_timeout=300)[TOPIC].result(SECONDS_MAX)
    if not guarded:
        return
    wanted = (
        (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL),
        (ResourceType.TRANSACTIONAL_ID, "loader-", ResourcePatternType.PREFIXED),
    )
    acls = [
        AclBinding(kind, name, pattern, "User:alice", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        for kind, name, pattern in wanted
    ]
    for made in admin.create_acls(acls, request_timeout=300).values():
        made.result(SECONDS_MAX)


class Loaders:
    """The producers. A window ends when each has done its transactions."""

    def __init__(self, cluster: CountedCluster, messages: int) -> None:
        self._messages = messages
        self._pool = ThreadPoolExecutor(PRODUCERS)
        self._together = threading.Barrier(PRODUCERS)
        made = partial(
            TransactionalProducer,
            cluster.cluster.bootstrap,
            settings=cluster.access("alice"),
            patience_s=SECONDS_MAX,
        )
        self._producers = list(self._pool.map(lambda n: made(f"loader-{n}"), range(PRODUCERS)))

    def write(self, transactions: int) -> None:
        """So many of each producer."""
        list(self._pool.map(partial(self._write, transactions), range(PRODUCERS)))

    def _write(self, transactions: int, number: int) -> None:
        records = [Record(TOPIC, b"x" * 100, number)] * self._messages
        self._together.wait()
        for _ in range(transactions):
            outcome = self._producers[number].write(records)
            if outcome is not Outcome.COMMITTED:
                raise RuntimeError(f"a transaction ended as {outcome}: this window counts nothing")


@contextmanager
def counted(folder: Path, slower: int, *, guarded: bool) -> Iterator[CountedCluster]:
    cluster = CountedCluster(folder, slower, guarded=guarded)
    try:
        cluster.start()
        prepare(cluster, guarded=guarded)
        yield cluster
    finally:
        cluster.stop()


def windows_of(
    folder: Path, slower: int, windows: int, transactions: int, messages: int, *, guarded: bool
) -> list[float]:
    """Instructions for each transaction, of each window."""
    found = []
    with counted(folder, slower, guarded=guarded) as cluster:
        loaders = Loaders(cluster, messages)
        loaders.write(3)
        cluster.control("--instr=on")
        loaders.write(transactions)
        cluster.count()
        for number in range(windows):
            loaders.write(transactions)
            found.append(cluster.count() / transactions / PRODUCERS)
            click.echo(f"guarded={guarded} window {number + 1}: {found[-1]:,.0f} a transaction")
    return found


@click.command()
@click.option("--windows", default=5)
@click.option("--transactions", default=10, help="of each producer, in each window")
@click.option("--messages", default=10)
@click.option("--slower", default=50, help="how much the nodes' clocks are")
def main(windows: int, transactions: int, messages: int, slower: int) -> None:
    """Print the instructions of a transaction without an authorizer and with one, and their ratio."""
    medians = []
    with tempfile.TemporaryDirectory(prefix="instructions-") as home:
        for guarded in (False, True):
            folder = Path(home) / ("guarded" if guarded else "open")
            found = windows_of(folder, slower, windows, transactions, messages, guarded=guarded)
            medians.append(statistics.median(found))
            spread = (max(found) - min(found)) / medians[-1]
            click.echo(f"guarded={guarded}: {medians[-1]:,.0f} in the median, windows differ by {spread:.2%}")
    click.echo(f"ratio {medians[1] / medians[0]:.4f}")


if __name__ == "__main__":
    sys.exit(main())
