"""Messages in kio's style: equal to kio where kio is right, CorruptData for every other byte string."""

import io
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

import kio.schema.allocate_producer_ids.v0.request as allocate_v0
import kio.schema.broker_registration.v4.request as registration_v4
import kio.schema.controller_registration.v0.request as controller_v0
import kio.schema.describe_cluster.v2.request as cluster_v2
import kio.schema.vote.v2.request as vote_v2
import kio.schema.voters_record.v0 as voters_v0
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.message import TAGS_MAX, read_message, write_message
from fencepost.records.schema import FeatureLevelRecord, RegisterBrokerRecord
from tests.records.strategies import control_records, metadata_records
from tests.together import table

FOREIGN = [
    allocate_v0.AllocateProducerIdsRequest,
    registration_v4.BrokerRegistrationRequest,
    controller_v0.ControllerRegistrationRequest,
    cluster_v2.DescribeClusterRequest,
    vote_v2.VoteRequest,
    voters_v0.VotersRecord,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    flag: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One field of each difficult kind, and a tag of our own range."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    content: bytes | None = field(metadata={"kafka_type": "bytes"})
    directory: UUID | None = field(metadata={"kafka_type": "uuid"})
    numbers: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    inner: Inner = Inner(flag=False)
    maybe: tuple[Inner, ...] | None = None
    instance: int = field(default=-1, metadata={"kafka_type": "int64", "tag": 1000})


samples = st.builds(
    Sample,
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    content=st.binary(max_size=20) | st.none(),
    directory=st.uuids() | st.none(),
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5).map(tuple),
    inner=st.builds(Inner, flag=st.booleans()),
    maybe=st.lists(st.builds(Inner, flag=st.booleans()), max_size=3).map(tuple),
    instance=st.integers(-(2**63), 2**63 - 1),
)

HEAD = "036162 00" + "00" * 16  # name "ab", content null, directory none
WRONG = [
    pytest.param("", "bytes end", id="nothing"),
    pytest.param("03", "ends? inside|end inside", id="string-cut"),
    pytest.param("00", "length -1", id="null-string-that-may-not-be-null"),
    pytest.param("03fffe", "not UTF-8", id="not-utf8"),
    pytest.param("036162 ffffffff0f", "a string of 4294967294 bytes", id="bytes-claim-4-gib"),
    pytest.param("036162 ffffffffff", "more than 32 bits", id="varint-of-35-bits"),
    pytest.param("036162 ffffffff1f", "more than 32 bits", id="varint-of-33-bits"),
    pytest.param(HEAD + "ffffffff0f", "an array of 4294967294 items", id="array-claims-4-gi-items"),
    pytest.param(HEAD + "00", "array length -1", id="null-array-that-may-not-be-null"),
    pytest.param(HEAD + "03 00000001", "an array of 2 items|end inside", id="array-cut"),
    pytest.param(HEAD + "01 00 00 00 ffffffff0f", "4294967295 tagged fields", id="tags-absurd"),
    pytest.param(
        HEAD + "01 00 00 00 01 e807 ffffffff0f", "tagged field 1000 of 4294967295", id="tag-size-absurd"
    ),
    pytest.param(HEAD + "01 00 00 00 01 e807 09" + "00" * 9, "not 9 bytes long", id="tag-size-wrong"),
    pytest.param(
        HEAD + "01 00 00 00 02 e807 08" + "00" * 8 + "e807 08" + "00" * 8, "after 1000", id="tag-twice"
    ),
    pytest.param(HEAD + "01 00 00 00 02 e907 00 e807 08" + "00" * 8, "after 1001", id="tags-out-of-order"),
]


@given(samples)
def test_a_message_comes_back(sample: Sample) -> None:
    raw = write_message(sample)
    assert read_message(Sample, raw) == (sample, len(raw))


@given(samples, st.binary(max_size=9))
def test_a_message_is_read_where_it_stands(sample: Sample, before: bytes) -> None:
    raw = write_message(sample)
    assert read_message(Sample, before + raw + b"after", len(before)) == (sample, len(before) + len(raw))


@given(metadata_records | control_records)
def test_kio_reads_what_we_read(record: Any) -> None:
    raw = write_message(record)
    ours, end = read_message(type(record), raw)
    theirs, size = entity_reader(type(record))(raw, 0)
    assert (ours, end) == (record, len(raw))
    assert size == end
    if repr(UUID(int=0)) not in repr(record):
        assert theirs == ours  # kio gives None for a uuid of zeros


@pytest.mark.parametrize("message_type", FOREIGN, ids=lambda each: each.__name__)
@given(data=st.data())
def test_kio_and_we_agree_on_kafkas_own_messages(message_type: type[Any], data: st.DataObject) -> None:
    """Bytes that both accept mean the same; what kio refuses we refuse, unless it is an unknown tag."""
    raw = data.draw(st.binary(max_size=8).map(lambda each: each + b"\0" * 60))
    try:
        ours = read_message(message_type, raw)
        theirs = entity_reader(message_type)(raw, 0)
    except CorruptData:
        return  # kio is not asked: it may abort the process
    except (ValueError, KeyError):
        return  # kio refuses a bool of 2 and an unknown tag, Kafka does not
    assert ours == theirs


@table(("raw", "says"), WRONG)
def test_bad_bytes_are_named(raw: str, says: str) -> None:
    with pytest.raises(CorruptData, match=says):
        read_message(Sample, bytes.fromhex(raw))


@given(samples, st.data())
def test_a_cut_message_is_corrupt(sample: Sample, data: st.DataObject) -> None:
    raw = write_message(sample)
    with pytest.raises(CorruptData):
        read_message(Sample, raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=200))
def test_reading_is_total(raw: bytes) -> None:
    for message_type in (Sample, RegisterBrokerRecord, *FOREIGN):
        try:
            _, end = read_message(message_type, raw)
        except CorruptData:
            continue
        assert end <= len(raw)


def test_unknown_tags_are_skipped() -> None:
    raw = bytes.fromhex(HEAD + "01 00 00 00 02 07 03 aabbcc e807 08 0000000000000005")
    sample, end = read_message(Sample, raw)
    assert (sample.instance, end) == (5, len(raw))


@pytest.mark.parametrize("count", [TAGS_MAX, TAGS_MAX + 1])
def test_tags_are_bounded(count: int) -> None:
    tags = b"".join(bytes((tag & 0x7F | 0x80, tag >> 7, 0)) for tag in range(128, 128 + count))
    message = b"\x01\0\x07" + bytes((count & 0x7F | 0x80, count >> 7)) + tags
    if count <= TAGS_MAX:
        assert read_message(FeatureLevelRecord, message)[1] == len(message)
    else:
        with pytest.raises(CorruptData, match=f"{count} tagged fields"):
            read_message(FeatureLevelRecord, message)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(FeatureLevelRecord(name="a", feature_level=2**15), id="int16-too-large"),
        pytest.param(FeatureLevelRecord(name="\ud800", feature_level=1), id="lone-surrogate"),
        pytest.param(FeatureLevelRecord(name=None, feature_level=1), id="null-name"),  # type: ignore[arg-type]
    ],
)
def test_a_field_that_does_not_fit_is_our_bug(record: FeatureLevelRecord) -> None:
    with pytest.raises(InvariantViolation, match="FeatureLevelRecord"):
        write_message(record)


@given(samples)
def test_writing_is_kios(sample: Sample) -> None:
    raw = io.BytesIO()
    entity_writer(Sample)(raw, sample)
    assert write_message(sample) == raw.getvalue()
