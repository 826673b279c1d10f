"""``get-offsets``: which partitions its flags select, at which time, and what is left out."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, ListOffsetsAnswer, OffsetFound
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from tests.cli.fake_broker import BROKER_ID, FakeBroker
from tests.harness.command import Result, contents, here

NOWHERE = 3  # the partition of ``lost`` that has no leader
NO_RECORD_MS = 777


def topic(
    name: str, count: int, *, internal: bool = False, without_leader: int | None = None
) -> TopicMetadata:
    leaders = [-1 if index == without_leader else BROKER_ID for index in range(count)]
    partitions = [PartitionMetadata(partition_index=i, leader_id=leader) for i, leader in enumerate(leaders)]
    return TopicMetadata(name=name, is_internal=internal, partitions=tuple(partitions))


TOPICS: tuple[TopicMetadata, ...] = (topic("orders", 3), topic("pay", 6), topic("__own", 1, internal=True))
LOST = (topic("lost", 5, without_leader=NOWHERE),)


class Cluster:
    """A broker whose partitions end at 100 times their number, plus what the requested time is."""

    def __init__(self, stack: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
        self._stack = stack
        self._capsys = capsys
        self.topics = TOPICS

    def run(self, *words: object) -> Result:
        broker = FakeBroker({LIST_OFFSETS: self._found}, self.topics)
        bootstrap = self._stack.enter_context(broker.serving())
        return here(self._capsys, "get-offsets", *words, "--bootstrap-server", bootstrap)

    def _found(self, request: ListOffsets) -> ListOffsetsAnswer:
        return ListOffsetsAnswer(
            tuple(
                OffsetFound(each.topic, each.index, offset=self._offset(each.index, each.timestamp_ms))
                for each in request.partitions
            )
        )

    def _offset(self, index: int, time_ms: int) -> int:
        return -1 if time_ms == NO_RECORD_MS else 100 * index + time_ms + 10


@pytest.fixture
def cluster(capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, capsys)


def places(*text: str) -> list[str]:
    return [
        f"{name}:{index}" for each in text for name, _, indexes in [each.partition(":")] for index in indexes
    ]


FILTERS = [
    pytest.param((), places("__own:0", "orders:012", "pay:012345"), id="all"),
    pytest.param(("--exclude-internal-topics",), places("orders:012", "pay:012345"), id="no-internal"),
    pytest.param(("--topic", "orders"), places("orders:012"), id="a-topic"),
    pytest.param(("--topic", "p.*"), places("pay:012345"), id="an-expression"),
    pytest.param(("--topic", "orders,p.*"), places("orders:012", "pay:012345"), id="two-expressions"),
    pytest.param(("--topic", "order"), None, id="the-whole-name-matches"),
    pytest.param(("--partitions", "1,5"), places("orders:1", "pay:15"), id="partitions"),
    pytest.param(("--topic", "pay", "--partitions", "0"), places("pay:0"), id="both"),
    pytest.param(("--topic-partitions", "pay:2"), places("pay:2"), id="one"),
    pytest.param(("--topic-partitions", "pay:1-3"), places("pay:12"), id="a-range-without-its-end"),
    pytest.param(("--topic-partitions", "pay:4-"), places("pay:45"), id="from"),
    pytest.param(("--topic-partitions", "pay:-2"), places("pay:01"), id="up-to"),
    pytest.param(("--topic-partitions", ":2"), places("orders:2", "pay:2"), id="of-any-topic"),
    pytest.param(("--topic-partitions", "orders,pay:5"), places("orders:012", "pay:5"), id="a-list"),
    pytest.param(("--topic-partitions", "none:5"), None, id="nothing"),
]


@pytest.mark.parametrize(("words", "expected"), FILTERS)
def test_which_partitions_are_selected(
    cluster: Cluster, words: tuple[str, ...], expected: list[str] | None
) -> None:
    said = cluster.run(*words)
    if expected is None:
        assert (said.status, "no partition matches" in said.stderr) == (1, True)
        return
    assert [line.rsplit(":", 1)[0] for line in said.stdout.splitlines()] == expected
    assert said.status == 0


TIMES = [
    pytest.param((), 109, id="latest"),
    pytest.param(("--time", "earliest"), 108, id="earliest"),
    pytest.param(("--time", "-3"), 107, id="a-special-number"),
    pytest.param(("--time", "max-timestamp"), 107, id="max-timestamp"),
    pytest.param(("--time", "earliest-local"), 106, id="earliest-local"),
    pytest.param(("--time", "5000"), 5110, id="milliseconds"),
]


@pytest.mark.parametrize(("words", "offset"), TIMES)
def test_at_which_time(cluster: Cluster, words: tuple[str, ...], offset: int) -> None:
    said = cluster.run("--topic-partitions", "pay:1", *words, "--format", "json")
    assert contents(said.stdout) == [{"topic": "pay", "partition": 1, "offset": offset}]


def test_a_partition_without_a_record_so_late_is_left_out(cluster: Cluster) -> None:
    said = cluster.run("--topic", "pay", "--time", NO_RECORD_MS)
    assert (said.status, said.stdout) == (0, "")


def test_partitions_without_a_leader_are_named_and_the_others_printed(cluster: Cluster) -> None:
    cluster.topics = LOST
    said = cluster.run()
    assert (said.status, "no broker leads lost-3" in said.stderr) == (3, True)
    assert said.stdout.split() == ["lost:0:9", "lost:1:109", "lost:2:209", "lost:4:409"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--topic", "t", "--topic-partitions", "t"), "expected --topic-partitions, or"),
        (("--topic", "(("), "no regular expression"),
        (("--partitions", "one"), "expected numbers as 0,1,2"),
        (("--topic-partitions", "t:1:2"), "expected TOPIC[:N|N-M]"),
        (("--time", "noon"), "expected latest, earliest"),
    ],
)
def test_what_is_no_selection(cluster: Cluster, words: tuple[str, ...], complaint: str) -> None:
    said = cluster.run(*words)
    assert (said.status, complaint in said.stderr) == (2, True)
