"""The upgrade beside three brokers of Apache Kafka 3.9 in ZooKeeper mode, one at protocol version 2.8.

Twice through: to the fence and back, and to the end, as docs/upgrade-from-zookeeper.md says it. Every id that
a broker of Kafka gave to a client, and every block that our quorum gave to anyone, is in one list.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest

from fencepost.cli.migrate_preflight import NEW_SAYS, OLD_ENDS, OLD_SAYS
from tests.clients.players import NotHere
from tests.harness.command import contents, in_process, stdout_of
from tests.harness.nodes import Nodes, wait_for
from tests.upgrade.kafka import broker as kafka
from tests.upgrade.world import Askers, nodes_own_blocks, require_no_overlap, upgrading
from tests.zookeeper.rival import Block
from tests.zookeeper.servers import ensemble

pytestmark = pytest.mark.slow

PAGE: Final = Path(__file__).parents[3] / "docs" / "upgrade-from-zookeeper.md"
BLOCK_LENGTH: Final = 1000
OLD, NEW, OTHER = 1, 2, 3
PROTOCOLS: Final = {OLD: "2.8", NEW: "3.9", OTHER: "3.9"}
REFUSALS: Final = {
    OLD: "UnknownServerError",
    NEW: "CoordinatorLoadInProgress",
    OTHER: "CoordinatorLoadInProgress",
}
SEND_SECONDS: Final = 60.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, kafka.Broker]]:
    """Serving, with their ZooKeeper."""
    try:
        kafka.fetch()
    except NotHere as error:
        pytest.skip(f"NOT RUN: {error}")
    folder = tmp_path_factory.mktemp("kafka")
    with (
        ensemble(folder / "zookeeper") as servers,
        kafka.running(folder, f"{servers.connect_string}/kafka", PROTOCOLS) as running,
    ):
        yield running


class Story:
    """What is done to Kafka's brokers, and every id that they gave."""

    def __init__(self, brokers: dict[int, kafka.Broker], nodes: Nodes) -> None:
        self.brokers = brokers
        self.nodes = nodes
        self.ids: list[int] = []

    def ids_of(self, number: int, count: int) -> list[int]:
        """So many new ids from a broker; it is asked again while it has none at hand."""
        got: list[int] = []

        def is_enough() -> bool:
            answer = self.brokers[number].ask_for_id()
            if isinstance(answer, int):
                got.append(answer)
            return len(got) >= count

        wait_for(f"broker {number} gives {count} ids", is_enough, 120)
        self.ids += got
        return got

    def until_refused(self, number: int) -> None:
        """Ask a fenced broker until its memory is empty: what it then says is the page's."""
        for _ in range(3 * BLOCK_LENGTH):
            answer = self.brokers[number].ask_for_id()
            if isinstance(answer, str):
                assert answer == REFUSALS[number]
                break
            self.ids.append(answer)
        assert [self.brokers[number].ask_for_id() for _ in range(3)] == [REFUSALS[number]] * 3

    def migrate(self, *command: str) -> str:
        return self.nodes.run("migrate", *command)

    @property
    def status(self) -> Any:
        return self.nodes.read("migrate", "status")


