"""Kafka's own tools change a topic as our commands do, and both see what the other one did.

Tools       ``kafka-topics --alter``, ``kafka-configs``, ``kafka-delete-records``, ``kafka-log-dirs`` of 4.1.
Fetched     by Maven into .clients, once: kafka-configs comes with the broker's jars, which no broker is for.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from tests.clients import kafka_broker
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.players import FETCHED, HERE, copied
from tests.clients.stories import StoryFailed, expect
from tests.harness.nodes import Nodes

TOPIC: Final = "changed-by-tools"
CONFIGS: Final = "kafka.admin.ConfigCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
DELETE: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Scenario = Callable[[Nodes], str]


def same_changes(cluster: Nodes) -> str:
    """Partitions, settings, records and sizes, changed by the one and looked at by the other."""
    kafka_broker.fetch()
    cluster.run("topics", "create", "--topic", TOPIC, "--partitions", 2)
    _change_partitions(cluster)
    _change_settings(cluster)
    _delete_records(cluster)
    _describe_sizes(cluster)
    return "partitions, settings, the starts of logs and their sizes are the same for both"


def _change_partitions(cluster: Nodes) -> None:
    _tool(cluster, TOPICS, "--alter", "--topic", TOPIC, "--partitions", "3")
    expect("by kafka-topics", _ours(cluster, "topics", "describe")[0]["partition_count"], 3)
    cluster.run("topics", "alter", "--topic", TOPIC, "--partitions", 4)
    said = _tool(cluster, TOPICS, "--describe", "--topic", TOPIC)
    expect("by our command", "PartitionCount: 4" in said, True)
    _tool(cluster, TOPICS, "--alter", "--topic", TOPIC, "--partitions", "2", status=1)
    cluster.run("topics", "alter", "--topic", TOPIC, "--partitions", 2, status=1)


def _change_settings(cluster: Nodes) -> None:
    entity = ("--entity-type", "topics", "--entity-name", TOPIC)
    _tool(cluster, CONFIGS, *entity, "--alter", "--add-config", "retention.ms=86400000,flush.messages=7")
    found = {row["name"]: row["value"] for row in _ours(cluster, "configs", "describe")}
    expect("by kafka-configs", found, {"flush.messages": "7", "retention.ms": "86400000"})
    cluster.run("configs", "alter", "--topic", TOPIC, "--delete-config", "flush.messages")
    said = _tool(cluster, CONFIGS, *entity, "--describe")
    settings = [line.split() for line in said.splitlines() if line.startswith("  ")]
    expect("by our command", [each[0] for each in settings], ["retention.ms=86400000"])
    _tool(cluster, CONFIGS, *entity, "--alter", "--add-config", "retention.ms=x", status=1)


def _delete_records(cluster: Nodes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for index in (0, 0, 1, 1):
        producer.produce(TOPIC, b"value", partition=index)
    expect("written", producer.flush(TOOL_SECONDS_MAX), 0)
    file: Path = cluster.directory / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "offset": 1}]}))
    said = _tool(cluster, DELETE, "--offset-json-file", str(file))
    expect("by kafka-delete-records", f"partition: {TOPIC}-0\tlow_watermark: 1" in said, True)
    cluster.run("topics", "delete-records", "--topic", TOPIC, "--partition", 1, "--offset", -1)
    rows = _ours(cluster, "get-offsets", "--time", "earliest")
    expect("starts", [row["offset"] for row in rows], [1, 2, 0, 0])


def _describe_sizes(cluster: Nodes) -> None:
    said = _tool(cluster, LOG_DIRS, "--describe", "--topic-list", TOPIC)
    document = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    found = {
        row["partition"]: row["size"]
        for broker in document["brokers"]
        for directory in broker["logDirs"]
        for row in directory["partitions"]
    }
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.glob("*.log"))
        for node in cluster.node_ids
        for folder in cluster.home(node).glob(f"{TOPIC}-*")
    }
    expect("sizes", found, sizes)


def _ours(cluster: Nodes, *words: str) -> Any:
    return cluster.read(*words, "--topic", TOPIC)


def _tool(cluster: Nodes, tool: str, *words: str, status: int = 0) -> str:
    """What it prints. Raises StoryFailed."""
    if tool == CONFIGS:
        jars = kafka_broker._folder(kafka_broker.VERSION) / "lib"
    else:
        jars = copied(HERE / "tools/pom.xml", FETCHED / "tools")
    command = ["java", *_JVM, "-cp", f"{jars}/*", tool, "--bootstrap-server", cluster.bootstrap, *words]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise StoryFailed(f"{words} did not end in {TOOL_SECONDS_MAX:.0f} s") from None
    if ended.returncode != status:
        said = f"{ended.stdout[-300:]}{ended.stderr[-500:]}"
        raise StoryFailed(f"{words} ended with {ended.returncode}: {said}")
    return ended.stdout


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-topics, -configs, -delete-records, -log-dirs: as our commands": (
        kafka_broker.VERSION,
        same_changes,
    )
}
