"""Kafka's own tools change a topic as our commands do, and both see what the other one did.

Tools       ``kafka-topics --alter``, ``kafka-configs``, ``kafka-delete-records``, ``kafka-log-dirs`` of 4.1;
            ``kafka-dump-log`` of a compacted log has the records that a consumer sees.
Fetched     by Maven into .clients, once: kafka-configs comes with the broker's jars, which no broker is for.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from fencepost.broker.log.offset_checkpoint import CLEANER_FILE, load_offsets
from tests.clients import kafka_broker
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.players import FETCHED, HERE, copied, need
from tests.clients.stories import StoryFailed, expect
from tests.harness.nodes import Nodes, wait_for

TOPIC: Final = "changed-by-tools"
CONFIGS: Final = "kafka.admin.ConfigCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
DELETE: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
DUMP: Final = "kafka.tools.DumpLogSegments"
COMPACTED: Final = "compacted-and-dumped"
COMPACT: Final = (
    "cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "segment.bytes=4000", "delete.retention.ms=0",
)  # fmt: skip
CLEANED_SECONDS_MAX: Final = 90.0  # a cleaner begins every 15 s
_RECORD: Final = re.compile(r"^\| offset: (\d+) .* key: (\S+) payload: (\S+)$", re.MULTILINE)
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
    _assign_partitions(cluster)


def _assign_partitions(cluster: Nodes) -> None:
    """Each tool's list is of all partitions, and only the last one is new."""
    brokers = [*_placed(cluster), 2]
    assigned = ("--replica-assignment", ",".join(map(str, brokers)))
    _tool(cluster, TOPICS, "--alter", "--topic", TOPIC, "--partitions", str(len(brokers)), *assigned)
    expect("by kafka-topics", _placed(cluster), brokers)
    brokers.append(3)
    cluster.run("topics", "alter", "--topic", TOPIC, "--replica-assignment", ",".join(map(str, brokers)))
    expect("by our command", _placed(cluster), brokers)


def _placed(cluster: Nodes) -> list[int]:
    """The broker of each partition."""
    (topic,) = _ours(cluster, "topics", "describe")
    return [each["replicas"][0] for each in topic["partitions"]]


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
    expect("starts", [row["offset"] for row in rows], [1, 2, 0, 0, 0, 0])


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


def compacted_log(cluster: Nodes) -> str:
    """Every segment of a compacted log, dumped deeply: the records that a plain consumer sees, all sound."""
    kafka_broker.fetch()
    configs = [word for each in COMPACT for word in ("--config", each)]
    cluster.run("topics", "create", "--topic", COMPACTED, "--replica-assignment", 1, *configs)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(400):
        producer.produce(COMPACTED, b"value-%d" % number, b"key-%d" % (number % 7), partition=0)
        if number % 10 == 9:
            expect("written", producer.flush(TOOL_SECONDS_MAX), 0)
    folder = cluster.home(1) / f"{COMPACTED}-0"

    def is_cleaned() -> bool | None:
        clean_end = load_offsets(folder.parent / CLEANER_FILE).by_folder.get(folder.name, -1)
        return clean_end >= int(max(folder.glob("*.log")).stem) or None

    wait_for("all but the active segment is clean", is_cleaned, CLEANED_SECONDS_MAX)
    copy = cluster.directory / COMPACTED
    shutil.copytree(folder, copy)
    files = ",".join(str(file) for file in sorted(copy.glob("*.log")))
    said = run_java(DUMP, "--deep-iteration", "--print-data-log", "--files", files)
    dumped = [(int(offset), key, value) for offset, key, value in _RECORD.findall(said)]
    expect("what is wrong", [line for line in said.splitlines() if "isvalid: false" in line], [])
    expect("records", dumped, _consumed(cluster))
    clean_end = int(max(copy.glob("*.log")).stem)
    keys = [key for offset, key, _ in dumped if offset < clean_end]
    expect("keys of what is clean", len(keys), len(set(keys)))
    return f"{len(dumped)} records of 400, each key once in what is clean"


def _consumed(cluster: Nodes) -> list[tuple[int, str, str]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": COMPACTED, "log_level": 0,
            "enable.partition.eof": True, "isolation.level": "read_uncommitted",
        }
    )  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(COMPACTED, 0, 0)])
    found: list[tuple[int, str, str]] = []
    while (message := consumer.poll(TOOL_SECONDS_MAX)) is not None and message.error() is None:
        key, value = message.key() or b"", message.value() or b""
        found.append((message.offset() or 0, key.decode(), value.decode()))
    consumer.close()
    return found


def _ours(cluster: Nodes, *words: str) -> Any:
    return cluster.read(*words, "--topic", TOPIC)


def _tool(cluster: Nodes, tool: str, *words: str, status: int = 0) -> str:
    """What it prints. Raises StoryFailed."""
    return run_java(tool, "--bootstrap-server", cluster.bootstrap, *words, status=status)


def run_java(tool: str, *words: str, status: int = 0) -> str:
    """What a tool of Kafka's prints. Raises NotHere, StoryFailed."""
    need("java", "mvn")
    if tool in (CONFIGS, DUMP):
        jars = kafka_broker._folder(kafka_broker.VERSION) / "lib"
    else:
        jars = copied(HERE / "tools/pom.xml", FETCHED / "tools")
    command = ["java", *_JVM, "-cp", f"{jars}/*", tool, *words]
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
    ),
    "kafka-dump-log: a compacted log": (kafka_broker.VERSION, compacted_log),
}
