"""Metadata on a whole broker, against a scripted controller."""

from pathlib import Path

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.records.types import NodeId
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k60_describe_cluster import ClusterNode
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import ELSEWHERE, HERE, hosting, produced
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import stage


def test_metadata_tells_topics_by_name_by_id_and_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE) as on:
            topic = on.controller.topics[TOPIC]
            for queries in (None, (TopicQuery(TOPIC),), (TopicQuery(None, topic.topic_id),)):
                (row,) = (await on.call(METADATA, Metadata(queries), 13)).topics
                assert (row.name, row.topic_id, row.error_code) == (TOPIC, topic.topic_id, 0)
                assert [each.leader_id for each in row.partitions] == [HERE, ELSEWHERE]

    play(story)


@pytest.mark.parametrize("create", [True, False], ids=["may-create", "may-not"])
def test_metadata_of_an_unknown_topic_asks_whether_it_may_be_created(tmp_path: Path, create: bool) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            request = Metadata((TopicQuery("new"),), allow_auto_topic_creation=create)
            (row,) = (await on.call(METADATA, request, 13)).topics
            assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            asked = [each for each in on.controller.asked[METADATA.key] if each.topics is not None]
            assert [each.allow_auto_topic_creation for each in asked] == [create]

    play(story)


def test_while_nobody_leads_the_broker_that_is_asked_is_the_controller() -> None:
    """Not the leader that was killed, which is still among the brokers: kafkajs connects to it, and fails."""

    async def story() -> None:
        async with stage(FakeController(node_id=0)) as on:
            killed = ClusterNode(0, "127.0.0.1", 8)
            on.controller.brokers = (killed, on.itself, ClusterNode(ELSEWHERE, "127.0.0.1", 9))
            while (await on.call(METADATA, Metadata(()))).controller_id != killed.broker_id:
                pass
            await on.controller.stop()
            answer = await on.call(METADATA, Metadata(()))
            assert (answer.controller_id, len(answer.brokers)) == (HERE, 3)

    play(story)


def test_metadata_is_answered_from_memory_while_nobody_leads(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            on.controller.leader_id = NodeId(-1)
            await on.controller.stop()
            (row,) = (await on.call(METADATA, Metadata((TopicQuery(TOPIC),)), 13)).topics
            assert row.error_code == ErrorCode.NONE
            (row,) = await produced(on, produce(batch(b"b")))
            assert row.error_code == ErrorCode.NONE

    play(story)
