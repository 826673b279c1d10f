"""``storage accept-clock``: an operator's word lies in the directories of the nodes that are named."""

from pathlib import Path

import pytest

from fencepost.cluster.local_cluster import LocalCluster, create_cluster
from fencepost.settings.node_clock import ACCEPTED
from tests.harness.command import contents, here
from tests.harness.shell_pages import shell_blocks, steps

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return create_cluster(tmp_path / "c", 3, 9092)


def accepted(cluster: LocalCluster) -> list[int]:
    return [node.node_id for node in cluster.nodes if (node.config.directory / ACCEPTED).exists()]


def test_every_node_of_a_cluster_or_the_one_that_is_named(cluster: LocalCluster, capsys: Capture) -> None:
    words = ["storage", "accept-clock", "--dir", cluster.directory]
    ((page, _),) = steps(shell_blocks("configuration.md")[1])
    one = here(capsys, *page.split()[1:], "--dir", cluster.directory)
    assert one.status == 0
    assert accepted(cluster) == [1]
    assert "node 1: its clock counts" in one.stdout
    said = contents(here(capsys, *words, "--format", "json").stdout)
    assert accepted(cluster) == [1, 2, 3]
    assert said == {"nodes": [{"node_id": node, "accepted": True} for node in (1, 2, 3)]}


def test_a_directory_that_is_not_formatted_is_named(cluster: LocalCluster, capsys: Capture) -> None:
    directory = cluster.node(1).config.directory
    (directory / "meta.properties").unlink()
    refused = here(capsys, "storage", "accept-clock", "--dir", cluster.directory, "--node", 1)
    assert refused.status == 3
    assert str(directory) in refused.stderr
    assert accepted(cluster) == []
