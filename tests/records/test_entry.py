"""The Raft entry: what travels in the Raft log comes back, or is named."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.control import LeaderChange, SnapshotFooter, encode_control
from fencepost.records.entry import (
    ENTRY_BYTES_MAX,
    LATER_MAGIC,
    Entry,
    LoggedBatch,
    decode_entry,
    decode_records,
    encode_entry,
    holds_controls,
)
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.levels import LEVEL_MAX, LevelTooHigh
from fencepost.records.schema import AllocateProducerIdsRecord, MetadataRecord, NoOpRecord
from fencepost.records.types import (
    BrokerEpoch,
    BrokerId,
    ImageVersion,
    Log,
    NodeId,
    ProducerId,
    ProposalNumber,
    Term,
)
from tests.records.strategies import batch_of, control_records, entries, metadata_records

HEAD = "fe 0000000000000001 00000002 00000003 0000000000000004"
FIRST = AllocateProducerIdsRecord(
    broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7), producer_id_end=ProducerId(1000)
)


def entry_of(*batches: tuple[Log, bytes]) -> Entry:
    return Entry(ImageVersion(1), Term(2), NodeId(3), ProposalNumber(4), batches)


@given(entries)
def test_round_trip(entry: Entry) -> None:
    raw = encode_entry(entry)
    assert decode_entry(raw) == entry
    assert len(raw) == 26 + sum(5 + len(batch) for _, batch in entry.batches)


def test_the_layout_is_the_documented_one() -> None:
    entry = entry_of((Log.METADATA, b"abc"), (Log.CONSUMER_OFFSETS, b"d"))
    assert encode_entry(entry) == bytes.fromhex(HEAD + "02 00 00000003 616263 02 00000001 64")


def test_a_barrier_is_an_entry_without_batches() -> None:
    raw = encode_entry(entry_of())
    assert raw == bytes.fromhex(HEAD + "00")
    assert decode_records(decode_entry(raw)) == ()


@pytest.mark.parametrize("rest", [b"", b"\0" * 60, bytes(range(256))], ids=["nothing", "zeros", "anything"])
@pytest.mark.parametrize("level", [LEVEL_MAX + 1, 2**16 - 1], ids=["next", "highest"])
def test_an_entry_of_a_later_level_is_no_damage(level: int, rest: bytes) -> None:
    """Whatever later versions put behind magic and level."""
    later = struct.pack(">BH", LATER_MAGIC, level) + rest
    with pytest.raises(LevelTooHigh, match=f"log level {level}, .* up to {LEVEL_MAX}: upgrade this node"):
        decode_entry(later)
    assert holds_controls(later), "its bindings count before it is applied, so it must be decoded"
    assert not issubclass(LevelTooHigh, CorruptData)


@pytest.mark.parametrize("level", range(LEVEL_MAX + 1))
def test_a_later_layout_of_a_level_that_is_known_is_damage(level: int) -> None:
    with pytest.raises(CorruptData, match="entry magic 0xfd"):
        decode_entry(struct.pack(">BH", LATER_MAGIC, level) + b"\0" * 60)


@given(st.lists(metadata_records, min_size=1, max_size=5))
def test_metadata_records_come_back(records: list[MetadataRecord]) -> None:
    entry = entry_of((Log.METADATA, batch_of(*records)))
    assert decode_records(entry) == (LoggedBatch(Log.METADATA, False, tuple(records), len(records)),)


@given(control_records, st.sampled_from(Log))
def test_control_records_come_back_from_any_log(record: LeaderChange, log: Log) -> None:
    raw = encode_batch([BatchRecord(*encode_control(record))], timestamp_ms=0, control=True)
    assert decode_records(entry_of((log, raw))) == (LoggedBatch(log, True, (record,), 1),)


@given(st.lists(metadata_records, min_size=1, max_size=2), control_records)
def test_a_peek_tells_controls_from_records(records: list[MetadataRecord], record: LeaderChange) -> None:
    control = encode_batch([BatchRecord(*encode_control(record))], timestamp_ms=0, control=True)
    assert holds_controls(encode_entry(entry_of((Log.METADATA, control))))
    assert not holds_controls(encode_entry(entry_of((Log.METADATA, batch_of(*records)))))
    assert not holds_controls(encode_entry(entry_of()))


def test_an_unknown_control_record_is_skipped_but_uses_its_offset() -> None:
    records = [BatchRecord(b"\0\0\0\x63", b"?"), BatchRecord(*encode_control(SnapshotFooter()))]
    raw = encode_batch(records, timestamp_ms=0, control=True)
    (logged,) = decode_records(entry_of((Log.METADATA, raw)))
    assert (logged.records, logged.count) == ((SnapshotFooter(),), 2)


def gap() -> bytes:
    """A batch of one record that claims three offsets: its header is outside what encode_batch writes."""
    raw = batch_of(NoOpRecord())
    body = raw[21:23] + struct.pack(">i", 2) + raw[27:]
    return raw[:17] + struct.pack(">I", crc32c(body)) + body


UNREADABLE = [
    pytest.param(Log.METADATA, b"", "a header takes 61", id="no-batch"),
    pytest.param(Log.METADATA, batch_of(FIRST) + b"\0", "1 bytes after the batch", id="a-byte-too-many"),
    pytest.param(Log.METADATA, batch_of(FIRST)[:-1], "only 91 are there", id="batch-cut"),
    pytest.param(Log.METADATA, gap(), "1 records on 3 offsets", id="offsets-with-gaps"),
    pytest.param(
        Log.METADATA,
        encode_batch([BatchRecord(None, None)], timestamp_ms=0),
        "a metadata record without a value",
        id="null-value",
    ),
    pytest.param(
        Log.METADATA,
        encode_batch([BatchRecord(None, b"\1\x63\0")], timestamp_ms=0),
        "unknown metadata record key 99",
        id="unknown-record",
    ),
    pytest.param(Log.CONSUMER_OFFSETS, batch_of(FIRST), "no record of", id="data-in-another-log"),
    pytest.param(Log.TRANSACTION_STATE, batch_of(FIRST), "transaction record with key", id="null-key"),
    pytest.param(
        Log.METADATA,
        encode_batch([BatchRecord(None, b"")], timestamp_ms=0, control=True),
        "key of a control record is None",
        id="control-without-key",
    ),
]


@pytest.mark.parametrize(("log", "raw", "says"), UNREADABLE)
def test_a_bad_batch_is_named_with_its_log(log: Log, raw: bytes, says: str) -> None:
    with pytest.raises(CorruptData, match=f"{log.directory}.*{says}"):
        decode_records(entry_of((log, raw)))


WRONG = [
    pytest.param("", "0 bytes, expected 26", id="nothing"),
    pytest.param(HEAD, "25 bytes, expected 26", id="header-cut"),
    pytest.param("80" + HEAD[2:] + "00", "magic 0x80, expected 0xfe", id="a-pickle"),
    pytest.param(HEAD + "01", "ends inside a batch header", id="batch-header-missing"),
    pytest.param(HEAD + "01 00 000000", "ends inside a batch header", id="batch-header-cut"),
    pytest.param(HEAD + "01 00 00000001", "a batch of 1 bytes", id="batch-missing"),
    pytest.param(HEAD + "01 00 ffffffff 00", "a batch of 4294967295 bytes", id="batch-4-gib"),
    pytest.param(HEAD + "00 00", "1 bytes after the last batch", id="trailing-byte"),
    pytest.param(HEAD + "01 03 00000000", "log 3 after log -1", id="unknown-log"),
    pytest.param(HEAD + "02 01 00000000 01 00000000", "log 1 after log 1", id="log-twice"),
    pytest.param(HEAD + "02 01 00000000 00 00000000", "log 0 after log 1", id="logs-out-of-order"),
    pytest.param(HEAD + "ff" + "00 00000000", "ends inside|after log", id="255-batches"),
]


@pytest.mark.parametrize(("raw", "says"), WRONG)
def test_a_bad_entry_is_named(raw: str, says: str) -> None:
    with pytest.raises(CorruptData, match=says):
        decode_entry(bytes.fromhex(raw))


@given(entries, st.data())
def test_a_cut_entry_is_corrupt(entry: Entry, data: st.DataObject) -> None:
    raw = encode_entry(entry)
    with pytest.raises(CorruptData):
        decode_entry(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=100))
def test_decoding_is_total(raw: bytes) -> None:
    try:
        decode_records(decode_entry(raw))
    except CorruptData:
        pass


@pytest.mark.parametrize("over", [0, 1])
def test_the_size_of_an_entry_is_bounded_on_both_sides(over: int) -> None:
    entry = entry_of((Log.METADATA, bytes(ENTRY_BYTES_MAX - 26 - 5 + over)))
    if not over:
        assert decode_entry(encode_entry(entry)) == entry
        return
    with pytest.raises(InvariantViolation, match="too large"):
        encode_entry(entry)
    with pytest.raises(CorruptData, match="expected 26 to"):
        decode_entry(bytes(ENTRY_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param([Log.TRANSACTION_STATE, Log.METADATA], id="out-of-order"),
        pytest.param([Log.METADATA, Log.METADATA], id="one-log-twice"),
    ],
)
def test_batches_out_of_order_are_our_bug(logs: list[Log]) -> None:
    with pytest.raises(InvariantViolation, match="one batch per log"):
        encode_entry(entry_of(*((log, b"") for log in logs)))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(Entry(ImageVersion(-1), Term(0), NodeId(0), ProposalNumber(0)), id="version-negative"),
        pytest.param(Entry(ImageVersion(0), Term(2**32), NodeId(0), ProposalNumber(0)), id="epoch-past-u32"),
    ],
)
def test_numbers_that_do_not_fit_are_our_bug(entry: Entry) -> None:
    with pytest.raises(InvariantViolation, match="cannot be written"):
        encode_entry(entry)
