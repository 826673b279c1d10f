"""What a consumer is given of a fetched partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.client import TopicPartition
from fencepost.client.assignors import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fencepost.client.fetched_records import first_batch_bytes, shown
from fencepost.client.partitioning import partition_of
from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.batch_builder import BatchBuilder
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, ProducerId, Term
from fencepost.wire.k01_fetch import AbortedTransaction
from tests.together import table

P = TopicPartition("t", 0)
ONE, TWO = 1, 2


def batch(offset: int, *values: bytes, producer: int = -1, transactional: bool = False) -> bytes:
    return encode_batch(
        [BatchRecord(None, value) for value in values],
        timestamp_ms=5, base_offset=offset, producer_id=producer, transactional=transactional,
    )  # fmt: skip


def data(offset: int, value: bytes, producer: int) -> bytes:
    return batch(offset, value, producer=producer, transactional=True)


def marker(offset: int, producer: int, *, committed: bool) -> bytes:
    ended = EndMarker(
        producer_id=ProducerId(producer), producer_epoch=0, committed=committed, coordinator_epoch=0
    )
    return encode_end_marker(ended, base_offset=Offset(offset), leader_epoch=Term(0), now_ms=0)


LOG = b"".join(
    (
        data(0, b"one aborts", ONE),
        data(1, b"two commits", TWO),
        batch(2, b"plain"),
        marker(3, ONE, committed=False),
        data(4, b"one commits", ONE),
        marker(5, ONE, committed=True),
        marker(6, TWO, committed=True),
        data(7, b"two aborts", TWO),
        marker(8, TWO, committed=False),
    )
)
ABORTED = [AbortedTransaction(ONE, 0), AbortedTransaction(TWO, 7)]


def values(raw: bytes, offset: int, aborted: list[AbortedTransaction] | None) -> list[bytes | None]:
    return [record.value for record in shown(P, raw, offset, aborted).records]


def test_read_committed_hides_each_aborted_transaction_up_to_its_marker() -> None:
    assert values(LOG, 0, ABORTED) == [b"two commits", b"plain", b"one commits"]
    assert shown(P, LOG, 0, ABORTED).next_offset == 9


def test_read_uncommitted_shows_all_but_markers() -> None:
    assert len(values(LOG, 0, None)) == 5


@table("offset", range(10))
def test_what_is_before_the_wanted_offset_is_left_out(offset: int) -> None:
    wanted = [record for record in shown(P, LOG, 0, None).records if record.offset >= offset]
    assert shown(P, LOG, offset, None).records == wanted


@given(st.integers(0, len(LOG)))
def test_a_cut_answer_ends_with_its_last_whole_batch(size: int) -> None:
    part = shown(P, LOG[:size], 0, ABORTED)
    rest = shown(P, LOG, part.next_offset, ABORTED)
    assert part.records + rest.records == shown(P, LOG, 0, ABORTED).records


@given(st.integers(12, len(LOG) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_corrupt_or_cut(place: int, flip: int) -> None:
    broken = bytearray(LOG)
    broken[place] ^= flip
    try:
        found = shown(P, bytes(broken), 0, None).records
    except CorruptData:
        return
    whole = shown(P, LOG, 0, None).records
    assert [each.value for each in found] == [each.value for each in whole][: len(found)]


def test_the_size_of_a_batch_that_does_not_fit_is_known() -> None:
    assert first_batch_bytes(LOG[:12]) == len(data(0, b"one aborts", ONE))
    assert first_batch_bytes(LOG[:11]) == 0


record = st.tuples(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=9000),
    st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
    st.integers(0, 2**40),
)


@given(st.lists(record, min_size=1, max_size=20), st.integers(0, 4), st.integers(0, 2**31 - 1))
def test_what_a_builder_writes_is_read(
    rows: list[tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...], int]],
    codec: int,
    sequence: int,
) -> None:
    builder = BatchBuilder()
    for key, value, headers, at_ms in rows:
        builder.append(key, value, headers, at_ms)
    raw = builder.build(
        builder.body(codec), codec=codec, producer_id=7, producer_epoch=1, base_sequence=sequence
    )
    assert codec or len(raw) == builder.size
    found = shown(P, stamp(raw, Offset(100), Term(3)), 0, None)
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found.records] == rows
    assert [each.offset for each in found.records] == list(range(100, 100 + len(rows)))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_a_key_has_the_partition_that_the_java_client_gives_it(key: bytes, hashed: int) -> None:
    """The hashes are those of Kafka's UtilsTest.testMurmur2."""
    assert partition_of(key, 9) == (hashed & 0x7FFF_FFFF) % 9


members = st.dictionaries(
    st.text(min_size=1, max_size=3), st.lists(st.sampled_from("xyz"), min_size=1, max_size=3), min_size=1
)


@given(
    members, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 7)), st.sampled_from(sorted(ASSIGNORS))
)
def test_each_partition_has_one_member_that_wants_it(
    wanted: dict[str, list[str]], counts: dict[str, int], name: str
) -> None:
    assigned = ASSIGNORS[name](wanted, counts)
    given_out = [each for partitions in assigned.values() for each in partitions]
    topics = {topic for names in wanted.values() for topic in names}
    assert sorted(given_out) == sorted(
        TopicPartition(topic, each) for topic in topics for each in range(counts.get(topic, 0))
    )
    assert all(each.topic in wanted[member] for member, rows in assigned.items() for each in rows)


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(0, 99)), max_size=10, unique=True))
def test_assignments_and_subscriptions_come_back(rows: list[tuple[str, int]]) -> None:
    partitions = [TopicPartition(*row) for row in rows]
    assert decode_assignment(encode_assignment(partitions)) == sorted(partitions)
    assert decode_subscription(encode_subscription(row[0] for row in rows)) == sorted(row[0] for row in rows)


@given(st.binary(max_size=40))
def test_bytes_of_a_member_are_read_or_corrupt(raw: bytes) -> None:
    for decode in (decode_assignment, decode_subscription):
        try:
            decode(raw)
        except CorruptData:
            pass
