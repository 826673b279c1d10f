"""Record batches: byte-exact against kio's reader and writer, and no bad byte gets through."""

import datetime as dt
import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros

from fencepost.records.batch import (
    BATCH_BYTES_MAX,
    HEADERS_MAX,
    Batch,
    BatchRecord,
    DecodedRecord,
    batch_header,
    checked_header,
    decode_batch,
    encode_batch,
    iter_batches,
    stamp,
)
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Offset, Term
from tests.broker.log.builders import resealed
from tests.records.strategies import batch_records, int16, int32, int64, timestamps_ms
from tests.together import table

NOW_MS = 1_763_600_000_000

# Worked out by hand: baseOffset, length, epoch, magic, CRC | attributes .. count | records.
VECTOR = bytes.fromhex(
    "0000000000000005 00000042 00000003 02 00000000"
    "0000 00000001 000000000000000a 000000000000000a ffffffffffffffff ffff ffffffff 00000002"
    "10 00 00 00 01 04 6162 00"  # length 8, attributes, time 0, offset 0, key null, value "ab", no headers
    "0e 00 00 02 02 6b 01 00"  # length 7, attributes, time 0, offset 1, key "k", value null, no headers
)


def patched(position: int, content: bytes) -> bytes:
    """VECTOR with other bytes somewhere, and a right CRC."""
    return resealed(VECTOR[:position] + content + VECTOR[position + len(content) :])


def one(record: str, count: int = 1) -> bytes:
    """A batch of ``count`` whose records are these bytes, with a right CRC."""
    return resealed(VECTOR[:57] + struct.pack(">i", count) + bytes.fromhex(record))


def long(length: str) -> bytes:
    """VECTOR with another length."""
    return VECTOR[:8] + bytes.fromhex(length) + VECTOR[12:]


def records_of(batch: Batch) -> list[BatchRecord]:
    return [BatchRecord(key, value, headers) for _, _, key, value, headers in batch.records]


def kio_batch(
    records: list[BatchRecord], timestamp_ms: int, base_offset: int, leader_epoch: int, **fields: Any
) -> bytes:
    at = TZAwareMicros.parse(dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC))
    written = io.BytesIO()
    theirs = tuple(
        Record(
            attributes=0,  # type: ignore[arg-type]
            timestamp=at,
            offset=base_offset + delta,  # type: ignore[arg-type]
            key=record.key,
            value=record.value,
            headers=tuple(RecordHeader(key=name, value=content) for name, content in record.headers),
        )
        for delta, record in enumerate(records)
    )
    write_new_batch(written, NewRecordBatch(records=theirs, partition_leader_epoch=0, **fields))  # type: ignore[arg-type]
    return stamp(written.getvalue(), Offset(base_offset), Term(leader_epoch))


def test_the_bytes_are_kafkas() -> None:
    raw = resealed(VECTOR)
    records = [BatchRecord(None, b"ab"), BatchRecord(b"k", None)]
    assert encode_batch(records, timestamp_ms=10, base_offset=5, leader_epoch=3) == raw
    batch, size = decode_batch(raw)
    assert size == len(raw) == 0x42 + 12
    assert batch.records == (
        DecodedRecord(Offset(5), 10, None, b"ab", ()),
        DecodedRecord(Offset(6), 10, b"k", None, ()),
    )


