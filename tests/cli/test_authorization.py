"""A cluster with passwords and permissions, from the command line: who may do what, how the rest is told."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.cli.local_cluster import LocalCluster, open_cluster
from fencepost.quorum.node_identity import format_directory
from fencepost.records.types import NodeId
from tests.cli.fencepost import fencepost, fencepost_json
from tests.ports import cluster_port, free_port
from tests.secret_files import write_secret

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users with passwords, of whom ``broker`` may act on the cluster and ``mallory`` may do nothing."""
    folder = tmp_path_factory.mktemp("secrets")
    write_secret(folder / "users", "broker=b-secret\nmallory=m-secret\n")
    (folder / "acls").write_text("User:broker CLUSTER_ACTION\n")
    write_secret(folder / "broker", "b-secret\n")
    write_secret(folder / "mallory", "m-secret\n")
    (folder / "mallory.properties").write_text("sasl.username=mallory\nsasl.password.file=mallory\n")
    (folder / "stranger.properties").write_text("sasl.username=nobody\nsasl.password.file=mallory\n")
    return folder


@pytest.fixture(scope="module")
def cluster(secrets: Path) -> Iterator[LocalCluster]:
    directory = secrets / "cluster"
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.plain.users.file": secrets / "users",
        "authorizer.acls.file": secrets / "acls",
        "sasl.username": "broker",
        "sasl.password.file": secrets / "broker",
    }
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    up = fencepost("up", "--dir", directory, "--port", cluster_port(), "--detach", *overrides)
    assert up.status == 0, up.stderr
    yield open_cluster(directory)
    assert fencepost("down", "--dir", directory).status == 0


@pytest.fixture
def lone_broker(cluster: LocalCluster, secrets: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes the configuration of a formatted broker of its own that speaks to the controllers as somebody."""

    def make(user: str) -> Path:
        file = tmp_path / "node.properties"
        file.write_text(
            f"node.id=9\nprocess.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:{free_port()}\nlog.dirs=data\n"
            f"controller.quorum.bootstrap.servers={','.join(map(str, cluster.controllers))}\n"
            "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"sasl.username={user}\nsasl.password.file={secrets / user}\n"
            f"quorum.secret.file={cluster.directory / 'cluster.secret'}\n"
        )
        format_directory(tmp_path / "data", cluster.cluster_id, NodeId(9))
        return file

    return make


@pytest.mark.row("730.8")
def test_a_broker_that_may_not_act_on_the_cluster_ends_with_4_and_the_others_go_on(
    cluster: LocalCluster, lone_broker: Callable[[str], Path]
) -> None:
    refused = fencepost("node", "--config", lone_broker("mallory"))
    assert refused.status == 4
    for part in ("User:mallory", "CLUSTER_ACTION", "authorizer.acls.file", "super.users"):
        assert part in refused.stderr
    assert "m-secret" not in refused.stderr
    assert [node["status"] for node in fencepost_json("ps", "--dir", cluster.directory)["nodes"]] == [
        "running"
    ] * 3
    assert fencepost("health", "--dir", cluster.directory).status == 0


def test_the_credentials_of_a_local_cluster_are_found_in_its_folder(cluster: LocalCluster) -> None:
    assert fencepost_json("quorum", "describe", "--status", "--dir", cluster.directory)["LeaderId"] in (
        1,
        2,
        3,
    )
    assert fencepost_json("producer-ids", "allocate", "--broker-id", 1, "--dir", cluster.directory)


@pytest.mark.row("730.4")
def test_a_client_that_may_not_gets_exit_status_4(cluster: LocalCluster, secrets: Path) -> None:
    addresses = ",".join(map(str, cluster.controllers))
    words = ["--bootstrap-controller", addresses, "--command-config", secrets / "mallory.properties"]
    refused = fencepost("producer-ids", "allocate", "--broker-id", 1, "--broker-epoch", 1, *words)
    assert refused.status == 4
    assert fencepost("quorum", "describe", "--status", *words).status == 4


def test_a_wrong_password_is_a_refusal_not_a_riddle(cluster: LocalCluster, secrets: Path) -> None:
    addresses = ",".join(map(str, cluster.controllers))
    words = ["--bootstrap-controller", addresses, "--command-config", secrets / "stranger.properties"]
    refused = fencepost("quorum", "describe", "--status", *words)
    assert refused.status == 1
    assert "uthentication" in refused.stderr or "SASL" in refused.stderr
