"""A real cluster through the command line: up, seen, killed, paused, started, asked, down.

One cluster serves the whole module; each test leaves it live.
"""

import asyncio
import base64
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from fencepost.cluster.lifecycle import bring_up
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.wire.connection import Connection
from fencepost.wire.k03_metadata import METADATA, Metadata
from tests.harness.command import TIMEOUT_S, command, environment, in_process, in_process_json
from tests.harness.nodes import Nodes, running_as_typed
from tests.ports import cluster_port

pytestmark = [
    pytest.mark.slow,
    # kafka-python 3.0 loads its schemas so, once.
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
]

RSS_ANON_KIB_MAX = 100 * 1024
NAMESAKES = ("fencepost", "cli", "records", "wire", "quorum", "json", "asyncio")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Up as a user types it, with no setting but the log's, from a folder whose packages must not be ours."""
    folder = tmp_path_factory.mktemp("namesakes")
    for name in NAMESAKES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('this is not {name}')\n")
    with running_as_typed(Path("clusters/one"), folder) as started:
        yield started
    assert {node["status"] for node in started.read("ps")["nodes"]} == {"down"}


@pytest.fixture
def cluster(nodes: Nodes) -> LocalCluster:
    return nodes.cluster


def nodes_of(cluster: LocalCluster) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = in_process_json("ps", "--dir", cluster.directory)["nodes"]
    return nodes


def leader_of(cluster: LocalCluster) -> int:
    (leader,) = [node["node_id"] for node in nodes_of(cluster) if node["leader"]]
    return int(leader)


@pytest.mark.row("card.5")
def test_three_small_processes_are_live_when_up_returns(nodes: Nodes) -> None:
    listed = nodes.read("ps")
    assert [node["status"] for node in listed["nodes"]] == ["running"] * 3
    assert [node["roles"] for node in listed["nodes"]] == [["controller", "broker"]] * 3
    assert [node["leader"] for node in listed["nodes"]].count(True) == 1
    assert listed["bootstrap"] == ",".join(node["client"] for node in listed["nodes"])
    assert len({node["pid"] for node in listed["nodes"]}) == 3
    for node in listed["nodes"]:
        assert node["pid"] == nodes.pid(node["node_id"])
        assert nodes.rss_anon_kib(node["node_id"]) < RSS_ANON_KIB_MAX
    assert nodes.run("health").startswith("healthy: node ")


def test_every_broker_shows_the_same_cluster_to_clients(cluster: LocalCluster) -> None:
    async def seen_by(host: str, port: int) -> tuple[str | None, list[int]]:
        connection = await Connection.open(host, port)
        try:
            answer = await connection.call(METADATA, Metadata(topics=()))
            return answer.cluster_id, sorted(broker.node_id for broker in answer.brokers)
        finally:
            connection.close()

    for node in cluster.nodes:
        assert asyncio.run(seen_by(*node.ports()["client"])) == (cluster.cluster_id, [1, 2, 3])


@pytest.mark.row("card.5")
@pytest.mark.parametrize("port", ["client", "controller"])
def test_ps_and_describe_agree_with_a_kafka_admin(nodes: Nodes, port: str) -> None:
    listed = nodes.read("ps")
    status = nodes.read("quorum", "describe", "--status")
    replication = nodes.read("quorum", "describe", "--replication")
    assert status["leader_id"] == next(node["node_id"] for node in listed["nodes"] if node["leader"])
    for node in listed["nodes"]:
        quorum, cluster = ask_admin(node[port])
        assert cluster["cluster_id"] == listed["cluster_id"] == status["cluster_id"]
        assert cluster["controller_id"] == status["leader_id"]
        brokers = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
        assert brokers == {each["node_id"]: each["client"] for each in listed["nodes"]}

        ((partition,),) = [topic["partitions"] for topic in quorum["topics"]]
        assert (partition["leader_id"], partition["leader_epoch"]) == (
            status["leader_id"],
            status["leader_epoch"],
        )
        assert partition["high_watermark"] >= status["high_watermark"]
        voters = {voter["replica_id"]: voter for voter in partition["current_voters"]}
        assert {row["node_id"]: row["directory_id"] for row in replication} == {
            voter_id: id_text(voter["replica_directory_id"]) for voter_id, voter in voters.items()
        }
        for row in replication:
            assert voters[row["node_id"]]["log_end_offset"] >= row["log_end_offset"]
        endpoints = {
            each["node_id"]: [f"{e['name']}://{e['host']}:{e['port']}" for e in each["listeners"]]
            for each in quorum["nodes"]
        }
        assert endpoints == {voter["id"]: voter["endpoints"] for voter in status["current_voters"]}
        assert {row["node_id"] for row in replication if row["status"] == "Leader"} == {status["leader_id"]}