@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        pytest.param({}, 0, id="data"),
        pytest.param({"control": True}, 0x20, id="control"),
        pytest.param(
            {"transactional": True, "producer_id": 9, "producer_epoch": 1}, 0x10, id="transactional"
        ),
        pytest.param({"transactional": True, "control": True}, 0x30, id="marker"),
        pytest.param(
            {"producer_id": 2**63 - 1, "producer_epoch": 32767, "base_sequence": 2**31 - 1},
            0,
            id="idempotent",
        ),
    ],
)
@given(batch_records, timestamps_ms, st.integers(0, 2**62), int32)
def test_kio_writes_and_reads_the_same(
    options: dict[str, Any],
    attributes: int,
    records: list[BatchRecord],
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> None:
    ours = encode_batch(
        records, timestamp_ms=timestamp_ms, base_offset=base_offset, leader_epoch=leader_epoch, **options
    )
    fields = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | {
        name: value for name, value in options.items() if name.startswith(("producer", "base"))
    }
    theirs = kio_batch(records, timestamp_ms, base_offset, leader_epoch, attributes=attributes, **fields)
    assert ours == theirs

    read, size = read_batch(ours, 0)
    batch, our_size = decode_batch(ours)
    assert size == our_size == len(ours)
    assert (batch.is_control, batch.is_transactional) == (bool(attributes & 32), bool(attributes & 16))
    for name in ("base_offset", "crc", "attributes", "last_offset_delta", "producer_id", "base_sequence"):
        assert getattr(batch, name) == getattr(read, name)
    assert int(batch.leader_epoch) == int(read.partition_leader_epoch)
    for mine, yours in zip(batch.records, read.records, strict=True):
        headers = tuple((header.key, header.value) for header in yours.headers)
        assert int(mine.offset) == int(yours.offset)
        assert (mine.key, mine.value) == (yours.key, yours.value)
        assert list(mine.headers) == list(headers)
        assert mine.timestamp_ms == timestamp_ms


@given(batch_records, int64, int64, int32, int64, int16, int32)
def test_a_batch_comes_back(
    records: list[BatchRecord],
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    batch, _ = decode_batch(
        encode_batch(
            records,
            timestamp_ms=timestamp_ms,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )
    assert records_of(batch) == records
    assert (batch.base_offset, batch.leader_epoch) == (base_offset, leader_epoch)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        producer_id,
        producer_epoch,
        base_sequence,
    )
    assert batch.base_timestamp_ms == batch.max_timestamp_ms == timestamp_ms
    assert batch.end == base_offset + len(records)


@table("count", [1, 64, 65, 8192, 8193])
@table("size", [0, 1, 57, 58, 63, 64, 7999, 8000, 8191, 8192])
def test_the_fast_path_ends_where_the_general_one_begins(count: int, size: int) -> None:
    count = min(count, BATCH_BYTES_MAX // (size + 12))
    records = [BatchRecord(b"", bytes(size))] + [BatchRecord(None, bytes(size))] * (count - 1)
    raw = encode_batch(records, timestamp_ms=NOW_MS)
    assert records_of(decode_batch(raw)[0]) == records
    if count < 100:
        assert raw == kio_batch(
            records, NOW_MS, 0, 0, attributes=0, producer_id=-1, producer_epoch=-1, base_sequence=-1
        )


@given(batch_records, st.integers(0, 2**63 - 2**32), st.integers(0, 2**31 - 1))
def test_a_stamp_changes_the_place_and_nothing_else(
    records: list[BatchRecord], base_offset: int, leader_epoch: int
) -> None:
    plain = encode_batch(records, timestamp_ms=NOW_MS)
    stamped = stamp(plain, Offset(base_offset), Term(leader_epoch))
    assert stamped == encode_batch(
        records, timestamp_ms=NOW_MS, base_offset=base_offset, leader_epoch=leader_epoch
    )
    assert decode_batch(stamped)[0].crc == decode_batch(plain)[0].crc


@given(st.lists(batch_records, max_size=4), st.binary(max_size=30))
def test_batches_are_read_one_after_another(many: list[list[BatchRecord]], before: bytes) -> None:
    encoded = [encode_batch(records, timestamp_ms=NOW_MS) for records in many]
    joined = b"".join(encoded)
    assert [records_of(batch) for batch in iter_batches(joined)] == many
    position = len(before)
    for raw, records in zip(encoded, many, strict=True):
        header = batch_header(memoryview(before + joined), position)
        assert (header.size, header.record_count, header.end) == (len(raw), len(records), len(records))
        batch, size = decode_batch(memoryview(before + joined), position)
        assert records_of(batch) == records
        position += size


@given(batch_records, st.data())
def test_a_cut_batch_is_corrupt(records: list[BatchRecord], data: st.DataObject) -> None:
    raw = encode_batch(records, timestamp_ms=NOW_MS)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with pytest.raises(CorruptData, match="position 0"):
        decode_batch(cut)
    if cut:
        with pytest.raises(CorruptData, match="position 0"):
            list(iter_batches(cut))


@given(batch_records, st.data())
def test_a_flipped_byte_is_corrupt(records: list[BatchRecord], data: st.DataObject) -> None:
    """Everywhere but in the base offset and the leader epoch, which the CRC does not cover."""
    raw = bytearray(encode_batch(records, timestamp_ms=NOW_MS))
    at = data.draw(st.sampled_from([*range(8, 12), *range(16, len(raw))]))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptData, match="position 0"):
        decode_batch(bytes(raw))


@given(st.binary(max_size=60))
def test_records_of_random_bytes_never_escape(body: bytes) -> None:
    for count in (0, 1, 2, len(body)):
        try:
            decode_batch(one(body.hex(), count))
        except CorruptData:
            continue


GOOD = "10 00 00 00 01 04 6162 00"
WRONG = [
    pytest.param(b"", "0 bytes, a header takes 61", id="nothing"),
    pytest.param(VECTOR[:60], "60 bytes, a header takes 61", id="header-cut"),
    pytest.param(VECTOR, "CRC 0x00000000, computed", id="wrong-crc"),
    pytest.param(patched(16, b"\1"), "magic 1, expected 2", id="magic-1"),
    pytest.param(patched(16, b"\3"), "magic 3, expected 2", id="magic-3"),
    pytest.param(long("00000030"), "60 bytes, expected 61", id="shorter-than-a-header"),
    pytest.param(long("ffffffff"), "11 bytes, expected 61", id="length-negative"),
    pytest.param(long("7fffffff"), "expected 61 to 8388608", id="length-2-gib"),
    pytest.param(long("00000043"), "79 bytes, only 78 are there", id="length-past-end"),
    pytest.param(patched(21, b"\0\1"), "compression 1 is not supported", id="gzip"),
    pytest.param(patched(21, b"\0\4"), "compression 4 is not supported", id="zstd"),
    pytest.param(patched(57, b"\xff\xff\xff\xff"), "-1 records", id="count-negative"),
    pytest.param(patched(57, b"\x7f\xff\xff\xff"), "2147483647 records", id="count-absurd"),
    pytest.param(patched(57, b"\0\0\0\3"), "ends past the batch", id="count-too-large"),
    pytest.param(patched(57, b"\0\0\0\1"), "8 bytes after the last record", id="count-too-small"),
    pytest.param(patched(23, b"\0\0\0\0"), "last offset delta 0 is too small", id="last-delta-too-small"),
    pytest.param(patched(23, b"\xff\xff\xff\xff"), "last delta -1", id="last-delta-negative"),
    pytest.param(one("12" + GOOD[2:]), "not as long as it says", id="record-length-too-large"),
    pytest.param(one("0e" + GOOD[2:]), "not as long as it says", id="record-length-too-small"),
    pytest.param(one("0f" + GOOD[2:]), "not as long as it says", id="record-length-negative"),
    pytest.param(one(GOOD * 2, 2), "offset delta 0 follows 0", id="offset-repeated"),
    pytest.param(one("10 00 00 01 01 04 6162 00"), "offset delta -1", id="offset-negative"),
    pytest.param(one("10 00 00 00 01 06 6162 00"), "past the batch|as long", id="value-too-long"),
    pytest.param(one("10 00 00 00 01 03 6162 00"), "length -2", id="value-length-minus-2"),
    pytest.param(one("10 00 00 00 03 04 6162 00"), "length -2", id="key-length-minus-2"),
    pytest.param(one("20 00 00 00 01 feffffff0f 00 00 00 00 00"), "length 2147483647", id="value-2-gib"),
    pytest.param(one("1000" + "ff" * 10), "more than 64 bits", id="varint-of-70-bits"),
    pytest.param(one("1000" + "ff" * 9 + "02"), "more than 64 bits", id="varint-of-65-bits"),
    pytest.param(one("10 00 00 00 01 04 6162 01"), "-1 headers", id="headers-negative"),
    pytest.param(one("12 00 00 00 01 04 6162 8210"), "1025 headers", id="headers-too-many"),
    pytest.param(one("14 00 00 00 01 04 6162 02 01 01"), "without a name", id="header-name-null"),
]  # fmt: skip


@table(("raw", "says"), WRONG)
def test_a_bad_batch_is_named(raw: bytes, says: str) -> None:
    with pytest.raises(CorruptData, match=f"(?s)position 7.*({says})"):
        decode_batch(b"\0" * 7 + raw, 7)


def test_as_many_headers_as_may_be() -> None:
    record = BatchRecord(None, b"", ((b"", None),) * HEADERS_MAX)
    assert records_of(decode_batch(encode_batch([record], timestamp_ms=0))[0]) == [record]


def test_a_header_is_read_without_its_body() -> None:
    header = batch_header(resealed(VECTOR)[:HEADER_BYTES])
    assert (header.base_offset, header.end, header.size, header.leader_epoch) == (5, 7, 78, 3)
    with pytest.raises(CorruptData, match="78 bytes, only 61 are there"):
        checked_header(resealed(VECTOR)[:HEADER_BYTES])


def test_a_batch_of_no_records_is_read() -> None:
    """Kafka's compaction leaves such batches; no code here writes one."""
    batch, size = decode_batch(one("", 0))
    assert (batch.records, size) == ((), HEADER_BYTES)


@pytest.mark.parametrize("over", [0, 1])
def test_the_size_of_a_batch_is_bounded(over: int) -> None:
    overhead = HEADER_BYTES + 4 + 4 + 4 + 1  # record length, fixed part, value length, no headers
    value = bytes(BATCH_BYTES_MAX - overhead + over)
    if over:
        with pytest.raises(InvariantViolation, match="too large"):
            encode_batch([BatchRecord(None, value)], timestamp_ms=0)
        return
    raw = encode_batch([BatchRecord(None, value)], timestamp_ms=0)
    assert len(raw) == BATCH_BYTES_MAX
    assert decode_batch(raw)[1] == BATCH_BYTES_MAX


def test_an_empty_batch_is_our_bug() -> None:
    with pytest.raises(InvariantViolation, match="at least one record"):
        encode_batch([], timestamp_ms=0)
