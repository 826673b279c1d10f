"""``kafka-configs --entity-type users`` of 4.1: it answers the same at a node of Apache Kafka and at ours.

Compared   exit status, standard output, and of standard error the name of the exception and what it says.
"""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.kafka_tools import Tools, tools
from tests.clients.stories import expect
from tests.harness.nodes import Nodes
from tests.ports import free_port

USERS: Final = ("--entity-type", "users")
ALICE: Final = (*USERS, "--entity-name", "alice-of-tools")
BOB: Final = (*USERS, "--entity-name", "bob-of-tools")
BOTH: Final = "SCRAM-SHA-256=[password=b],SCRAM-SHA-512=[iterations=5000,password=b]"
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("--describe", *ALICE),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"),
    ("--alter", *BOB, "--add-config", BOTH),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-512=[password=b]"),
    ("--alter", *BOB, "--add-config", "SCRAM-SHA-256=[password=other]"),
    ("--describe", *USERS),
    ("--describe", *ALICE),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-256=[iterations=4095,password=secret]"),
    ("--alter", *ALICE, "--add-config", "SCRAM-SHA-256=[iterations=16385,password=secret]"),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-512"),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-256", "--add-config", "SCRAM-SHA-512=[password=c]"),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-256"),
    ("--alter", *ALICE, "--delete-config", "SCRAM-SHA-256"),
    ("--alter", *BOB, "--delete-config", "SCRAM-SHA-256"),
    ("--alter", *BOB, "--delete-config", "SCRAM-SHA-512"),
    ("--describe", *USERS),
)  # fmt: skip
_ERROR: Final = re.compile(r"(?:org\.apache\.kafka\.\S+|java\.\S+)Exception: .*")
TOOL: Final = "kafka.admin.ConfigCommand"

Said = tuple[int, str, tuple[str, ...]]
Scenario = Callable[[Nodes], str]


def same_users(cluster: Nodes) -> str:
    """Set, described, refused and removed."""
    with tools() as kafka, tempfile.TemporaryDirectory(prefix="fencepost-users-") as home:
        broker = kafka_broker.Broker(
            Path(home), SETTINGS, node_id=1, port=free_port(), controllers={1: free_port()}
        )
        broker.start()
        try:
            for words in COMMANDS:
                said = [_said(kafka, bootstrap, words) for bootstrap in (cluster.bootstrap, broker.bootstrap)]
                expect(f"kafka-configs {' '.join(words)}", *said)
        finally:
            broker.kill()
    return f"{len(COMMANDS)} commands answer the same"


def _said(kafka: Tools, bootstrap: str, words: tuple[str, ...]) -> Said:
    ended = kafka.run(TOOL, "--bootstrap-server", bootstrap, *words)
    errors = tuple(dict.fromkeys(_ERROR.findall(ended.stderr + ended.stdout)))
    return ended.status, "\n".join(sorted(ended.stdout.splitlines())), errors


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-configs: SCRAM users as at Apache Kafka": (kafka_broker.VERSION, same_users)
}
