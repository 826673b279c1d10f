"""What is kept of what brokers report: which of it, by whom, from which level on, and how often."""

import uuid
from itertools import pairwise
from typing import Any

import pytest

from fencepost.controller import cluster_version
from fencepost.controller.brokers import Heartbeat
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.partition_reports import END_MAX, ENDS_MS_MIN, EndTimes, is_offline, records_of
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import OFFLINE_PARTITIONS, PARTITION_ENDS, PARTITIONS
from fencepost.controller.view import Overlay
from fencepost.records.invariant import CorruptData
from fencepost.records.levels import PARTITION_REPORTS
from fencepost.records.partition_report import OFFLINE, PartitionReport, decode_reports
from fencepost.records.schema import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.controller.worlds import image, registered, reported
from tests.together import table

ORDERS, OTHER = uuid.UUID(int=7), uuid.UUID(int=8)
KEY = (ORDERS, 0)


def world(level: int = PARTITION_REPORTS) -> Overlay:
    """Partitions 0 of broker 1 and 1 of broker 2; broker 1 has epoch 100."""
    return image(
        FeatureLevelRecord(name=LOG_LEVEL, feature_level=level),
        registered(1, 100, fenced=False),
        registered(2, 101, fenced=False),
        TopicRecord(name="orders", topic_id=ORDERS),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=ORDERS,
                replicas=(broker,),
                isr=(broker,),
                leader=broker,
                leader_epoch=0,
            )
            for index, broker in enumerate((1, 2))
        ),
    )


def heartbeat(*reports: PartitionReport, epoch: int = 100, want_shut_down: bool = False) -> Heartbeat:
    return Heartbeat(BrokerId(1), BrokerEpoch(epoch), epoch, want_shut_down=want_shut_down, reports=reports)


def end(value: int, topic_id: uuid.UUID = ORDERS, partition: int = 0) -> PartitionReport:
    return PartitionReport(topic_id, partition, value)


def kept(view: Overlay, *reports: PartitionReport, ends_are_due: bool = True) -> list[PartitionReport]:
    """What of a heartbeat is written, and replayed."""
    written: list[PartitionReport] = []
    for record in records_of(view, heartbeat(*reports), ends_are_due=ends_are_due):
        replay_record(view, record)
        written += decode_reports(record.partition_reports)
    return written


ONCE = [
    pytest.param((end(5),), (end(5),), id="an-end"),
    pytest.param((end(5), end(6)), (end(5), end(6)), id="the-higher-one-counts"),
    pytest.param((end(0),), (), id="nothing-is-in-the-log"),
    pytest.param((end(END_MAX),), (end(END_MAX),), id="highest"),
    pytest.param((end(END_MAX + 1),), (), id="too-high"),
    pytest.param((end(1),), (end(1),), id="one-record"),
    pytest.param((end(-2),), (), id="neither-end-nor-offline"),
    pytest.param((end(OFFLINE),), (end(OFFLINE),), id="offline"),
    pytest.param((end(5, partition=1),), (), id="of-another-broker"),
    pytest.param((end(OFFLINE, partition=1),), (), id="offline-of-another-broker"),
    pytest.param((end(5, partition=2),), (), id="no-such-partition"),
    pytest.param((end(5, partition=-1),), (), id="negative-partition"),
    pytest.param((end(5, OTHER), end(6)), (end(6),), id="no-such-topic-beside-one"),
]


@table(("reports", "written"), ONCE)
def test_what_is_kept(reports: tuple[Any, ...], written: tuple[Any, ...]) -> None:
    view = world()
    assert kept(view, *reports) == list(written)
    ends = [each.end for each in written if each.end != OFFLINE]
    assert view.get(PARTITION_ENDS, KEY) == (max(ends) if ends else None)
    assert view.get(PARTITION_ENDS, (ORDERS, 1)) is None
    assert (view.get(OFFLINE_PARTITIONS, KEY) is not None) == (end(OFFLINE) in written)
    assert kept(view, *reports) == [], "it is known"


def test_an_end_never_goes_back_and_ends_wait_for_their_time() -> None:
    view = world()
    assert kept(view, end(5))
    assert not kept(view, end(4))
    assert not kept(view, end(6), ends_are_due=False)
    replay_record(view, reported(end(3)))
    assert view.get(PARTITION_ENDS, KEY) == 5
    assert kept(view, end(6))
    assert view.get(PARTITION_ENDS, KEY) == 6


def test_offline_is_kept_at_once_for_one_registration() -> None:
    view = world()
    row = view.get(PARTITIONS, KEY)
    assert row is not None
    assert not is_offline(view, KEY, row)
    for _ in range(2):
        assert kept(view, end(OFFLINE), ends_are_due=False)
        assert is_offline(view, KEY, row)
        assert kept(view, end(0), ends_are_due=False), "it is back"
        assert not is_offline(view, KEY, row)
        assert view.get(OFFLINE_PARTITIONS, KEY) is None
    kept(view, end(OFFLINE))
    replay_record(view, registered(1, 200, fenced=False))
    assert not is_offline(view, KEY, row), "it has opened its logs anew"
    (record,) = records_of(view, heartbeat(end(OFFLINE), epoch=200), ends_are_due=False)
    replay_record(view, record)
    assert is_offline(view, KEY, row)


def test_brokers_ask_for_the_topics_again_only_when_a_partition_went_or_came_back() -> None:
    view = world()
    versions = [cluster_version.current(view)]
    for report in (end(5), end(6), end(OFFLINE), end(OFFLINE), end(6), end(7)):
        replay_record(view, reported(report))
        versions.append(cluster_version.current(view))
    moves = [after - before for before, after in pairwise(versions)]
    assert moves == [0, 0, 1, 0, 1, 0]


def test_what_was_reported_goes_with_its_topic() -> None:
    view = world()
    kept(view, end(5))
    kept(view, end(OFFLINE))
    replay_record(view, RemoveTopicRecord(topic_id=ORDERS))
    assert (view.get(PARTITION_ENDS, KEY), view.get(OFFLINE_PARTITIONS, KEY)) == (None, None)
    replay_record(view, reported(end(9), end(OFFLINE), end(3, partition=-1)))
    assert (view.get(PARTITION_ENDS, KEY), view.get(OFFLINE_PARTITIONS, KEY)) == (None, None)


def test_nothing_is_kept_below_the_log_level() -> None:
    assert kept(world(PARTITION_REPORTS - 1), end(5), end(OFFLINE)) == []


def test_bytes_that_are_no_reports_do_not_apply() -> None:
    record = BrokerRegistrationChangeRecord(
        broker_id=BrokerId(1), broker_epoch=BrokerEpoch(100), partition_reports=bytes(29)
    )
    with pytest.raises(CorruptData, match="29 bytes of partition reports"):
        replay_record(world(), record)


def test_ends_are_kept_once_a_minute_for_each_registration_and_when_it_leaves() -> None:
    times, first, second = EndTimes(), heartbeat(epoch=100), heartbeat(epoch=200)
    assert times.are_due(first, 0)
    times.note(first, 1_000)
    assert not times.are_due(first, 1_000 + ENDS_MS_MIN - 1)
    assert times.are_due(first, 1_000 + ENDS_MS_MIN)
    assert times.are_due(heartbeat(want_shut_down=True), 1_001)
    assert times.are_due(second, 1_001)
    times.note(second, 1_001)
    assert not times.are_due(second, 1_002)
