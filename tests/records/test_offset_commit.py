"""Offset records as Kafka encodes them: fixed bytes by its schemas, and a second codec."""

import struct
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.message import read_message, write_message
from fencepost.records.offset_commit import (
    UNKNOWN_TAGS_MAX,
    OffsetCommitRecord,
    OffsetForgotten,
    OffsetRecord,
    decode_offset,
    encode_offset,
)
from fencepost.records.schema import BOOL, INT32, INT64, STRING, UUID_
from fencepost.records.types import Log, ProducerId
from tests.records.strategies import int16, int32, int64, text
from tests.together import table

KEY = "0001 | 0004 62696c6c | 0006 6f7264657273 | 00000007"
TOPIC_ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
PLAIN = OffsetCommitRecord(
    group_id="bill", topic="orders", partition=7, offset=42, committed_ms=1_700_000_000_000
)
TIME = "0000018bcfe56800"
WRITTEN = [
    pytest.param(PLAIN, f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 00", id="as-kafkas-with-no-tag"),
    pytest.param(
        msgspec.structs.replace(PLAIN, offset=-1, leader_epoch=5, metadata="né"),
        f"0004 | ffffffffffffffff | 00000005 | 04 6ec3a9 | {TIME} | 00",
        id="epoch-and-metadata",
    ),
    pytest.param(
        msgspec.structs.replace(PLAIN, topic_id=TOPIC_ID),
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | 00 10 {TOPIC_ID.hex}",
        id="kafkas-own-tag",
    ),
    pytest.param(
        msgspec.structs.replace(
            PLAIN, committer=ProducerId(9), generation=3, is_identified=True, expires_ms=1, member_id="né"
        ),
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 05"
        "| e807 08 0000000000000009 | e907 04 00000003 | ea07 01 01 | eb07 08 0000000000000001"
        "| ec07 04 04 6ec3a9",
        id="our-tags-from-1000-up",
    ),
    pytest.param(
        msgspec.structs.replace(PLAIN, transactional_id="né"),
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | ed07 04 04 6ec3a9",
        id="the-first-of-a-transaction",
    ),
    pytest.param(OffsetForgotten("bill", "orders", 7), None, id="tombstone"),
]
READ = [
    pytest.param(f"0000 | 000000000000002a | 0002 6869 | {TIME}", {"metadata": "hi"}, id="version-0"),
    pytest.param(
        f"0001 | 000000000000002a | 0000 | {TIME} | 0000018bcfe56801",
        {"expires_ms": 1_700_000_000_001},
        id="version-1-with-the-time-it-expires",
    ),
    pytest.param(f"0002 | 000000000000002a | 0000 | {TIME}", {}, id="version-2"),
    pytest.param(f"0003 | 000000000000002a | 00000005 | 0000 | {TIME}", {"leader_epoch": 5}, id="version-3"),
    pytest.param(
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | 8f4e 02 aabb", {}, id="a-tag-unknown"
    ),
]
CORRUPT = [
    pytest.param("0002 | 0001 61 | 0001 62 | 00000000", f"0002 | 000000000000002a | 0000 | {TIME}", id="key"),
    pytest.param("", f"0002 | 000000000000002a | 0000 | {TIME}", id="no-key"),
    pytest.param(KEY + "00", f"0002 | 000000000000002a | 0000 | {TIME}", id="key-too-long"),
    pytest.param("0001 | ffff | 0001 62 | 00000000", None, id="group-null"),
    pytest.param("0001 | 0001 ff | 0001 62 | 00000000", None, id="group-not-utf-8"),
    pytest.param(KEY, "", id="no-value"),
    pytest.param(KEY, f"0005 | 000000000000002a | ffffffff | 01 | {TIME} | 00", id="version-5"),
    pytest.param(KEY, f"0003 | 000000000000002a | 00000005 | ffff | {TIME}", id="metadata-null"),
    pytest.param(KEY, f"0004 | 000000000000002a | ffffffff | 00 | {TIME} | 00", id="compact-metadata-null"),
    pytest.param(KEY, f"0004 | 000000000000002a | ffffffff | 01 | {TIME}", id="no-tags"),
    pytest.param(KEY, f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 00 00", id="bytes-after-it"),
    pytest.param(
        KEY,
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | 00 02 0000",
        id="a-short-topic-id",
    ),
    pytest.param(
        KEY, f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 02 | 05 00 | 05 00", id="a-tag-twice"
    ),
    pytest.param(
        KEY,
        f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | ec07 03 02 6161",
        id="member-id-too-short",
    ),
    pytest.param(
        KEY, f"0004 | 000000000000002a | ffffffff | 01 | {TIME} | 01 | ec07 02 03 61", id="member-id-too-long"
    ),
]


def unspaced(spaced: str | None) -> bytes | None:
    return None if spaced is None else bytes.fromhex(spaced.replace("|", " "))


@table(("record", "value"), WRITTEN)
def test_fixed_bytes(record: OffsetRecord, value: str | None) -> None:
    assert encode_offset(record) == (unspaced(KEY), unspaced(value))
    assert decode_offset(unspaced(KEY) or b"", unspaced(value)) == record
    assert record.log is Log.CONSUMER_OFFSETS


@table(("value", "fields"), READ)
@table("key_version", ["0000", "0001"])
def test_older_versions_are_read(key_version: str, value: str, fields: dict[str, object]) -> None:
    key = unspaced(key_version + KEY[4:]) or b""
    assert decode_offset(key, unspaced(value)) == msgspec.structs.replace(PLAIN, **fields)


@table(("key", "value"), CORRUPT)
def test_corrupt_bytes_are_refused(key: str, value: str | None) -> None:
    with pytest.raises(CorruptData):
        decode_offset(unspaced(key) or b"", unspaced(value))


@pytest.mark.parametrize("count", [UNKNOWN_TAGS_MAX, UNKNOWN_TAGS_MAX + 1])
def test_so_many_tags_are_read_and_no_more(count: int) -> None:
    def varint(number: int) -> bytes:
        return bytes((number & 0x7F | 0x80, number >> 7)) if number > 0x7F else bytes((number,))

    head = unspaced(f"0004 | 000000000000002a | ffffffff | 01 | {TIME}") or b""
    value = head + varint(count) + b"".join(varint(2000 + each) + b"\0" for each in range(count))
    if count <= UNKNOWN_TAGS_MAX:
        assert decode_offset(unspaced(KEY) or b"", value) == PLAIN
    else:
        with pytest.raises(CorruptData, match="tagged fields"):
            decode_offset(unspaced(KEY) or b"", value)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"group_id": "g" * 2**15}, id="group-too-long"),
        pytest.param({"group_id": "\ud800"}, id="group-not-utf-8"),
        pytest.param({"offset": 2**63}, id="offset-too-large"),
        pytest.param({"partition": 2**31}, id="partition-too-large"),
    ],
)
def test_what_does_not_fit_is_our_bug(changes: dict[str, object]) -> None:
    with pytest.raises(InvariantViolation):
        encode_offset(msgspec.structs.replace(PLAIN, **changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondValue:
    """OffsetCommitValue version 4 as kio would have it, for the general codec of messages."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(4)
    __flexible__: ClassVar[bool] = True

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32)
    metadata: str = field(metadata=STRING)
    committed_ms: int = field(metadata=INT64)
    topic_id: UUID | None = field(default=None, metadata={**UUID_, "tag": 0})
    committer: int = field(default=-1, metadata={**INT64, "tag": 1000})
    generation: int = field(default=-1, metadata={**INT32, "tag": 1001})
    is_identified: bool = field(default=False, metadata={**BOOL, "tag": 1002})
    member_id: str = field(default="", metadata={**STRING, "tag": 1004})
    expires_ms: int = field(default=-1, metadata={**INT64, "tag": 1003})
    transactional_id: str = field(default="", metadata={**STRING, "tag": 1005})


records = st.builds(
    OffsetCommitRecord,
    group_id=text,
    topic=text,
    partition=int32,
    offset=int64,
    leader_epoch=int32,
    metadata=text,
    committed_ms=int64,
    expires_ms=int64,
    topic_id=st.uuids() | st.just(UUID(int=0)),
    committer=int64,
    generation=int32,
    is_identified=st.booleans(),
    member_id=text,
    transactional_id=text,
    producer_id=int64,
    producer_epoch=int16,
)


@given(records)
def test_a_second_codec_agrees(record: OffsetCommitRecord) -> None:
    key, value = encode_offset(record)
    assert value is not None
    names = ("offset", "leader_epoch", "metadata", "committed_ms", "committer", "generation", "is_identified")
    fields = {name: getattr(record, name) for name in (*names, "expires_ms", "member_id", "transactional_id")}
    second = SecondValue(**fields, topic_id=record.topic_id if record.topic_id.int else None)
    assert value == struct.pack(">h", 4) + write_message(second)
    assert read_message(SecondValue, value, 2) == (second, len(value))
    read = decode_offset(key, value, producer_id=record.producer_id, producer_epoch=record.producer_epoch)
    assert read == record


@given(records, st.binary(max_size=8), st.integers(min_value=0))
def test_reading_is_total(record: OffsetCommitRecord, noise: bytes, at: int) -> None:
    key, value = encode_offset(record)
    assert value is not None
    for mangled in (value[: at % len(value)], value[: at % len(value)] + noise, noise):
        try:
            decode_offset(key, mangled)
        except CorruptData:
            pass
    try:
        decode_offset(key[: at % len(key)] + noise, value)
    except CorruptData:
        pass


def test_a_pending_offset_knows_its_producer() -> None:
    key, value = encode_offset(PLAIN)
    read = decode_offset(key, value, producer_id=ProducerId(5), producer_epoch=2)
    assert read == msgspec.structs.replace(PLAIN, producer_id=ProducerId(5), producer_epoch=2)
