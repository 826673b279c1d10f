"""Kafka's own ``kafka-acls`` and our command add, list and remove the same, on a cluster with users."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.clients.java_tools import VERSION
from tests.clients.stories import expect
from tests.clients.topic_tools import run_java
from tests.harness.guarded import USERS, acls, brokers, guarded_cluster
from tests.harness.nodes import Nodes

TOOL: Final = "org.apache.kafka.tools.AclCommand"
LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
ALLOWS: Final = ("--allow-principal", "User:tool")
ADDED: Final = (
    (*ALLOWS, "--operation", "Read", "--topic", "tool-a", "--topic", "tool-b"),
    ("--deny-principal", "User:tool", "--deny-host", "10.0.0.1", "--topic", "tool-a"),
    (*ALLOWS, "--producer", "--topic", "tool-", "--resource-pattern-type", "prefixed"),
    (*ALLOWS, "--producer", "--idempotent", "--topic", "tool-c", "--transactional-id", "tool"),
    (*ALLOWS, "--consumer", "--topic", "tool-d", "--group", "tool"),
    (*ALLOWS, "--operation", "DescribeConfigs", "--cluster"),
)


def same_acls(_: Nodes) -> str:
    """What the one adds the other lists alike, and removes."""
    with tempfile.TemporaryDirectory() as named, guarded_cluster(Path(named)) as nodes:
        config = Path(named) / "client.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={LOGIN} required username="broker" password="{USERS["broker"]}";\n'
        )

        def kafka(*words: str) -> str:
            where = ("--bootstrap-server", brokers(nodes))
            return run_java(TOOL, "--command-config", str(config), *where, *words)

        return _compared(nodes, kafka)


def _compared(nodes: Nodes, kafka: Callable[..., str]) -> str:
    def ours(*words: str) -> str:
        ended = acls(nodes, *words)
        expect(f"acls {words}", ended.status, 0)
        return str(ended.stdout)

    def listed(*words: str) -> list[str]:
        theirs = _lines_of(kafka("--list", *words))
        expect(f"listed by {words}", _lines_of(ours("list", *words)), theirs)
        return [each for each in theirs if each.startswith("(")]

    of_tool = ("--principal", "User:tool")
    for words in ADDED:
        kafka("--add", *words)
    by_kafka = listed(*of_tool)
    expect("entries", len(by_kafka), 16)
    for words in ADDED:
        kafka("--remove", "--force", *words)
    expect("after kafka-acls removed them", listed(*of_tool), [])
    for words in ADDED:
        ours("add", *words)
    expect("added by our command", listed(*of_tool), by_kafka)
    listed("--topic", "tool-a", "--resource-pattern-type", "match")
    for words in ADDED:
        ours("remove", *words)
    expect("after our command removed them", listed(*of_tool), [])
    return f"{len(by_kafka)} entries of {len(ADDED)} commands are the same for both"


def _lines_of(text: str) -> list[str]:
    """The resources and entries that are listed, in any order: Kafka's tool promises none."""
    wanted = (each.strip() for each in text.splitlines())
    return sorted(each for each in wanted if each.startswith(("Current", "(principal")))


SCENARIOS: Final[dict[str, tuple[str, Callable[[Nodes], str]]]] = {
    "kafka-acls: as our command": (VERSION, same_acls)
}
