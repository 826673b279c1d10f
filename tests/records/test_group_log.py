"""The batches of ``__consumer_offsets``: which records share one, and what their headers say."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records.batch import BatchRecord, decode_batch, encode_batch
from fencepost.records.end_marker import EndMarker
from fencepost.records.group_log import (
    NO_SEQUENCE,
    GroupRecord,
    UnknownGroupRecord,
    batch_bounds,
    decode_group_batch,
    encode_group_batches,
    encode_group_record,
)
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.logged import encode_record
from fencepost.records.types import ImageVersion, Log, ProducerId
from tests.controller.notes import Note, known, marker
from tests.together import table

NOW_MS = 1_763_600_000_000


@pytest.fixture(autouse=True, scope="module")
def notes() -> Iterator[None]:
    with known():
        yield


def plain(name: str = "a") -> Note:
    return Note(name, "x")


def of(producer_id: int, epoch: int = 0, name: str = "a") -> Note:
    return Note(name, "x", ProducerId(producer_id), epoch)


def encoded(*records: object) -> list[bytes]:
    written: list[GroupRecord] = list(records)  # type: ignore[arg-type]  # notes are of tests only
    return encode_group_batches(written, [encode_group_record(each) for each in written], NOW_MS)


SPLITS = [
    pytest.param([], [], id="nothing"),
    pytest.param([plain()], [1], id="one"),
    pytest.param([plain(), plain("b"), plain("a")], [3], id="plain-ones-share-a-batch"),
    pytest.param([of(7), of(7, name="b")], [2], id="one-producer"),
    pytest.param([of(7), of(8)], [1, 1], id="another-producer"),
    pytest.param([of(7, 0), of(7, 1)], [1, 1], id="another-epoch"),
    pytest.param([plain(), of(7), plain()], [1, 1, 1], id="between-plain-ones"),
    pytest.param([of(7), marker(7), of(7)], [1, 1, 1], id="a-marker-between-records-of-its-producer"),
    pytest.param([marker(7), marker(7)], [1, 1], id="each-marker-is-alone"),
    pytest.param([of(7), of(8), of(7)], [1, 1, 1], id="the-order-is-kept-not-the-producer"),
]


@table(("records", "sizes"), SPLITS)
def test_a_batch_ends_where_producer_epoch_or_control_changes(
    records: list[Note | EndMarker], sizes: list[int]
) -> None:
    bounds = batch_bounds(records)  # type: ignore[arg-type]
    assert [end - first for first, end, *_ in bounds] == sizes
    batches = [decode_batch(raw)[0] for raw in encoded(*records)]
    assert [len(batch.records) for batch in batches] == sizes
    assert [each for batch in batches for each in decode_group_batch(batch)] == records


HEADERS = [
    pytest.param(plain(), False, False, -1, -1, NO_SEQUENCE, id="plain"),
    pytest.param(of(7, 3), False, True, 7, 3, 0, id="transactional"),
    pytest.param(marker(7, 3), True, True, 7, 3, NO_SEQUENCE, id="marker"),
]


@pytest.mark.parametrize(("record", "control", "transactional", "producer_id", "epoch", "sequence"), HEADERS)
def test_the_header_says_whose_the_records_are(
    record: Note | EndMarker, control: bool, transactional: bool, producer_id: int, epoch: int, sequence: int
) -> None:
    (raw,) = encoded(record)
    batch, _ = decode_batch(raw)
    assert (batch.is_control, batch.is_transactional) == (control, transactional)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    assert batch.base_timestamp_ms == batch.max_timestamp_ms == NOW_MS


def test_a_marker_is_kafkas_byte_for_byte() -> None:
    """MemoryRecords.writeEndTransactionalMarker: key version and type, value version and epoch."""
    for committed, kind in ((False, "00000000"), (True, "00000001")):
        (raw,) = encoded(marker(7, 3, committed=committed, epoch=9))
        assert raw[:17] == bytes.fromhex("0000000000000000 00000042 00000000 02")
        assert raw[21:43] == bytes.fromhex("0030 00000000") + 2 * NOW_MS.to_bytes(8, "big")
        assert raw[43:61] == bytes.fromhex("0000000000000007 0003 ffffffff 00000001")
        assert raw[61:] == bytes.fromhex(f"20 00 00 00 08 {kind} 0c 0000 00000009 00")


records = st.lists(
    st.one_of(
        st.builds(Note, st.sampled_from("ab"), st.sampled_from(["x", "", None])),
        st.builds(
            Note,
            st.sampled_from("ab"),
            st.sampled_from(["x", "", None]),
            st.sampled_from([ProducerId(0), ProducerId(7), ProducerId(2**63 - 1)]),
            st.sampled_from([0, 32_767]),
        ),
        st.builds(marker, st.sampled_from([0, 7]), st.sampled_from([0, 1]), committed=st.booleans()),
    ),
    max_size=12,
)


@given(records)
def test_what_is_written_is_read_in_its_order(written: list[Note | EndMarker]) -> None:
    read = [each for raw in encoded(*written) for each in decode_group_batch(decode_batch(raw)[0])]
    assert read == written


def test_its_records_belong_to_the_log_of_offsets() -> None:
    assert encode_record(marker(7))[0] is Log.CONSUMER_OFFSETS


def test_an_unknown_key_type_takes_its_offset_and_nothing_else() -> None:
    raw = encode_batch(
        [BatchRecord(b"\x00\x63later", b"?"), BatchRecord(*encode_group_record(plain()))],  # type: ignore[arg-type]
        timestamp_ms=0,
    )
    assert repr(decode_group_batch(decode_batch(raw)[0])) == repr((UnknownGroupRecord(0x63), plain()))


def test_a_control_record_of_another_type_is_passed_over() -> None:
    raw = encode_batch(
        [BatchRecord(b"\0\0\0\x63", b"?")],
        timestamp_ms=0,
        control=True,
        transactional=True,
        producer_id=7,
        producer_epoch=0,
    )
    assert decode_group_batch(decode_batch(raw)[0]) == (UnknownGroupRecord(-1),)


KEY_AND_VALUE = BatchRecord(b"\0\0\0\1", b"\0\0\0\0\0\1")
TRANSACTION = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
BAD = [
    pytest.param([KEY_AND_VALUE], {"transactional": True}, "bit is True", id="a-transaction-of-no-producer"),
    pytest.param([KEY_AND_VALUE], {"producer_id": 7, "producer_epoch": 0}, "bit is False", id="no-bit"),
    pytest.param(
        [KEY_AND_VALUE], TRANSACTION | {"producer_id": -2}, "producer id -2", id="a-negative-producer"
    ),
    pytest.param([KEY_AND_VALUE], {"control": True}, "1 markers in a batch of", id="a-marker-of-no-producer"),
    pytest.param(
        [KEY_AND_VALUE, KEY_AND_VALUE], TRANSACTION | {"control": True}, "2 markers in", id="two-markers"
    ),
    pytest.param(
        [BatchRecord(b"\0", b"")], TRANSACTION | {"control": True}, "key of a control", id="cut-key"
    ),
    pytest.param([BatchRecord(None, b"")], {}, "group record with key None", id="no-key"),
    pytest.param([BatchRecord(b"\0", b"")], {}, "group record with key", id="half-a-key-type"),
]


@table(("parts", "header", "says"), BAD)
def test_a_bad_batch_is_named(parts: list[BatchRecord], header: dict[str, bool | int], says: str) -> None:
    raw = encode_batch(parts, timestamp_ms=0, **header)  # type: ignore[arg-type]
    with pytest.raises(CorruptData, match=says):
        decode_group_batch(decode_batch(raw)[0])


def test_a_marker_with_an_image_version_is_our_bug() -> None:
    """Only partitions, which lose their state on their own, need it."""
    one = EndMarker(
        producer_id=ProducerId(7),
        producer_epoch=0,
        committed=True,
        coordinator_epoch=1,
        version=ImageVersion(5),
    )
    with pytest.raises(InvariantViolation, match="no image version"):
        encode_group_record(one)
