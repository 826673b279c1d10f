"""Topics: names, counts, replicas; every success, every refusal, the laws of the image's records."""

import uuid
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.errors import ErrorCode, PolicyViolation
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import (
    PARTITIONS_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    ROWS_PER_REQUEST_MAX,
    TOPICS_PER_REQUEST_MAX,
    TopicRules,
    decide_create,
)
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import (
    HOSTED,
    TOPICS,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    NewTopic,
    Partition,
    TopicDeleted,
    find,
    find_by_id,
    partition,
    records_of,
)
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from fencepost.records.types import BrokerId
from tests.controller.topic_worlds import LENIENT, LIVE, ORDERS, RULES, create, spread, world
from tests.controller.worlds import HERE, image, registered, rows
from tests.together import table

CREATED = [
    pytest.param(NewTopic("orders", 1, 1), RULES, 1, id="one-partition"),
    pytest.param(NewTopic("orders"), RULES, 4, id="the-defaults"),
    pytest.param(NewTopic("orders", 7, -1), RULES, 7, id="the-default-replication-factor"),
    pytest.param(NewTopic("orders", 2, 3), LENIENT, 2, id="three-replicas-become-one-where-allowed"),
    pytest.param(
        NewTopic("orders"),
        TopicRules(replication_factor_default=3, allow_unreplicated=True),
        1,
        id="three-by-default-become-one-where-allowed",
    ),
    pytest.param(
        NewTopic("orders", PARTITIONS_PER_REQUEST_MAX, 1),
        RULES,
        PARTITIONS_PER_REQUEST_MAX,
        id="the-most-partitions",
    ),
    pytest.param(NewTopic("a" * 249, 1, 1), RULES, 1, id="the-longest-name"),
    pytest.param(NewTopic("__mine", 1, 1), RULES, 1, id="underscores-that-are-not-ours"),
    pytest.param(NewTopic("...", 1, 1), RULES, 1, id="three-dots"),
    pytest.param(NewTopic("orders", assignments=((1, (2,)), (0, (3,)))), RULES, 2, id="assigned"),
    pytest.param(
        NewTopic("orders", assignments=((0, (3, 1)),)), LENIENT, 1, id="assigned-twice-becomes-once"
    ),
]


@pytest.mark.parametrize(("topic", "rules", "partition_count"), CREATED)
def test_a_topic_is_created(topic: NewTopic, rules: TopicRules, partition_count: int) -> None:
    view = world()
    (answer,) = create(view, topic, rules=rules)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert (answer.partition_count, answer.replication_factor) == (partition_count, 1)
    found = find(view, topic.name)
    assert found is not None
    assert found == find_by_id(view, answer.topic_id)
    assert (found.topic_id, found.partition_count) == (answer.topic_id, partition_count)
    assert answer.topic_id.int
    loads = Counter(spread(view, topic.name))
    assert sum(loads.values()) == partition_count
    assert dict(view.items(HOSTED)) == loads
    assert partition(view, topic.name, partition_count) is None


