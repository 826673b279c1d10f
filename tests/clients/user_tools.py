"""``kafka-configs --entity-type users`` of 4.1: it answers the same at a node of Apache Kafka and at ours.

Compared   exit status, standard output, and of standard error the name of the exception and what it says.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients import kafka_broker
from tests.clients.explained import SETTINGS
from tests.clients.java_tools import TOOL_SECONDS_MAX
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
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Said = tuple[int, str, tuple[str, ...]]
Scenario = Callable[[Nodes], str]


def same_users(cluster: Nodes) -> str:
    """Set, described, refused and removed."""
    kafka_broker.fetch()
    with tempfile.TemporaryDirectory(prefix="fencepost-users-") as home:
        broker = kafka_broker.Broker(
            Path(home), SETTINGS, node_id=1, port=free_port(), controllers={1: free_port()}
        )
        broker.start()
        try:
            for words in COMMANDS:
                theirs = _said(broker.bootstrap, words)
                expect(f"kafka-configs {' '.join(words)}", _said(cluster.bootstrap, words), theirs)
        finally:
            broker.kill()
    return f"{len(COMMANDS)} commands answer the same"


def _said(bootstrap: str, words: tuple[str, ...]) -> Said:
    command = [
        "java", *_JVM, "-cp", kafka_broker.class_path(), "kafka.admin.ConfigCommand",
        "--bootstrap-server", bootstrap, *words,
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False)
    errors = tuple(dict.fromkeys(_ERROR.findall(ended.stderr + ended.stdout)))
    return ended.returncode, "\n".join(sorted(ended.stdout.splitlines())), errors


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-configs: SCRAM users as at Apache Kafka": (kafka_broker.VERSION, same_users)
}
