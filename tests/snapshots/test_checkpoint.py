"""The checkpoint of a snapshot has all that Kafka knows of, and a snapshot says its place in every log."""

import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.controller.acls import ACLS
from fencepost.controller.broker_configs import BROKER_CONFIGS, BROKER_RESOURCE
from fencepost.controller.brokers import BROKERS
from fencepost.controller.features import FEATURES
from fencepost.controller.replay import replay_record
from fencepost.controller.scram import SCRAM_CREDENTIALS
from fencepost.controller.topics import PARTITIONS, TOPICS
from fencepost.controller.view import EmptyView, ImageHeader, Overlay, Table
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from fencepost.records.types import ImageVersion, LogIndex, NodeId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.store import Store
from tests.controller.worlds import HERE, allocated, level, registered

ORDERS = uuid.UUID(int=7)
RECORDS: tuple[Any, ...] = (
    level("metadata.version", 25),
    level("fencepost.log.level", LEVEL_MAX),
    registered(1, fenced=False),
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
    ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="log.retention.ms", value="5"),
    AccessControlEntryRecord(
        id=uuid.UUID(int=9),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    ),
    UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    ),
    allocated(1000),
)


TABLES: tuple[Table[Any, Any], ...] = (
    FEATURES, BROKERS, TOPICS, PARTITIONS, BROKER_CONFIGS, ACLS, SCRAM_CREDENTIALS
)  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = Store.open(tmp_path / "store", sync=False)
    for record in RECORDS:
        replay_record(store.image, record)
    store.image.header = ImageHeader(ImageVersion(5), Term(3), NodeId(1), (12, 34, 56))
    store.flush()
    with store.reader() as reader:
        raft = LogIndex(9), Term(3)
        path = snapshot.write(reader, tmp_path / "snapshots", cluster_id="c", raft=raft, now_ms=5)
    store.abandon()
    return path


def test_each_table_that_kafka_knows_of_is_made_of_it_again(directory: Path) -> None:
    view, expected = Overlay(EmptyView()), Overlay(EmptyView())
    for record in snapshot.checkpoint_records(directory / f"{directory.name}.checkpoint"):
        replay_record(view, record)
    for record in RECORDS:
        replay_record(expected, record)
    for table in TABLES:
        assert dict(view.items(table)) == dict(expected.items(table))
        assert dict(view.items(table)), table


def test_its_names_are_its_place_in_the_logs(directory: Path) -> None:
    manifest = snapshot.read_manifest(directory)
    assert manifest.name == directory.name == f"{12:020d}-{3:010d}"
    assert manifest.full_name == f"{12:020d}-{3:010d}-{34:020d}-{56:020d}"
    assert manifest.header == ImageHeader(ImageVersion(5), Term(3), NodeId(1), (12, 34, 56))
    other = msgspec.structs.replace(manifest, log_ends=(12, 34, 57))
    assert other.name == manifest.name
    assert other.full_name != manifest.full_name
