"""Apache Flink: a job copies a topic into another one exactly once, by checkpoints, while all is killed.

Sink       KafkaSink, EXACTLY_ONCE, with both of its ways to name transactions. A job that goes on from a
           checkpoint commits the transactions of it by their producer ids and epochs, without InitProducerId.
Killed     the job (SIGKILL) between two checkpoints; the leader; both at once, in an order drawn from
           FLINK_SEED. The job goes on from the newest checkpoint on disk.
Fetched    by Maven into .clients, once.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from fencepost.client.read_back import READ_COMMITTED
from tests.clients.libraries import confluent_read
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed, expect
from tests.harness.nodes import Nodes, wait_for

NAME: Final = "flink"
VERSION: Final = "2.2.1"
SEED: Final = int(os.environ.get("FLINK_SEED", "1"))
NAMINGS: Final = ("INCREMENTING", "POOLING")
LINES: Final = 1_000  # written around each strike
LINE_S: Final = 0.005
WAIT_S_MAX: Final = 240.0
OPENED: Final = ("java.base/java.util", "java.base/java.lang", "java.base/java.time", "java.base/java.net")


class Job:
    """One process of Copies.java with its MiniCluster."""

    def __init__(self, jars: Path, folder: Path, arguments: list[str]) -> None:
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.checkpoints.mkdir(parents=True)
        opened = (f"--add-opens={each}=ALL-UNNAMED" for each in OPENED)
        program = str(HERE / "flink/Copies.java")
        self._command = ["java", "-Xmx512m", *opened, "-cp", f"{jars}/*", program]
        self._arguments = [str(self.checkpoints), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstrap: str) -> None:
        with (self.folder / "out.txt").open("ab") as out:
            command = [*self._command, bootstrap, *self._arguments]
            self._process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def count(self) -> int:
        """Checkpoints that are kept on disk, of all its lives."""
        return len(list(self.checkpoints.glob("*/chk-*/_metadata")))

    def restored(self) -> int:
        """How many of its lives went on from a checkpoint."""
        said = (self.folder / "out.txt").read_text("utf-8", "replace").splitlines()
        return sum(line.startswith("from ") for line in said)


def copied_once(naming: str, cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    need("java", "mvn")
    jars = copied(HERE / "flink/pom.xml", FETCHED / "flink")
    source, target = (f"flink-{naming.lower()}-{each}" for each in ("in", "out"))
    for topic in (source, target):
        cluster.run("topics", "create", "--topic", topic, "--partitions", 1)
    job = Job(jars, logs / f"flink-{naming.lower()}", [naming, source, target])
    rng = random.Random(SEED)
    lines = Lines(cluster.bootstrap, source, rng)
    strikes: tuple[Callable[[], None], ...] = (
        partial(_kill_job, cluster, job, lines),
        partial(_kill_leader, cluster, lines),
        partial(_kill_both, cluster, job, lines),
    )
    with ExitStack() as stack:
        stack.callback(job.kill)
        job.start(cluster.bootstrap)
        for strike in rng.sample(strikes, len(strikes)):
            lines.go_on()
            wait_for(f"a checkpoint is there, see {job.folder}", job.count, WAIT_S_MAX)
            lines.go_on()
            strike()
        lines.end()
        expected = [f"line {number}" for number in range(lines.written)]

        def all_came() -> bool:
            return len(_read(cluster, target, lines.written)) >= lines.written

        wait_for(f"all lines are committed, see {job.folder}", all_came, WAIT_S_MAX)
        time.sleep(2.0)  # some checkpoints more: what would come twice comes now
    found = _read(cluster, target, 2 * lines.written)
    expect("lines", len(found), len(expected))
    if sorted(found) != sorted(expected):
        raise StoryFailed(f"{len(set(expected) - set(found))} lines are missing, others are there twice")
    expect("lives that went on from a checkpoint", job.restored(), 2)
    return f"{lines.written} lines, each once, by three lives of the job, two of them from a checkpoint"


class Lines:
    """What is written into the source."""

    def __init__(self, bootstrap: str, topic: str, rng: random.Random) -> None:
        self.written = 0
        self._topic = topic
        self._rng = rng
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
        }
        self._producer = Producer(settings)

    def go_on(self) -> None:
        """Some more, so many that a strike falls anywhere between two checkpoints."""
        for _ in range(self._rng.randint(LINES // 2, LINES)):
            self._producer.produce(self._topic, f"line {self.written}".encode(), partition=0)
            self._producer.poll(0)
            self.written += 1
            time.sleep(LINE_S)

    def end(self) -> None:
        if self._producer.flush(60):
            raise StoryFailed("lines were not written in a minute")


def _read(cluster: Nodes, topic: str, count: int) -> list[str]:
    return confluent_read(cluster.bootstrap, topic, count, READ_COMMITTED)


def _kill_job(cluster: Nodes, job: Job, lines: Lines) -> None:
    job.kill()
    lines.go_on()
    job.start(cluster.bootstrap)


def _kill_leader(cluster: Nodes, lines: Lines) -> None:
    leader = cluster.leader()
    cluster.kill(leader)
    lines.go_on()
    cluster.start(leader)


def _kill_both(cluster: Nodes, job: Job, lines: Lines) -> None:
    job.kill()
    _kill_leader(cluster, lines)
    job.start(cluster.bootstrap)


SCENARIOS: Final = {
    f"a job copies lines once while all is killed ({naming.lower()})": partial(copied_once, naming)
    for naming in NAMINGS
}
