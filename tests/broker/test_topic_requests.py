"""Metadata on a whole broker, against a scripted controller."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.topic_requests import FORWARDED_MAX
from fencepost.broker.topics import CONFIGS_MAX
from fencepost.controller import topic_creation, topic_deletion
from fencepost.controller.errors import ErrorCode, InvalidRequest, NotController
from fencepost.controller.topics import TOPIC_RESOURCE, CreateTopics, DeleteTopics, NewTopic
from fencepost.records.types import NodeId
from fencepost.wire.connection import ConnectionLost
from fencepost.wire.dispatch import Api
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    RESOURCES_MAX,
    ConfigResource,
    DescribeConfigs,
)
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, ClusterNode, DescribeCluster
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import ELSEWHERE, HERE, hosting, produced
from tests.broker.fake_controller import SILENCE, FakeController, play
from tests.broker.whole_broker import stage
from tests.together import table


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


@pytest.fixture
def leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that stops does not wait for a controller."""
    monkeypatch.setattr("fencepost.broker.main.LEAVE_S_MAX", 0.05)


LISTS_BROKERS = [
    pytest.param(METADATA, Metadata(()), id="metadata"),
    pytest.param(DESCRIBE_CLUSTER, DescribeCluster(), id="describe-cluster"),
]


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize(("api", "request_"), LISTS_BROKERS)
def test_no_list_of_brokers_is_given_before_the_controller_has_given_one(
    api: Api[Any, Any], request_: Any
) -> None:
    """librdkafka closes its connections to brokers that are not listed, the coordinator's included."""

    async def story() -> None:
        controller = FakeController(node_id=ELSEWHERE)
        controller.script(DESCRIBE_CLUSTER, *[NotController("no one leads")] * 3)
        async with stage(controller) as on:
            controller.brokers = (on.itself, ClusterNode(ELSEWHERE, "127.0.0.1", 9))
            answer = await on.call(api, request_)
            assert len(answer.brokers) == 2

    play(story)


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize(("api", "request_"), LISTS_BROKERS)
def test_a_client_is_sent_away_if_no_controller_lists_the_brokers(
    api: Api[Any, Any], request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.broker.first_picture.FIRST_PICTURE_S_MAX", 0.05)

    async def story() -> None:
        controller = FakeController()
        controller.script(DESCRIBE_CLUSTER, *[SILENCE] * 10_000)
        async with stage(controller) as on:
            with pytest.raises(ConnectionLost):
                await on.call(api, request_)

    play(story)


@pytest.mark.usefixtures("leaves_at_once")
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


@pytest.mark.usefixtures("leaves_at_once")
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


@pytest.mark.usefixtures("leaves_at_once")
@pytest.mark.parametrize("version", [12, 13])
def test_metadata_names_the_brokers_however_many_requests_wait_for_the_controller(version: int) -> None:
    """Clients drop brokers that are not named, and version 12 has no error but a topic's."""

    async def story() -> None:
        async with stage(FakeController()) as on:
            on.controller.brokers = (on.itself, ClusterNode(ELSEWHERE, "127.0.0.1", 9))
            while len((await on.call(METADATA, Metadata(()))).brokers) != 2:
                pass
            on.controller.script(METADATA, *[SILENCE] * 10_000)
            request = Metadata((TopicQuery("new"),))
            waiting = [asyncio.create_task(on.call(METADATA, request)) for _ in range(FORWARDED_MAX)]
            requests = on.broker._server._topic_requests
            while len(requests._waiting) < FORWARDED_MAX:
                await asyncio.sleep(0.001)
            answer = await on.call(METADATA, request, version)
            assert len(answer.brokers) == 2
            assert [each.error_code for each in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    play(story)


def topics_created(count: int) -> CreateTopics:
    return CreateTopics(tuple(NewTopic(f"t{number}", 1, 1) for number in range(count)))


def topics_deleted(count: int) -> DeleteTopics:
    return DeleteTopics(tuple(f"t{number}" for number in range(count)))


def configs_described(count: int) -> DescribeConfigs:
    return DescribeConfigs(tuple(ConfigResource(TOPIC_RESOURCE, f"t{number}") for number in range(count)))


FORWARDED = [
    pytest.param(CREATE_TOPICS, topics_created, topic_creation.TOPICS_PER_REQUEST_MAX, "topics", id="create"),
    pytest.param(DELETE_TOPICS, topics_deleted, topic_deletion.TOPICS_PER_REQUEST_MAX, "topics", id="delete"),
    pytest.param(DESCRIBE_CONFIGS, configs_described, RESOURCES_MAX, "results", id="describe-configs"),
]


@pytest.mark.parametrize(("api", "requested", "most", "rows"), FORWARDED)
def test_what_the_controller_would_refuse_for_its_length_is_not_forwarded(
    tmp_path: Path, api: Api[Any, Any], requested: Callable[[int], Any], most: int, rows: str
) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            refused = await on.call(api, requested(most + 1))
            codes = {each.error_code for each in getattr(refused, rows)}
            assert len(getattr(refused, rows)) == most + 1
            assert codes <= {ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REQUEST}
            assert on.controller.asked[api.key] == []
            await on.call(api, requested(most))
            assert on.controller.asked[api.key] != []

    play(story)


@table("count", [0, 1, CONFIGS_MAX, CONFIGS_MAX + 1, RESOURCES_MAX])
def test_settings_of_many_topics_are_read_some_at_a_time(tmp_path: Path, count: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            answer = await on.call(DESCRIBE_CONFIGS, configs_described(count))
            assert [each.name for each in answer.results] == [f"t{number}" for number in range(count)]
            sizes = [len(each.resources) for each in on.controller.asked[DESCRIBE_CONFIGS.key]]
            assert sum(sizes) == count
            assert max(sizes) <= CONFIGS_MAX

    play(story)


def test_settings_that_are_refused_have_the_refusal_in_their_rows(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            first = [
                lambda request, _context: on.controller._describe_configs(request),
                InvalidRequest("not this"),
            ]
            on.controller.scripts[DESCRIBE_CONFIGS.key].extend(first)
            answer = await on.call(DESCRIBE_CONFIGS, configs_described(2 * CONFIGS_MAX))
            codes = [each.error_code for each in answer.results]
            assert codes == [ErrorCode.NONE] * CONFIGS_MAX + [ErrorCode.INVALID_REQUEST] * CONFIGS_MAX

    play(story)


def test_a_topic_that_is_named_many_times_is_answered_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            queries = (TopicQuery(TOPIC),) * 1000
            assert [each.name for each in (await on.call(METADATA, Metadata(queries), 13)).topics] == [TOPIC]

    play(story)
