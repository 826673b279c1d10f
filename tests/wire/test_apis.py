"""Every API at every version it advertises: our words become kio's bytes, and come back.

A row is a request, an answer, and what of them a version can say at all.
"""

import dataclasses
import uuid
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode

from fencepost.controller.brokers import (
    Endpoint,
    Feature,
    Heartbeat,
    HeartbeatStatus,
    RegisterBroker,
    UnregisterBroker,
)
from fencepost.controller.errors import ErrorCode, NotController
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId, Offset, ProducerId, Term
from fencepost.wire import k03_metadata as k03
from fencepost.wire import k10_find_coordinator as k10
from fencepost.wire import k18_api_versions as k18
from fencepost.wire import k55_describe_quorum as k55
from fencepost.wire import k60_describe_cluster as k60
from fencepost.wire.k01_fetch import FETCH
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshake, SaslMechanisms
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId, InitProducerIdAnswer
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate, SaslAuthenticated
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION, NO_UUID
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.together import table
from tests.wire.acl_rows import ACL_ROWS
from tests.wire.coordinator_rows import COORDINATOR_ROWS
from tests.wire.data_rows import DATA_ROWS
from tests.wire.every_api import KAFKA_APIS, kios_request, kios_response
from tests.wire.feature_row import FEATURE_ROW
from tests.wire.group_rows import GROUP_ROWS
from tests.wire.offset_api_rows import OFFSET_ROWS
from tests.wire.partition_rows import PARTITION_ROWS
from tests.wire.row import Row, codes_in
from tests.wire.scram_rows import SCRAM_ROWS
from tests.wire.topic_rows import TOPIC_ROWS

ID_A = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
ID_B = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def _metadata_request(version: int, said: k03.Metadata) -> k03.Metadata:
    operations: dict[str, Any] = {"include_topic_authorized_operations": version >= 8}
    operations["include_cluster_authorized_operations"] = 8 <= version <= 10
    if version < 4:
        operations["allow_auto_topic_creation"] = True
    return dataclasses.replace(said, **operations)


def _metadata_answer(version: int, said: k03.MetadataAnswer) -> k03.MetadataAnswer:
    topics = []
    for topic in said.topics:
        partitions = [
            msgspec.structs.replace(
                each,
                leader_epoch=each.leader_epoch if version >= 7 else -1,
                offline_replicas=each.offline_replicas if version >= 5 else (),
            )
            for each in topic.partitions
        ]
        topics.append(
            msgspec.structs.replace(
                topic,
                partitions=tuple(partitions),
                topic_id=topic.topic_id if version >= 10 else None,
                is_internal=topic.is_internal and version >= 1,
                topic_authorized_operations=8 if version >= 8 else k03.OPERATIONS_OMITTED,
            )
        )
    return dataclasses.replace(
        said,
        cluster_id=said.cluster_id if version >= 2 else None,
        controller_id=said.controller_id if version >= 1 else -1,
        brokers=tuple(dataclasses.replace(b, rack=b.rack if version >= 1 else None) for b in said.brokers),
        topics=tuple(topics),
        cluster_authorized_operations=16 if 8 <= version <= 10 else k03.OPERATIONS_OMITTED,
    )


def _software(version: int, said: k18.ApiVersions) -> k18.ApiVersions:
    return said if version >= 3 else k18.ApiVersions()


def _features(version: int, said: k18.ApiVersionsAnswer) -> k18.ApiVersionsAnswer:
    if version < 3:
        return dataclasses.replace(said, features=k18.NO_FEATURES)
    supported = tuple(f for f in said.features.supported if version >= 4 or f.min_version > 0)
    finalized = tuple(f for f in said.features.finalized if f.level > 0)
    shown = dataclasses.replace(said.features, supported=supported, finalized=finalized)
    return dataclasses.replace(said, features=shown)


def _quorum(version: int, said: k55.DescribeQuorumAnswer) -> k55.DescribeQuorumAnswer:
    def shown(replica: k55.ReplicaState) -> k55.ReplicaState:
        if version == 0:
            return k55.ReplicaState(replica.replica_id, replica.log_end_offset)
        return dataclasses.replace(replica, directory_id=replica.directory_id if version >= 2 else None)

    partition = said.partition
    assert partition is not None
    partition = dataclasses.replace(
        partition,
        error_message=partition.error_message if version >= 2 else None,
        current_voters=tuple(map(shown, partition.current_voters)),
        observers=tuple(map(shown, partition.observers)),
    )
    return k55.DescribeQuorumAnswer.of(partition, said.nodes if version >= 2 else ())


def _cluster_request(version: int, said: k60.DescribeCluster) -> k60.DescribeCluster:
    endpoint_type = said.endpoint_type if version >= 1 else k60.BROKERS
    fenced = said.include_fenced_brokers and version >= 2
    return dataclasses.replace(said, endpoint_type=endpoint_type, include_fenced_brokers=fenced)


def _cluster(version: int, said: k60.DescribeClusterAnswer) -> k60.DescribeClusterAnswer:
    return dataclasses.replace(
        said,
        endpoint_type=said.endpoint_type if version >= 1 else k60.BROKERS,
        brokers=tuple(dataclasses.replace(b, is_fenced=b.is_fenced and version >= 2) for b in said.brokers),
    )


