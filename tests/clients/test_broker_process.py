"""A broker as a process of its own, beside a cluster that asks who it is."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.real_cluster import COMMAND_SECONDS_MAX, RealCluster, fencepost, real_cluster
from tests.secret_files import write_secret

pytestmark = pytest.mark.slow

USERS = {"insider": "inside-word", "outsider": "outside-word"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Its nodes are the insider, who may do everything; the outsider is known, and may do nothing."""
    folder = tmp_path_factory.mktemp("secured")
    write_secret(folder / "users", "".join(f"{name}={word}\n" for name, word in USERS.items()))
    (folder / "acls").write_text("User:insider CLUSTER_ACTION\nUser:insider DESCRIBE\n")
    write_secret(folder / "password", USERS["insider"])
    overrides = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"sasl.plain.users.file={folder / 'users'}",
        f"authorizer.acls.file={folder / 'acls'}",
        "sasl.username=insider",
        f"sasl.password.file={folder / 'password'}",
    )
    with real_cluster(folder / "cluster", *overrides) as started:
        yield started


def formatted_broker(cluster: RealCluster, folder: Path, node_id: int, user: str, cluster_id: str) -> Path:
    """The configuration of one more broker, its directory formatted."""
    port = cluster.port + 10 * node_id  # beside the cluster's own
    folder.mkdir()
    write_secret(folder / "password", USERS[user])
    config = folder / "node.properties"
    config.write_text(
        f"node.id={node_id}\n"
        "process.roles=broker\n"
        "log.dirs=data\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port}\n"
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{cluster.port + 100},127.0.0.1:{cluster.port + 101}\n"
        f"sasl.username={user}\n"
        "sasl.password.file=password\n"
        f"quorum.secret.file={cluster.directory / 'cluster.secret'}\n"
        "log.format=json\n"
    )
    fencepost("storage", "format", "--config", str(config), "--cluster-id", cluster_id)
    return config


def start(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fencepost.cli.main", "node", "--config", str(config)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def cluster_id_of(cluster: RealCluster) -> str:
    return str(json.loads(cluster.run("ps", "--format", "json"))["cluster_id"])


@pytest.mark.row("730.4", "730.8")
def test_a_broker_without_cluster_action_exits_4_and_says_what_to_configure(
    cluster: RealCluster, tmp_path: Path
) -> None:
    before = cluster.pids()
    assert len(before) == 3
    config = formatted_broker(cluster, tmp_path / "b", 4, "outsider", cluster_id_of(cluster))
    ended = start(config)
    _, said = ended.communicate(timeout=COMMAND_SECONDS_MAX)
    assert ended.returncode == 4, said
    for word in ("User:outsider", "CLUSTER_ACTION", "authorizer.acls.file", "super.users"):
        assert word in said
    assert "outside-word" not in said
    assert cluster.pids() == before, "the others go on"
    cluster.run("health")


def test_a_broker_of_another_cluster_exits_1_and_names_the_cluster_of_its_directory(
    cluster: RealCluster, tmp_path: Path
) -> None:
    elsewhere = fencepost("storage", "random-uuid").strip()
    config = formatted_broker(cluster, tmp_path / "b", 5, "insider", elsewhere)
    ended = start(config)
    _, said = ended.communicate(timeout=COMMAND_SECONDS_MAX)
    assert ended.returncode == 1, said
    assert elsewhere in said


@pytest.mark.row("card.4")
def test_a_broker_without_a_vote_joins_gets_a_block_and_leaves(cluster: RealCluster, tmp_path: Path) -> None:
    config = formatted_broker(cluster, tmp_path / "b", 6, "insider", cluster_id_of(cluster))
    broker = start(config)
    assert broker.stderr is not None
    events = []
    for line in broker.stderr:
        events.append(json.loads(line)["event"])
        if "broker_unfenced" in events and "producer_id_block_granted" in events:
            break
    broker.send_signal(signal.SIGTERM)
    _, rest = broker.communicate(timeout=COMMAND_SECONDS_MAX)
    assert broker.returncode == 0, rest
    assert "broker_left_unnoticed" not in rest
    assert [block["broker_id"] for block in cluster.history()].count(6) == 1
