"""Control records, byte-exact against kio's own schemas."""

import io
from typing import Any
from uuid import UUID

import kio.schema.k_raft_version_record.v0 as version_v0
import kio.schema.leader_change_message.v0 as leader_v0
import kio.schema.leader_change_message.v1 as leader_v1
import kio.schema.snapshot_footer_record.v0 as footer_v0
import kio.schema.snapshot_header_record.v0 as header_v0
import kio.schema.voters_record.v0 as voters_v0
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from fencepost.records.control import (
    CONTROL_RECORDS,
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
    decode_control,
    encode_control,
)
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import NodeId
from tests.records.strategies import control_records
from tests.together import table

DIRECTORY = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
KIO: dict[type[Any], type[Any]] = {
    LeaderChange: leader_v1.LeaderChangeMessage,
    SnapshotHeader: header_v0.SnapshotHeaderRecord,
    SnapshotFooter: footer_v0.SnapshotFooterRecord,
    KRaftVersion: version_v0.KRaftVersionRecord,
    Voters: voters_v0.VotersRecord,
}
NONE_ZEROS = "00" * 16
VECTORS = [
    pytest.param(
        LeaderChange(
            leader_id=NodeId(2),
            voters=(Voter(voter_id=NodeId(1)), Voter(voter_id=NodeId(2), voter_directory_id=DIRECTORY)),
            granting_voters=(Voter(voter_id=NodeId(2), voter_directory_id=DIRECTORY),),
        ),
        "0000 0002",
        f"0001 00000002 03 00000001 {NONE_ZEROS} 00 00000002 {DIRECTORY.hex} 00"
        f"02 00000002 {DIRECTORY.hex} 00 00",
        id="leader-change",
    ),
    pytest.param(
        LeaderChange(
            version=0,
            leader_id=NodeId(2),
            voters=(Voter(voter_id=NodeId(1)), Voter(voter_id=NodeId(2))),
            granting_voters=(Voter(voter_id=NodeId(2)),),
        ),
        "0000 0002",
        "0000 00000002 03 00000001 00 00000002 00 02 00000002 00 00",
        id="leader-change-0",
    ),
    pytest.param(
        SnapshotHeader(last_contained_log_timestamp=5), "0000 0003", "0000 0000000000000005 00", id="header"
    ),
    pytest.param(SnapshotFooter(), "0000 0004", "0000 00", id="footer"),
    pytest.param(KRaftVersion(k_raft_version=1), "0000 0005", "0000 0001 00", id="kraft-version"),
    pytest.param(
        Voters(
            voters=(
                VoterRegistration(
                    voter_id=NodeId(1),
                    voter_directory_id=DIRECTORY,
                    endpoints=(VoterEndpoint(name="CONTROLLER", host="h", port=9192),),
                    k_raft_version_feature=KRaftVersionFeature(),
                ),
            )
        ),
        "0000 0006",
        f"0000 02 00000001 {DIRECTORY.hex} 02 0b 434f4e54524f4c4c4552 02 68 23e8 00 0000 0001 00 00 00",
        id="voters",
    ),
]
KEY = b"\0\0\0\x02"
LEADER_CHANGE = encode_control(LeaderChange(leader_id=NodeId(1), voters=(Voter(voter_id=NodeId(1)),)))[1]
LEADER_CHANGE_0 = encode_control(
    LeaderChange(version=0, leader_id=NodeId(1), voters=(Voter(voter_id=NodeId(1)),))
)[1]
WRONG = [
    pytest.param(None, LEADER_CHANGE, "key of a control record is None", id="no-key"),
    pytest.param(b"\0\0\0", LEADER_CHANGE, "key of a control record", id="key-cut"),
    pytest.param(b"\xff\xff\0\x02", LEADER_CHANGE, "version -1", id="key-version-negative"),
    pytest.param(KEY, None, "LeaderChange has no value", id="no-value"),
    pytest.param(KEY, b"", "bytes end", id="value-empty"),
    pytest.param(KEY, LEADER_CHANGE[:-1], "bytes end", id="value-cut"),
    pytest.param(KEY, LEADER_CHANGE + b"\0", "1 bytes after the control record", id="trailing-byte"),
    pytest.param(KEY, b"\0\0" + LEADER_CHANGE[2:], "array length -1", id="version-1-that-says-0"),
    pytest.param(KEY, LEADER_CHANGE_0[:-1], "bytes end", id="version-0-cut"),
    pytest.param(KEY, LEADER_CHANGE_0 + b"\0", "1 bytes after the control record", id="0-and-a-byte"),
    pytest.param(KEY, b"\xff\xff" + LEADER_CHANGE[2:], "version -1, expected", id="negative"),
    pytest.param(KEY, LEADER_CHANGE[:6] + b"\xff\xff\xff\xff\x0f", "an array of", id="voters-absurd"),
]


def _kafkas(record: ControlRecord) -> type[Any]:
    is_old = isinstance(record, LeaderChange) and record.version == 0
    return leader_v0.LeaderChangeMessage if is_old else KIO[type(record)]


def test_every_control_record_has_a_vector_and_a_twin_in_kio() -> None:
    assert {type(vector.values[0]) for vector in VECTORS} == set(CONTROL_RECORDS.values()) == set(KIO)


@table(("record", "key", "value"), VECTORS)
def test_the_bytes_are_kafkas(record: ControlRecord, key: str, value: str) -> None:
    expected = (bytes.fromhex(key), bytes.fromhex(value))
    assert encode_control(record) == expected
    assert decode_control(*expected) == record


@given(control_records)
def test_kio_reads_and_writes_the_same_bytes(record: ControlRecord) -> None:
    _, value = encode_control(record)
    theirs_type = _kafkas(record)
    theirs, size = entity_reader(theirs_type)(value, 0)
    again = io.BytesIO()
    entity_writer(theirs_type)(again, theirs)
    assert size == len(value)
    assert again.getvalue() == value
    assert decode_control(*encode_control(record)) == record


@table(("key", "value", "says"), WRONG)
def test_a_bad_control_record_is_named(key: bytes | None, value: bytes | None, says: str) -> None:
    with pytest.raises(CorruptData, match=says):
        decode_control(key, value)


@table("control_type", [0, 1, 7, 99, -1])
def test_an_unknown_type_is_ignored(control_type: int) -> None:
    assert decode_control(b"\0\0" + control_type.to_bytes(2, "big", signed=True), b"anything") is None


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = b"\0\x02" + LEADER_CHANGE[2:] + b"more"
    decoded = decode_control(KEY, newer)
    assert isinstance(decoded, LeaderChange)
    assert (decoded.version, decoded.leader_id) == (2, 1)


@given(st.sampled_from([b"\0\0\0" + bytes((kind,)) for kind in CONTROL_RECORDS]), st.binary(max_size=100))
def test_decoding_is_total(key: bytes, value: bytes) -> None:
    try:
        decode_control(key, value)
    except CorruptData:
        pass


def test_a_field_that_does_not_fit_is_our_bug() -> None:
    with pytest.raises(InvariantViolation, match="cannot be written"):
        encode_control(KRaftVersion(k_raft_version=2**15))


def test_version_0_of_a_leader_change_never_loses_a_directory() -> None:
    named = (Voter(voter_id=NodeId(1), voter_directory_id=DIRECTORY),)
    for record in (
        LeaderChange(version=0, leader_id=NodeId(1), voters=named),
        LeaderChange(version=0, leader_id=NodeId(1), granting_voters=named),
    ):
        with pytest.raises(InvariantViolation, match="version 0 has no directories"):
            encode_control(record)
