"""A stopped owner of a partition wakes up behind its successor, with libraries that name no generation.

With one transactional id per member one output is there twice; with one per input partition, initialized
before the offset is fetched, each once. ``make test-clients`` plays this with kafkajs and sarama, too.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import owners_killed
from tests.clients.owners import SAFE, SCENARIOS, TRAP
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("owners") / "cluster") as started:
        yield started


@pytest.mark.parametrize("way", [TRAP, SAFE])
def test_two_owners_of_a_partition_with_aiokafka(cluster: Nodes, way: str, tmp_path: Path) -> None:
    SCENARIOS["aiokafka"][way](cluster, tmp_path)


def test_aiokafka_copies_each_record_once_while_the_leader_is_killed(cluster: Nodes, tmp_path: Path) -> None:
    owners_killed.copied_once("aiokafka", cluster, tmp_path)
