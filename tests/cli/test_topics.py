"""``fencepost topics``: what is refused before anybody is asked, and a real cluster asked both ways."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from tests.harness.command import here, in_process, in_process_json
from tests.harness.nodes import Nodes, running, wait_for

NOWHERE = ("--bootstrap-controller", "127.0.0.1:1")

WRONG = [
    pytest.param(("create", *NOWHERE), 2, "Missing option '--topic'", id="no-name"),
    pytest.param(
        ("create", "--topic", "a", "--config", "b", *NOWHERE), 2, "expected KEY=VALUE", id="no-value"
    ),
    pytest.param(
        ("create", "--topic", "a", "--replica-assignment", "1,x", *NOWHERE), 2, "as 1,2,1", id="broker-x"
    ),
    pytest.param(("create", "--topic", "a", "--partitions", "x", *NOWHERE), 2, "not a valid integer", id="x"),
    pytest.param(("list", "--topic", "(", *NOWHERE), 2, "no regular expression", id="half-a-bracket"),
    pytest.param(
        ("list", "--bootstrap-server", "h", *NOWHERE), 2, "one of --bootstrap-server and", id="two-ways"
    ),
    pytest.param(("list", "--bootstrap-server", "10.0.0.1"), 2, "expected HOST:PORT", id="no-port"),
    pytest.param(("list", "--bootstrap-server", "127.0.0.1:1"), 3, "127.0.0.1:1", id="no-broker"),
    pytest.param(("delete", *NOWHERE), 2, "Missing option '--topic'", id="delete-what"),
]


@pytest.mark.parametrize(("arguments", "status", "complaint"), WRONG)
def test_what_cannot_be_meant_is_said_before_anybody_is_asked(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, complaint: str
) -> None:
    result = here(capsys, "topics", *arguments)
    assert (result.status, result.stdout) == (status, "")
    assert complaint in result.stderr


@pytest.mark.parametrize("key", ["transaction.state.log.replication.factor", "transaction.state.log.min.isr"])
def test_a_cluster_too_small_for_a_setting_is_not_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, key: str
) -> None:
    result = here(capsys, "up", "-n", 1, "--dir", tmp_path / "c", "--override", f"{key}=3")
    assert result.status == 2
    assert f"{key}=3: transaction state is kept by the quorum's voters, and there are 1" in result.stderr
    assert not (tmp_path / "c").exists()


def test_a_node_told_so_later_says_so_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = create_cluster(tmp_path / "c", 1, 21_000)
    file = made.nodes[0].directory / "node.properties"
    with file.open("a") as stream:
        stream.write("transaction.state.log.replication.factor=3\n")
    for arguments in (("up", "--dir", tmp_path / "c"), ("node", "--config", file)):
        result = here(capsys, *arguments)
        assert result.status in (2, 3)
        assert result.stderr.startswith(f"Error: {file}: transaction.state.log.replication.factor=3: ")


# -- a real cluster --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Three nodes; a silent broker is fenced after three seconds."""
    timing = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
    with running(tmp_path_factory.mktemp("topics") / "c", *timing) as started:
        yield started


@pytest.fixture
def cluster(nodes: Nodes) -> LocalCluster:
    return nodes.cluster