class Running:
    """A producer that has its id since before the fence, and a transactional id that is known since then."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer: Any = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self.send()

    def send(self) -> None:
        """Goes on; and an instance that takes the transactional id over gets a new epoch, and no new id."""
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": "known", "log_level": 0}
        confluent_kafka.Producer(settings).init_transactions(SEND_SECONDS)
        outcomes: list[Any] = []
        self._producer.produce("t", b"value", on_delivery=lambda error, _: outcomes.append(error))
        assert self._producer.flush(SEND_SECONDS) == 0, "it is not acknowledged"
        assert outcomes == [None]


@pytest.mark.row("730.11")
@pytest.mark.row("730.12")
@pytest.mark.row("730.14")
@pytest.mark.row("beyond.2")
def test_real_brokers_are_told_the_truth_there_back_and_to_the_end(
    brokers: dict[int, kafka.Broker], tmp_path: Path
) -> None:
    connect = brokers[OLD].connect
    with upgrading(tmp_path / "cluster", connect, count=1) as nodes, Askers(nodes.cluster, 1, 0.1) as askers:
        story = Story(brokers, nodes)
        producer = Running(",".join(each.bootstrap for each in brokers.values()))
        _preflight_says_what_comes(connect, tmp_path)

        story.migrate("bridge")
        for number in brokers:  # each takes another block, by its own way
            story.ids_of(number, BLOCK_LENGTH + 1)
        wait_for("blocks through the bridge", lambda: len(askers.blocks) > 2)

        fence = _to_the_fence(story, producer)
        wait_for("the quorum gives blocks", lambda: askers.blocks[-1].first > fence)
        _no_restart_below_3_0(story)
        story.migrate("rollback")
        brokers[OLD].start()
        after = [story.ids_of(number, 2)[-1] for number in brokers]
        assert min(after) > max(
            block.last for block in askers.blocks if block.first > fence and block.first < min(after)
        )
        assert story.status["blocking"] == []

        _to_the_fence(story, producer)
        story.migrate("finalize")
        brokers[OLD].stop()
        brokers[OLD].protocol = "3.0"
        brokers[OLD].start()
        assert [brokers[OLD].ask_for_id() for _ in range(3)] == [REFUSALS[NEW]] * 3
        producer.send()
        assert story.status["standing_still"] == [OLD, NEW, OTHER]
        askers.stop()
        _no_id_twice(story.ids, [*askers.blocks, *nodes_own_blocks(nodes)])
    for words in (OLD_SAYS, OLD_ENDS):
        assert words in brokers[OLD].log
    assert NEW_SAYS in brokers[NEW].log
    _the_pages_lines_are_in_the_logs(brokers)


def _preflight_says_what_comes(connect: str, tmp_path: Path) -> None:
    looked = in_process("migrate", "preflight", "--zookeeper", connect, "--watch", "0.1", "--format", "json",
                        "--dir", tmp_path / "none")  # fmt: skip
    found = contents(stdout_of(looked, 1))
    assert (found["verdict"], found["blocking"]) == ("cuts-off", [])
    assert [(each["broker_id"], each["protocol"], each["known_from"], each["starts_again"])
            for each in found["brokers"]] == [
        (OLD, "2.8", "its configuration", False),
        (NEW, "3.9", "its configuration", True),
        (OTHER, "3.9", "its configuration", True),
    ]  # fmt: skip


def _to_the_fence(story: Story, producer: Running) -> int:
    """Import and fence; what every broker then does. Returns where the fenced block ends."""
    story.migrate("import")
    story.migrate("fence")
    status = story.status
    assert (status["phase"], status["standing_still"]) == ("quorum", [OLD, NEW, OTHER])
    assert status["blocking"], "it counts what stands still"
    producer.send()
    for number in story.brokers:
        story.until_refused(number)
    producer.send()
    assert max(story.ids) <= status["fence"]["block_end"]
    return int(status["fence"]["block_end"])


def _no_restart_below_3_0(story: Story) -> None:
    """One of 3.0 or above serves again, without ids; the other one ends by itself."""
    story.brokers[NEW].stop()
    story.brokers[NEW].start()
    story.until_refused(NEW)
    story.brokers[OLD].stop()
    story.brokers[OLD].launch()
    story.brokers[OLD].await_ended()
    assert story.status["standing_still"] == [NEW, OTHER]


def _no_id_twice(ids: list[int], blocks: list[Block]) -> None:
    require_no_overlap(blocks, [Block(0, each, each, 0) for each in ids])


def _the_pages_lines_are_in_the_logs(brokers: dict[int, kafka.Broker]) -> None:
    """Each line of Kafka's that the page shows; numbers apart."""
    said = "".join(each.log for each in brokers.values())
    shown = re.findall(
        r"^ *((?:\w+ \[|org\.apache\.kafka|ERROR Exiting).*)$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert len(shown) >= 5
    for line in shown:
        pattern = re.sub(r"\d+", r"\\d+", re.escape(line))
        assert re.search(pattern, said), f"no broker says: {line}"
