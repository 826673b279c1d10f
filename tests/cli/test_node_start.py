"""A node that cannot start says why in one sentence, with the path or the port."""

import errno
from pathlib import Path

import lmdb
import pytest

from fencepost.cli import node as node_module
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from tests.harness.command import here

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return create_cluster(tmp_path / "c", 1, 9092)


NO_ROOM = lmdb.DiskError("mdb_txn_commit: No space left on device")
FAILURES = [
    pytest.param(
        PermissionError(errno.EACCES, "Permission denied", "/data/.lock"),
        "/data/.lock cannot be used: permission denied",
        id="permissions",
    ),
    pytest.param(
        OSError(errno.ENOSPC, "No space left on device", b"/data/clock.json.part"),
        "/data/clock.json.part cannot be used: no space left on device",
        id="a-full-disk-for-a-file",
    ),
    pytest.param(
        OSError("cannot listen on 127.0.0.1:9092: address already in use"),
        "cannot listen on 127.0.0.1:9092: address already in use",
        id="a-port-in-use",
    ),
    pytest.param(NO_ROOM, "/store cannot be read or written: mdb_txn_commit: No space", id="a-full-disk"),
]


@pytest.mark.parametrize(("error", "says"), FAILURES)
def test_one_sentence(
    cluster: LocalCluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(*_arguments: object) -> int:
        raise error

    monkeypatch.setattr(node_module, "run_node", fail)
    said = here(capsys, "node", "--config", cluster.node(1).directory / "node.properties")
    assert said.status == 1
    assert says in said.stderr
    assert "Traceback" not in said.stderr
    if error is NO_ROOM:
        assert str(cluster.node(1).config.directory / "store") in said.stderr
        assert "bytes are free there" in said.stderr


def test_too_few_file_descriptors_are_said(
    cluster: LocalCluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _which: (64, 127))
    said = here(capsys, "node", "--config", cluster.node(1).directory / "node.properties")
    assert said.status == 1
    assert "a node needs 128 file descriptors, and may have 127: raise the hard limit" in said.stderr
