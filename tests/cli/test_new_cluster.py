"""``up``: what a command that fails takes away again, and what it must not touch."""

from pathlib import Path

import pytest

from fencepost.cli.cluster import _removed_unless_live
from fencepost.cluster import node_process
from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import create_cluster
from tests.harness.command import here

Capture = pytest.CaptureFixture[str]


def fail_in(directory: Path) -> None:
    """Make a cluster there, which does not start."""
    with _removed_unless_live(directory):
        create_cluster(directory, 1, 9092)
        raise Failed("it does not start")


def test_what_was_made_goes_with_the_folders_made_for_it(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b" / "c"
    with pytest.raises(Failed):
        fail_in(directory)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_that_was_there_stays_and_so_does_what_lies_beside_it(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir()
    (tmp_path / "other").touch()
    with pytest.raises(Failed):
        fail_in(directory)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c", "other"]
    assert list(directory.iterdir()) == []


def test_a_cluster_whose_nodes_another_command_started_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "c"
    monkeypatch.setattr("fencepost.cluster.local_cluster.LocalNode.pid", lambda _node: 1)
    with pytest.raises(Failed):
        fail_in(directory)
    assert (directory / "nodes").is_dir()


def test_what_lives_stays(tmp_path: Path) -> None:
    with _removed_unless_live(tmp_path / "c"):
        create_cluster(tmp_path / "c", 1, 9092)
    assert node_process.recorded(tmp_path / "c" / "nodes" / "1") is None
    assert (tmp_path / "c" / "nodes" / "1").is_dir()


def test_a_folder_that_is_no_clusters_is_left_alone(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "mine").write_text("precious")
    said = here(capsys, "up", "--dir", tmp_path, "--detach")
    assert (said.status, "is not a cluster's folder" in said.stderr) == (1, True)
    assert (tmp_path / "mine").read_text() == "precious"
