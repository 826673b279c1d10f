"""What is above a node's log level ends its process with status 3 and "upgrade this node", not as damage."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.cluster.local_cluster import create_cluster
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.view import ImageHeader
from fencepost.quorum.journal import REGULAR, Journal
from fencepost.records.entry import LATER_MAGIC
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import ImageVersion, LogIndex, NodeId, Term
from fencepost.snapshots.store import Store
from tests.harness.command import fencepost
from tests.ports import cluster_port

pytestmark = pytest.mark.slow

ABOVE = LEVEL_MAX + 1


def in_the_image(store: Store) -> None:
    """A later version ran here, and sealed its image."""
    store.verify_image()
    store.image.put(FEATURES, LOG_LEVEL, FeatureLevel(ABOVE))
    store.image.header = ImageHeader(ImageVersion(1), Term(1), NodeId(1), (0, 0, 0))
    store.flush()


def in_the_journal(store: Store) -> None:
    """And died before it applied this entry."""
    journal = Journal(store)
    journal.add(REGULAR + struct.pack(">BH", LATER_MAGIC, ABOVE) + bytes(60), LogIndex(2), Term(1))
    journal.flush()


@pytest.mark.parametrize(
    ("left", "event"),
    [
        pytest.param(in_the_image, "", id="image"),
        pytest.param(in_the_journal, "log_level_too_high", id="journal"),
    ],
)
def test_a_node_says_that_it_must_be_upgraded(
    tmp_path: Path, left: Callable[[Store], None], event: str
) -> None:
    cluster = create_cluster(tmp_path / "cluster", 1, cluster_port())
    (node,) = cluster.nodes
    store = Store.open(node.config.directory / "store")
    left(store)
    store.close()
    for _ in range(2):  # a supervisor that starts it again changes nothing
        ended = fencepost("node", "--config", node.directory / "node.properties")
        assert ended.status == 3, ended
        assert (
            f"log level {ABOVE}, this node reads levels up to {LEVEL_MAX}: upgrade this node" in ended.stderr
        )
        assert event in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "node_halted" not in ended.stderr
