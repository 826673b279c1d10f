"""Groups of real consumers on three nodes: members join, leave and are killed, and so is the leader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.group_story import PIP, come_and_go
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("groups") / "cluster") as started:
        yield started


@pytest.mark.parametrize("library", PIP)
def test_members_come_and_go_and_the_leader_dies(cluster: Nodes, library: str, tmp_path: Path) -> None:
    come_and_go(library, cluster, tmp_path)