def ways(cluster: LocalCluster) -> dict[str, tuple[str, str]]:
    controllers = ",".join(map(str, cluster.controllers))
    return {
        "dir": ("--dir", str(cluster.directory)),
        "controllers": ("--bootstrap-controller", controllers),
        "brokers": ("--bootstrap-server", cluster.bootstrap),
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", ["dir", "controllers", "brokers"])
def test_a_topic_lives_from_creation_to_deletion(cluster: LocalCluster, way: str) -> None:
    to = ways(cluster)[way]
    name = f"orders-{way}"
    asked = ("--topic", name, "--partitions", 3, "--replication-factor", 3, "--config", "retention.ms=7")
    made = in_process("topics", "create", *asked, *to)
    assert (made.status, made.stdout) == (0, f"Created topic {name}.\n")
    assert "one replica each, not 3" in made.stderr
    again = in_process("topics", "create", "--topic", name, *to)
    assert (again.status, again.stdout) == (1, "")
    assert "already exists" in again.stderr
    assert in_process_json("topics", "create", "--topic", name, "--if-not-exists", *to) == {
        "topic": name,
        "created": False,
    }
    assert in_process_json("topics", "list", "--topic", f"orders-{way[:3]}.*", *to) == [name]
    (row,) = in_process_json("topics", "describe", "--topic", name, *to)
    counts = (row["topic"], row["partition_count"], row["replication_factor"], row["configs"])
    assert counts == (name, 3, 1, {"retention.ms": "7"})
    assert sorted(each["leader"] for each in row["partitions"]) == [1, 2, 3]
    assert all(each["replicas"] == each["isr"] == [each["leader"]] for each in row["partitions"])
    heading, *partitions = in_process("topics", "describe", "--topic", name, *to).stdout.splitlines()
    assert heading.split("\t") == [
        f"Topic: {name}",
        f"TopicId: {row['topic_id']}",
        "PartitionCount: 3",
        "ReplicationFactor: 1",
        "Configs: retention.ms=7",
    ]
    assert re.fullmatch(rf"\tTopic: {name}\tPartition: 0\tLeader: (\d)\tReplicas: \1\tIsr: \1", partitions[0])
    gone = in_process("topics", "delete", "--topic", name, *to)
    assert (gone.status, gone.stdout) == (0, f"Deleted topic {name}.\n")
    assert in_process("topics", "delete", "--topic", name, *to).status == 1
    assert in_process("topics", "delete", "--topic", name, "--if-exists", *to).status == 0
    assert in_process_json("topics", "list", "--topic", name, *to) == []


@pytest.mark.slow
def test_kafkas_admin_sees_the_same(cluster: LocalCluster) -> None:
    import confluent_kafka.admin

    kafka: Any = confluent_kafka.admin  # its stubs do not export what it documents

    admin = kafka.AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([kafka.NewTopic("theirs", 2, 1, config={"segment.bytes": "1048576"})])[
        "theirs"
    ].result(20)
    resource = kafka.ConfigResource(kafka.ResourceType.TOPIC, "theirs")
    configs = admin.describe_configs([resource])[resource].result(20)
    assert configs["segment.bytes"].value == "1048576"
    assert configs["retention.ms"].value == "604800000"
    assert len(admin.list_topics("theirs", timeout=20).topics["theirs"].partitions) == 2
    assert in_process_json("topics", "list", "--topic", "theirs", "--dir", cluster.directory) == ["theirs"]
    admin.delete_topics(["theirs"])["theirs"].result(20)
    assert in_process_json("topics", "list", "--topic", "theirs", "--dir", cluster.directory) == []


@pytest.mark.slow
def test_the_partition_of_a_dead_broker_has_no_leader_until_it_is_back(nodes: Nodes) -> None:
    victim = nodes.followers()[0]
    nodes.run("topics", "create", "--topic", "spread", "--partitions", 3)

    def leaders() -> dict[int, Any]:
        (row,) = nodes.read("topics", "describe", "--topic", "spread")
        return {each["replicas"][0]: each["leader"] for each in row["partitions"]}

    wait_for("all are led", lambda: leaders() == {1: 1, 2: 2, 3: 3})
    nodes.kill(victim)
    wait_for("one is not led", lambda: leaders() == {1: 1, 2: 2, 3: 3, victim: None})
    (row,) = nodes.read("topics", "describe", "--topic", "spread", "--unavailable-partitions")
    assert [each["replicas"] for each in row["partitions"]] == [[victim]]
    nodes.run("topics", "create", "--topic", "later", "--partitions", 4)
    (later,) = nodes.read("topics", "describe", "--topic", "later")
    assert victim not in {each["leader"] for each in later["partitions"]}
    nodes.start(victim)
    wait_for("all are led again", lambda: leaders() == {1: 1, 2: 2, 3: 3})
