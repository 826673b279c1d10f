"""Topics are deleted by name and by id."""

import uuid

import pytest

from fencepost.controller.errors import ErrorCode, PolicyViolation, TopicDeletionDisabled
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import PARTITIONS_PER_REQUEST_MAX, TopicRules
from fencepost.controller.topic_deletion import PARTITIONS_PER_REQUEST_MAX as DELETED_AT_ONCE_MAX
from fencepost.controller.topic_deletion import TOPICS_PER_REQUEST_MAX as DELETED_PER_REQUEST_MAX
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import (
    COLLIDING,
    HOSTED,
    PARTITIONS,
    TOPIC_NAMES,
    TOPICS,
    DeleteTopics,
    NewTopic,
    find,
    partition,
)
from tests.controller.topic_worlds import RULES, create, world


def test_topics_are_deleted_by_name_and_by_id() -> None:
    view = world(NewTopic("a.b", 3, 1), NewTopic("c", 2, 1), NewTopic("kept", 1, 1))
    by_name, by_id, kept = find(view, "a.b"), find(view, "c"), find(view, "kept")
    assert by_name is not None
    assert by_id is not None
    assert kept is not None
    absent = uuid.UUID(int=7)
    decision = decide_delete(view, DeleteTopics(("a.b", "ghost"), (by_id.topic_id, absent)), RULES)
    assert [(each.name, each.topic_id, each.error_code) for each in decision.response.topics] == [
        ("a.b", by_name.topic_id, ErrorCode.NONE),
        ("ghost", uuid.UUID(int=0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("c", by_id.topic_id, ErrorCode.NONE),
        (None, absent, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    for record in decision.records:
        replay_record(view, record)
    assert [name for name, _ in view.items(TOPICS)] == ["kept"]
    assert [key for key, _ in view.items(PARTITIONS)] == [(kept.topic_id, 0)]
    assert [key for key, _ in view.items(TOPIC_NAMES)] == [kept.topic_id]
    assert list(view.items(COLLIDING)) == []
    assert sum(count for _, count in view.items(HOSTED)) == 1
    (again,) = create(view, NewTopic("a_b", 1, 1), seed=2)
    assert again.error_code == ErrorCode.NONE


def test_a_topic_asked_for_twice_is_not_deleted() -> None:
    view = world(NewTopic("orders", 1, 1))
    topic = find(view, "orders")
    assert topic is not None
    for request in (
        DeleteTopics(("orders", "orders")),
        DeleteTopics((), (topic.topic_id, topic.topic_id)),
        DeleteTopics(("orders",), (topic.topic_id,)),
    ):
        decision = decide_delete(view, request, RULES)
        assert decision.records == ()
        assert {each.error_code for each in decision.response.topics} == {ErrorCode.INVALID_REQUEST}


def test_deletion_can_be_forbidden_and_has_a_size() -> None:
    view = world()
    names = tuple(f"t{number}" for number in range(DELETED_AT_ONCE_MAX // PARTITIONS_PER_REQUEST_MAX + 1))
    for seed, name in enumerate(names):
        create(view, NewTopic(name, PARTITIONS_PER_REQUEST_MAX, 1), seed=seed)
    with pytest.raises(TopicDeletionDisabled):
        decide_delete(view, DeleteTopics(names), TopicRules(delete_topics=False))
    with pytest.raises(PolicyViolation):
        decide_delete(view, DeleteTopics(tuple(map(str, range(DELETED_PER_REQUEST_MAX + 1)))), RULES)
    *fit, one_too_many = decide_delete(view, DeleteTopics(names), RULES).response.topics
    assert {each.error_code for each in fit} == {ErrorCode.NONE}
    assert one_too_many.error_code == ErrorCode.POLICY_VIOLATION


def test_no_name_and_no_number_harms_the_reader() -> None:
    view = world(NewTopic("orders", 1, 1))
    for name in ("", "ghost", "x" * 40_000, "ö" * 300, "\0"):
        assert find(view, name) is None
        assert partition(view, name, 0) is None
    for index in (-1, 1, 2**31, 2**40):
        assert partition(view, "orders", index) is None
