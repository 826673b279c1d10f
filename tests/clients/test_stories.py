"""Real producers transact against a real cluster, and real consumers read it: the stories of stories.py.

Each is played by a library in a process of its own. ``make test-clients`` plays more, with more libraries.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.libraries import LIBRARIES
from tests.clients.players import CONFLUENT, PLAYERS, Player
from tests.clients.stories import FIRSTS, HOST, STORIES, STORIES_OF, Stage
from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow

FENCED = {  # what each makes of the 47 that a fenced producer's Produce is answered with
    CONFLUENT: "_FENCED",
    "kafka-python": "InvalidProducerEpochError",
    "aiokafka": "ProducerFenced",
}
TIMED_OUT = [*((CONFLUENT, first) for first in FIRSTS), ("kafka-python", "produce"), ("aiokafka", "produce")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("stories") / "cluster", follower=HOST) as started:
        yield started


@pytest.fixture(scope="module")
def reader(cluster: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    player = PLAYERS[CONFLUENT](cluster.bootstrap, tmp_path_factory.mktemp("reader"))
    yield player
    player.end()


@pytest.fixture
def player(cluster: Nodes, library: str, tmp_path: Path) -> Iterator[Player]:
    """Of the test's ``library``."""
    started = PLAYERS[library](cluster.bootstrap, tmp_path)
    yield started
    started.end()


@pytest.fixture
def stage(cluster: Nodes, player: Player, reader: Player) -> Stage:
    return Stage(cluster, player, reader)


@pytest.mark.parametrize("library", LIBRARIES)
def test_records_of_producers_without_transactions_are_read_in_order(stage: Stage, library: str) -> None:
    STORIES_OF[library]["without transactions"](stage)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_consumer_that_reads_committed_reads_what_is_committed(stage: Stage, library: str) -> None:
    STORIES["commit and abort"](stage)


@pytest.mark.row("360.1", "588.4")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_second_instance_fences_the_first_and_aborts_what_it_left_open(stage: Stage, library: str) -> None:
    assert FENCED[library] in STORIES["fenced by a second instance"](stage)


@pytest.mark.row("588.1", "588.2", "588.3", "588.4")
@pytest.mark.parametrize(("library", "first"), TIMED_OUT)
def test_after_a_timeout_the_producer_or_its_successor_goes_on(
    stage: Stage, library: str, first: str
) -> None:
    said = STORIES[f"timed out, then {first}"](stage)
    assert said.startswith("it continues") or library != CONFLUENT, "librdkafka can recover, so it must"


@pytest.mark.row("588.1", "588.2", "588.3", "360.3")
@pytest.mark.parametrize(("library", "first"), [(CONFLUENT, first) for first in FIRSTS])
def test_librdkafka_goes_on_after_a_timeout_though_the_coordinator_died(
    stage: Stage, library: str, first: str
) -> None:
    """The new coordinator knows which epoch timed out: that is in the replicated state."""
    assert STORIES[f"timed out, leader killed, then {first}"](stage).startswith("it continues")


@pytest.mark.parametrize("library", ["aiokafka"])
def test_what_was_committed_survives_the_death_of_every_node(stage: Stage, library: str) -> None:
    """Killed, not stopped; and the partition's snapshots of its producers are gone, too."""
    STORIES_OF[library]["all nodes killed"](stage)
