"""Any record, batch and entry: what the laws of this folder range over."""

from typing import TypeVar
from uuid import UUID

from hypothesis import strategies as st

from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import (
    ControlRecord,
    KRaftVersion,
    KRaftVersionFeature,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    VoterRegistration,
    Voters,
)
from fencepost.records.entry import Entry
from fencepost.records.frame import encode_frame
from fencepost.records.partition_report import PartitionReport, encode_reports
from fencepost.records.schema import (
    AccessControlEntryRecord,
    AllocateProducerIdsRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from fencepost.records.types import Log

T = TypeVar("T")

int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uint16 = st.integers(0, 2**16 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
uuids = st.uuids() | st.just(UUID(int=0))
# Kafka writes "none" as zeros, so a nullable uuid of zeros does not come back.
uuids_or_none = st.uuids().filter(lambda each: each.int != 0) | st.none()


def tuples(items: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(items, max_size=5).map(tuple)


allocations = st.builds(AllocateProducerIdsRecord, broker_id=int32, broker_epoch=int64, producer_id_end=int64)
lone_partitions = st.builds(
    lambda partition_id, topic_id, replica, leader, epochs, directory: PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=(replica,),
        isr=(replica,),
        leader=leader,
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
        directories=(directory,),
    ),
    int32,
    uuids,
    int32,
    int32,
    st.tuples(int32, int32),
    uuids,
)
reports = tuples(st.builds(PartitionReport, st.uuids(), int32, int64))
metadata_records: st.SearchStrategy[MetadataRecord] = st.one_of(
    allocations,
    st.builds(
        RegisterBrokerRecord,
        broker_id=int32,
        is_migrating_zk_broker=st.booleans(),
        incarnation_id=uuids,
        broker_epoch=int64,
        end_points=tuples(
            st.builds(BrokerEndpoint, name=text, host=text, port=uint16, security_protocol=int16)
        ),
        features=tuples(
            st.builds(BrokerFeature, name=text, min_supported_version=int16, max_supported_version=int16)
        ),
        rack=text | st.none(),
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=tuples(uuids),
    ),
    st.builds(UnregisterBrokerRecord, broker_id=int32, broker_epoch=int64),
    st.builds(
        BrokerRegistrationChangeRecord,
        broker_id=int32,
        broker_epoch=int64,
        fenced=int8,
        in_controlled_shutdown=int8,
        log_dirs=tuples(uuids),
        partition_reports=reports.map(encode_reports),
    ),
    st.builds(FeatureLevelRecord, name=text, feature_level=int16),
    st.just(NoOpRecord()),
    st.builds(TopicRecord, name=text, topic_id=uuids),
    st.builds(
        PartitionRecord,
        partition_id=int32,
        topic_id=uuids,
        replicas=tuples(int32),
        isr=tuples(int32),
        removing_replicas=tuples(int32),
        adding_replicas=tuples(int32),
        leader=int32,
        leader_recovery_state=int8,
        leader_epoch=int32,
        partition_epoch=int32,
        directories=tuples(uuids),
    ),
    st.builds(
        PartitionChangeRecord,
        partition_id=int32,
        topic_id=uuids,
        leader=int32,
        directories=tuples(uuids),
        start_offset=int64,
    ),
    st.builds(ConfigRecord, resource_type=int8, resource_name=text, name=text, value=text | st.none()),
    st.builds(RemoveTopicRecord, topic_id=uuids),
    st.builds(
        AccessControlEntryRecord,
        id=uuids,
        resource_type=int8,
        resource_name=text,
        pattern_type=int8,
        principal=text,
        host=text,
        operation=int8,
        permission_type=int8,
    ),
    st.builds(RemoveAccessControlEntryRecord, id=uuids),
    st.builds(
        UserScramCredentialRecord,
        name=text,
        mechanism=int8,
        salt=st.binary(max_size=40),
        stored_key=st.binary(max_size=64),
        server_key=st.binary(max_size=64),
        iterations=int32,
    ),
    st.builds(RemoveUserScramCredentialRecord, name=text, mechanism=int8),
    st.builds(
        ZkMigrationStateRecord,
        zk_migration_state=int8,
        phase=int8,
        floor=int64,
        fence_block_end=int64,
        fence_zk_version=int32,
        ensemble=text,
    ),
)

voters = tuples(st.builds(Voter, voter_id=int32, voter_directory_id=uuids_or_none))
voters_0 = tuples(st.builds(Voter, voter_id=int32))
control_records: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(LeaderChange, leader_id=int32, voters=voters, granting_voters=voters),
    st.builds(LeaderChange, version=st.just(0), leader_id=int32, voters=voters_0, granting_voters=voters_0),
    st.builds(SnapshotHeader, last_contained_log_timestamp=int64),
    st.just(SnapshotFooter()),
    st.builds(KRaftVersion, k_raft_version=int16),
    st.builds(
        Voters,
        voters=tuples(
            st.builds(
                VoterRegistration,
                voter_id=int32,
                voter_directory_id=uuids_or_none,
                endpoints=tuples(st.builds(VoterEndpoint, name=text, host=text, port=uint16)),
                k_raft_version_feature=st.builds(
                    KRaftVersionFeature, min_supported_version=int16, max_supported_version=int16
                ),
            )
        ),
    ),
)

contents = st.binary(max_size=300) | st.none()
batch_records = st.lists(
    st.builds(
        BatchRecord,
        key=contents,
        value=contents,
        headers=st.lists(st.tuples(st.text("abc", max_size=9).map(str.encode), contents), max_size=4).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=40,
)
timestamps_ms = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * 1000)


def batch_of(*records: MetadataRecord, timestamp_ms: int = 1_763_600_000_000) -> bytes:
    """A metadata batch as the proposer builds it."""
    return encode_batch(
        [BatchRecord(None, encode_frame(record)) for record in records], timestamp_ms=timestamp_ms
    )


metadata_batches = st.lists(metadata_records, min_size=1, max_size=5).map(lambda each: batch_of(*each))
entries = st.builds(
    Entry,
    base_version=st.integers(0, 2**64 - 1),
    controller_epoch=st.integers(0, 2**32 - 1),
    proposer=int32,
    proposal=st.integers(0, 2**64 - 1),
    batches=st.builds(
        lambda single, groups: (*sorted(single.items()), *[(Log.CONSUMER_OFFSETS, each) for each in groups]),
        st.dictionaries(st.sampled_from([Log.METADATA, Log.TRANSACTION_STATE]), metadata_batches),
        st.lists(metadata_batches, max_size=4),
    ),
)
