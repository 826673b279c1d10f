"""Replay of a record reads and writes the tables of its own log alone: each kind of record, once at least."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.controller.groups.offset_tables import OFFSET_TABLES
from fencepost.controller.groups.tables import MEMBERSHIP_TABLES
from fencepost.controller.replay import REPLAY, REPLAY_AT, replay_record
from fencepost.controller.topics import TOPICS
from fencepost.controller.transactions.states import TRANSACTION_TABLES, TRANSACTIONS
from fencepost.controller.view import EmptyView, MutableView, Overlay
from fencepost.records.control import KRaftVersion, LeaderChange, SnapshotFooter, SnapshotHeader, Voters
from fencepost.records.group_log import UnknownGroupRecord
from fencepost.records.group_metadata import GroupForgotten, GroupMember, GroupMetadata, GroupState
from fencepost.records.offset_commit import OffsetCommitRecord, OffsetForgotten
from fencepost.records.partition_report import OFFLINE, PartitionReport
from fencepost.records.schema import (
    AccessControlEntryRecord,
    AllocateProducerIdsRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from fencepost.records.transaction_log import TopicPartitions, TransactionForgotten, TransactionStateRecord
from fencepost.records.types import BrokerEpoch, BrokerId, Log, NodeId, ProducerId
from fencepost.snapshots.rows import TABLES
from tests.controller.notes import NOTES, PENDING, Note, known, marker
from tests.controller.own_log import OtherLogsTable, guarded, log_of
from tests.controller.worlds import changed, registered, reported

TOPIC = uuid.UUID(int=0x70)
BROKER, EPOCH = BrokerId(1), BrokerEpoch(100)


def transaction(status: int) -> TransactionStateRecord:
    return TransactionStateRecord(
        transactional_id="payments",
        producer_id=ProducerId(7),
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        status=status,
        partitions=(TopicPartitions("a.b", (0,)),) if status else None,
        updated_ms=1,
        started_ms=1 if status in (1, 2) else -1,
    )


def group(generation: int, *members: str) -> GroupMetadata:
    return GroupMetadata(
        group_id="readers",
        protocol_type="consumer",
        generation=generation,
        state=GroupState.STABLE if members else GroupState.EMPTY,
        members=tuple(
            GroupMember(
                member_id=name,
                instance_id=f"instance-{name}",
                client_id="",
                client_host="",
                rebalance_timeout_ms=1,
                session_timeout_ms=1,
                protocols=(("range", b"x"),),
            )
            for name in members
        ),
    )


def offset(number: int, producer_id: int = -1, *, partition: int = 0, epoch: int = 0) -> OffsetCommitRecord:
    return OffsetCommitRecord(
        group_id="readers",
        topic="a.b",
        partition=partition,
        offset=number,
        committed_ms=number,
        topic_id=TOPIC,
        expires_ms=number if number % 2 else -1,
        producer_id=ProducerId(producer_id),
        producer_epoch=-1 if producer_id < 0 else epoch,
        committer=ProducerId(producer_id),
    )


LIFE: list[Any] = [
    LeaderChange(leader_id=NodeId(1)),
    KRaftVersion(k_raft_version=1),
    Voters(),
    SnapshotHeader(last_contained_log_timestamp=1),
    SnapshotFooter(),
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    registered(BROKER, EPOCH),
    changed(BROKER, EPOCH, fenced=-1),
    AllocateProducerIdsRecord(broker_id=BROKER, broker_epoch=EPOCH, producer_id_end=ProducerId(1000)),
    NoOpRecord(),
    TopicRecord(name="a.b", topic_id=TOPIC),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
    ),
    *(
        reported(PartitionReport(TOPIC, 0, end), broker_id=BROKER, epoch=EPOCH)
        for end in (7, OFFLINE, 8, OFFLINE)
    ),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1, start_offset=500),
    ConfigRecord(resource_type=2, resource_name="a.b", name="retention.ms", value="1"),
    *map(transaction, [0, 1, 2, 4]),
    ZkMigrationStateRecord(
        zk_migration_state=0,
        phase=1,
        floor=ProducerId(0),
        fence_block_end=-1,
        fence_zk_version=-1,
        ensemble="",
    ),
    Note("a", "of 7", ProducerId(7), 0),
    offset(5),
    offset(6, 7),
    offset(7, 7, partition=1),
    marker(7),
    offset(8, 7),
    marker(7, committed=False),
    OffsetForgotten("readers", "a.b", 0),
    UnknownGroupRecord(99),
    group(1, "m", "n"),
    group(2, "m"),
    group(3),
    GroupForgotten("readers"),
    Note("a", None),
    RemoveTopicRecord(topic_id=TOPIC),
    AccessControlEntryRecord(
        id=TOPIC,
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    ),
    RemoveAccessControlEntryRecord(id=TOPIC),
    UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    ),
    RemoveUserScramCredentialRecord(name="a", mechanism=1),
    TransactionForgotten("payments"),
    UnregisterBrokerRecord(broker_id=BROKER, broker_epoch=EPOCH),
]
"""Every kind of record, each where it may follow those before it. A new kind belongs here, too."""


@pytest.fixture(autouse=True, scope="module")
def notes() -> Iterator[None]:
    with known():
        yield


@pytest.mark.parametrize("number", range(len(LIFE)), ids=lambda number: type(LIFE[number]).__name__)
def test_replay_of_a_record_stays_in_its_own_log(number: int) -> None:
    """``guard`` (conftest.py) is around every replay, here as in each test of this folder."""
    view = Overlay(EmptyView())
    for record in LIFE[: number + 1]:
        replay_record(view, record)


def test_every_kind_of_record_is_replayed_here() -> None:
    assert {type(record) for record in LIFE} == set(REPLAY) | set(REPLAY_AT)


def test_every_log_has_its_tables() -> None:
    """Snapshots and digests range over ``TABLES``."""
    tables: dict[Log, set[Any]] = {Log.TRANSACTION_STATE: set(TRANSACTION_TABLES)}
    tables[Log.CONSUMER_OFFSETS] = {*MEMBERSHIP_TABLES, *OFFSET_TABLES, NOTES, PENDING}
    for log, expected in tables.items():
        assert {table for table in TABLES.values() if table.log is log} == expected


REACHES = [
    pytest.param(lambda view: view.get(TOPICS, "a"), id="get"),
    pytest.param(lambda view: view.put(TRANSACTIONS, "a", None), id="put"),
    pytest.param(lambda view: view.delete(TOPICS, "a"), id="delete"),
    pytest.param(lambda view: list(view.items(TRANSACTIONS)), id="items"),
    pytest.param(lambda view: list(view.scan(TOPICS)), id="scan"),
]


@pytest.mark.parametrize("reach", REACHES)
def test_a_reach_for_another_logs_table_is_seen(reach: Any) -> None:
    def replay(view: MutableView, _note: Note, _offset: int) -> None:
        view.get(NOTES, "a")
        reach(view)

    with pytest.raises(OtherLogsTable, match="Note, a record of CONSUMER_OFFSETS, reaches"):
        guarded(Log.CONSUMER_OFFSETS, replay)(Overlay(EmptyView()), Note("a", "x"), 0)


def test_each_kind_belongs_to_one_log() -> None:
    assert {log_of(type(record)) for record in LIFE} == set(Log)
