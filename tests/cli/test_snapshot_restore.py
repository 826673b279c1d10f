"""``snapshot restore``: what it refuses, and what a node's directory is after it."""

from pathlib import Path

import pytest

from fencepost.cluster.local_cluster import LocalCluster, create_cluster, open_cluster
from fencepost.controller import voters
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.settings.node_identity import read_identity
from fencepost.snapshots import snapshot
from fencepost.snapshots.store import Store
from tests.cli.test_storage_verify import cluster as verified
from tests.harness.command import contents, here

cluster = verified
Capture = pytest.CaptureFixture[str]
ID_END = 16_000  # of the fixture's image


def taken(cluster: LocalCluster) -> Path:
    (path,) = snapshot.listed(cluster.node(1).config.directory / "snapshots.by-hand")
    return path


def state_of(root: Path) -> dict[str, bytes]:
    """What a refused command must leave: not the locks, and not what an opened log writes anew."""
    kept = ("store", "archive", "snapshots", "meta.properties")
    files = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] in kept]
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in files
        if path.name not in (".lock", "lock.mdb")
    }


def refused(cluster: LocalCluster, capsys: Capture, status: int, says: str, *words: object) -> None:
    root = cluster.node(1).config.directory
    before = state_of(root)
    said = here(capsys, "snapshot", "restore", *words, "--dir", cluster.directory)
    assert said.status == status, said
    assert says in said.stderr
    assert state_of(root) == before
    assert not list(root.glob("before-restore*"))
    assert not list(root.glob("restore.*"))


def test_the_directory_is_one_of_another_cluster(cluster: LocalCluster, capsys: Capture) -> None:
    node = cluster.node(1)
    root, before = node.config.directory, read_identity(node.config.directory)
    words = ("snapshot", "restore", taken(cluster), "--skip-ids", "10", "--dir", cluster.directory)
    said = here(capsys, *words, "--format", "json")
    assert said.status == 0, said
    done = contents(said.stdout)
    identity = read_identity(root)
    assert identity.cluster_id == done["cluster_id"] != before.cluster_id
    assert open_cluster(cluster.directory).cluster_id == done["cluster_id"]
    assert identity.directory_id == before.directory_id, "partition logs stay where they are"
    assert identity.voter_id != before.voter_id
    assert not identity.has_store
    assert (root / "before-restore.1" / "store" / "data.mdb").exists()
    assert not (root / "store").exists()
    assert not (root / "archive").exists()
    (published,) = snapshot.listed(root / "snapshots")
    manifest, rows = snapshot.load(published)
    assert manifest.cluster_id == done["cluster_id"]
    assert manifest.raft_term > 0
    store = Store.open(cluster.directory / "look", sync=False)
    store.put_rows(1, rows)
    store.flip(1, manifest.header)
    ids = store.image.get(PRODUCER_IDS, 0)
    assert ids is not None
    assert ids.end == done["producer_id_end"] == ID_END + 10
    assert voters.bindings(store.image) == {1: identity.voter_id}
    store.abandon()
    assert (root / "orders-0" / f"{0:020d}.log").stat().st_size > 0
    again = here(capsys, *words)
    assert again.status == 0
    assert "before-restore.2" in again.stdout, "it may be typed again"


def test_the_cluster_id_is_kept_only_by_a_word_of_its_own(cluster: LocalCluster, capsys: Capture) -> None:
    refused(cluster, capsys, 2, "--old-cluster-is-destroyed", taken(cluster), "--same-cluster")
    refused(cluster, capsys, 2, "--same-cluster", taken(cluster), "--old-cluster-is-destroyed")
    before = read_identity(cluster.node(1).config.directory).cluster_id
    words = (taken(cluster), "--same-cluster", "--old-cluster-is-destroyed", "--dir", cluster.directory)
    assert here(capsys, "snapshot", "restore", *words).status == 0
    assert read_identity(cluster.node(1).config.directory).cluster_id == before


def test_a_damaged_snapshot_is_refused(cluster: LocalCluster, capsys: Capture) -> None:
    state = taken(cluster) / "state"
    raw = bytearray(state.read_bytes())
    raw[10] ^= 1
    state.write_bytes(raw)
    refused(cluster, capsys, 1, "SHA-256", taken(cluster))
    refused(cluster, capsys, 3, "not a snapshot", cluster.directory / "nothing")


def test_a_snapshot_of_another_cluster_is_refused(
    cluster: LocalCluster, tmp_path: Path, capsys: Capture
) -> None:
    """Not once a restore was begun: the nodes have different ids then, and the command is typed again."""
    root = cluster.node(1).config.directory
    theirs = create_cluster(tmp_path / "other", 1, 9192)
    there = theirs.node(1).config.directory / "meta.properties"
    own = (root / "meta.properties").read_bytes().partition(b"fencepost.crc32c")[0]
    foreign = id_of(there)
    (root / "meta.properties").write_bytes(own.replace(id_of(root / "meta.properties"), foreign))
    refused(cluster, capsys, 1, f"of cluster {foreign.decode()}, the snapshot of", taken(cluster))
    (root / "before-restore.1").mkdir()
    assert here(capsys, "snapshot", "restore", taken(cluster), "--dir", cluster.directory).status == 0


def id_of(meta: Path) -> bytes:
    """The cluster id in a meta.properties."""
    return next(line for line in meta.read_bytes().splitlines() if line.startswith(b"cluster.id")).partition(
        b"="
    )[2]


def test_a_node_that_runs_is_refused(cluster: LocalCluster, capsys: Capture) -> None:
    store = Store.open(cluster.node(1).config.directory / "store")
    refused(cluster, capsys, 1, "stop that one first", taken(cluster))
    store.close()


def test_a_damaged_partition_log_is_refused(cluster: LocalCluster, capsys: Capture) -> None:
    path = cluster.node(1).config.directory / "orders-0" / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[8] ^= 1
    path.write_bytes(raw)
    refused(cluster, capsys, 1, "No node was changed", taken(cluster))


def test_ids_that_would_pass_the_last_one_are_refused(cluster: LocalCluster, capsys: Capture) -> None:
    refused(cluster, capsys, 1, "the last one is", taken(cluster), "--skip-ids", 2**63)


def test_a_minority_of_the_voters_is_refused(tmp_path: Path, capsys: Capture) -> None:
    made = create_cluster(tmp_path / "three", 3, 9092)
    config = made.node(1).directory / "node.properties"
    said = here(capsys, "snapshot", "restore", tmp_path, "--config", config)
    assert said.status == 2
    assert "expected a majority" in said.stderr
