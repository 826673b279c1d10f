"""Group metadata as Kafka encodes it: fixed bytes, derived by hand from Kafka's schemas, and laws."""

from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.group_metadata import (
    GroupForgotten,
    GroupMember,
    GroupMetadata,
    GroupState,
    decode_group,
    encode_group,
)
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.message import write_message
from fencepost.records.schema import INT8, INT32, INT64, STRING
from fencepost.records.types import Log
from tests.together import table

BYTES = {"kafka_type": "bytes"}

KEY = "0002 | 0001 67"  # version | group "g"
EMPTY = GroupMetadata(
    group_id="g", protocol_type="", generation=0, state=GroupState.EMPTY, state_ms=1_700_000_000_000
)
ALICE = GroupMember("m-1", None, "c", "/127.0.0.1", 60_000, 10_000, (("range", b"\x01\x02"),), b"\x03")
BOB = GroupMember("m-2", "i", "c", "/h", 300_000, 45_000, (("sticky", b"\x05"), ("range", b"")), b"")
STABLE = GroupMetadata(
    group_id="g",
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="m-1",
    state=GroupState.STABLE,
    state_ms=1_700_000_000_000,
    members=(ALICE,),
)
# version | protocol type | generation | protocol | leader | state time | members | tagged fields; a flexible
# string, array or bytes is its length + 1 as a varint, then its content; 00 is null.
ALICE_BYTES = "04 6d2d31 | 00 | 02 63 | 0b 2f3132372e302e302e31 | 0000ea60 | 00002710 | 03 0102 | 02 03 | 00"
BOB_BYTES = (
    "04 6d2d32 | 02 69 | 02 63 | 03 2f68 | 000493e0 | 0000afc8 | 01 | 01"
    # one tag, 1000, of 19 bytes: two protocols; the metadata of the chosen one is null here
    "| 01 e807 13 | 03 | 07 737469636b79 | 02 05 | 00 | 06 72616e6765 | 00 | 00"
)
STABLE_HEAD = "0004 | 09 636f6e73756d6572 | 00000007 | 06 72616e6765 | 04 6d2d31 | 0000018bcfe56800"
VECTORS = [
    pytest.param(EMPTY, "0004 | 01 | 00000000 | 00 | 00 | 0000018bcfe56800 | 01 | 00", id="empty-as-kafkas"),
    pytest.param(STABLE, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 00", id="stable-as-kafkas-with-no-tag"),
    pytest.param(
        msgspec.structs.replace(STABLE, members=(ALICE, BOB)),
        f"{STABLE_HEAD} | 03 {ALICE_BYTES} {BOB_BYTES} | 00",
        id="a-static-member-with-two-protocols",
    ),
    pytest.param(
        msgspec.structs.replace(STABLE, state=GroupState.COMPLETING_REBALANCE),
        f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 01 e807 01 02",
        id="completing-in-our-tag",
    ),
    pytest.param(
        msgspec.structs.replace(STABLE, state=GroupState.PREPARING_REBALANCE),
        f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 01 e807 01 01",
        id="preparing-in-our-tag",
    ),
]

OLDER_MEMBER = (
    "0003 6d2d31 {instance} | 0001 63 | 000a 2f3132372e302e302e31 {rebalance} | 00002710"
    "| 00000002 0102 | 00000001 03"
)
OLDER_HEAD = "0008 636f6e73756d6572 | 00000007 | 0005 72616e6765 | 0003 6d2d31"
OLDER = [
    pytest.param(
        f"0003 | {OLDER_HEAD} | 0000018bcfe56800 | 00000001 "
        + OLDER_MEMBER.format(instance="| 0001 69", rebalance="| 0000ea60"),
        msgspec.structs.replace(STABLE, members=(msgspec.structs.replace(ALICE, instance_id="i"),)),
        id="version-3",
    ),
    pytest.param(
        f"0002 | {OLDER_HEAD} | 0000018bcfe56800 | 00000001 "
        + OLDER_MEMBER.format(instance="", rebalance="| 0000ea60"),
        STABLE,
        id="version-2-without-instances",
    ),
    pytest.param(
        f"0001 | {OLDER_HEAD} | 00000001 " + OLDER_MEMBER.format(instance="", rebalance="| 0000ea60"),
        msgspec.structs.replace(STABLE, state_ms=-1),
        id="version-1-without-a-time",
    ),
    pytest.param(
        f"0000 | {OLDER_HEAD} | 00000001 " + OLDER_MEMBER.format(instance="", rebalance=""),
        msgspec.structs.replace(
            STABLE, state_ms=-1, members=(msgspec.structs.replace(ALICE, rebalance_timeout_ms=10_000),)
        ),
        id="version-0-rebalances-within-the-session",
    ),
    pytest.param(
        "0003 | 0000 | 00000000 | ffff | ffff | 0000018bcfe56800 | 00000000", EMPTY, id="version-3-empty"
    ),
]


def raw(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", ""))


@table(("record", "value"), VECTORS)
def test_the_bytes_are_kafkas(record: GroupMetadata, value: str) -> None:
    assert encode_group(record) == (raw(KEY), raw(value))
    assert decode_group(raw(KEY), raw(value)) == record


@table(("value", "record"), OLDER)
def test_older_versions_are_read(value: str, record: GroupMetadata) -> None:
    assert decode_group(raw(KEY), raw(value)) == record


def test_a_tombstone_has_no_value() -> None:
    assert encode_group(GroupForgotten("g")) == (raw(KEY), None)
    assert decode_group(raw(KEY), None) == GroupForgotten("g")
    assert EMPTY.log is Log.CONSUMER_OFFSETS is GroupForgotten("g").log


def test_tags_that_are_not_known_are_skipped() -> None:
    value = raw(f"{STABLE_HEAD} | 02 {ALICE_BYTES[:-2]} 01 05 01 ff | 02 07 02 aabb e807 01 02")
    assert decode_group(raw(KEY), value) == msgspec.structs.replace(
        STABLE, state=GroupState.COMPLETING_REBALANCE
    )


@table(
    ("key", "value"),
    [
        pytest.param("0002 0002 67", None, id="key-ends-in-the-id"),
        pytest.param("0002 0001 67 00", None, id="bytes-after-the-id"),
        pytest.param("0001 0001 67", None, id="key-of-an-offset"),
        pytest.param("0002 0001 ff", None, id="id-not-utf-8"),
        pytest.param("00", None, id="key-too-short"),
        pytest.param(KEY, "00", id="no-version"),
        pytest.param(KEY, "0005 01", id="a-later-version"),
        pytest.param(KEY, "ffff 01", id="a-negative-version"),
        pytest.param(KEY, "0004 | 00 | 00000000 | 00 | 00 | 0000018bcfe56800 | 01 | 00", id="type-null"),
        pytest.param(KEY, "0004 | 01 | 00000000 | 00 | 00 | 0000018bcfe56800 | 00 | 00", id="members-null"),
        pytest.param(
            KEY, "0004 | 01 | 00000000 | 00 | 00 | 0000018bcfe56800 | ffffffff0f", id="four-billion"
        ),
        pytest.param(KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 01 e807 01 04", id="unknown-state"),
        pytest.param(KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 01 e807 02 0202", id="state-of-two-bytes"),
        pytest.param(KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 00 00", id="a-byte-too-many"),
        pytest.param(KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 02 05 00 05 00", id="a-tag-twice"),
        pytest.param(KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES} | 01 05 7f", id="a-tag-past-the-end"),
        pytest.param(
            KEY, f"{STABLE_HEAD} | 02 {ALICE_BYTES[:-2]} 01 e807 02 01 00 | 00", id="a-byte-after-protocols"
        ),
    ],
)
def test_bytes_that_are_wrong_are_refused(key: str, value: str | None) -> None:
    with pytest.raises(CorruptData):
        decode_group(raw(key), None if value is None else raw(value))


@table(("record", "value"), VECTORS)
def test_a_value_that_ends_early_is_refused(record: GroupMetadata, value: str) -> None:
    whole = raw(value)
    for end in range(len(whole)):
        with pytest.raises(CorruptData):
            decode_group(raw(KEY), whole[:end])


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(msgspec.structs.replace(EMPTY, group_id="g" * 32_768), id="id-too-long"),
        pytest.param(msgspec.structs.replace(EMPTY, group_id="\ud800"), id="id-not-utf-8"),
        pytest.param(msgspec.structs.replace(EMPTY, generation=2**31), id="generation-too-large"),
    ],
)
def test_what_does_not_fit_is_our_bug(record: GroupMetadata) -> None:
    with pytest.raises(InvariantViolation):
        encode_group(record)


# -- laws ------------------------------------------------------------------------------------------------

names = st.text(max_size=6)
numbers = st.integers(0, 2**31 - 1)
contents = st.binary(max_size=150)
members = st.builds(
    GroupMember,
    names,
    st.none() | names,
    names,
    names,
    numbers,
    numbers,
    st.lists(st.tuples(st.sampled_from(["range", "sticky", ""]), contents), min_size=1, max_size=3).map(
        tuple
    ),
    contents,
)
groups = st.builds(
    GroupMetadata,
    group_id=names,
    protocol_type=names,
    generation=numbers,
    protocol=st.none() | st.sampled_from(["range", "sticky", ""]),
    leader=st.none() | names,
    state=st.sampled_from(GroupState),
    state_ms=st.integers(-1, 2**63 - 1),
    members=st.lists(members, max_size=3).map(tuple),
)


@given(groups)
def test_round_trip(record: GroupMetadata) -> None:
    key, value = encode_group(record)
    assert decode_group(key, value) == record


@given(groups)
def test_a_description_in_kafkas_terms_gives_the_same_bytes(record: GroupMetadata) -> None:
    _, value = encode_group(record)
    assert value == b"\x00\x04" + write_message(described(record))


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_corrupt_data(value: bytes) -> None:
    for version in (b"\x00\x00", b"\x00\x03", b"\x00\x04"):
        try:
            decode_group(raw(KEY), version + value)
        except CorruptData:
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True

    name: str = field(metadata=STRING)
    metadata: bytes | None = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True

    member_id: str = field(metadata=STRING)
    group_instance_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout: int = field(metadata=INT32)
    session_timeout: int = field(metadata=INT32)
    subscription: bytes = field(metadata=BYTES)
    assignment: bytes = field(metadata=BYTES)
    protocols: tuple[Protocol, ...] = field(default=(), metadata={"tag": 1000})


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Kafka's GroupMetadataValue, version 4, with our tags."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True

    protocol_type: str = field(metadata=STRING)
    generation: int = field(metadata=INT32)
    protocol: str | None = field(metadata=STRING)
    leader: str | None = field(metadata=STRING)
    current_state_timestamp: int = field(metadata=INT64)
    members: tuple[Member, ...]
    state: int = field(default=-1, metadata={**INT8, "tag": 1000})


def described(record: GroupMetadata) -> Value:
    kafkas = GroupState.STABLE if record.members else GroupState.EMPTY
    return Value(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_ms,
        members=tuple(described_member(each, record.protocol) for each in record.members),
        state=-1 if record.state is kafkas else record.state,
    )


def described_member(member: GroupMember, protocol: str | None) -> Member:
    subscription = next((content for name, content in member.protocols if name == protocol), b"")
    alone = member.protocols == ((protocol or "", subscription),)
    listed = tuple(
        Protocol(name=name, metadata=None if name == protocol and content == subscription else content)
        for name, content in member.protocols
    )
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=subscription,
        assignment=member.assignment,
        protocols=() if alone else listed,
    )
