"""``logs``: the last lines of nodes' logs, and what is written from then on, over rotations."""

import json
import subprocess
from pathlib import Path

import pytest

from fencepost.cli.logs import LINE_BYTES_MAX, Followed
from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.cluster.node_process import LOG
from tests.harness.command import command, environment, here

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    made = create_cluster(tmp_path / "c", 2, 9092)
    for node in made.nodes:
        (node.directory / f"{LOG}.2").write_text("oldest\n")
        (node.directory / f"{LOG}.1").write_text("old\n")
        (node.directory / LOG).write_text(f"of {node.node_id}\nhalf")
    return made


def test_the_last_lines_also_out_of_rotated_files(cluster: LocalCluster, capsys: Capture) -> None:
    where = ("--dir", cluster.directory)
    assert here(capsys, "logs", 1, *where).stdout == "oldest\nold\nof 1\n"
    assert here(capsys, "logs", *where, "-n", 2).stdout == "1 | old\n1 | of 1\n2 | old\n2 | of 2\n"
    assert here(capsys, "logs", *where, "-n", 0).stdout == ""
    said = here(capsys, "logs", 2, *where, "-n", 1, "--format", "json")
    assert json.loads(said.stdout) == {"schema_version": 1, "node_id": 2, "line": "of 2"}
    assert here(capsys, "logs", 9, *where).status == 2
    assert here(capsys, "logs", "leader", *where).status == 1


def test_a_cluster_that_never_ran_has_none(tmp_path: Path, capsys: Capture) -> None:
    create_cluster(tmp_path / "c", 1, 9092)
    said = here(capsys, "logs", "--dir", tmp_path / "c")
    assert (said.status, "has a log; has the cluster ever run?" in said.stderr) == (3, True)


def test_what_is_written_comes_once_and_whole_also_over_a_rotation(cluster: LocalCluster) -> None:
    log = cluster.nodes[0].directory / LOG
    followed = Followed(cluster.nodes[0])
    assert followed.last(1) == ["of 1"]
    with log.open("a") as file:
        file.write(" of it\nlast of the old\n")
        file.flush()
        assert list(followed.more()) == ["half of it", "last of the old"]
        file.write("later\n")
        file.flush()
        log.replace(log.with_name(f"{LOG}.1"))
        log.write_text("new\n")
        file.write("latest\n")
    assert list(followed.more()) == ["later", "latest", "new"]
    assert list(followed.more()) == []
    log.write_text("x" * (LINE_BYTES_MAX + 10) + "\n")
    assert sum(len(each) for each in followed.more()) == LINE_BYTES_MAX + 10 - len("new\n")
    followed.close()


@pytest.mark.slow
def test_it_ends_when_its_reader_leaves(cluster: LocalCluster) -> None:
    words = command("logs", "-f", "--dir", cluster.directory)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"1 | oldest\n"
        following.stdout.close()
        assert following.wait(60) == 0
