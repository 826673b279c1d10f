"""Without an authorizer clients that request which operations are authorized get all of them, as of Kafka."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.access.unguarded import EVERY, open_to_all
from fencepost.controller.acl_types import ResourceType
from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.describe import (
    NO_OPERATIONS,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsAnswer,
)
from fencepost.wire.dispatch import Context
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k75_describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitions
from tests.broker.access.doors import ALICE, HOST
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE, hosting
from tests.broker.fake_controller import play
from tests.together import table
from tests.wire.answering import Answering

OF_TOPIC, OF_GROUP, OF_CLUSTER = (
    EVERY[of] for of in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
)
NAMED = (TopicQuery(TOPIC), TopicQuery("nowhere"))


def test_all_operations_are_those_that_kafka_answers() -> None:
    """Of Apache Kafka 4.1.1 without an authorizer (tests/clients/same_requests.py)."""
    assert (OF_TOPIC, OF_GROUP, OF_CLUSTER) == (3576, 3400, 8096)


@pytest.mark.parametrize(
    ("lines", "topic", "cluster"),
    [
        pytest.param(None, OF_TOPIC, OF_CLUSTER, id="open"),
        pytest.param("User:ANONYMOUS ALTER\n", NO_OPERATIONS, NO_OPERATIONS, id="a-file-says-who-may"),
    ],
)
def test_a_broker_shows_what_was_requested(
    tmp_path: Path, lines: str | None, topic: int, cluster: int
) -> None:
    acls = None if lines is None else tmp_path / "acls"
    if acls is not None and lines is not None:
        acls.write_text(lines)

    async def story() -> None:
        async with hosting(tmp_path / "data", HERE, acls_file=acls) as on:
            for of_cluster, of_topics in ((False, False), (True, False), (False, True), (True, True)):
                request = Metadata(NAMED, False, of_cluster, of_topics)
                answer = await on.call(METADATA, request, 10)
                assert answer.cluster_authorized_operations == (cluster if of_cluster else NO_OPERATIONS)
                shown = {each.name: each.topic_authorized_operations for each in answer.topics}
                assert shown == dict.fromkeys((TOPIC, "nowhere"), topic if of_topics else NO_OPERATIONS)
            for requested in (True, False):
                found = await on.call(DESCRIBE_CLUSTER, DescribeCluster(1, requested))
                assert found.cluster_authorized_operations == (cluster if requested else NO_OPERATIONS)
            paged = await on.call(DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitions((TOPIC,)))
            assert [each.topic_authorized_operations for each in paged.topics] == [topic]

    play(story)


def test_a_topic_that_is_requested_by_an_unknown_id_has_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            stranger = TopicQuery(None, on.controller.topics[TOPIC].topic_id)
            known = Metadata((stranger,), False, False, True)
            (found,) = (await on.call(METADATA, known, 12)).topics
            assert (found.name, found.topic_authorized_operations) == (TOPIC, OF_TOPIC)
            del on.controller.topics[TOPIC]
            await on.broker._data.topics.refresh()
            (found,) = (await on.call(METADATA, known, 12)).topics
            assert (found.name, found.topic_authorized_operations) == (None, NO_OPERATIONS)

    play(story)


@table(
    ("code", "version", "shown"),
    [
        pytest.param(ErrorCode.NONE, 6, OF_GROUP, id="described"),
        pytest.param(ErrorCode.GROUP_ID_NOT_FOUND, 6, NO_OPERATIONS, id="not-found"),
        pytest.param(ErrorCode.GROUP_ID_NOT_FOUND, 5, OF_GROUP, id="dead-and-no-error"),
        pytest.param(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5, NO_OPERATIONS, id="not-described"),
    ],
)
def test_a_group_that_is_an_error_has_none(code: ErrorCode, version: int, shown: int) -> None:
    def endpoint(request: DescribeGroups, _context: Context, reply: Any) -> None:
        reply(DescribeGroupsAnswer(tuple(DescribedGroup(each, code) for each in request.group_ids)))

    service = open_to_all({15: (DESCRIBE_GROUPS, endpoint)})
    answers: list[DescribeGroupsAnswer] = []
    for requested in (True, False):
        service[15][1](
            DescribeGroups(("g",), requested),
            Context(ALICE, "X", None, f"{HOST}:1"),
            Answering(lambda answer, _: answers.append(answer)),
        )
    seen = [
        DESCRIBE_GROUPS.decode_response(version, DESCRIBE_GROUPS.encode_response(version, each, 0))
        for each in answers
    ]
    assert [each.groups[0].authorized_operations for each in seen] == [shown, NO_OPERATIONS]
