"""``up`` gives a live cluster, also among folders with our names; Kafka's own admin describes it alike."""

import base64
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from tests.processes.nodes import Nodes, running

pytestmark = [
    pytest.mark.slow,
    # kafka-python 3.0 loads its schemas so, once.
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
]

RSS_ANON_KIB_MAX = 100 * 1024
NAMESAKES = ("fencepost", "cli", "records", "json", "asyncio")


@pytest.fixture(scope="module")
def among_namesakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Up as a user types it, with no setting but the log's, from a folder whose packages must not be ours."""
    folder = tmp_path_factory.mktemp("namesakes")
    for name in NAMESAKES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('this is not {name}')\n")
    with running(Path("cluster"), cwd=folder) as started:
        yield started


@pytest.fixture
def nodes(among_namesakes: Nodes) -> Nodes:
    """This module's own cluster."""
    return among_namesakes


def test_up_returns_a_live_cluster_of_small_processes(nodes: Nodes) -> None:
    listed = nodes.read("ps")
    assert [node["status"] for node in listed["nodes"]] == ["running"] * 3
    assert [node["roles"] for node in listed["nodes"]] == [["controller", "broker"]] * 3
    assert [node["leader"] for node in listed["nodes"]].count(True) == 1
    assert listed["bootstrap"] == ",".join(node["client"] for node in listed["nodes"])
    for node in listed["nodes"]:
        assert node["pid"] == nodes.pid(node["node_id"])
        assert nodes.rss_anon_kib(node["node_id"]) < RSS_ANON_KIB_MAX
    (block, *_) = json.loads(nodes.run("producer-ids", "allocate", "--format", "json"))
    assert block["len"] == 1000


@pytest.mark.row("card.5")
@pytest.mark.parametrize("port", ["client", "controller"])
def test_ps_and_describe_agree_with_a_kafka_admin(nodes: Nodes, port: str) -> None:
    listed = nodes.read("ps")
    status = nodes.read("quorum", "describe", "--status")
    replication = nodes.read("quorum", "describe", "--replication")
    assert status["LeaderId"] == next(node["node_id"] for node in listed["nodes"] if node["leader"])
    for node in listed["nodes"]:
        quorum, cluster = ask_admin(node[port])
        assert cluster["cluster_id"] == listed["cluster_id"] == status["ClusterId"]
        assert cluster["controller_id"] == status["LeaderId"]
        brokers = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
        assert brokers == {each["node_id"]: each["client"] for each in listed["nodes"]}

        ((partition,),) = [topic["partitions"] for topic in quorum["topics"]]
        assert (partition["leader_id"], partition["leader_epoch"]) == (
            status["LeaderId"],
            status["LeaderEpoch"],
        )
        assert partition["high_watermark"] >= status["HighWatermark"]
        voters = {voter["replica_id"]: voter for voter in partition["current_voters"]}
        assert {row["NodeId"]: row["DirectoryId"] for row in replication} == {
            voter_id: id_text(voter["replica_directory_id"]) for voter_id, voter in voters.items()
        }
        for row in replication:
            assert voters[row["NodeId"]]["log_end_offset"] >= row["LogEndOffset"]
        endpoints = {
            each["node_id"]: [f"{e['name']}://{e['host']}:{e['port']}" for e in each["listeners"]]
            for each in quorum["nodes"]
        }
        assert endpoints == {voter["id"]: voter["endpoints"] for voter in status["CurrentVoters"]}
        assert {row["NodeId"] for row in replication if row["Status"] == "Leader"} == {status["LeaderId"]}


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
