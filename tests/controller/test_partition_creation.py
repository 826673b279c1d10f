"""A topic gets more partitions, never fewer; each topic of a request is on its own."""

import pytest

from fencepost.controller.errors import ErrorCode, PolicyViolation, UnsupportedVersion
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.partition_creation import (
    PARTITIONS_PER_REQUEST_MAX,
    TOPICS_PER_REQUEST_MAX,
    CreatePartitions,
    NewPartitions,
    PartitionsCreated,
    decide_create_partitions,
    require_count,
)
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import TopicRules
from fencepost.controller.topics import HOSTED, NewTopic, find, partition
from fencepost.controller.view import Overlay
from fencepost.records.levels import CHANGED_TOPICS
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import BrokerId
from tests.controller.topic_worlds import LENIENT, RULES, spread, world
from tests.controller.worlds import changed
from tests.together import table


def stage(*, level: int = CHANGED_TOPICS) -> Overlay:
    view = world(NewTopic("orders", 2, 1), NewTopic("plain", 1, 1))
    replay_record(view, FeatureLevelRecord(name=LOG_LEVEL, feature_level=level))
    return view


def more(
    view: Overlay,
    *topics: NewPartitions,
    validate_only: bool = False,
    rules: TopicRules = RULES,
    partitions_max: int = 100_000,
) -> tuple[PartitionsCreated, ...]:
    request = CreatePartitions(topics, validate_only)
    decision = decide_create_partitions(view, request, rules, partitions_max=partitions_max)
    for record in decision.records:
        replay_record(view, record)
    return decision.response.topics


def count(view: Overlay, name: str) -> int:
    topic = find(view, name)
    assert topic is not None
    return topic.partition_count


def test_new_partitions_have_the_next_indexes_and_begin_where_the_fewest_replicas_are() -> None:
    view = stage()
    assert spread(view, "orders") + spread(view, "plain") == [1, 2, 3]
    assert more(view, NewPartitions("orders", 5)) == (PartitionsCreated("orders"),)
    assert spread(view, "orders") == [1, 2, 1, 2, 3]
    assert more(view, NewPartitions("plain", 2)) == (PartitionsCreated("plain"),)
    assert spread(view, "plain") == [3, 1]
    kept = partition(view, "orders", 4)
    assert kept is not None
    assert (kept.replicas, kept.leader, kept.leader_epoch, len(kept.directories)) == ((3,), 3, 0, 1)
    assert [view.get(HOSTED, BrokerId(each)) for each in (1, 2, 3)] == [3, 2, 2]


def test_new_partitions_are_where_they_are_assigned() -> None:
    view = stage()
    more(view, NewPartitions("orders", 4, ((3,), (3,))))
    assert spread(view, "orders") == [1, 2, 3, 3]
    more(view, NewPartitions("orders", 5, ((2, 1),)), rules=LENIENT)
    assert spread(view, "orders") == [1, 2, 3, 3, 2]


REFUSED = [
    (NewPartitions("orders", 2), ErrorCode.INVALID_PARTITIONS),
    (NewPartitions("orders", 1), ErrorCode.INVALID_PARTITIONS),
    (NewPartitions("orders", 0), ErrorCode.INVALID_PARTITIONS),
    (NewPartitions("orders", -1), ErrorCode.INVALID_PARTITIONS),
    (NewPartitions("orders", -(2**31)), ErrorCode.INVALID_PARTITIONS),
    (NewPartitions("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
    (NewPartitions("orders", 2 + PARTITIONS_PER_REQUEST_MAX + 1), ErrorCode.POLICY_VIOLATION),
    (NewPartitions("none", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("\u00e4" * 30_000, 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("__consumer_offsets", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("orders", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((1,), (2,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((1, 2),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((9,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("orders", 3, ((-1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
]


@table(("topic", "code"), REFUSED)
def test_a_topic_that_is_refused_is_as_it_was_and_others_get_theirs(
    topic: NewPartitions, code: ErrorCode
) -> None:
    view = stage()
    refused, created = more(view, topic, NewPartitions("plain", 2))
    assert (refused.name, refused.error_code) == (topic.name, code)
    assert refused.error_message
    assert created == PartitionsCreated("plain")
    assert (count(view, "orders"), count(view, "plain")) == (2, 2)


def test_a_fenced_broker_gets_none() -> None:
    view = stage()
    for broker_id, epoch in ((1, 100), (2, 101), (3, 102)):
        replay_record(view, changed(broker_id, epoch, fenced=1))
    (chosen,) = more(view, NewPartitions("orders", 3))
    (assigned,) = more(view, NewPartitions("orders", 3, ((1,),)))
    assert chosen.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert assigned.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_what_is_only_validated_is_not_written() -> None:
    view = stage()
    good, bad = more(view, NewPartitions("orders", 9), NewPartitions("plain", 1), validate_only=True)
    assert (good.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS)
    assert (count(view, "orders"), count(view, "plain")) == (2, 1)


def test_a_topic_that_is_there_twice_is_refused_each_time() -> None:
    view = stage()
    answers = more(view, NewPartitions("orders", 3), NewPartitions("orders", 4))
    assert [each.error_code for each in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert count(view, "orders") == 2


def test_the_topics_of_a_request_are_bounded_together() -> None:
    view = stage()
    most = PARTITIONS_PER_REQUEST_MAX
    first, second = more(view, NewPartitions("orders", 2 + most), NewPartitions("plain", 2))
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.POLICY_VIOLATION)
    first, second = more(view, NewPartitions("orders", 2 + most + 4), NewPartitions("plain", 2),
                         partitions_max=3 + most + 4)  # fmt: skip
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.POLICY_VIOLATION)
    assert (count(view, "orders"), count(view, "plain")) == (2 + most + 4, 1)


def test_a_request_has_a_limit() -> None:
    topics = tuple(NewPartitions(str(each), 2) for each in range(TOPICS_PER_REQUEST_MAX + 1))
    require_count(CreatePartitions(topics[1:]))
    with pytest.raises(PolicyViolation, match="501 topics"):
        require_count(CreatePartitions(topics))


def test_below_its_log_level_nothing_is_created() -> None:
    with pytest.raises(UnsupportedVersion, match="needs log level 7"):
        more(stage(level=CHANGED_TOPICS - 1), NewPartitions("orders", 3))