def _registration(version: int, said: RegisterBroker) -> RegisterBroker:
    return dataclasses.replace(
        said,
        features=said.features if version >= 4 else said.features[1:],
        directory_id=said.directory_id if version >= 2 else NO_UUID,
        previous_epoch=said.previous_epoch if version >= 3 else BrokerEpoch(-1),
    )


REPLICA = k55.ReplicaState(NodeId(1), Offset(99), ID_A, 1_700_000_000_000, 1_700_000_000_001)


ROWS = [
    *ACL_ROWS,
    FEATURE_ROW,
    Row(
        k03.METADATA,
        k03.Metadata((k03.TopicQuery("orders"), k03.TopicQuery("payments")), False, True, True),
        k03.MetadataAnswer(
            cluster_id="kVkjzdcOQHKOw8O-8jnVFQ",
            controller_id=2,
            brokers=(k03.BrokerNode(1, "127.0.0.1", 9092, "east"), k03.BrokerNode(2, "::1", 9093)),
            topics=(
                k03.TopicMetadata(
                    name="orders",
                    topic_id=ID_A,
                    is_internal=True,
                    topic_authorized_operations=8,
                    partitions=(
                        k03.PartitionMetadata(
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=7,
                            replica_nodes=(1, 2),
                            isr_nodes=(1,),
                            offline_replicas=(2,),
                        ),
                        k03.PartitionMetadata(partition_index=1, error_code=ErrorCode.LEADER_NOT_AVAILABLE),
                    ),
                ),
                k03.TopicMetadata(
                    name="payments",
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    topic_authorized_operations=8,
                ),
            ),
            cluster_authorized_operations=16,
        ),
        _metadata_request,
        _metadata_answer,
    ),
    Row(
        k10.FIND_COORDINATOR,
        k10.FindCoordinator(k10.GROUP, ("billing",)),
        k10.FindCoordinatorAnswer((k10.Coordinator("billing", 3, "127.0.0.1", 9094),)),
        visible_response=lambda version, said: (
            said
            if version >= 4
            else k10.FindCoordinatorAnswer((dataclasses.replace(said.coordinators[0], key=""),))
        ),
    ),
    Row(
        SASL_HANDSHAKE,
        SaslHandshake("PLAIN"),
        SaslMechanisms(("PLAIN",)),
        lambda version, said: dataclasses.replace(said, tokens_are_bare=version == 0),
    ),
    Row(
        k18.API_VERSIONS,
        k18.ApiVersions("fencepost", "0.1.0"),
        k18.ApiVersionsAnswer(
            (k18.ApiRange(18, 0, 4), k18.ApiRange(67, 0, 0)),
            k18.Features(
                (
                    k18.SupportedFeature("kraft.version", 0, 1),
                    k18.SupportedFeature("metadata.version", 7, 25),
                ),
                (k18.FinalizedFeature("metadata.version", 25), k18.FinalizedFeature("group.version", 0)),
                12,
            ),
        ),
        _software,
        _features,
    ),
    Row(
        INIT_PRODUCER_ID,
        InitProducerId("transfers", -1, ProducerId(41), 3),
        InitProducerIdAnswer(ProducerId(42), 32766, ProducerId(40), 7),
        lambda version, said: InitProducerId(
            "transfers", -1, *((ProducerId(41), 3) if version >= 3 else (ProducerId(-1), -1)), version
        ),
        lambda version, said: said if version >= 6 else InitProducerIdAnswer(ProducerId(42), 32766),
    ),
    Row(SASL_AUTHENTICATE, SaslAuthenticate(b"\0user\0secret"), SaslAuthenticated(b"ok")),
    Row(
        k55.DESCRIBE_QUORUM,
        k55.DescribeQuorum(
            (k55.TopicPartitions(k55.METADATA_TOPIC, (0,)), k55.TopicPartitions("orders", (1, 2)))
        ),
        k55.DescribeQuorumAnswer.of(
            k55.QuorumPartition(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                error_message="ask node 1",
                leader_id=NodeId(1),
                leader_epoch=Term(4),
                high_watermark=Offset(100),
                current_voters=(REPLICA, k55.ReplicaState(NodeId(2), Offset(-1))),
                observers=(k55.ReplicaState(NodeId(7), Offset(3), ID_B),),
            ),
            (k55.QuorumNode(NodeId(1), (k55.NodeListener("CONTROLLER", "127.0.0.1", 9192),)),),
        ),
        visible_response=_quorum,
    ),
    Row(
        k60.DESCRIBE_CLUSTER,
        k60.DescribeCluster(k60.CONTROLLERS, True, True),
        k60.DescribeClusterAnswer(
            cluster_id="kVkjzdcOQHKOw8O-8jnVFQ",
            controller_id=NodeId(1),
            brokers=(
                k60.ClusterNode(1, "127.0.0.1", 9192, "east"),
                k60.ClusterNode(2, "h", 1, is_fenced=True),
            ),
            endpoint_type=k60.CONTROLLERS,
            cluster_authorized_operations=256,
        ),
        _cluster_request,
        _cluster,
    ),
    Row(
        BROKER_REGISTRATION,
        RegisterBroker(
            broker_id=BrokerId(1),
            cluster_id="kVkjzdcOQHKOw8O-8jnVFQ",
            incarnation_id=ID_A,
            directory_id=ID_B,
            endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 65535, 0), Endpoint("SASL", "127.0.0.1", 9093, 2)),
            features=(Feature("kraft.version", 0, 1), Feature("metadata.version", 7, 25)),
            rack="east",
            previous_epoch=BrokerEpoch(17),
        ),
        BrokerEpoch(18),
        _registration,
    ),
    Row(
        BROKER_HEARTBEAT,
        Heartbeat(BrokerId(1), BrokerEpoch(18), 99, True, False),
        HeartbeatStatus(is_caught_up=True, is_fenced=False, should_shut_down=True),
    ),
    Row(UNREGISTER_BROKER, UnregisterBroker(BrokerId(3)), None),
    Row(
        ALLOCATE_PRODUCER_IDS,
        AllocateProducerIds(BrokerId(1), BrokerEpoch(18)),
        ProducerIdBlock(ProducerId(2**62), 1000),
    ),
    *DATA_ROWS,
    *PARTITION_ROWS,
    *TOPIC_ROWS,
    *COORDINATOR_ROWS,
    *GROUP_ROWS,
    *OFFSET_ROWS,
    *SCRAM_ROWS,
]
CASES = [
    pytest.param(row, version, id=f"{row.api.name}-v{version}") for row in ROWS for version in row.versions
]


