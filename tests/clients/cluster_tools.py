"""Tools of Kafka 4.1 for topics, records, log directories and the cluster: as at a node of Apache Kafka.

Tools      ``kafka-topics``, ``kafka-delete-records``, ``kafka-get-offsets``, ``kafka-log-dirs``, and
           ``kafka-cluster`` (DescribeCluster, of brokers and of controllers).
Compared   exit status, every line, and the names of the exceptions; one node each.
Apart      ids, ports, folders, what an error says beside its name, eligible leader replicas (which need
           DescribeTopicPartitions), and ``min.insync.replicas``, which Kafka 4.1 sets for them.
"""

import json
import re
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka

from tests.clients import kafka_broker
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.kafka_tools import Side, Tools, both, tools
from tests.clients.stories import expect
from tests.harness.nodes import Nodes
from tests.wire import kafka_keys

TOPIC: Final = "looked-at-by-tools"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
DELETE: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
CLUSTER: Final = "org.apache.kafka.tools.ClusterTool"
_OF: Final = ("--topic", TOPIC)
_ALTER: Final = (TOPICS, "--alter", *_OF, "--partitions")
_LOGS: Final = (LOG_DIRS, "--describe", "--topic-list")
_STARTS: Final = (OFFSETS, *_OF, "--time", "earliest")
RECORDS: Final = (0, 0, 0, 0, 1, 1)  # their partitions
DELETED: Final = ([(0, 2), (1, -1)], [(0, 1)], [(0, 5)], [(77, 0)], [(0, -2)], [(0, 4), (0, 4)])
"""Partitions and offsets of the files of ``kafka-delete-records``."""

BEFORE: Final[tuple[tuple[str, ...], ...]] = (
    (TOPICS, "--create", *_OF, "--replica-assignment", "1,1", "--config", "retention.ms=700000000"),
    (TOPICS, "--create", *_OF, "--partitions", "1"),
    (*_ALTER, "3"),
    (*_ALTER, "3"),
    (*_ALTER, "2"),
    (*_ALTER, "5", "--replica-assignment", "1,1,1,1,1"),
    (*_ALTER, "6", "--replica-assignment", "1,1"),
    (*_ALTER, "6", "--replica-assignment", "1,1,1,1,1,9"),
    (*_ALTER, "6", "--replica-assignment", "1,1,1,1,1,1:1"),
    (TOPICS, "--alter", "--topic", "no-such-topic", "--partitions", "3"),
    (TOPICS, "--alter", "--topic", "no-such-topic", "--partitions", "3", "--if-exists"),
    (TOPICS, "--describe", *_OF),
    (TOPICS, "--describe", "--topic", "no-such-topic"),
    _STARTS,
)  # fmt: skip
AFTER: Final[tuple[tuple[str, ...], ...]] = (
    _STARTS,
    (OFFSETS, *_OF, "--time", "latest"),
    (*_LOGS, TOPIC, "--broker-list", "1"),
    (*_LOGS, "no-such-topic", "--broker-list", "1"),
    (*_LOGS, TOPIC, "--broker-list", "9"),
    (CLUSTER, "list-endpoints"),
    (CLUSTER, "list-endpoints", "--include-fenced-brokers"),
    (CLUSTER, "unregister", "--id", "99"),
    (TOPICS, "--delete", *_OF),
    (TOPICS, "--delete", *_OF),
)
OF_CONTROLLERS: Final = ((CLUSTER, "list-endpoints"), (CLUSTER, "list-endpoints", "--include-fenced-brokers"))

_ERROR: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")
_APART: Final = re.compile(r"TopicId: \S+|\tElr:.*|min\.insync\.replicas=1,?")
_ENDPOINT: Final = re.compile(r"^(\d+)\s+(\S+)\s+(\d+)\s+(.*)$")

Scenario = Callable[[Nodes], str]


class Said(NamedTuple):
    status: int
    lines: tuple[str, ...]
    errors: frozenset[str]


def same_answers(_: Nodes) -> str:
    """A topic that is made, grows, is written to, loses records, is measured, and is deleted."""
    with tools() as kafka, both() as (ours, theirs), tempfile.TemporaryDirectory() as folder:
        expect("keys of Kafka's broker", _keys(theirs.bootstrap), kafka_keys.BROKER)
        expect("keys of Kafka's controller", _keys(theirs.controller), kafka_keys.CONTROLLER)
        count = sum(_compare(kafka, ours, theirs, Path(folder)))
    return f"{count} commands answer the same"


def _keys(address: str) -> kafka_keys.Keys:
    """What it answers to ApiVersions, version 0."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TOOL_SECONDS_MAX) as connection:
        connection.sendall(struct.pack(">ihhihc", 11, 18, 0, 1, 1, b"x"))
        with connection.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            body = answer.read(length)
    return {key: (first, last) for key, first, last in struct.iter_unpack(">hhh", body[10:])}


def _compare(kafka: Tools, ours: Side, theirs: Side, folder: Path) -> Iterator[int]:
    """One for each command. Raises StoryFailed."""
    for words in BEFORE:
        yield _same(kafka, words, ours, theirs)
    for side in (ours, theirs):
        _write(side)
    for number, rows in enumerate(DELETED):
        file = folder / f"offsets-{number}.json"
        partitions = [{"topic": TOPIC, "partition": index, "offset": offset} for index, offset in rows]
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        yield _same(kafka, (DELETE, "--offset-json-file", str(file)), ours, theirs)
    for words in AFTER:
        yield _same(kafka, words, ours, theirs)
    for words in OF_CONTROLLERS:
        yield _same(kafka, words, ours, theirs, of_controllers=True)


def _same(
    kafka: Tools, words: tuple[str, ...], ours: Side, theirs: Side, *, of_controllers: bool = False
) -> int:
    said = [_said(kafka, side, words, of_controllers=of_controllers) for side in (ours, theirs)]
    expect(" ".join(words), said[0], said[1])
    return 1


def _write(side: Side) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": side.bootstrap, "log_level": 0})
    for index in RECORDS:
        producer.produce(TOPIC, b"value", partition=index)
        expect("written", producer.flush(TOOL_SECONDS_MAX), 0)  # a batch each: the sizes are the same


def _said(kafka: Tools, side: Side, words: tuple[str, ...], *, of_controllers: bool) -> Said:
    tool, *options = words
    option, where = ("controller", side.controller) if of_controllers else ("server", side.bootstrap)
    ended = kafka.run(tool, *options, f"--bootstrap-{option}", where)
    lines = (_line(each) for each in ended.stdout.splitlines() if "xception" not in each)
    errors = frozenset(_ERROR.findall(ended.stdout + ended.stderr))
    return Said(ended.status, tuple(sorted(each for each in lines if each)), errors)


def _line(line: str) -> str:
    """As it is compared; "" if it is not."""
    if line.startswith(("\tat ", "Error while executing")):
        return ""
    if line.startswith("{"):
        return json.dumps(_sizes(json.loads(line)), sort_keys=True)
    endpoint = _ENDPOINT.match(line)
    if endpoint is not None:
        return f"{endpoint[1]} {endpoint[2]} {endpoint[4]}"
    return _APART.sub("", line).strip()


def _sizes(document: Any) -> Any:
    """Without the names of folders; partitions in their order."""
    for broker in document["brokers"]:
        for directory in broker["logDirs"]:
            del directory["logDir"]
            directory["partitions"].sort(key=lambda row: row["partition"])
    return document


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-topics, -delete-records, -log-dirs, -cluster: as at Apache Kafka": (
        kafka_broker.VERSION,
        same_answers,
    )
}
