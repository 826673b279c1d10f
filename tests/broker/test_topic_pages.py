"""DescribeTopicPartitions: pages of a list of topics, by a broker, and by what its principal may see."""

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.broker.access.unguarded import EVERY
from fencepost.broker.topic_pages import page
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.controller.errors import ErrorCode, InvalidRequest
from fencepost.wire.k03_metadata import METADATA, PartitionMetadata, TopicMetadata
from fencepost.wire.k75_describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    PARTITIONS_MAX,
    Cursor,
    DescribeTopicPartitions,
    TopicPartitionsDescribed,
)
from tests.broker.access.doors import Asked, allow
from tests.broker.batches import TOPIC
from tests.broker.data_stage import ELSEWHERE, HERE, hosting
from tests.broker.fake_controller import play
from tests.examples import examples

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topic(name: str, partitions: int) -> TopicMetadata:
    rows = tuple(PartitionMetadata(partition_index=n, error_code=5) for n in range(partitions))
    return TopicMetadata(name=name, topic_id=UUID(int=len(name)), partitions=rows)


def shown(answer: TopicPartitionsDescribed) -> list[tuple[str | None, int]]:
    return [(each.name, row.partition_index) for each in answer.topics for row in each.partitions]


SIZES = st.lists(st.integers(0, 7), max_size=8)


@given(SIZES, st.integers(-1, 12), st.sets(st.sampled_from("abcdefgh")))
@settings(max_examples=examples(60), deadline=None)
def test_pages_in_turn_have_every_partition_once(sizes: list[int], limit: int, hidden: set[str]) -> None:
    topics = [topic("abcdefgh"[number], size) for number, size in enumerate(sizes)]
    seen = [each for each in topics if each.name not in hidden]
    expected = [(each.name, row.partition_index) for each in seen for row in each.partitions]
    found: list[tuple[str | None, int]] = []
    names: list[str | None] = []
    cursor: Cursor | None = None
    while True:
        answer = page(seen, DescribeTopicPartitions((), limit, cursor))
        assert len(shown(answer)) <= max(limit, 1)
        assert all(row.error_code == 0 for each in answer.topics for row in each.partitions)
        found += shown(answer)
        names += [each.name for each in answer.topics]
        if answer.next_cursor is None:
            break
        assert answer.topics, "a page without anything would never end"
        cursor = answer.next_cursor
        assert cursor.topic_name not in hidden
    assert found == expected
    assert list(dict.fromkeys(names)) == [each.name for each in seen]


def test_a_page_has_a_bound_whatever_is_requested() -> None:
    topics = [topic("a", PARTITIONS_MAX - 1), topic("b", 3), topic("c", 0)]
    first = page(topics, DescribeTopicPartitions((), 2**31 - 1))
    assert (len(shown(first)), first.next_cursor) == (PARTITIONS_MAX, Cursor("b", 1))
    behind = page(topics, DescribeTopicPartitions((), 9, Cursor("b", 7)))
    assert [(each.name, len(each.partitions)) for each in behind.topics] == [("b", 0), ("c", 0)]


def test_a_broker_describes_topics_and_creates_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE, -1) as on:
            api = DESCRIBE_TOPIC_PARTITIONS
            topic_id = on.controller.topics[TOPIC].topic_id
            for names in ((), (TOPIC,), (TOPIC, TOPIC)):
                (found,) = (await on.call(api, DescribeTopicPartitions(names))).topics
                assert (found.name, found.topic_id, found.error_code) == (TOPIC, topic_id, 0)
                assert found.topic_authorized_operations == EVERY[ResourceType.TOPIC]
                assert [each.leader_id for each in found.partitions] == [HERE, ELSEWHERE, -1]
                assert [each.error_code for each in found.partitions] == [0, 0, 0]
            some = await on.call(api, DescribeTopicPartitions(("none", TOPIC), 2))
            first, last = sorted((TOPIC, "none"))
            assert [each.name for each in some.topics][:1] == [first]
            rest = await on.call(api, DescribeTopicPartitions(("none", TOPIC), 9, some.next_cursor))
            codes = {each.name: each.error_code for each in (*some.topics, *rest.topics)}
            assert codes == {TOPIC: 0, "none": UNKNOWN}
            assert last in codes
            unknown = next(each for each in (*some.topics, *rest.topics) if each.name == "none")
            assert unknown.topic_id is None
            assert not any(each.allow_auto_topic_creation for each in on.controller.asked[METADATA.key])
            for cursor in (Cursor("zebra", 0), Cursor(TOPIC, -1)):
                with pytest.raises(InvalidRequest):
                    DescribeTopicPartitions((TOPIC,), 9, cursor).wanted()

    play(story)


KNOWN = {"a": 3, "b": 2, "c": 4}


def described(request: DescribeTopicPartitions) -> TopicPartitionsDescribed:
    """What a broker with these topics answers."""
    names = request.wanted() or tuple(KNOWN)
    found = [
        topic(each, KNOWN[each]) if each in KNOWN else TopicMetadata(name=each, error_code=UNKNOWN)
        for each in names
    ]
    return page(found, request)


def requested(request: DescribeTopicPartitions, *visible: str) -> TopicPartitionsDescribed:
    acls = [allow(Operation.DESCRIBE, ResourceType.TOPIC, each) for each in visible]
    outcome = Asked(acls, DESCRIBE_TOPIC_PARTITIONS, request, described).outcome
    assert isinstance(outcome, TopicPartitionsDescribed)
    return outcome


def test_what_may_not_be_seen_takes_no_room_and_is_no_cursor() -> None:
    first = requested(DescribeTopicPartitions((), 3), "a", "c")
    assert (shown(first), first.next_cursor) == ([("a", 0), ("a", 1), ("a", 2)], Cursor("c", 0))
    rest = requested(DescribeTopicPartitions((), 9, first.next_cursor), "a", "c")
    assert (shown(rest), rest.next_cursor) == ([("c", n) for n in range(4)], None)
    assert {each.topic_authorized_operations for each in rest.topics} == {1 << Operation.DESCRIBE}
    named = requested(DescribeTopicPartitions(("a", "b", "nowhere", "hidden")), "a", "nowhere")
    assert {each.name: each.error_code for each in named.topics} == {
        "a": 0, "nowhere": UNKNOWN, "b": DENIED, "hidden": DENIED,
    }  # fmt: skip
    assert all(not each.partitions and each.topic_id is None for each in named.topics if each.error_code)
    nothing = requested(DescribeTopicPartitions(("b",), 9, Cursor("b", 1)))
    assert [(each.name, each.error_code) for each in nothing.topics] == [("b", DENIED)]
    assert requested(DescribeTopicPartitions()).topics == ()
