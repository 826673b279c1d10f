"""Which records change what clients see: each adds one to the version by which brokers look again."""

import dataclasses
import uuid
from typing import Any

from fencepost.controller import cluster_version
from fencepost.controller.broker_configs import BROKER_RESOURCE
from fencepost.controller.replay import replay_record
from fencepost.controller.topics import TOPIC_RESOURCE
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.partition_report import OFFLINE, PartitionReport
from fencepost.records.schema import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.controller.worlds import HERE, allocated, changed, image, level, registered, reported
from tests.together import table

ORDERS = uuid.UUID(int=7)
PARTITION = PartitionRecord(
    partition_id=0, topic_id=ORDERS, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, directories=(HERE,)
)
STARTED = PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1, start_offset=5)


def setting(of: int, name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=of, resource_name=name, name="retention.ms", value="5")


@table(
    ("record", "is_seen"),
    [
        (registered(2), True),
        (changed(fenced=1), True),
        (reported(PartitionReport(ORDERS, 0, OFFLINE)), True),
        (reported(PartitionReport(ORDERS, 0, 70)), False),
        (UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(100)), True),
        (TopicRecord(name="other", topic_id=uuid.UUID(int=8)), True),
        (dataclasses.replace(PARTITION, partition_id=1), True),
        (setting(TOPIC_RESOURCE, "orders"), True),
        (setting(BROKER_RESOURCE, ""), True),
        (STARTED, True),
        (RemoveTopicRecord(topic_id=ORDERS), True),
        (allocated(1000), False),
        (level("other", 1), False),
    ],
)
def test_a_record_that_clients_see_is_another_version(record: Any, is_seen: bool) -> None:
    view = image(
        level("fencepost.log.level", LEVEL_MAX),
        registered(fenced=False),
        TopicRecord(name="orders", topic_id=ORDERS),
        PARTITION,
    )
    before = cluster_version.current(view)
    replay_record(view, record)
    assert cluster_version.current(view) - before == is_seen
