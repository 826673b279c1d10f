"""The rules of single APIs that no schema says."""

import struct
import tracemalloc
import uuid
from typing import Any

import pytest

from fencepost.controller.errors import (
    ApiError,
    ErrorCode,
    InvalidRegistration,
    InvalidRequest,
    NotController,
)
from fencepost.controller.errors import UnsupportedVersion as VersionRefused
from fencepost.controller.topics import DeleteTopics
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import ProducerId
from fencepost.wire import k03_metadata as k03
from fencepost.wire import k10_find_coordinator as k10
from fencepost.wire import k18_api_versions as k18
from fencepost.wire.dispatch import Api
from fencepost.wire.errors import SaslAuthenticationFailed, UnlistedError, UnsupportedSaslMechanism, error_for
from fencepost.wire.k00_produce import PRODUCE
from fencepost.wire.k01_fetch import FETCH, Fetch, FetchAnswer, FetchedPartition, FetchPartition
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k36_sasl_authenticate import SaslAuthenticate
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.schema import ELEMENTS_MAX, Message
from tests.together import table
from tests.wire.coordinator_rows import COORDINATOR_ROWS
from tests.wire.data_rows import DATA_ROWS
from tests.wire.every_api import kios_response
from tests.wire.partition_rows import PARTITION_ROWS
from tests.wire.row import Row, codes_in
from tests.wire.topic_rows import TOPIC_ROWS

INIT = Row(INIT_PRODUCER_ID, InitProducerId("transfers", 1), None)
ID_A = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@table(
    ("code", "kind"),
    [
        pytest.param(41, NotController, id="one-of-the-controllers"),
        pytest.param(58, SaslAuthenticationFailed, id="one-of-the-wires"),
        pytest.param(33, UnsupportedSaslMechanism, id="mechanism"),
        pytest.param(13, ApiError, id="listed-without-a-class"),
        pytest.param(94, UnlistedError, id="not-listed"),
    ],
)
def test_codes_become_errors_again(code: int, kind: type[ApiError]) -> None:
    error = error_for(code, "because")
    assert type(error) is kind
    assert "because" in str(error)
    assert getattr(error, "number", error.code) == code


def test_metadata_of_all_topics_and_of_none() -> None:
    everything, nothing = k03.Metadata(None), k03.Metadata(())
    for version in k03.METADATA.versions:
        body = k03.METADATA.encode_request(version, everything)
        assert k03.METADATA.decode_request(version, body).topics is None
        if version > 0:
            body = k03.METADATA.encode_request(version, nothing)
            assert k03.METADATA.decode_request(version, body).topics == ()


