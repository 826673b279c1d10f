"""The hand-written codec of transaction values is the general one, or leaves the value to it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records import transaction_bytes
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_bytes import (
    CACHED_IDS_MAX,
    TAGS_CACHED_MAX,
    TOPICS_CACHED_MAX,
    read_value,
    write_value,
)
from fencepost.records.transaction_log import (
    Fence,
    GroupAssignment,
    TopicPartitions,
    TransactionStateRecord,
    decode_transaction,
    encode_transaction,
    read_value_generally,
    write_value_generally,
)
from fencepost.records.types import ProducerId

i64 = st.integers(-(2**63), 2**63 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i16 = st.integers(-(2**15), 2**15 - 1)
i8 = st.integers(-(2**7), 2**7 - 1)
names = st.text(max_size=130)
held = st.builds(TopicPartitions, names, st.lists(i32, max_size=130).map(tuple))
fences = st.builds(Fence, i64, i8, i64.map(ProducerId), i16, names)
assignments = st.builds(GroupAssignment, names, i32, st.lists(held, max_size=2).map(tuple))
values = st.builds(
    TransactionStateRecord,
    transactional_id=st.just("t"),
    producer_id=i64.map(ProducerId),
    producer_epoch=i16,
    transaction_timeout_ms=i32,
    status=i8,
    partitions=st.none() | st.lists(held, max_size=4).map(tuple),
    updated_ms=i64,
    started_ms=i64,
    previous_producer_id=(st.just(-1) | i64).map(ProducerId),
    next_producer_id=(st.just(-1) | i64).map(ProducerId),
    client_transaction_version=st.just(0) | i16,
    next_producer_epoch=st.just(-1) | i16,
    instance_epoch=st.just(-1) | i16,
    last_producer_epoch=st.just(-1) | i16,
    init_version=st.just(-1) | i16,
    fences=st.lists(fences, max_size=3).map(tuple),
    timed_out=st.booleans(),
    next_timeout_ms=st.just(-1) | i32,
    assignments=st.none() | st.lists(assignments, max_size=2).map(tuple),
)
ORDINARY = TransactionStateRecord(
    transactional_id="t",
    producer_id=ProducerId(5),
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    status=1,
    partitions=(TopicPartitions("orders", (0, 7)),),
    updated_ms=2,
    started_ms=1,
    instance_epoch=3,
    init_version=4,
    fences=(Fence(1, 2, ProducerId(5), 2, "rdkafka"),),
    timed_out=True,
)


@given(values)
def test_what_is_written_by_hand_is_what_is_written_generally(record: TransactionStateRecord) -> None:
    by_hand = write_value(record)
    is_rare = record.next_timeout_ms != -1 or record.assignments is not None
    assert by_hand == (None if is_rare else write_value_generally(record))


@given(values)
def test_what_is_read_by_hand_is_what_is_read_generally(record: TransactionStateRecord) -> None:
    value = write_value_generally(record)
    general = read_value_generally(value, 0)
    by_hand = read_value(value, 0)
    if by_hand is not None:
        defaults = {each.name: each.default for each in msgspec.structs.fields(TransactionStateRecord)}
        assert {name: by_hand.get(name, defaults[name]) for name in general} == general
    key, whole = encode_transaction(record)
    assert decode_transaction(key, whole) == record


def test_an_ordinary_value_is_read_by_hand() -> None:
    assert read_value(write_value_generally(ORDINARY), 0) is not None


@given(st.data())
def test_a_spoilt_value_is_read_as_the_general_reader_does(data: st.DataObject) -> None:
    value = bytearray(write_value_generally(ORDINARY))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(value[: data.draw(st.integers(0, len(value)))]) if data.draw(st.booleans()) else bytes(value)
    by_hand = read_value(cut, 0)
    if by_hand is None:
        return
    general = read_value_generally(cut, 0)  # whatever is read by hand is sound
    defaults = {each.name: each.default for each in msgspec.structs.fields(TransactionStateRecord)}
    assert {name: by_hand.get(name, defaults[name]) for name in general} == general


def test_a_value_that_is_no_value_is_corrupt() -> None:
    key, _ = encode_transaction(ORDINARY)
    with pytest.raises(CorruptData):
        decode_transaction(key, b"\x00\x01" + b"\xff" * 40)


def test_what_is_read_is_the_callers_own() -> None:
    buffer = write_value_generally(ORDINARY)
    first = read_value(buffer, 0)
    assert first is not None
    wanted = dict(first)
    first.clear()
    assert read_value(buffer, 0) == wanted


def test_what_is_remembered_is_bounded() -> None:
    for number in range(max(TOPICS_CACHED_MAX, TAGS_CACHED_MAX) + 1):
        topic = TopicPartitions(f"topic-{number}", (0,))
        record = msgspec.structs.replace(ORDINARY, partitions=(topic,), previous_producer_id=number)
        value = write_value(record)
        assert value is not None
        read_value(value, 0)
    sizes = [
        (each.cache_info().currsize, bound)
        for each, bound in (
            (transaction_bytes._read_topic, TOPICS_CACHED_MAX),
            (transaction_bytes._write_topic, TOPICS_CACHED_MAX),
            (transaction_bytes._read_tags, TAGS_CACHED_MAX),
            (transaction_bytes._write_numbers, TAGS_CACHED_MAX),
        )
    ]
    assert [size for size, _ in sizes] == [bound for _, bound in sizes]


@pytest.mark.parametrize("count", [CACHED_IDS_MAX, CACHED_IDS_MAX + 1], ids=["at", "one-past"])
def test_a_wide_topic_is_not_remembered(count: int) -> None:
    transaction_bytes._write_topic.cache_clear()
    transaction_bytes._read_topic.cache_clear()
    topic = TopicPartitions("wide", tuple(range(count)))
    record = msgspec.structs.replace(ORDINARY, partitions=(topic,))
    value = write_value(record)
    assert value == write_value_generally(record)
    read_value(value, 0)
    remembered = int(count <= CACHED_IDS_MAX)
    assert transaction_bytes._write_topic.cache_info().currsize == remembered
    assert transaction_bytes._read_topic.cache_info().currsize == remembered
