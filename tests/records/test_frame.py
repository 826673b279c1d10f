"""Metadata records as Kafka encodes them: fixed bytes, derived by hand from Kafka's schemas."""

from dataclasses import fields
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records.frame import decode_frame, decode_frame_generally, encode_frame, encode_frame_generally
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.partition_report import OFFLINE, PartitionReport, encode_reports
from fencepost.records.schema import (
    METADATA_RECORDS,
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
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from tests.records.strategies import allocations, lone_partitions, metadata_records
from tests.together import table

ONE, SEVEN = BrokerId(1), BrokerEpoch(7)
INCARNATION = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
TOPIC = UUID("11223344-5566-4788-99aa-bbccddeeff00")
DIRECTORY = UUID("ffeeddcc-bbaa-9988-7766-554433221100")

# frame 1 | key | version | fields in the schema's order | tagged fields: count, then tag, size, value.
# A flexible string or array is its length + 1 as a varint, then its content; 00 is null.
VECTORS = [
    pytest.param(
        AllocateProducerIdsRecord(broker_id=ONE, broker_epoch=SEVEN, producer_id_end=ProducerId(1000)),
        "01 0f 00 | 00000001 | 0000000000000007 | 00000000000003e8 | 00",
        id="allocate-producer-ids",
    ),
    pytest.param(
        AllocateProducerIdsRecord(
            broker_id=BrokerId(-1), broker_epoch=BrokerEpoch(-1), producer_id_end=ProducerId(2**63 - 1)
        ),
        "01 0f 00 | ffffffff | ffffffffffffffff | 7fffffffffffffff | 00",
        id="allocate-producer-ids-as-kafkas-snapshot-has-it",
    ),
    pytest.param(
        RegisterBrokerRecord(
            broker_id=ONE,
            incarnation_id=INCARNATION,
            broker_epoch=SEVEN,
            end_points=(
                BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0),
                BrokerEndpoint(name="S", host="h", port=65535, security_protocol=2),
            ),
            features=(
                BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=25),
            ),
            rack="r1",
            fenced=True,
            in_controlled_shutdown=False,
            log_dirs=(DIRECTORY,),
        ),
        "01 00 03 | 00000001 | 00 | 000102030405060708090a0b0c0d0e0f | 0000000000000007"
        "| 03 | 0a 504c41494e54455854 | 0a 3132372e302e302e31 | 2384 | 0000 | 00"
        "| 02 53 | 02 68 | ffff | 0002 | 00"
        "| 02 | 11 6d657461646174612e76657273696f6e | 0001 | 0019 | 00"
        "| 03 7231 | 01 | 00 | 01 00 11 02 ffeeddccbbaa99887766554433221100",
        id="register-broker",
    ),
    pytest.param(
        RegisterBrokerRecord(
            broker_id=ONE,
            is_migrating_zk_broker=True,
            incarnation_id=UUID(int=0),
            broker_epoch=SEVEN,
            end_points=(),
            features=(),
            fenced=False,
            in_controlled_shutdown=True,
        ),
        "01 00 03 | 00000001 | 01 | 00000000000000000000000000000000 | 0000000000000007"
        "| 01 | 01 | 00 | 00 | 01 | 00",
        id="register-broker-with-nothing",
    ),
    pytest.param(
        UnregisterBrokerRecord(broker_id=ONE, broker_epoch=SEVEN),
        "01 01 00 | 00000001 | 0000000000000007 | 00",
        id="unregister-broker",
    ),
    pytest.param(
        BrokerRegistrationChangeRecord(broker_id=ONE, broker_epoch=SEVEN, fenced=-1),
        "01 11 02 | 00000001 | 0000000000000007 | 01 00 01 ff",
        id="broker-unfenced",
    ),
    pytest.param(
        BrokerRegistrationChangeRecord(
            broker_id=ONE, broker_epoch=SEVEN, fenced=1, in_controlled_shutdown=1, log_dirs=(DIRECTORY,)
        ),
        "01 11 02 | 00000001 | 0000000000000007"
        "| 03 00 01 01 | 01 01 01 | 02 11 02 ffeeddccbbaa99887766554433221100",
        id="broker-changed-in-every-way",
    ),
    pytest.param(
        BrokerRegistrationChangeRecord(
            broker_id=ONE,
            broker_epoch=SEVEN,
            partition_reports=encode_reports(
                (PartitionReport(DIRECTORY, 1, 500), PartitionReport(DIRECTORY, 2, OFFLINE))
            ),
        ),
        "01 11 02 | 00000001 | 0000000000000007 | 01 e807 39 39"
        "| ffeeddccbbaa99887766554433221100 00000001 00000000000001f4"
        "| ffeeddccbbaa99887766554433221100 00000002 ffffffffffffffff",
        id="partitions-reported",
    ),
    pytest.param(
        PartitionChangeRecord(
            partition_id=1, topic_id=DIRECTORY, leader=2, directories=(DIRECTORY,), start_offset=500
        ),
        "01 05 01 | 00000001 | ffeeddccbbaa99887766554433221100"
        "| 03 | 01 04 00000002 | 08 11 02 ffeeddccbbaa99887766554433221100 | e807 08 00000000000001f4",
        id="partition-started-again",
    ),
    pytest.param(
        BrokerRegistrationChangeRecord(broker_id=ONE, broker_epoch=SEVEN),
        "01 11 02 | 00000001 | 0000000000000007 | 00",
        id="broker-not-changed",
    ),
    pytest.param(
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        "01 0c 00 | 11 6d657461646174612e76657273696f6e | 0019 | 00",
        id="feature-level",
    ),
    pytest.param(
        TopicRecord(name="orders", topic_id=TOPIC),
        "01 02 00 | 07 6f7264657273 | 112233445566478899aabbccddeeff00 | 00",
        id="topic",
    ),
    pytest.param(
        PartitionRecord(
            partition_id=2,
            topic_id=TOPIC,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(DIRECTORY,),
        ),
        "01 03 01 | 00000002 | 112233445566478899aabbccddeeff00 | 02 00000001 | 02 00000001 | 01 | 01"
        "| 00000001 | 00000000 | 00000000 | 02 ffeeddccbbaa99887766554433221100 | 00",
        id="partition",
    ),
    pytest.param(
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=(1, 2),
            isr=(),
            removing_replicas=(2,),
            adding_replicas=(3,),
            leader_recovery_state=1,
        ),
        "01 03 01 | 00000000 | 112233445566478899aabbccddeeff00 | 03 00000001 00000002 | 01"
        "| 02 00000002 | 02 00000003 | ffffffff | ffffffff | ffffffff | 01 | 01 00 01 01",
        id="partition-without-leader-in-recovery",
    ),
    pytest.param(
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="-1"),
        "01 04 00 | 02 | 07 6f7264657273 | 0d 726574656e74696f6e2e6d73 | 03 2d31 | 00",
        id="config",
    ),
    pytest.param(
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        "01 04 00 | 02 | 07 6f7264657273 | 0d 726574656e74696f6e2e6d73 | 00 | 00",
        id="config-removed",
    ),
    pytest.param(
        RemoveTopicRecord(topic_id=TOPIC),
        "01 09 00 | 112233445566478899aabbccddeeff00 | 00",
        id="remove-topic",
    ),
    pytest.param(
        AccessControlEntryRecord(
            id=TOPIC,
            resource_type=2,
            resource_name="pay",
            pattern_type=4,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        ),
        "01 12 00 | 112233445566478899aabbccddeeff00 | 02 | 04 706179 | 04 | 07 557365723a61 | 02 2a"
        "| 03 03 | 00",
        id="acl-added",
    ),
    pytest.param(
        RemoveAccessControlEntryRecord(id=TOPIC),
        "01 13 00 | 112233445566478899aabbccddeeff00 | 00",
        id="acl-removed",
    ),
    pytest.param(
        UserScramCredentialRecord(
            name="al", mechanism=2, salt=b"\1\2", stored_key=b"k", server_key=b"vv", iterations=8192
        ),
        "01 0b 00 | 03 616c | 02 | 03 0102 | 02 6b | 03 7676 | 00002000 | 00",
        id="scram-user-set",
    ),
    pytest.param(
        RemoveUserScramCredentialRecord(name="al", mechanism=1),
        "01 16 00 | 03 616c | 01 | 00",
        id="scram-user-removed",
    ),
    pytest.param(NoOpRecord(), "01 14 00 | 00", id="no-op"),
    pytest.param(ZkMigrationStateRecord(zk_migration_state=3), "01 15 00 | 03 | 00", id="migration-as-kafka"),
    pytest.param(
        ZkMigrationStateRecord(
            zk_migration_state=2,
            phase=4,
            floor=ProducerId(4000),
            fence_block_end=4999,
            fence_zk_version=7,
            ensemble="zk",
        ),
        "01 15 00 | 02 | 05 e807 01 04 | e907 08 0000000000000fa0 | ea07 08 0000000000001387"
        "| eb07 04 00000007 | ec07 03 03 7a6b",
        id="migration-with-everything",
    ),
]

