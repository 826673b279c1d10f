"""A cluster's folder: whole or not there, its own ports, its own secret; what is in the way is named."""

import json
import socket
import stat
from pathlib import Path

import pytest

from fencepost.cluster.console import Failed, Unreadable, WrongUsage
from fencepost.cluster.local_cluster import (
    CLUSTER,
    SECRET,
    LocalCluster,
    create_cluster,
    exists,
    is_free,
    open_cluster,
    require_startable,
)
from fencepost.settings.config import VOTERS_MAX, Address
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_identity import read_identity
from tests.ports import cluster_port, free_port
from tests.together import table

PORT = 9092


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return create_cluster(tmp_path / "c", 3, PORT)


def test_a_new_cluster_is_formatted_with_its_voters(cluster: LocalCluster) -> None:
    identities = [read_identity(node.config.directory) for node in cluster.nodes]
    assert {each.cluster_id for each in identities} == {cluster.cluster_id}
    assert [each.node_id for each in identities] == [1, 2, 3]
    voters = {each.node_id: each.directory_id for each in identities}
    assert all(each.initial_voters == voters for each in identities)
    assert len(set(voters.values())) == 3


def test_ports_follow_the_plan(cluster: LocalCluster) -> None:
    # docs/design.md 9: client P+i-1, controller P+100+i-1, Raft P+200+i-1, metrics P+300+i-1.
    assert {name: address.port for name, address in cluster.nodes[1].ports().items()} == {
        "client": 9093,
        "controller": 9193,
        "raft": 9293,
        "metrics": 9393,
    }
    assert cluster.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_the_secret_is_for_the_owner_only_and_the_same_for_all(cluster: LocalCluster) -> None:
    secret = cluster.directory / SECRET
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert {node.config.secret_file and node.config.secret_file.resolve() for node in cluster.nodes} == {
        secret
    }


def test_a_cluster_is_found_again_and_may_be_moved(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.directory.rename(tmp_path / "moved")
    moved = open_cluster(tmp_path / "moved")
    assert moved.cluster_id == cluster.cluster_id
    assert moved.nodes[0].config.directory == tmp_path / "moved" / "nodes" / "1" / "data"


def test_nothing_is_left_beside_a_new_cluster(cluster: LocalCluster) -> None:
    assert [each.name for each in cluster.directory.parent.iterdir()] == ["c"]


def test_a_cluster_may_be_made_in_an_empty_folder(tmp_path: Path) -> None:
    assert create_cluster(tmp_path, 1, PORT).nodes[0].node_id == 1


def test_overrides_reach_every_node(tmp_path: Path) -> None:
    made = create_cluster(tmp_path / "c", 2, PORT, ["producer.id.block.size=7", "metrics.port=1"])
    assert [node.config.producer_id_block_size for node in made.nodes] == [7, 7]
    assert [node.config.metrics_port for node in made.nodes] == [1, 1]


@table(
    ("node_count", "port", "overrides", "complaint"),
    [
        pytest.param(0, PORT, (), "expected 1 to", id="no-node"),
        pytest.param(VOTERS_MAX + 1, PORT, (), "expected 1 to", id="one-node-too-many"),
        pytest.param(3, 65535 - 301, (), "would go from 65234 to 65536", id="one-port-too-high"),
        pytest.param(3, PORT, ("producer.id.block.sise=7",), "did you mean", id="override-of-nothing"),
    ],
)
def test_what_no_cluster_can_be_is_refused_and_leaves_nothing(
    tmp_path: Path, node_count: int, port: int, overrides: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(WrongUsage, match=complaint):
        create_cluster(tmp_path / "c", node_count, port, overrides)
    assert list(tmp_path.iterdir()) == []


def test_the_largest_cluster_and_the_highest_port_are_accepted(tmp_path: Path) -> None:
    assert len(create_cluster(tmp_path / "c", VOTERS_MAX, 65535 - 300 - VOTERS_MAX + 1).nodes) == VOTERS_MAX


def test_a_folder_of_somebody_else_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(Failed, match=r"is not a cluster's folder: it holds thesis\.tex"):
        exists(tmp_path)
    with pytest.raises(Failed, match="cannot be made"):
        create_cluster(tmp_path, 1, PORT)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with pytest.raises(Failed, match="is not a folder"):
        exists(tmp_path / "c")


def test_where_there_is_no_cluster_the_command_that_makes_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="type: fencepost up"):
        open_cluster(tmp_path / "c")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("{", id="torn"),
        pytest.param("[]", id="not-an-object"),
        pytest.param(json.dumps({"cluster_id": "x", "port": 1}), id="no-node-count"),
        pytest.param(json.dumps({"cluster_id": "x", "port": 1, "node_count": 4}), id="a-node-is-missing"),
    ],
)
def test_half_a_cluster_is_unreadable(cluster: LocalCluster, content: str) -> None:
    (cluster.directory / CLUSTER).write_text(content)
    with pytest.raises(Unreadable, match=CLUSTER):
        open_cluster(cluster.directory)


def test_a_file_that_is_gone_is_named(cluster: LocalCluster) -> None:
    gone = cluster.node(2).directory / "node.properties"
    gone.unlink()
    with pytest.raises(
        Unreadable, match=f"^{gone} cannot be read: No such file or directory; .*{CLUSTER} names it$"
    ):
        open_cluster(cluster.directory)


def test_an_unknown_node_is_answered_with_those_there_are(cluster: LocalCluster) -> None:
    with pytest.raises(WrongUsage, match=r"no node 4 in .*; its nodes are 1, 2, 3"):
        cluster.node(4)


def test_everything_in_the_way_is_named_at_once(tmp_path: Path) -> None:
    port = cluster_port()
    cluster = create_cluster(tmp_path / "c", 3, port)
    (cluster.node(2).config.directory / META_PROPERTIES).unlink()
    foreign = create_cluster(tmp_path / "other", 3, port)
    theirs = foreign.node(3).config.directory / META_PROPERTIES
    theirs.replace(cluster.node(3).config.directory / META_PROPERTIES)
    with socket.create_server(("127.0.0.1", port + 100)), pytest.raises(Failed) as refusal:
        require_startable(cluster, cluster.nodes)
    complaints = str(refusal.value).splitlines()
    assert len(complaints) == 3
    assert f"node 1: port {port + 100} (controller) is in use" in complaints[0]
    assert "node 2" in complaints[1]
    assert "is not formatted" in complaints[1]
    assert "node 3" in complaints[2]
    assert f"belongs to cluster {foreign.cluster_id}" in complaints[2]
    require_startable(cluster, [cluster.node(1)])


def test_a_port_is_free_until_somebody_listens() -> None:
    address = Address("127.0.0.1", free_port())
    assert is_free(address)
    with socket.create_server(address):
        assert not is_free(address)
    assert is_free(address)
