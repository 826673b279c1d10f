"""Two owners of one partition, one after the other: does the first one's output stay when it wakes up?

Story     The first reads a record, writes its output and its offset in a transaction, and is stopped before
          it commits. Its session ends; the second gets the partition, and reads and commits everything. Then
          the first goes on, and commits.
Ways      ``member``: each member has a transactional id of its own, commits without a generation, and fetches
          offsets without waiting for pending ones. ``partition``: one transactional id per input partition,
          initialized before the offset is fetched. ``named`` (sarama, from Version 2.5 on): as ``member``,
          but with the generation in each commit.
Member    a process:  PROGRAM BOOTSTRAP GROUP SOURCE TARGET OWNER WAY. It writes ``pending OFFSET`` when all
          of a transaction but its commit is done, then reads a line, commits, and writes
          ``committed OFFSET``; or ``failed`` and what the library says, and ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import IO, Final

from confluent_kafka import Producer

from tests.clients import go_programs
from tests.clients.libraries import confluent_read
from tests.clients.players import HERE, ROOT, installed_kafkajs
from tests.clients.stories import StoryFailed
from tests.harness.nodes import Nodes, wait_for

RECORDS: Final = [str(number) for number in range(6)]
MEMBER, PARTITION, NAMED = "member", "partition", "named"
SECONDS_MAX: Final = 40.0


class Owner:
    """One member, in a process of its own."""

    def __init__(self, command: list[str], words: list[str], folder: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as out, log.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, *words], cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

    def said(self, word: str) -> list[str]:
        """What came behind this word, a line each."""
        lines = [line.partition(" ") for line in self._log.read_text().splitlines(keepends=False)]
        return [rest for first, _, rest in lines if first == word]

    def await_word(self, word: str, times: int = 1) -> str:
        """Wait for it so many times."""

        def look() -> list[str] | None:
            found = self.said(word)
            return found if len(found) >= times else None

        return wait_for(f"'{word}' in {self._log}", look, SECONDS_MAX)[-1]

    def go_on(self, times: int = 1) -> None:
        """It may commit so many times."""
        stdin: IO[bytes] | None = self.process.stdin
        assert stdin is not None
        stdin.write(b"\n" * times)
        stdin.flush()

    def end(self) -> None:
        """At once; stopped or not."""
        self.process.kill()
        self.process.communicate()


Command = Callable[[], tuple[list[str], Path]]
"""The program and the folder that it runs in. Raises NotHere."""


def _aiokafka() -> tuple[list[str], Path]:
    return [sys.executable, "-W", "ignore", "-m", "tests.clients.aiokafka_owner"], ROOT


def _kafkajs() -> tuple[list[str], Path]:
    return ["node", str(HERE / "kafkajs/owner.js")], installed_kafkajs()


COMMANDS: Final[Mapping[str, Command]] = {
    "aiokafka": _aiokafka,
    "kafkajs": _kafkajs,
    "sarama": partial(go_programs.built, "owner"),
}


def take_over(cluster: Nodes, library: str, way: str, logs: Path) -> tuple[list[str], str]:
    """Play the story. The values that are read at the end, and what the first owner's commit gave.

    Raises NotHere.
    """
    command, folder = COMMANDS[library]()
    group = f"{library}-{way}-{os.urandom(3).hex()}"
    source, target = f"{group}-in", f"{group}-out"
    for topic in (source, target):
        cluster.run("topics", "create", "--topic", topic, "--partitions", "1")
    fill(cluster, source, 0, RECORDS)
    with ExitStack() as stack:

        def owner(name: str) -> Owner:
            words = [cluster.bootstrap, group, source, target, f"{group}-{name}", way]
            made = Owner(command, words, folder, logs / f"{group}-{name}.out")
            stack.callback(made.end)
            return made

        first = owner("first")
        first.await_word("pending")
        first.process.send_signal(signal.SIGSTOP)
        second = owner("second")
        second.go_on(len(RECORDS))
        second.await_word("committed", len(RECORDS))
        first.process.send_signal(signal.SIGCONT)
        first.go_on()
        wait_for(
            "the first owner's commit", lambda: first.said("committed") or first.said("failed"), SECONDS_MAX
        )
        outcome = "committed" if first.said("committed") else first.said("failed")[0]
    return confluent_read(cluster.bootstrap, target, len(RECORDS) + 2, "read_committed"), outcome


def duplicated(library: str, cluster: Nodes, logs: Path) -> str:
    """One transactional id per member: what the documentation warns of. Raises StoryFailed, NotHere."""
    found, outcome = take_over(cluster, library, MEMBER, logs)
    if sorted(found) != sorted([RECORDS[0], *RECORDS]) or outcome != "committed":
        raise StoryFailed(f"the trap is not there any more: {found}, the first owner {outcome}")
    return "each member its own transactional id: one output twice, as documented"


def once(library: str, way: str, cluster: Nodes, logs: Path) -> str:
    """What protects: the first owner's commit fails. Raises StoryFailed, NotHere."""
    found, outcome = take_over(cluster, library, way, logs)
    if found != RECORDS or outcome == "committed":
        raise StoryFailed(f"{found}, the first owner {outcome}")
    return f"each output once; the first owner: {outcome}"


Scenario = Callable[[Nodes, Path], str]
VERSIONS: Final = {"aiokafka": version("aiokafka"), "kafkajs": "2.2.4", "sarama": go_programs.SARAMA_VERSION}
TRAP: Final = "two owners, an id for each member"
SAFE: Final = "two owners, an id for each partition"
SCENARIOS: Final[Mapping[str, Mapping[str, Scenario]]] = {
    library: {TRAP: partial(duplicated, library), SAFE: partial(once, library, PARTITION)}
    | (
        {"two owners, a generation in each commit": partial(once, library, NAMED)}
        if library == "sarama"
        else {}
    )
    for library in COMMANDS
}
"""By library."""


def fill(cluster: Nodes, topic: str, partition: int, values: Iterable[str]) -> None:
    """Write these. Raises StoryFailed."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    if producer.flush(SECONDS_MAX):
        raise StoryFailed(f"{topic} could not be written")
