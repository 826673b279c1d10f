"""Nodes of an earlier version and of this one in one cluster: each image and each log has the same bytes."""

from pathlib import Path

import pytest

from fencepost.bench.demo_transactions import PARTITIONS, TOPIC, Writers
from fencepost.cluster.target import brokers_of
from tests.harness.nodes import NO_QUOTA
from tests.processes import versions
from tests.processes.checks import await_equal_archives
from tests.processes.load import Load
from tests.processes.upgrades import Work, stop

pytestmark = pytest.mark.slow

COMMITS = [each for each in versions.LEVEL_OF if each != versions.BEFORE_GROUPS]
"""Of each log level one. All of them are upgraded in test_rolling_upgrade.py."""


@pytest.mark.parametrize("commit", COMMITS)
def test_nodes_of_both_versions_have_one_image_and_one_log(
    tmp_path: Path, earlier_tree: versions.Trees, commit: str
) -> None:
    """Byte for byte, with one and with two nodes of the newer version, whichever leads."""
    earlier = earlier_tree(commit)
    with versions.earlier_cluster(tmp_path / "cluster", earlier, NO_QUOTA) as nodes:
        nodes.leader()
        nodes.run("topics", "create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
        for node_id in (1, 2):
            stop(nodes, node_id, cleanly=True)
            versions.start(nodes, None, node_id)
            for _ in range(2):
                target = brokers_of(nodes.cluster)
                with Load(nodes, seed=node_id, clients=2, pause_s=0.02) as load, Writers(target) as writers:
                    Work(load, writers).goes_on()
                    writers.stop()
                nodes.await_equal_images()
                await_equal_archives(nodes)
                leader = nodes.leader()
                tree = None if leader <= node_id else earlier
                stop(nodes, leader, cleanly=True)
                versions.start(nodes, tree, leader)
