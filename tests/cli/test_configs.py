"""``fencepost configs``, and commands that change topics: what is refused unasked, and a real cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.harness.command import here
from tests.harness.nodes import Nodes, running

NOWHERE = ("--bootstrap-controller", "127.0.0.1:1")
NO_BROKER = ("--bootstrap-server", "127.0.0.1:1")
TOPIC = ("configs", "alter", "--topic", "a", *NOWHERE)
USER = ("configs", "alter", "--user", "alice", *NOWHERE)
ALTER = ("topics", "alter", "--topic", "a")
WRONG = [
    (("configs", "describe", *NOWHERE), "one of --topic, --broker"),
    (("configs", "describe", "--topic", "a", "--broker", "1", *NOWHERE), "one of --topic, --broker"),
    (("configs", "describe", "--entity-name", "a", *NOWHERE), "one of --topic, --broker"),
    (("configs", "describe", "--entity-type", "groups", *NOWHERE), "Invalid value"),
    ((*USER, "--add-config", "PLAIN=[password=x]"), "a user has SCRAM-SHA-256, SCRAM-SHA-512"),
    ((*USER, "--add-config", "SCRAM-SHA-256=[iterations=4096]"), "expected SCRAM-SHA-256=[password"),
    ((*USER, "--add-config", "SCRAM-SHA-256=[iterations=x,password=y]"), "expected SCRAM-SHA-256=[password"),
    ((*USER, "--add-config", "SCRAM-SHA-256=[password=y"), "got something else"),
    ((*USER, "--delete-config", "SCRAM-SHA-1"), "a user has SCRAM-SHA-256"),
    ((*USER, "--delete-config", "SCRAM-SHA-256", "--validate-only"), "users are changed, or not"),
    (TOPIC, "--add-config or --delete-config"),
    ((*TOPIC, "--add-config", "retention.ms"), "expected K=V"),
    ((*TOPIC, "--add-config", "a=[1,2"), "expected K=[V1,V2]"),
    ((*TOPIC, "--add-config", "a=[1]b=2"), "expected K=[V1,V2]"),
    ((*ALTER, *NOWHERE), "expected --partitions or --replica-assignment"),
    ((*ALTER, "--replica-assignment", "1,x", *NOWHERE), "expected broker ids as 1,2,1; got '1,x'"),
    (
        (*ALTER, "--partitions", 3, "--replica-assignment", "1,1", *NOWHERE),
        "has 2 partitions, --partitions is 3",
    ),
    (("topics", "delete-records", "--topic", "a", *NO_BROKER), "expected --topic, --partition and --offset"),
    (
        ("topics", "delete-records", "--topic", "a", "--partition", 0, "--offset", -2, *NO_BROKER),
        "expected an offset, or -1",
    ),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG)
def test_what_cannot_be_meant_is_refused_unasked(
    capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], complaint: str
) -> None:
    result = here(capsys, *arguments)
    assert (result.status, result.stdout) == (2, "")
    assert complaint in result.stderr


FILES = [
    "",
    "[]",
    '{"partitions": [{}]}',
    '{"partitions": [{"topic": "a", "partition": true, "offset": 1}]}',
]


@pytest.mark.parametrize("text", FILES)
def test_a_file_of_offsets_that_cannot_be_read_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    result = here(capsys, "topics", "delete-records", "--offset-json-file", file, *NO_BROKER)
    assert (result.status, result.stdout) == (3, "")
    assert f"{file}: expected {{" in result.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("configs") / "c", count=1) as nodes:
        yield nodes


@pytest.fixture(params=["--bootstrap-controller", "--bootstrap-server"])
def way(request: pytest.FixtureRequest, cluster: Nodes) -> tuple[str, ...]:
    purpose = "controller" if request.param == "--bootstrap-controller" else "client"
    return (request.param, "{}:{}".format(*cluster.address(1, purpose)))


@pytest.mark.slow
def test_settings_are_changed_and_described(cluster: Nodes, way: tuple[str, ...]) -> None:
    name = f"settings{way[0]}"
    cluster.run("topics", "create", "--topic", name)

    def described(*more: str) -> dict[str, Any]:
        rows = cluster.read("configs", "describe", "--topic", name, *more, *way)
        return {row["name"]: (row["value"], row["source"]) for row in rows}

    added = ("--add-config", "retention.ms=1000,cleanup.policy=[delete]")
    said = cluster.run("configs", "alter", "--topic", name, *added, "--validate-only", *way)
    assert said == f"Could update config for {name}.\n"
    assert described() == {}
    said = cluster.run("configs", "alter", "--entity-type", "topics", "--entity-name", name, *added, *way)
    assert said == f"Completed updating config for {name}.\n"
    assert described() == {
        "cleanup.policy": ("delete", "DYNAMIC_TOPIC_CONFIG"),
        "retention.ms": ("1000", "DYNAMIC_TOPIC_CONFIG"),
    }
    assert described("--all")["flush.messages"] == (str(2**63 - 1), "DEFAULT_CONFIG")
    cluster.run("configs", "alter", "--topic", name, "--delete-config", "retention.ms,cleanup.policy", *way)
    assert described() == {}
    cluster.run("configs", "alter", "--topic", name, "--add-config", "retention.ms=x", *way, status=1)
    cluster.run("configs", "alter", "--topic", "none", *added, *way, status=1)
    cluster.run("configs", "alter", "--broker", "1", "--add-config", "log.dirs=/tmp", *way, status=1)


@pytest.mark.slow
def test_settings_of_brokers_are_changed_and_described(cluster: Nodes) -> None:
    """For one broker before all, as synonyms of a topic's default say; back to what they were at the end."""
    way = ("--bootstrap-server", "{}:{}".format(*cluster.address(1, "client")))
    cluster.run("topics", "create", "--topic", "of-brokers")

    def described(*whose: str) -> dict[str, Any]:
        rows = cluster.read("configs", "describe", *whose, *way)
        return {row["name"]: (row["value"], [each["source"] for each in row["synonyms"]]) for row in rows}

    every, one = ("--entity-type", "brokers", "--entity-default"), ("--broker", "1")
    assert described(*one) == described("--broker-defaults") == {}
    for whose, value in ((every, "2000000"), (one, "3000000")):
        cluster.run("configs", "alter", *whose, "--add-config", f"log.retention.ms={value}", *way)
    sources = [f"DYNAMIC_{each}_CONFIG" for each in ("BROKER", "DEFAULT_BROKER")] + ["DEFAULT_CONFIG"]
    assert described("--broker-defaults") == {"log.retention.ms": ("2000000", sources[1:2])}
    assert described(*one) == {"log.retention.ms": ("3000000", sources)}
    assert described("--topic", "of-brokers", "--all")["retention.ms"] == ("3000000", sources)
    said = cluster.run("configs", "describe", *one, *way)
    assert said == (
        "log.retention.ms=3000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=3000000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=2000000, DEFAULT_CONFIG:log.retention.ms=604800000}\n"
    )
    for whose in (one, every):
        cluster.run("configs", "alter", *whose, "--delete-config", "log.retention.ms", *way)
    assert described(*one) == described("--broker-defaults") == {}