WRONG = [
    pytest.param("", "bytes end", id="nothing"),
    pytest.param("00 14 00 00", "frame version 0, expected 1", id="frame-version-0"),
    pytest.param("02 14 00 00", "frame version 2, expected 1", id="frame-version-2"),
    pytest.param("01 63 00 00", "unknown metadata record key 99", id="unknown-key"),
    pytest.param("01 e807 00 00", "unknown metadata record key 1000", id="unknown-key-of-two-bytes"),
    pytest.param("01 14 01 00", "NoOpRecord version 1, expected 0", id="unknown-version"),
    pytest.param("01 00 02 00", "RegisterBrokerRecord version 2, expected 3", id="old-version"),
    pytest.param("01 14 00 00 00", "1 bytes after NoOpRecord", id="trailing-byte"),
    pytest.param("01 0f 00" + "00" * 20, "bytes end", id="allocate-without-tags"),
    pytest.param("01 0f 00" + "00" * 22, "1 bytes after", id="allocate-and-a-byte"),
    pytest.param("01 0f 00" + "00" * 20 + "01", "bytes end", id="allocate-with-a-tag-cut-off"),
    pytest.param("01 0f ffffffffff00", "more than 32 bits", id="version-absurd"),
]


def test_every_record_type_has_a_vector() -> None:
    covered = {type(vector.values[0]) for vector in VECTORS}
    assert covered == set(METADATA_RECORDS.values())