def ask_admin(bootstrap: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(quorum, cluster) as kafka-python's admin describes them."""
    admin = KafkaAdminClient(bootstrap_servers=[bootstrap])
    try:
        return admin.describe_metadata_quorum(), admin.describe_cluster()
    finally:
        admin.close()


def id_text(directory_id: str | uuid.UUID) -> str:
    """As Kafka's tools write an id."""
    return base64.urlsafe_b64encode(uuid.UUID(str(directory_id)).bytes).rstrip(b"=").decode()


@pytest.mark.row("730.1", "730.9", "730.10")
def test_blocks_are_given_out_once_and_history_tells_to_whom(cluster: LocalCluster) -> None:
    first, second = in_process_json(
        "producer-ids", "allocate", "--broker-id", 2, "--count", 2, "--dir", cluster.directory
    )
    (guest,) = in_process_json("producer-ids", "allocate", "--dir", cluster.directory)
    assert first["start"] + first["len"] <= second["start"]
    assert second["start"] + second["len"] <= guest["start"]
    assert {first["len"], second["len"], guest["len"]} == {1000}
    history = in_process_json("producer-ids", "history", "--dir", cluster.directory)
    owners = {block["start"]: block["broker_id"] for block in history}
    assert owners[first["start"]] == owners[second["start"]] == 2
    assert owners[guest["start"]] not in (1, 2, 3)
    assert [block["start"] for block in history] == [0, *(block["end"] for block in history)][:-1]
    latest = in_process_json("producer-ids", "describe", "--dir", cluster.directory)
    assert latest["next_producer_id"] >= history[-1]["end"]  # a broker may have asked for one meanwhile
    later = in_process_json("producer-ids", "history", "--dir", cluster.directory)
    assert latest["next_producer_id"] in {block["end"] for block in later}


@pytest.mark.row("730.4")
def test_a_broker_of_another_epoch_gets_nothing(cluster: LocalCluster) -> None:
    words = ["producer-ids", "allocate", "--broker-id", 1, "--broker-epoch", 999_999]
    refused = in_process(*words, "--dir", cluster.directory)
    assert (refused.status, "STALE_BROKER_EPOCH" in refused.stderr) == (1, True)


@pytest.mark.row("card.2", "730.6")
def test_a_snapshot_is_taken_beside_running_nodes(cluster: LocalCluster) -> None:
    in_process_json("producer-ids", "allocate", "--count", 3, "--dir", cluster.directory)
    in_process_json("snapshot", "create", "--dir", cluster.directory)
    next_id = in_process_json("producer-ids", "describe", "--dir", cluster.directory)["next_producer_id"]
    for each in in_process_json("snapshot", "describe", "--dir", cluster.directory):
        assert each["producer_id_records"] == 1
        assert each["latest_block"]["end"] <= next_id


@pytest.mark.row("card.7")
def test_the_leader_is_killed_and_started_again(cluster: LocalCluster) -> None:
    dead = leader_of(cluster)
    pid = {node["node_id"]: node["pid"] for node in nodes_of(cluster)}[dead]
    assert in_process_json("kill", "leader", "--dir", cluster.directory) == {
        "node_id": dead,
        "pid": pid,
        "signal": "KILL",
    }
    assert in_process("health", "--timeout", 20, "--dir", cluster.directory).status == 0
    statuses = {node["node_id"]: node["status"] for node in nodes_of(cluster)}
    assert statuses.pop(dead) == "dead"
    assert set(statuses.values()) == {"running"}
    assert leader_of(cluster) != dead
    assert in_process("start", dead, "--dir", cluster.directory).status == 0
    assert [node["status"] for node in nodes_of(cluster)] == ["running"] * 3
    bring_up(cluster)


def test_a_paused_leader_is_replaced_and_goes_on_as_a_follower(cluster: LocalCluster) -> None:
    paused = leader_of(cluster)
    said = in_process("kill", "leader", "--signal", "STOP", "--dir", cluster.directory)
    assert said.stdout.endswith("SIGSTOP; now stopped\n")
    said = in_process("start", paused, "--dir", cluster.directory)
    assert said.status == 1
    assert f"'fencepost kill {paused} --signal CONT' lets it go on" in said.stderr
    assert in_process("health", "--timeout", 20, "--dir", cluster.directory).status == 0
    assert leader_of(cluster) != paused
    refused = in_process("up", "--detach", "--dir", cluster.directory)
    assert (refused.status, f"node {paused} is stopped by a signal" in refused.stderr) == (1, True)
    assert in_process("kill", paused, "--signal", "CONT", "--dir", cluster.directory).status == 0
    assert leader_of(cluster) != paused
    bring_up(cluster)


def test_leadership_moves_without_a_death(cluster: LocalCluster) -> None:
    was = leader_of(cluster)
    pids = [node["pid"] for node in nodes_of(cluster)]
    said = in_process_json("move-leader", "--dir", cluster.directory)
    assert (said["from"], said["to"] != was) == (was, True)
    assert leader_of(cluster) == said["to"]
    back = in_process("move-leader", was, "--dir", cluster.directory)
    assert back.stdout.startswith(f"node {was} leads in epoch ")
    assert in_process("move-leader", was, "--dir", cluster.directory).stdout.startswith(
        f"node {was} leads already, in epoch "
    )
    unknown = in_process("move-leader", 9, "--dir", cluster.directory)
    assert (unknown.status, "node 9 is no voter; the voters are 1, 2, 3" in unknown.stderr) == (1, True)
    assert [node["pid"] for node in nodes_of(cluster)] == pids


def test_a_majority_lost_is_not_healthy(cluster: LocalCluster) -> None:
    for node_id in (1, 2):
        in_process("kill", node_id, "--dir", cluster.directory)
    sick = in_process("health", "--timeout", 2, "--dir", cluster.directory, "--format", "json")
    assert (sick.status, '"healthy": false' in sick.stdout) == (1, True)
    assert "Not running: node 1, 2." in sick.stderr
    unread = in_process("quorum", "describe", "--status", "--dir", cluster.directory)
    assert unread.status == 3
    back = in_process("up", "--detach", "--dir", cluster.directory)
    assert back.status == 0
    assert "node 1 had died; starting it again" in back.stderr
    assert in_process("health", "--dir", cluster.directory).status == 0


def test_all_nodes_killed_at_once_come_back_with_everything(nodes: Nodes, cluster: LocalCluster) -> None:
    (block,) = in_process_json("producer-ids", "allocate", "--dir", cluster.directory)
    nodes.kill(*nodes.node_ids)
    assert in_process("start", 1, 2, 3, "--dir", cluster.directory).status == 0
    (after,) = in_process_json("producer-ids", "allocate", "--timeout", 20, "--dir", cluster.directory)
    assert after["start"] >= block["start"] + block["len"]
    bring_up(cluster)


def test_a_second_cluster_on_the_same_ports_is_refused_by_name(cluster: LocalCluster, tmp_path: Path) -> None:
    refused = in_process("up", "--dir", tmp_path / "two", "--port", cluster.port, "--detach")
    assert refused.status == 1
    for node in cluster.nodes:
        for purpose, address in node.ports().items():
            assert f"node {node.node_id}: port {address.port} ({purpose}) is in use" in refused.stderr
    assert refused.stderr.endswith("; 'fencepost up --port 0' takes free ones\n")
    assert not (tmp_path / "two").exists()


def test_a_node_that_dies_while_starting_is_named_with_its_last_words(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "c"
    words = ["up", "--dir", directory, "--port", cluster_port(), "--detach", "--override"]
    died = in_process(*words, "authorizer.acls.file=/nonexistent/acls")
    assert died.status == 1
    assert "died while starting (exit status 2)" in died.stderr
    assert "authorizer.acls.file" in died.stderr
    assert list(tmp_path.iterdir()) == [], "a failed up leaves nothing"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_up_in_the_foreground_ends_its_nodes_when_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "c"
    with subprocess.Popen(
        command("up", "-n", 1, "--dir", directory, "--port", 0),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("Next, in another terminal:")):
            said.append(child.stdout.readline())
            assert said[-1], "it ended"
        assert re.search(r"^bootstrap\.servers=127\.0\.0\.1:(?!9092)\d+$", "".join(said), re.MULTILINE)
        child.send_signal(number)
        assert child.wait(TIMEOUT_S) == 130
    assert [node["status"] for node in in_process_json("ps", "--dir", directory)["nodes"]] == ["down"]
