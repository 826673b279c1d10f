"""A lost partition is started again: where, by whom, and what is refused."""

import dataclasses
import uuid

import pytest

from fencepost.controller.errors import ApiError, InvalidRequest, UnsupportedVersion
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.partition_recovery import (
    START_OFFSET_MAX,
    PartitionRecovered,
    RecoverPartition,
    decide_recover,
)
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import OFFLINE_PARTITIONS, PARTITIONS, STARTED_AT
from fencepost.controller.view import Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.levels import PARTITION_RECOVERY
from fencepost.records.partition_report import OFFLINE, PartitionReport
from fencepost.records.schema import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.controller.worlds import HERE, changed, image, registered, reported

ORDERS, NEW = uuid.UUID(int=7), uuid.UUID(int=8)
KEY = (ORDERS, 0)
LEVEL = FeatureLevelRecord(name=LOG_LEVEL, feature_level=PARTITION_RECOVERY)
MADE = (
    registered(fenced=False),
    TopicRecord(name="orders", topic_id=ORDERS),
    PartitionRecord(
        partition_id=0,
        topic_id=ORDERS,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        directories=(HERE,),
    ),
)


def world() -> Overlay:
    return image(LEVEL, *MADE)


def recovered(view: Overlay, start: int) -> PartitionRecovered:
    decision = decide_recover(view, RecoverPartition("orders", 0, start))
    for record in decision.records:
        replay_record(view, record)
    return decision.response


def test_it_begins_a_leader_epoch_where_its_broker_is_now() -> None:
    view = world()
    replay_record(view, dataclasses.replace(registered(epoch=200, fenced=False), log_dirs=(NEW,)))
    assert recovered(view, 500) == PartitionRecovered(1, 500)
    kept = view.get(PARTITIONS, KEY)
    assert kept is not None
    assert (kept.leader, kept.leader_epoch, kept.directories) == (1, 1, (NEW,))
    assert view.get(STARTED_AT, KEY) == (500, 1)
    assert recovered(view, 500) == PartitionRecovered(2, 500)


def test_the_log_of_broker_0_is_begun_as_any_other() -> None:
    made = dataclasses.replace(MADE[2], leader=0, replicas=(0,), isr=(0,))
    view = image(LEVEL, registered(0, fenced=False), MADE[1], made)
    assert recovered(view, 500) == PartitionRecovered(1, 500)


def test_a_start_is_never_below_an_earlier_one_and_goes_with_its_topic() -> None:
    view = world()
    recovered(view, 500)
    assert recovered(view, 499) == PartitionRecovered(2, 500)
    replay_record(view, RemoveTopicRecord(topic_id=ORDERS))
    assert view.get(STARTED_AT, KEY) is None


def test_a_start_is_never_below_the_end_that_was_reported() -> None:
    view = world()
    replay_record(view, reported(PartitionReport(ORDERS, 0, 700)))
    assert recovered(view, 500) == PartitionRecovered(1, 700, 700)
    assert recovered(view, 900) == PartitionRecovered(2, 900, 700)


def test_a_dry_run_says_where_it_would_begin_and_changes_nothing() -> None:
    view = world()
    replay_record(view, reported(PartitionReport(ORDERS, 0, 700)))
    decision = decide_recover(view, RecoverPartition("orders", 0, 500, dry_run=True))
    assert (decision.records, decision.response) == ((), PartitionRecovered(1, 700, 700))


def test_a_partition_that_is_started_again_is_not_offline_any_more() -> None:
    view = world()
    replay_record(view, reported(PartitionReport(ORDERS, 0, OFFLINE)))
    recovered(view, 0)
    assert view.get(OFFLINE_PARTITIONS, KEY) is None


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        pytest.param(RecoverPartition("orders", 1, 0), "no partition orders-1", id="no-such-partition"),
        pytest.param(RecoverPartition("orders", -1, 0), "no partition orders--1", id="negative"),
        pytest.param(RecoverPartition("other", 0, 0), "no partition other-0", id="no-such-topic"),
        pytest.param(RecoverPartition("o" * 60_000, 0, 0), "no partition o", id="no-name"),
        pytest.param(RecoverPartition("orders", 0, -1), "start offset -1", id="negative-offset"),
        pytest.param(
            RecoverPartition("orders", 0, START_OFFSET_MAX + 1), "start offset", id="offset-too-high"
        ),
    ],
)
def test_refusals(request_: RecoverPartition, refusal: str) -> None:
    with pytest.raises(InvalidRequest, match=refusal):
        decide_recover(world(), request_)
    assert decide_recover(world(), RecoverPartition("orders", 0, START_OFFSET_MAX)).records


def test_a_broker_that_is_away_may_have_the_log() -> None:
    view = world()
    replay_record(view, changed(fenced=1))
    with pytest.raises(InvalidRequest, match="start it first"):
        recovered(view, 500)


def test_below_the_log_level_it_is_refused() -> None:
    for records in (MADE, (dataclasses.replace(LEVEL, feature_level=PARTITION_RECOVERY - 1), *MADE)):
        with pytest.raises(UnsupportedVersion, match="--log-level 6") as refused:
            decide_recover(image(*records), RecoverPartition("orders", 0, 0))
        assert isinstance(refused.value, ApiError)


@pytest.mark.parametrize("partition", [1, -1])
def test_a_change_of_no_partition_halts(partition: int) -> None:
    with pytest.raises(InvariantViolation, match="does not exist"):
        replay_record(world(), PartitionChangeRecord(partition_id=partition, topic_id=ORDERS, leader=1))


def test_what_is_not_named_stays() -> None:
    view = world()
    replay_record(view, PartitionChangeRecord(partition_id=0, topic_id=ORDERS))
    kept = view.get(PARTITIONS, KEY)
    assert kept is not None
    assert (kept.leader_epoch, kept.directories) == (0, (HERE,))
    assert view.get(STARTED_AT, KEY) is None