@pytest.mark.slow
def test_a_topic_gets_more_partitions(cluster: Nodes, way: tuple[str, ...]) -> None:
    name = f"more{way[0]}"
    cluster.run("topics", "create", "--topic", name, "--partitions", 2)
    wanted = ("topics", "alter", "--topic", name, "--partitions")
    assert cluster.run(*wanted, 3, "--validate-only", *way) == f"Topic {name} could have 3 partitions.\n"
    assert cluster.read(*wanted, 4, *way) == {"topic": name, "partition_count": 4, "validate_only": False}
    cluster.run(*wanted, 3, *way, status=1)
    assigned = (*wanted[:-1], "--replica-assignment")
    for refused in ("1,1,1,2,1", "1,1,1", "1,1,1,1,2", "1,1,1,1,1:1"):
        cluster.run(*assigned, refused, *way, status=1)
    assert cluster.run(*assigned, "1,1,1,1,1", *way) == f"Topic {name} has 5 partitions.\n"
    cluster.run("topics", "alter", "--topic", "none", *assigned[-1:], "1", *way, status=1)
    (row,) = cluster.read("topics", "describe", "--topic", name, *way)
    assert row["partition_count"] == 5


@pytest.mark.slow
def test_records_are_deleted(cluster: Nodes, tmp_path: Path) -> None:
    cluster.run("topics", "create", "--topic", "deleted", "--partitions", 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for index in (0, 0, 1, 1):
        producer.produce("deleted", b"value", partition=index)
    assert producer.flush(30) == 0
    wanted = ("topics", "delete-records", "--topic", "deleted", "--partition", 0, "--offset")
    assert cluster.run(*wanted, 1) == "partition: deleted-0\tlow_watermark: 1\n"
    cluster.run(*wanted, 3, status=1)
    file = tmp_path / "offsets.json"
    rows = [{"topic": "deleted", "partition": index, "offset": -1} for index in (0, 1)]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert cluster.read("topics", "delete-records", "--offset-json-file", file) == [
        {"topic": "deleted", "partition": index, "low_watermark": 2} for index in (0, 1)
    ]
    found = cluster.read("get-offsets", "--topic", "deleted", "--time", "earliest")
    assert [row["offset"] for row in found] == [2, 2]
