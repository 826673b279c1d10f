"""Kafka's own ``kafka-consumer-groups`` and ``kafka-get-offsets``, run on any cluster, their tables read.

Fetched     by Maven into .clients, once, with what ``kafka-transactions`` needs (java_tools.py).
Status      of ``kafka-consumer-groups`` is 0 for most errors, which it prints to stdout.
"""

import re
import subprocess
from collections.abc import Set
from typing import Final, NamedTuple

from fencepost.cli.output import snake_case
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed

COORDINATOR: Final = frozenset({"coordinator_id"})
HEADS: Final = ("GROUP", "TOPIC ")
_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_NAME: Final = re.compile(r"\S+(?: \(ID\))?")
_NOT_SAID: Final = re.compile(r"SLF4J: .*\n")

Rows = list[dict[str, str]]


class Said(NamedTuple):
    """What a tool printed."""

    status: int
    stdout: str
    stderr: str


class Tools:
    """Kafka's tools. Raises NotHere without Java or Maven."""

    def __init__(self) -> None:
        need("java", "mvn")
        self._jars = copied(HERE / "tools/pom.xml", FETCHED / "tools")

    def groups(self, bootstrap: str, *words: object) -> Said:
        """``kafka-consumer-groups``. Raises StoryFailed if it does not end."""
        return self._run(_GROUPS, bootstrap, *words)

    def offsets(self, bootstrap: str, *words: object) -> Said:
        """``kafka-get-offsets``. Raises StoryFailed if it does not end."""
        return self._run(_OFFSETS, bootstrap, *words)

    def rows(self, bootstrap: str, *words: object, without: Set[str] = frozenset()) -> Rows:
        """The tables that ``kafka-consumer-groups`` prints, in one order, but for these columns."""
        said = self.groups(bootstrap, *words)
        if said.status or "Error: " in said.stdout:
            raise StoryFailed(f"{words}: status {said.status}: {said.stdout}{said.stderr}")
        return in_order(
            [{name: row[name] for name in row if name not in without} for row in table_of(said.stdout)]
        )

    def _run(self, tool: str, bootstrap: str, *words: object) -> Said:
        where = ("-cp", f"{self._jars}/*", tool, "--bootstrap-server", bootstrap)
        try:
            ended = subprocess.run(
                ["java", *_JVM, *where, *map(str, words)],
                capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise StoryFailed(f"{words} did not end in {TOOL_SECONDS_MAX:.0f} s") from None
        return Said(ended.returncode, ended.stdout, _NOT_SAID.sub("", ended.stderr))


def table_of(stdout: str) -> Rows:
    """Each row by column, as our JSON names it. A column begins where its name does in the head above it."""
    rows: Rows = []
    names: list[tuple[str, int]] = []
    for line in stdout.splitlines():
        if line.startswith(HEADS):
            names = [(snake_case(found.group()), found.start()) for found in _NAME.finditer(line)]
        elif names and line.strip():
            ends = [*(start for _, start in names[1:]), None]
            cells = (line[start:end] for (_, start), end in zip(names, ends, strict=True))
            rows.append({name: " ".join(cell.split()) for (name, _), cell in zip(names, cells, strict=True)})
    return rows


def in_order(rows: Rows) -> Rows:
    """By all that is in them: neither tool promises an order."""
    return sorted(rows, key=lambda row: sorted(row.items()))
