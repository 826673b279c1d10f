"""A real cluster through the command line: up, seen, killed, paused, started, asked, down.

One cluster serves the whole module; each test leaves it live.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.cluster import bring_up
from fencepost.cli.local_cluster import LocalCluster, open_cluster
from fencepost.wire.connection import Connection
from fencepost.wire.k03_metadata import METADATA, Metadata
from tests.cli.fencepost import TIMEOUT_S, command, environment, fencepost, fencepost_json
from tests.ports import cluster_port

pytestmark = pytest.mark.slow

RSS_ANON_KB_MAX = 100 * 1024


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages of its own that have our packages' names."""
    folder = tmp_path_factory.mktemp("hostile")
    for package in ("cli", "records", "wire", "quorum"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    return folder


@pytest.fixture(scope="module")
def cluster(hostile: Path) -> Iterator[LocalCluster]:
    """Three nodes, started by ``up --detach`` from the hostile folder."""
    directory = hostile / "clusters" / "one"
    result = fencepost("up", "-n", 3, "--dir", directory, "--port", cluster_port(), "--detach", cwd=hostile)
    assert result.status == 0, result.stderr
    yield open_cluster(directory)
    assert fencepost("down", "--dir", directory).status == 0
    assert {node["status"] for node in fencepost_json("ps", "--dir", directory)["nodes"]} == {"down"}


def nodes_of(cluster: LocalCluster) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = fencepost_json("ps", "--dir", cluster.directory)["nodes"]
    return nodes


def leader_of(cluster: LocalCluster) -> int:
    (leader,) = [node["node_id"] for node in nodes_of(cluster) if node["leader"]]
    return int(leader)


@pytest.mark.row("card.5")
def test_three_processes_are_live_when_up_returns(cluster: LocalCluster) -> None:
    nodes = nodes_of(cluster)
    assert [node["status"] for node in nodes] == ["running"] * 3
    assert sum(node["leader"] for node in nodes) == 1
    assert len({node["pid"] for node in nodes}) == 3
    for node in nodes:
        status = Path(f"/proc/{node['pid']}/status").read_text()
        (anonymous,) = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
        assert int(anonymous) < RSS_ANON_KB_MAX
    assert fencepost("health", "--dir", cluster.directory).stdout.startswith("healthy: node ")


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
def test_what_we_say_of_the_quorum_agrees_with_kafka_python(cluster: LocalCluster) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        theirs = admin.describe_metadata_quorum()
        described = admin.describe_cluster()
    finally:
        admin.close()
    (partition,) = theirs["topics"][0]["partitions"]
    status = fencepost_json("quorum", "describe", "--status", "--dir", cluster.directory)
    rows = fencepost_json("quorum", "describe", "--replication", "--dir", cluster.directory)
    assert status["ClusterId"] == described["cluster_id"] == cluster.cluster_id
    assert status["LeaderId"] == partition["leader_id"] == leader_of(cluster) == rows[0]["NodeId"]
    assert status["LeaderEpoch"] == partition["leader_epoch"]
    assert status["HighWatermark"] >= partition["high_watermark"]
    voters = {each["replica_id"] for each in partition["current_voters"]}
    assert {each["id"] for each in status["CurrentVoters"]} == {row["NodeId"] for row in rows} == voters
    endpoints = {
        f"CONTROLLER://{n['listeners'][0]['host']}:{n['listeners'][0]['port']}" for n in theirs["nodes"]
    }
    assert {each["endpoints"][0] for each in status["CurrentVoters"]} == endpoints
    assert {broker["broker_id"] for broker in described["brokers"]} == {1, 2, 3}


@pytest.mark.row("730.1", "730.9", "730.10")
def test_blocks_are_given_out_once_and_history_tells_to_whom(cluster: LocalCluster) -> None:
    first, second = fencepost_json(
        "producer-ids", "allocate", "--broker-id", 2, "--count", 2, "--dir", cluster.directory
    )
    (guest,) = fencepost_json("producer-ids", "allocate", "--dir", cluster.directory)
    assert first["start"] + first["len"] <= second["start"]
    assert second["start"] + second["len"] <= guest["start"]
    assert {first["len"], second["len"], guest["len"]} == {1000}
    history = fencepost_json("producer-ids", "history", "--dir", cluster.directory)
    owners = {block["start"]: block["broker_id"] for block in history}
    assert owners[first["start"]] == owners[second["start"]] == 2
    assert owners[guest["start"]] not in (1, 2, 3)
    assert [block["start"] for block in history] == [0, *(block["end"] for block in history)][:-1]
    latest = fencepost_json("producer-ids", "describe", "--dir", cluster.directory)
    assert latest["next_producer_id"] >= history[-1]["end"]  # a broker may have asked for one meanwhile
    later = fencepost_json("producer-ids", "history", "--dir", cluster.directory)
    assert latest["next_producer_id"] in {block["end"] for block in later}


@pytest.mark.row("730.4")
def test_a_broker_of_another_epoch_gets_nothing(cluster: LocalCluster) -> None:
    words = ["producer-ids", "allocate", "--broker-id", 1, "--broker-epoch", 999_999]
    refused = fencepost(*words, "--dir", cluster.directory)
    assert (refused.status, "STALE_BROKER_EPOCH" in refused.stderr) == (1, True)


@pytest.mark.row("card.2", "730.6")
def test_a_snapshot_is_taken_beside_running_nodes(cluster: LocalCluster) -> None:
    fencepost_json("producer-ids", "allocate", "--count", 3, "--dir", cluster.directory)
    fencepost_json("snapshot", "create", "--dir", cluster.directory)
    next_id = fencepost_json("producer-ids", "describe", "--dir", cluster.directory)["next_producer_id"]
    for each in fencepost_json("snapshot", "describe", "--dir", cluster.directory):
        assert each["producer_id_records"] == 1
        assert each["latest_block"]["end"] <= next_id


@pytest.mark.row("card.7")
def test_the_leader_is_killed_and_started_again(cluster: LocalCluster) -> None:
    dead = leader_of(cluster)
    pid = {node["node_id"]: node["pid"] for node in nodes_of(cluster)}[dead]
    assert fencepost_json("kill", "leader", "--dir", cluster.directory) == {
        "node_id": dead,
        "pid": pid,
        "signal": "KILL",
    }
    assert fencepost("health", "--timeout", 20, "--dir", cluster.directory).status == 0
    statuses = {node["node_id"]: node["status"] for node in nodes_of(cluster)}
    assert statuses.pop(dead) == "dead"
    assert set(statuses.values()) == {"running"}
    assert leader_of(cluster) != dead
    assert fencepost("start", dead, "--dir", cluster.directory).status == 0
    assert [node["status"] for node in nodes_of(cluster)] == ["running"] * 3
    bring_up(cluster)


def test_a_paused_leader_is_replaced_and_goes_on_as_a_follower(cluster: LocalCluster) -> None:
    paused = leader_of(cluster)
    said = fencepost("kill", "leader", "--signal", "STOP", "--dir", cluster.directory)
    assert said.stdout.endswith("SIGSTOP; now stopped\n")
    assert fencepost("health", "--timeout", 20, "--dir", cluster.directory).status == 0
    assert leader_of(cluster) != paused
    refused = fencepost("up", "--detach", "--dir", cluster.directory)
    assert (refused.status, f"node {paused} is stopped by a signal" in refused.stderr) == (1, True)
    assert fencepost("kill", paused, "--signal", "CONT", "--dir", cluster.directory).status == 0
    assert leader_of(cluster) != paused
    bring_up(cluster)


def test_a_majority_lost_is_not_healthy(cluster: LocalCluster) -> None:
    for node_id in (1, 2):
        fencepost("kill", node_id, "--dir", cluster.directory)
    sick = fencepost("health", "--timeout", 2, "--dir", cluster.directory, "--format", "json")
    assert (sick.status, '"healthy": false' in sick.stdout) == (1, True)
    assert "Not running: node 1, 2." in sick.stderr
    unread = fencepost("quorum", "describe", "--status", "--dir", cluster.directory)
    assert unread.status == 3
    back = fencepost("up", "--detach", "--dir", cluster.directory)
    assert back.status == 0
    assert "node 1 had died; starting it again" in back.stderr
    assert fencepost("health", "--dir", cluster.directory).status == 0


def test_all_nodes_killed_at_once_come_back_with_everything(cluster: LocalCluster) -> None:
    (block,) = fencepost_json("producer-ids", "allocate", "--dir", cluster.directory)
    for node in nodes_of(cluster):
        os.kill(node["pid"], signal.SIGKILL)
    assert fencepost("start", 1, 2, 3, "--dir", cluster.directory).status == 0
    (after,) = fencepost_json("producer-ids", "allocate", "--timeout", 20, "--dir", cluster.directory)
    assert after["start"] >= block["start"] + block["len"]
    bring_up(cluster)


def test_a_second_cluster_on_the_same_ports_is_refused_by_name(cluster: LocalCluster, tmp_path: Path) -> None:
    refused = fencepost("up", "--dir", tmp_path / "two", "--port", cluster.port, "--detach")
    assert refused.status == 1
    for node in cluster.nodes:
        for purpose, address in node.ports().items():
            assert f"node {node.node_id}: port {address.port} ({purpose}) is in use" in refused.stderr


def test_a_node_that_dies_while_starting_is_named_with_its_last_words(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    words = ["up", "--dir", directory, "--port", cluster_port(), "--detach", "--override"]
    died = fencepost(*words, "authorizer.acls.file=/nonexistent/acls")
    assert died.status == 1
    assert "died while starting (exit status 2)" in died.stderr
    assert "authorizer.acls.file" in died.stderr
    assert {node["status"] for node in fencepost_json("ps", "--dir", directory)["nodes"]} == {"down"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_up_in_the_foreground_ends_its_nodes_when_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "c"
    with subprocess.Popen(
        command("up", "-n", 1, "--dir", directory, "--port", cluster_port()),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("Next, in another terminal:"):
                break
        child.send_signal(number)
        assert child.wait(TIMEOUT_S) == 130
    assert [node["status"] for node in fencepost_json("ps", "--dir", directory)["nodes"]] == ["down"]


def test_what_up_prints(tmp_path: Path) -> None:
    port = cluster_port()
    said = fencepost("up", "-n", 1, "--dir", "here", "--port", port, "--detach", cwd=tmp_path)
    again = fencepost("up", "--dir", "here", "--detach", cwd=tmp_path)
    assert fencepost("down", "--dir", "here", cwd=tmp_path).status == 0
    lines = said.stdout.splitlines()
    assert lines[0].startswith("Cluster ")
    assert "one replica" in lines[2]
    assert lines[5] == ""
    assert lines[6].split() == ["NODE", "ROLES", "PID", "LISTENER", "STATUS"]
    assert lines[7].split()[0:2] == ["1", "controller,broker"]
    assert lines[7].split()[3:] == [f"127.0.0.1:{port}", "running,", "leader"]
    assert lines[9:] == [
        f"bootstrap.servers=127.0.0.1:{port}",
        "Next, in another terminal:  fencepost kill leader --dir here",
    ]
    assert again.stdout == said.stdout  # what runs already is left alone