@table(("record", "layout"), VECTORS)
def test_the_bytes_are_kafkas(record: MetadataRecord, layout: str) -> None:
    raw = bytes.fromhex(layout.replace("|", " "))
    assert encode_frame(record).hex() == raw.hex()
    assert decode_frame(raw) == record
    for name in (described.name for described in fields(record)):
        assert type(getattr(decode_frame(raw), name)) is type(getattr(record, name))


@given(metadata_records)
def test_a_record_comes_back(record: MetadataRecord) -> None:
    assert decode_frame(encode_frame(record)) == record


@given(allocations | lone_partitions)
def test_the_fast_path_is_the_general_one(record: MetadataRecord) -> None:
    raw = encode_frame(record)
    assert raw == encode_frame_generally(record)
    assert decode_frame(raw) == decode_frame_generally(raw) == record


@given(lone_partitions, st.integers(0, 64), st.integers(1, 255))
def test_a_partition_of_another_shape_is_read_generally(
    record: PartitionRecord, at: int, flipped: int
) -> None:
    raw = bytearray(encode_frame(record))
    raw[at] ^= flipped
    outcomes = []
    for read in (decode_frame, decode_frame_generally):
        try:
            outcomes.append(repr(read(bytes(raw))))
        except CorruptData as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_number_that_does_not_fit_is_our_bug() -> None:
    partition = PartitionRecord(
        partition_id=2**31, topic_id=TOPIC, replicas=(1,), isr=(1,), directories=(DIRECTORY,)
    )
    with pytest.raises(InvariantViolation):
        encode_frame(partition)


def test_unknown_tags_on_the_hot_record_are_skipped() -> None:
    raw = bytes.fromhex("01 0f 00 00000001 0000000000000007 00000000000003e8 01 e807 02 abcd")
    record = AllocateProducerIdsRecord(broker_id=ONE, broker_epoch=SEVEN, producer_id_end=ProducerId(1000))
    assert decode_frame(raw) == record


@table(("layout", "says"), WRONG)
def test_a_bad_frame_is_named(layout: str, says: str) -> None:
    with pytest.raises(CorruptData, match=says):
        decode_frame(bytes.fromhex(layout))


@given(metadata_records, st.data())
def test_a_cut_frame_is_corrupt(record: MetadataRecord, data: st.DataObject) -> None:
    raw = encode_frame(record)
    with pytest.raises(CorruptData):
        decode_frame(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(metadata_records, st.data())
def test_a_flipped_byte_is_corrupt_or_another_record(record: MetadataRecord, data: st.DataObject) -> None:
    """The batch's CRC is what finds flips; here they only must not escape as anything else."""
    raw = bytearray(encode_frame(record))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_frame(bytes(raw))
    except CorruptData:
        pass


@given(st.binary(max_size=100))
def test_decoding_is_total(raw: bytes) -> None:
    try:
        decode_frame(raw)
    except CorruptData:
        pass


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(
            AllocateProducerIdsRecord(
                broker_id=BrokerId(2**31), broker_epoch=SEVEN, producer_id_end=ProducerId(1)
            ),
            id="broker-id-past-int32",
        ),
        pytest.param(
            AllocateProducerIdsRecord(broker_id=ONE, broker_epoch=SEVEN, producer_id_end=ProducerId(2**63)),
            id="end-past-int64",
        ),
        pytest.param(FeatureLevelRecord(name="f", feature_level=2**15), id="level-past-int16"),
    ],
)
def test_a_record_that_does_not_fit_is_our_bug(record: MetadataRecord) -> None:
    with pytest.raises(InvariantViolation, match="cannot be written"):
        encode_frame(record)
