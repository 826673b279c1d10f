"""The version before transactions V2 ends, from a copy of the log, what this version left open (939.12).

Below the level  that its nodes read, they run on a copy of the whole directory, and clients go on there.
Above it         they refuse the directory by its level. What they would make of the transactions' log is
                 then shown with their own code, outside a node: Kafka's fields say all that an end needs.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import open_cluster
from fencepost.records.levels import LEVEL_MAX
from tests.harness.nodes import NO_QUOTA, Nodes, running
from tests.processes import versions
from tests.processes.earlier_transactions import Ended, ended_by
from tests.processes.txn_client import TWO_PHASE
from tests.processes.txn_lives import LAST_EPOCH, PARTITIONS, Life, Story

pytestmark = pytest.mark.slow

COMMIT: Final = versions.BEFORE_TRANSACTIONS_V2
LEVEL: Final = versions.LEVEL_OF[COMMIT]
ARCHIVE: Final = Path("archive") / "__transaction_state-0"
BELOW: Final = (
    Story(v2=True, then_v2=False, epoch=LAST_EPOCH, ending=True),
    Story(v2=False, then_v2=False),
    Story(v2=True, then_v2=False),
    Story(v2=False, then_v2=False, ending=True),
    Story(v2=True, then_v2=False, ending=True),
)
ABOVE: Final = (
    *BELOW,
    Story(v2=False, then_v2=False, two_phase=True),
    Story(v2=True, then_v2=True, two_phase=True),
    Story(v2=True, then_v2=True, two_phase=True, ending=True),
    Story(v2=False, then_v2=False, two_phase=True, ending=True),
)


@pytest.mark.row("939.12")
def test_nodes_of_the_version_before_end_what_is_open_from_a_copy_of_the_directory(
    tmp_path: Path, earlier_tree: versions.Trees
) -> None:
    earlier = earlier_tree(COMMIT)
    with versions.earlier_cluster(tmp_path / "cluster", earlier, NO_QUOTA) as nodes:
        nodes.kill(*nodes.node_ids)
        versions.start(nodes, None, *nodes.node_ids)
        lives = in_the_middle(nodes, BELOW)
        with copied(nodes, tmp_path / "copy") as other:
            versions.start(other, earlier, *other.node_ids)
            end_all([life.on(other) for life in lives])
        versions.start(nodes, None, *nodes.node_ids)
        end_all(lives)


@pytest.mark.row("939.12")
def test_above_its_level_its_reader_ends_the_same_transactions_the_same_way(
    tmp_path: Path, earlier_tree: versions.Trees
) -> None:
    earlier = earlier_tree(COMMIT)
    with running(tmp_path / "cluster", NO_QUOTA, TWO_PHASE) as nodes:
        lives = in_the_middle(nodes, ABOVE)
        with copied(nodes, tmp_path / "copy") as other:
            is_refused(other, earlier)
            found = [ended_by(earlier, other.home(each) / ARCHIVE) for each in other.node_ids]
        for life in lives:
            expected = expected_end(life)
            assert expected in [each.get(life.client.name) for each in found], (expected, found)
        versions.start(nodes, None, *nodes.node_ids)
        end_all(lives)


def is_refused(other: Nodes, earlier: Path) -> None:
    """By its level, once the setting that the version before does not know is taken out."""
    file = other.node(1).directory / "node.properties"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(each for each in lines if TWO_PHASE not in each))
    too_high = f"has log level {LEVEL_MAX}, this node reads levels up to {LEVEL}: upgrade this node"
    with pytest.raises(Failed, match=too_high):
        versions.start(other, earlier, 1)


def expected_end(life: Life) -> Ended:
    """By Kafka's own rules: what is open ends with the pair that began it, what is ending as it is written.

    An end of V2, or of what another instance kept, has its markers an epoch further.
    """
    producer_id, epoch = life.begun
    if not life.story.ending:
        return Ended("Ongoing", life.begun, True, PARTITIONS, "CompleteCommit", life.begun)
    is_further = life.story.v2 or life.story.two_phase
    marker = (producer_id, epoch + 1) if is_further else life.begun
    return Ended("PrepareCommit", marker, True, PARTITIONS, "CompleteCommit", life.pair)


def in_the_middle(nodes: Nodes, stories: tuple[Story, ...]) -> list[Life]:
    """Their transactions; then every node is dead, one of them before the ends that lack its marker."""
    nodes.up()  # every broker is live: a topic has a partition on each
    lives = [Life(nodes, story) for story in stories]
    away = nodes.followers()[0]
    nodes.kill(away)
    for life in lives:
        life.ends_if_it_is_to()
        life.keeps_if_it_is_to()
    for life in lives:
        if life.story.ending:  # what a killed node has not yet handed to its archive is in its journal alone
            life.client.completed("PrepareCommit")
    nodes.kill(*(each for each in nodes.node_ids if each != away))
    return lives


def end_all(lives: list[Life]) -> None:
    """Every client goes on, and reads what was committed."""
    for life in lives:
        life.ends_what_was_open()
        life.goes_on()
    for life in lives:
        life.is_sound()


@contextmanager
def copied(nodes: Nodes, directory: Path) -> Iterator[Nodes]:
    """A copy of a cluster that is dead, with its ports."""
    shutil.copytree(nodes.directory, directory)
    other = Nodes(open_cluster(directory))
    try:
        yield other
    finally:
        other.down()
