"""Kafka's own ``kafka-transactions`` and our commands are asked the same; they must answer the same.

Compared    every column of every row, as Kafka prints it; only what the clock says may differ.
Fetched     by Maven into .clients, once: 41 MB, most of it what the other tools of the package need.
"""

import subprocess
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka

from fencepost.cli.output import snake_case
from fencepost.cli.transaction_output import BEYOND_KAFKA, LISTED, LISTED_TWO_PHASE
from tests.clients.hanging import HANGING_PRODUCER_ID, leave_hanging
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import WAIT_SECONDS_MAX, StoryFailed, expect
from tests.harness.nodes import Nodes

VERSION: Final = "4.1.0"
TOOL_SECONDS_MAX: Final = 60.0
CLOCK: Final = frozenset(
    {"TransactionDurationMs"}
)  # told in milliseconds, by two commands one after the other
APART: Final = {snake_case(each) for each in BEYOND_KAFKA | CLOCK | {*LISTED_TWO_PHASE} - {*LISTED}}
"""Columns that only our command has, and the clock's."""

OPEN: Final = "tool-open"
OPEN_MS: Final = 900_000  # Kafka's longest: a dozen JVMs begin and end meanwhile
STATES: Final = {"tool-ended": "CompleteCommit", OPEN: "Ongoing", "tool-empty": "Empty"}
SAME: Final = (
    ("list",),
    ("list", "--duration-filter", "0"),
    ("list", "--duration-filter", "-1"),
    ("list", "--transactional-id-pattern", "tool-e.*"),
    *(("describe", "--transactional-id", each) for each in STATES),
    ("describe-producers", "--topic", "tool", "--partition", "0"),
    ("describe-producers", "--topic", "tool", "--partition", "0", "--broker-id", "1"),
    ("find-hanging", "--topic", "tool", "--max-transaction-timeout", "0"),
)
REFUSED: Final = (
    (1, ("describe", "--transactional-id", "tool-nobody")),
    (1, ("list", "--transactional-id-pattern", "((")),
    (3, ("describe-producers", "--topic", "tool", "--partition", "0", "--broker-id", "2")),
    (1, ("abort", "--topic", "tool", "--partition", "0", "--start-offset", "77")),
)
"""With our exit status; Kafka's is 1."""

Scenario = Callable[[Nodes], str]
Rows = list[dict[str, str]]


def same_answers(cluster: Nodes) -> str:
    """A transaction that is committed, one that is open, a producer without any."""
    kafka = _Kafka(cluster)
    cluster.run("topics", "create", "--topic", "tool", "--replica-assignment", "1")
    producers = {each: _producer(cluster, each) for each in STATES}
    for each in ("tool-ended", OPEN):
        producers[each].begin_transaction()
        producers[each].produce("tool", b"value", partition=0)
        producers[each].flush(WAIT_SECONDS_MAX)
    producers["tool-ended"].commit_transaction(WAIT_SECONDS_MAX)
    for words in SAME:
        expect(" ".join(words), kafka.rows(*words), _ours(cluster, *words))
    listed = kafka.rows("list", "--transactional-id-pattern", "tool-.*")
    expect("states", {each["transactional_id"]: each["transaction_state"] for each in listed}, STATES)
    for status, words in REFUSED:
        kafka.run(*words, status=1)
        cluster.run("transactions", *words, status=status)
    kafka.run("forceTerminateTransaction", "--transactionalId", OPEN)
    (ended,) = _ours(cluster, "describe", "--transactional-id", OPEN)
    expect(
        "after forceTerminateTransaction",
        (ended["transaction_state"], ended["topic_partitions"]),
        ("Empty", ""),
    )
    return f"{len(SAME)} questions have one answer; what one refuses, the other does; forced to terminate"


def hanging(cluster: Nodes) -> str:
    """A transaction that no coordinator knows: both find it, Kafka's tool ends it."""
    kafka = _Kafka(cluster)
    cluster.run("topics", "create", "--topic", "tool-hung", "--replica-assignment", "1")
    leave_hanging(cluster, "tool-hung")
    for where in (("--topic", "tool-hung"), ("--broker-id", "1")):
        words = ("find-hanging", *where, "--max-transaction-timeout", "0")
        found = kafka.rows(*words)
        expect(" ".join(words), found, _ours(cluster, *words, status=1))
        expect("found", [each["producer_id"] for each in found], [str(HANGING_PRODUCER_ID)])
    partition = ("--topic", "tool-hung", "--partition", "0")
    kafka.run("abort", *partition, "--start-offset", found[0]["start_offset"])
    expect("none is left", kafka.rows(*words), [])
    described = ("describe-producers", *partition)
    expect("describe-producers", kafka.rows(*described), _ours(cluster, *described))
    cluster.run("transactions", *words)
    return "both find it; gone after the tool's abort"


class _Kafka:
    """Kafka's command on a cluster."""

    def __init__(self, cluster: Nodes) -> None:
        """Raises NotHere."""
        need("java", "mvn")
        folder = copied(HERE / "tools/pom.xml", FETCHED / "tools")
        tool = "org.apache.kafka.tools.TransactionsCommand"
        self._command = ["java", "-cp", f"{folder}/*", tool, "--bootstrap-server", cluster.bootstrap]

    def run(self, *words: str, status: int = 0) -> str:
        """What it prints. Raises StoryFailed."""
        try:
            ended = subprocess.run(
                [*self._command, *words],
                capture_output=True,
                text=True,
                timeout=TOOL_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StoryFailed(f"'{' '.join(words)}' did not end in {TOOL_SECONDS_MAX:.0f} s") from None
        if ended.returncode != status:
            raise StoryFailed(f"'{' '.join(words)}' ended with {ended.returncode}: {ended.stderr[-500:]}")
        return ended.stdout

    def rows(self, *words: str) -> Rows:
        """The table that it prints: every cell is padded, and ends with a tab."""
        header, *lines = (line.split("\t")[:-1] for line in self.run(*words).splitlines())
        names = [snake_case(each) for each in header]
        rows = (dict(zip(names, (each.strip() for each in line), strict=True)) for line in lines)
        return _timeless(rows)


def _ours(cluster: Nodes, *words: str, status: int = 0) -> Rows:
    said = cluster.read("transactions", *words, status=status)
    described = said if isinstance(said, list) else said.get("hanging", [said])
    return _timeless({name: _printed(value) for name, value in row.items()} for row in described)


def _printed(value: Any) -> str:
    """As Kafka's tool prints it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _timeless(rows: Any) -> Rows:
    """Without the columns that only our command has, and the clock; in one order."""
    kept = ({name: row[name] for name in row if name not in APART} for row in rows)
    return sorted(kept, key=lambda row: sorted(row.items()))


def _producer(cluster: Nodes, transactional_id: str) -> Any:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": OPEN_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_SECONDS_MAX)
    return producer


SCENARIOS: Final[dict[str, Scenario]] = {
    "kafka-transactions: the answers of our commands": same_answers,
    "kafka-transactions: a hanging transaction": hanging,
}