@pytest.mark.parametrize(
    ("fits", "last"),
    [
        pytest.param(True, NewTopic("last", 1, 1, configs=(("retention.ms", "1"),)), id="at-the-bound"),
        pytest.param(False, NewTopic("last", 2, 1, configs=(("retention.ms", "1"),)), id="a-partition-more"),
        pytest.param(
            False,
            NewTopic("last", 1, 1, configs=(("retention.ms", "1"), ("retention.bytes", "1"))),
            id="a-setting-more",
        ),
    ],
)
def test_topics_partitions_and_settings_of_a_request_are_bounded_together(fits: bool, last: NewTopic) -> None:
    view = world()
    configs = (("retention.ms", "1"), ("retention.bytes", "1"), ("max.message.bytes", "1000000"))
    before = [NewTopic(f"t{each}", 4, 1, configs=configs) for each in range(ROWS_PER_REQUEST_MAX // 8 - 1)]
    left = ROWS_PER_REQUEST_MAX - 8 * len(before) - 3
    before.append(NewTopic("rest", left - 1, 1))
    *answers, of_last = create(view, *before, last)
    assert all(each.error_code == ErrorCode.NONE for each in answers)
    assert of_last.error_code == (ErrorCode.NONE if fits else ErrorCode.POLICY_VIOLATION)
    assert (find(view, "last") is not None) is fits


def test_assigned_replicas_stay_where_they_were_put() -> None:
    view = world()
    create(view, NewTopic("orders", assignments=((1, (2,)), (0, (3,)))))
    assert partition(view, "orders", 0) == Partition((3,), 3, 0, (HERE,))
    assert partition(view, "orders", 1) == Partition((2,), 2, 0, (HERE,))


REFUSED = [
    pytest.param(NewTopic("taken", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists", id="taken"),
    pytest.param(NewTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "''", id="empty-name"),
    pytest.param(NewTopic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "'.'", id="dot"),
    pytest.param(NewTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..'", id="dots"),
    pytest.param(
        NewTopic("a" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "at most 249", id="name-one-too-long"
    ),
    pytest.param(NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "only ASCII", id="slash"),
    pytest.param(NewTopic("ä", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "only ASCII", id="not-ascii"),
    pytest.param(NewTopic("a\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "only ASCII", id="line-feed"),
    pytest.param(
        NewTopic("a_b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with topic a.b", id="collision"
    ),
    pytest.param(
        NewTopic("__transaction_state", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "by the quorum", id="ours"
    ),
    pytest.param(NewTopic("new", 0, 1), ErrorCode.INVALID_PARTITIONS, "0 partitions", id="no-partitions"),
    pytest.param(
        NewTopic("new", -2, 1), ErrorCode.INVALID_PARTITIONS, "-2 partitions", id="negative-partitions"
    ),
    pytest.param(
        NewTopic("new", PARTITIONS_PER_REQUEST_MAX + 1, 1),
        ErrorCode.POLICY_VIOLATION,
        "more than 2000",
        id="one-partition-too-many",
    ),
    pytest.param(
        NewTopic("new", 2**31 - 1, 1), ErrorCode.POLICY_VIOLATION, "more than 2000", id="partitions-absurd"
    ),
    pytest.param(NewTopic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "factor 0", id="no-replica"),
    pytest.param(
        NewTopic("new", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "factor -2", id="negative-replicas"
    ),
    pytest.param(
        NewTopic("new", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "have one replica", id="two-replicas"
    ),
    pytest.param(
        NewTopic("new", 1, 1, ((0, (1,)),)),
        ErrorCode.INVALID_REQUEST,
        "both counts must be -1",
        id="assigned-and-counted",
    ),
    pytest.param(
        NewTopic("new", assignments=((0, (1, 2)),)),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "have one",
        id="assigned-two",
    ),
    pytest.param(
        NewTopic("new", assignments=((1, (1,)),)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "0 to 0",
        id="assigned-from-1",
    ),
    pytest.param(
        NewTopic("new", assignments=((0, (1,)), (0, (2,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "each once",
        id="partition-assigned-twice",
    ),
    pytest.param(
        NewTopic("new", assignments=((0, (9,)),)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "broker 9",
        id="assigned-nowhere",
    ),
    pytest.param(
        NewTopic("new", assignments=((0, ()),)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "got ()",
        id="assigned-to-nobody",
    ),
    pytest.param(
        NewTopic("new", 1, 1, configs=(("retention.msx", "1"),)),
        ErrorCode.INVALID_CONFIG,
        "did you mean retention.ms?",
        id="unknown-setting",
    ),
    pytest.param(
        NewTopic("new", 1, 1, configs=(("retention.ms", None),)),
        ErrorCode.INVALID_CONFIG,
        "got null",
        id="null-setting",
    ),
    pytest.param(
        NewTopic("new", 1, 1, configs=(("cleanup.policy", "evict"),)),
        ErrorCode.INVALID_CONFIG,
        "cleanup.policy: expected one or more of delete, compact; got 'evict'",
        id="no-such-policy",
    ),
]


@table(("topic", "code", "message"), REFUSED)
def test_a_topic_is_refused(topic: NewTopic, code: ErrorCode, message: str) -> None:
    view = world(NewTopic("taken", 1, 1), NewTopic("a.b", 1, 1))
    before = rows(view)
    (answer,) = create(view, topic)
    assert (answer.name, answer.error_code) == (topic.name, code)
    assert message in (answer.error_message or "")
    assert rows(view) == before


def test_each_topic_of_a_request_has_its_own_fate() -> None:
    view = world(NewTopic("old", 1, 1))
    answers = create(
        view,
        NewTopic("new", 1, 1),
        NewTopic("old", 1, 1),
        NewTopic("a.b", 1),
        NewTopic("a_b", 1),
        NewTopic("x"),
        NewTopic("x"),
    )
    assert [(each.name, each.error_code) for each in answers] == [
        ("new", ErrorCode.NONE),
        ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a.b", ErrorCode.NONE),
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x", ErrorCode.INVALID_REQUEST),
    ]
    assert [name for name, _ in view.items(TOPICS)] == ["a.b", "new", "old"]


def test_a_validated_topic_is_not_created() -> None:
    view = world()
    request = CreateTopics((NewTopic("orders", 2, 1),), validate_only=True)
    decision = decide_create(view, request, RULES, Random(1))
    assert decision.records == ()
    assert decision.response.topics[0].partition_count == 2


@pytest.mark.parametrize("fenced", [True, False], ids=["all-fenced", "none-registered"])
def test_no_broker_can_keep_it(fenced: bool) -> None:
    view = image(registered(1, 100)) if fenced else image()
    (answer,) = create(view, NewTopic("orders", 1, 1))
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "no broker is there" in (answer.error_message or "")


def test_the_request_and_the_cluster_have_a_size() -> None:
    view = world()
    many = tuple(NewTopic(f"t{number}", 1, 1) for number in range(TOPICS_PER_REQUEST_MAX + 1))
    with pytest.raises(PolicyViolation):
        decide_create(view, CreateTopics(many), RULES, Random(1))
    assert all(not each.error_code for each in create(view, *many[:-1]))
    view.put(HOSTED, BrokerId(1), PARTITIONS_MAX - 3)
    view.put(HOSTED, BrokerId(2), 0)
    view.put(HOSTED, BrokerId(3), 1)
    asked = (NewTopic("y", 3, 1), NewTopic("z", 2, 1), NewTopic("w", 1, 1))
    one_too_many, fits, nothing_left = create(view, *asked, seed=2)
    assert one_too_many.error_code == ErrorCode.POLICY_VIOLATION
    assert fits.error_code == ErrorCode.NONE
    assert nothing_left.error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("count", "code"),
    [
        pytest.param(2, ErrorCode.NONE, id="at-the-limit"),
        pytest.param(3, ErrorCode.POLICY_VIOLATION, id="one-past"),
    ],
)
def test_topics_that_are_created_by_being_asked_for_have_a_limit_of_their_own(
    count: int, code: ErrorCode
) -> None:
    view = world()
    view.put(HOSTED, BrokerId(1), 5)
    request = CreateTopics((NewTopic("asked", count, 1),))
    found = decide_create(view, request, RULES, Random(1), partitions_max=7).response.topics
    assert [each.error_code for each in found] == [code]
    assert create(view, NewTopic("created", count, 1))[0].error_code == ErrorCode.NONE


# -- records ---------------------------------------------------------------------------------------------


def test_the_records_of_the_image_make_the_image() -> None:
    configs = (("retention.ms", "5"), ("segment.bytes", "99"))
    view = world(NewTopic("z", 2, 1), NewTopic("a.b", 3, 1, configs=configs), NewTopic("c", 1, 1))
    again = image(*LIVE, *records_of(view))
    assert rows(again) == rows(view)


def test_a_setting_can_be_removed() -> None:
    view = world(NewTopic("a", 1, 1, configs=(("retention.ms", "5"), ("segment.bytes", "99"))))
    replay_record(view, ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None))
    found = find(view, "a")
    assert found is not None
    assert found.configs == (("segment.bytes", "99"),)


IMPOSSIBLE = [
    pytest.param(TopicRecord(name="orders", topic_id=uuid.UUID(int=1)), id="name-twice"),
    pytest.param(TopicRecord(name="other", topic_id=ORDERS), id="id-twice"),
    pytest.param(
        PartitionRecord(partition_id=2, topic_id=ORDERS, replicas=(1,), isr=(1,)), id="partition-with-a-gap"
    ),
    pytest.param(
        PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=(1,), isr=(1,)), id="partition-twice"
    ),
    pytest.param(
        PartitionRecord(partition_id=0, topic_id=uuid.UUID(int=1), replicas=(), isr=()), id="of-no-topic"
    ),
    pytest.param(
        ConfigRecord(resource_type=2, resource_name="ghost", name="a", value="b"), id="setting-of-no-topic"
    ),
    pytest.param(
        ConfigRecord(resource_type=8, resource_name="1", name="a", value="b"), id="setting-of-a-logger"
    ),
    pytest.param(RemoveTopicRecord(topic_id=uuid.UUID(int=1)), id="removal-of-no-topic"),
]


@table("record", IMPOSSIBLE)
def test_a_record_that_cannot_apply_is_our_bug(record: MetadataRecord) -> None:
    view = image(
        TopicRecord(name="orders", topic_id=ORDERS),
        PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=(1,), isr=(1,)),
    )
    with pytest.raises(InvariantViolation):
        replay_record(view, record)


@given(st.integers(0, 2**32))
def test_ids_differ_and_can_be_typed(seed: int) -> None:
    view = world()
    answers = create(view, *(NewTopic(f"t{number}", 1, 1) for number in range(20)), seed=seed)
    assert len({each.topic_id for each in answers}) == 20
    assert not any(each.topic_id.bytes[0] >> 2 == 62 for each in answers)  # '-' in Kafka's base64


def test_an_answer_is_one_for_each_topic() -> None:
    assert decide_create(world(), CreateTopics(()), RULES, Random(1)).response == CreateTopicsAnswer(())
    decided = decide_delete(world(), DeleteTopics(), RULES)
    assert decided.response.topics == ()
    assert TopicDeleted("a").error_code == ErrorCode.NONE


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1), (1, 1)])
def test_with_assigned_replicas_no_count_is_given(partitions: int, replicas: int) -> None:
    (answer,) = create(world(), NewTopic("orders", partitions, replicas, assignments=((0, (2,)),)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