def test_metadata_by_topic_id() -> None:
    asked = k03.Metadata((k03.TopicQuery(None, ID_A),))
    assert k03.METADATA.decode_request(12, k03.METADATA.encode_request(12, asked)) == asked
    with pytest.raises(InvalidRequest):
        k03.METADATA.decode_request(11, k03.METADATA.encode_request(11, asked))
    unknown = k03.TopicMetadata(name=None, topic_id=ID_A, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    answer = k03.MetadataAnswer(cluster_id="c", topics=(unknown,))
    assert k03.METADATA.decode_response(12, k03.METADATA.encode_response(12, answer, 0)) == answer


def test_many_coordinators_need_version_4() -> None:
    asked = k10.FindCoordinator(k10.TRANSACTION, ("a", "b"))
    assert k10.FIND_COORDINATOR.decode_request(4, k10.FIND_COORDINATOR.encode_request(4, asked)) == asked
    for version in range(4):
        with pytest.raises(VersionRefused):
            k10.FIND_COORDINATOR.encode_request(version, asked)
    with pytest.raises(VersionRefused):
        k10.FIND_COORDINATOR.encode_request(0, k10.FindCoordinator(k10.TRANSACTION, ("a",)))


def test_a_broker_that_belongs_to_zookeeper_is_refused() -> None:
    message = {"broker_id": 1, "cluster_id": "c", "incarnation_id": None, "listeners": (), "features": ()}
    body = Message(62, "request").encode(1, {**message, "rack": None, "is_migrating_zk_broker": True})
    with pytest.raises(InvalidRegistration, match="ZooKeeper"):
        BROKER_REGISTRATION.decode_request(1, body)


@table("name", ["", "-x", "a b", "é", "x" * 10 + "\n"], ids=repr)
def test_a_software_name_that_kafka_refuses(name: str) -> None:
    body = Message(18, "request").encode(3, {"client_software_name": name, "client_software_version": "1"})
    with pytest.raises(InvalidRequest, match="client_software_name"):
        k18.API_VERSIONS.decode_request(3, body)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(SaslAuthenticate(b"\0user\0secret"))


GATES = [
    pytest.param(INIT_PRODUCER_ID, 90, 47, 4, id="InitProducerId-fenced"),
    pytest.param(INIT_PRODUCER_ID, 120, 48, 5, id="InitProducerId-abortable"),
    pytest.param(ADD_PARTITIONS_TO_TXN, 90, 47, 2, id="AddPartitionsToTxn-fenced"),
    pytest.param(ADD_PARTITIONS_TO_TXN, 120, 48, 5, id="AddPartitionsToTxn-abortable"),
    pytest.param(END_TXN, 90, 47, 2, id="EndTxn-fenced"),
    pytest.param(END_TXN, 120, 48, 4, id="EndTxn-abortable"),
    pytest.param(PRODUCE, 120, 48, 11, id="Produce-abortable"),
]


@pytest.mark.row("588.5")
@pytest.mark.parametrize(("api", "code", "instead", "first"), GATES)
def test_a_version_is_told_no_code_that_it_does_not_know(
    api: Api[Any, Any], code: int, instead: int, first: int
) -> None:
    """A refusal of the whole, at the last version without the code and the first with it."""
    row = next(
        row for row in (*DATA_ROWS, *PARTITION_ROWS, *TOPIC_ROWS, *COORDINATOR_ROWS, INIT) if row.api is api
    )
    for version, expected in ((first - 1, instead), (first, code)):
        request = row.visible_request(version, row.request)
        body = api.refusal(version, request, error_for(code), 0)
        entity, _ = kios_response(api.key, version, body)
        codes = set(codes_in(entity))
        assert codes == {expected}, version


@pytest.mark.row("588.5")
@pytest.mark.parametrize(("version", "expected"), [(1, 47), (2, 90), (3, 90)])
def test_a_partition_is_told_no_code_that_its_version_does_not_know(version: int, expected: int) -> None:
    answer = AddPartitionsAnswer((("orders", ((0, ErrorCode.PRODUCER_FENCED),)),))
    body = ADD_PARTITIONS_TO_TXN.encode_response(version, AddPartitionsToTxnAnswer((("t", answer),)), 0)
    assert set(codes_in(kios_response(24, version, body)[0])) == {expected}


@pytest.mark.row("939.1")
@pytest.mark.parametrize(("enables", "keeps"), [(True, False), (False, True), (True, True)])
def test_two_phase_commit_needs_version_6(enables: bool, keeps: bool) -> None:
    """Each of the two without the other; and a request that has neither is sent as clients of Kafka do."""
    asked = InitProducerId("transfers", 1, init_version=6, enables_two_phase=enables, keeps_prepared=keeps)
    encode, decode = INIT_PRODUCER_ID.encode_request, INIT_PRODUCER_ID.decode_request
    assert decode(6, memoryview(encode(6, asked))) == asked
    with pytest.raises(VersionRefused):
        encode(5, asked)
    assert INIT_PRODUCER_ID.newest_for is not None
    assert INIT_PRODUCER_ID.newest_for(asked) == 6
    assert INIT_PRODUCER_ID.newest_for(InitProducerId("transfers", 1)) == 5


def test_many_transactions_need_version_4() -> None:
    one = AddPartitions("transfers", ProducerId(1), 0, ())
    many = AddPartitionsToTxn((one, one))
    only_verified = AddPartitionsToTxn((AddPartitions("transfers", ProducerId(1), 0, (), True),))
    for request in (many, only_verified):
        ADD_PARTITIONS_TO_TXN.encode_request(4, request)
        with pytest.raises(VersionRefused):
            ADD_PARTITIONS_TO_TXN.encode_request(3, request)


def test_one_of_many_transactions_refused_is_said_of_the_whole() -> None:
    answer = AddPartitionsToTxnAnswer((("transfers", ErrorCode.CONCURRENT_TRANSACTIONS),))
    body = ADD_PARTITIONS_TO_TXN.encode_response(4, answer, 0)
    with pytest.raises(ApiError) as raised:
        ADD_PARTITIONS_TO_TXN.decode_response(4, body)
    assert raised.value.code == ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(InvariantViolation):
        ADD_PARTITIONS_TO_TXN.encode_response(3, answer, 0)


def test_empty_records_of_a_fetch_are_no_bytes_and_not_null() -> None:
    answer = FetchAnswer(partitions=(FetchedPartition("orders", ID_A, 0),))
    for version in FETCH.versions:
        entity, _ = kios_response(1, version, FETCH.encode_response(version, answer, 0))
        assert entity.responses[0].partitions[0].records == b""


def test_a_fetch_of_a_topic_by_name_cannot_be_said_by_id() -> None:
    partition = FetchPartition(None, ID_A, 0, -1, 0, -1, -1, 1)
    with pytest.raises(VersionRefused):
        FETCH.encode_request(12, Fetch(-1, 0, 0, 0, 0, 0, -1, (partition,)))


def test_a_topic_is_deleted_by_id_from_version_6() -> None:
    by_id = DeleteTopics((), (ID_A,))
    assert DELETE_TOPICS.decode_request(6, DELETE_TOPICS.encode_request(6, by_id)) == by_id
    with pytest.raises(VersionRefused):
        DELETE_TOPICS.encode_request(5, by_id)


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param({"name": None, "topic_id": None}, id="neither"),
        pytest.param({"name": "orders", "topic_id": ID_A}, id="both"),
    ],
)
def test_a_topic_to_delete_has_a_name_or_an_id(topic: dict[str, object]) -> None:
    body = Message(20, "request").encode(6, {"topics": (topic,), "timeout_ms": 0})
    with pytest.raises(InvalidRequest):
        DELETE_TOPICS.decode_request(6, body)


