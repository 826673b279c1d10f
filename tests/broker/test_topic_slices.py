"""All topics of a large cluster are taken a few at a time, the event loop free between them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker import partitions as hosted
from fencepost.broker import topics as cached
from fencepost.broker.partitions import Partitions
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topics import TopicConfig
from fencepost.wire.k03_metadata import TOPIC_ROWS, PartitionMetadata, TopicMetadata, TopicQuery
from tests.broker.batches import TOPIC
from tests.broker.data_stage import ELSEWHERE, HERE, hosting
from tests.broker.fake_controller import play

TOPICS = 30
AT_ONCE = 3


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "TOPICS_AT_ONCE_MAX", AT_ONCE)
    monkeypatch.setattr(hosted, "PARTITIONS_AT_ONCE_MAX", AT_ONCE * (TOPIC_ROWS + 1))


class Turns:
    """Counts the turns of the loop, and calls ``between`` in each."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self.between = between

    async def of(self, work: Any) -> int:
        done = asyncio.ensure_future(work)
        begun = self.count
        while not done.done():
            self.count += 1
            self.between()
            await asyncio.sleep(0)
        done.result()
        return self.count - begun


def elsewhere(count: int) -> list[TopicMetadata]:
    """Topics of which this broker hosts nothing, so that nothing but the loop makes their look wait."""
    return [
        TopicMetadata(
            name=f"t{number}",
            partitions=(
                PartitionMetadata(partition_index=0, leader_id=ELSEWHERE, replica_nodes=(ELSEWHERE,)),
            ),
        )
        for number in range(count)
    ]


def test_the_loop_is_free_while_topics_are_taken_and_hosted(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            topics, turns = on.broker._data.topics, Turns()
            assert await turns.of(topics._take(elsewhere(TOPICS))) >= TOPICS // AT_ONCE
            assert len(topics.all()) == TOPICS
            assert (
                await turns.of(topics._partitions.host(elsewhere(TOPICS), may_make=True)) >= TOPICS // AT_ONCE
            )
            assert await turns.of(topics._host(elsewhere(TOPICS), True)) >= 2 * (TOPICS // AT_ONCE) - 1

    play(story)


def test_the_loop_is_free_while_partitions_are_looked_at_for_deletion(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, *[HERE] * (AT_ONCE * (TOPIC_ROWS + 1) * 3)) as on:
            await on.broker._data.topics.refresh()
            partitions = on.broker._data._partitions
            topic_ids = frozenset(each.topic_id for each in partitions)
            generation = partitions.generation
            assert await Turns().of(partitions.retire(topic_ids, generation)) >= 3
            assert len(list(partitions)) == AT_ONCE * (TOPIC_ROWS + 1) * 3

    play(story)


def test_what_is_looked_up_while_all_topics_are_taken_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = TopicMetadata(name="new", partitions=elsewhere(1)[0].partitions)
    gone = TopicMetadata(name="t0", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def said(_request: object) -> list[TopicMetadata]:
        return [new, gone]

    async def story() -> None:
        async with hosting(tmp_path) as on:
            topics = on.broker._data.topics
            monkeypatch.setattr(topics, "_ask", said)
            taking = asyncio.ensure_future(topics._take(elsewhere(10 * TOPICS)))
            await asyncio.sleep(0)
            await topics.look_up((TopicQuery("new"), TopicQuery("t0")))
            assert not taking.done()
            await taking
            assert topics.find("new") == new
            assert topics.find("t0") is None
            assert len(topics.all()) == 10 * TOPICS

    play(story)


def test_settings_of_a_topic_are_given_to_its_own_logs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ten thousand partitions here, each of a thousand topics would look at all of them."""

    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            other = on.controller.add_topic("other", HERE)
            await on.broker._data.topics.refresh()
            partitions = on.broker._data._partitions
            with monkeypatch.context() as patch:
                patch.setattr(Partitions, "__iter__", lambda _self: pytest.fail("it looks at all of them"))
                assert other.topic_id is not None
                partitions.configure(other.topic_id, (TopicConfig("max.message.bytes", "100", 1),))
            sizes = {str(each): each.log.config.message_bytes_max for each in partitions}
            assert sizes["other-0"] == 100
            assert sizes[f"{TOPIC}-0"] == sizes[f"{TOPIC}-1"] > 100

    play(story)


def test_a_partition_is_found_by_its_id_as_long_as_it_is_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, HERE) as on:
            await on.broker._data.topics.refresh()
            partitions = on.broker._data._partitions
            topic_id = on.controller.topics[TOPIC].topic_id
            assert topic_id is not None
            first, second = (partitions.find_by_id(topic_id, index) for index in (0, 1))
            assert (first, second) == (partitions.find(TOPIC, 0), partitions.find(TOPIC, 1))
            assert first is not None
            assert partitions.find_by_id(topic_id, 2) is None
            partitions.fail(first, OSError(5, "Input/output error"), doing="test")
            assert partitions.find_by_id(topic_id, 0) is None
            assert partitions.find_by_id(topic_id, 1) is second

    play(story)