def test_every_api_has_a_row() -> None:
    assert sorted(row.api.key for row in ROWS) == [api.key for api in KAFKA_APIS]


def agrees(entity: Any, ours: Any) -> None:
    """Each field that kio's entity and ours share has the same value."""
    for field in dataclasses.fields(entity):
        theirs = getattr(entity, field.name)
        if isinstance(theirs, timedelta) or not hasattr(ours, field.name):
            continue
        mine = getattr(ours, field.name)
        if isinstance(theirs, tuple) and theirs and dataclasses.is_dataclass(theirs[0]):
            assert len(theirs) == len(mine)
            for inner, own in zip(theirs, mine, strict=True):
                agrees(inner, own)
        else:
            assert theirs == mine, field.name


@table(("row", "version"), CASES)
def test_a_request_is_kafkas_and_comes_back(row: Row, version: int) -> None:
    body = row.api.encode_request(version, row.request)
    entity, end = kios_request(row.api.key, version, body)
    visible = row.visible_request(version, row.request)
    assert end == len(body)
    assert row.api.decode_request(version, memoryview(body)) == visible
    if row.flat_request is not None:
        assert row.flat_request(version, entity) == visible
    elif row.api is not k55.DESCRIBE_QUORUM:  # whose partitions are objects to kio and numbers to us
        agrees(entity, visible)


@table(("row", "version"), CASES)
def test_an_answer_is_kafkas_and_comes_back(row: Row, version: int) -> None:
    body = row.api.encode_response(version, row.response, 250)
    entity, end = kios_response(row.api.key, version, body)
    visible = row.visible_response(version, row.response)
    assert end == len(body)
    assert row.api.decode_response(version, memoryview(body)) == visible
    if row.flat_response is not None:
        assert row.flat_response(version, entity) == visible
    elif row.api is not k18.API_VERSIONS:  # features are grouped
        agrees(entity, visible)
    if hasattr(entity, "throttle_time"):
        assert entity.throttle_time == timedelta(milliseconds=250)


@table(("row", "version"), CASES)
@table("was_read", [True, False], ids=["read", "unread"])
def test_a_refusal_carries_its_code(row: Row, version: int, was_read: bool) -> None:
    error = NotController("node 2 leads " + "x" * 100_000)
    request = row.visible_request(version, row.request) if was_read else None
    body = row.api.refusal(version, request, error, 0)
    entity, end = kios_response(row.api.key, version, body)
    assert end == len(body)
    if not hasattr(entity, "error_code"):  # the code stands at each part of what was asked, or nowhere
        codes = set(codes_in(entity))
        assert codes == {ErrorCode.NOT_CONTROLLER} if was_read else codes <= {ErrorCode.NOT_CONTROLLER}
        return
    assert entity.error_code == KioErrorCode.not_controller
    if row.api is FETCH:  # whose answer has the code as a field
        assert row.api.decode_response(version, body).error_code == ErrorCode.NOT_CONTROLLER
        return
    with pytest.raises(NotController):
        row.api.decode_response(version, body)


@table("row", ROWS, ids=[row.api.name for row in ROWS])
def test_headers_are_flexible_where_kios_are(row: Row) -> None:
    for version in row.versions:
        request, response = (
            load_request_schema(row.api.key, version),
            load_response_schema(row.api.key, version),
        )
        assert request.__flexible__ == (version >= row.api.flexible_from)
        tagged = response.__header_schema__.__flexible__
        assert row.api.has_tagged_response_header(version) == tagged