def test_the_metadata_of_many_partitions_is_read() -> None:
    partitions = tuple(
        k03.PartitionMetadata(partition_index=index, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1, 2))
        for index in range(ELEMENTS_MAX)
    )
    topic = k03.TopicMetadata(name="orders", topic_id=ID_A, partitions=partitions)
    answer = k03.MetadataAnswer(cluster_id="c", topics=(topic,))
    assert k03.METADATA.decode_response(12, k03.METADATA.encode_response(12, answer, 0)) == answer


def test_a_partition_with_a_tag_that_nobody_knows_is_read() -> None:
    """The short way for a plain partition is taken only by one that ends there."""
    partition = k03.PartitionMetadata(partition_index=7, leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
    topic = k03.TopicMetadata(name="orders", topic_id=ID_A, partitions=(partition, partition))
    answer = k03.MetadataAnswer(cluster_id="c", topics=(topic,))
    body = k03.METADATA.encode_response(12, answer, 0)
    plain_end = struct.pack(">iBiBB", 1, 2, 1, 1, 0)
    assert body.count(plain_end) == 2
    tagged = body.replace(plain_end, plain_end[:-1] + b"\x01\x63\x02ab")
    assert k03.METADATA.decode_response(12, tagged) == answer


def test_the_records_of_a_fetch_are_copied_once() -> None:
    records = bytes(8 * 1024 * 1024)
    answer = FetchAnswer(partitions=(FetchedPartition("orders", ID_A, 0, records=records),))
    frame_response = FETCH.frame_response
    assert frame_response is not None
    tracemalloc.start()
    framed = frame_response(17, 1, answer, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(framed) > len(records)
    assert peak < 1.5 * len(records)
