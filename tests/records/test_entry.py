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
    placed,
)
from fencepost.records.group_log import encode_group_batches, encode_group_record
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.levels import GROUP_LOG, LEVEL_MAX, LevelTooHigh
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
from tests.controller.notes import marker
from tests.records.strategies import batch_of, control_records, entries, metadata_records
from tests.together import table

HEAD = "fe 0000000000000001 00000002 00000003 0000000000000004"
LATER_HEAD = "fd 0002 0000000000000001 00000002 00000003 0000000000000004"
FIRST = AllocateProducerIdsRecord(
    broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7), producer_id_end=ProducerId(1000)
)


def entry_of(*batches: tuple[Log, bytes]) -> Entry:
    return Entry(ImageVersion(1), Term(2), NodeId(3), ProposalNumber(4), batches)


@given(entries)
def test_round_trip(entry: Entry) -> None:
    raw = encode_entry(entry)
    assert decode_entry(raw) == entry
    header = 29 if any(log is Log.CONSUMER_OFFSETS for log, _ in entry.batches) else 26
    assert len(raw) == header + sum(5 + len(batch) for _, batch in entry.batches)


LAYOUTS = [
    pytest.param([], HEAD + "00", id="a-barrier"),
    pytest.param([(Log.METADATA, b"abc")], HEAD + "01 00 00000003 616263", id="one-log"),
    pytest.param(
        [(Log.METADATA, b"abc"), (Log.TRANSACTION_STATE, b"d")],
        HEAD + "02 00 00000003 616263 01 00000001 64",
        id="two-logs",
    ),
    pytest.param([(Log.CONSUMER_OFFSETS, b"d")], LATER_HEAD + "0001 02 00000001 64", id="groups"),
    pytest.param(
        [(Log.METADATA, b"abc"), *[(Log.CONSUMER_OFFSETS, each) for each in (b"d", b"", b"ef")]],
        LATER_HEAD + "0004 00 00000003 616263 02 00000001 64 02 00000000 02 00000002 6566",
        id="several-batches-of-groups",
    ),
]


@table(("batches", "raw"), LAYOUTS)
def test_the_layout_is_the_documented_one(batches: list[tuple[Log, bytes]], raw: str) -> None:
    assert encode_entry(entry_of(*batches)) == bytes.fromhex(raw)
    assert decode_entry(bytes.fromhex(raw)) == entry_of(*batches)


def test_a_barrier_is_an_entry_without_batches() -> None:
    raw = encode_entry(entry_of())
    assert raw == bytes.fromhex(HEAD + "00")
    assert decode_records(decode_entry(raw)) == ()


@table("rest", [b"", b"\0" * 60, bytes(range(256))], ids=["nothing", "zeros", "anything"])
@table("level", [LEVEL_MAX + 1, 2**16 - 1], ids=["next", "highest"])
def test_an_entry_of_a_later_level_is_no_damage(level: int, rest: bytes) -> None:
    """Whatever later versions put behind magic and level."""
    later = struct.pack(">BH", LATER_MAGIC, level) + rest
    with pytest.raises(LevelTooHigh, match=f"log level {level}, .* up to {LEVEL_MAX}: upgrade this node"):
        decode_entry(later)
    assert holds_controls(later), "its bindings count before it is applied, so it must be decoded"
    assert not issubclass(LevelTooHigh, CorruptData)


@pytest.mark.parametrize("level", range(GROUP_LOG))
def test_a_later_layout_of_a_level_without_one_is_damage(level: int) -> None:
    with pytest.raises(CorruptData, match=f"layout of log level {level}, which has none"):
        decode_entry(struct.pack(">BH", LATER_MAGIC, level) + b"\0" * 60)


@given(st.lists(metadata_records, min_size=1, max_size=5))
def test_metadata_records_come_back(records: list[MetadataRecord]) -> None:
    entry = entry_of((Log.METADATA, batch_of(*records)))
    assert decode_records(entry) == (LoggedBatch(Log.METADATA, False, tuple(records), len(records)),)


@given(control_records, st.sampled_from([Log.METADATA, Log.TRANSACTION_STATE]))
def test_control_records_come_back(record: LeaderChange, log: Log) -> None:
    raw = encode_batch([BatchRecord(*encode_control(record))], timestamp_ms=0, control=True)
    assert decode_records(entry_of((log, raw))) == (LoggedBatch(log, True, (record,), 1),)


@given(st.lists(metadata_records, min_size=1, max_size=2), control_records)
def test_a_peek_tells_controls_from_records(records: list[MetadataRecord], record: LeaderChange) -> None:
    control = encode_batch([BatchRecord(*encode_control(record))], timestamp_ms=0, control=True)
    (marked,) = encode_group_batches([marker(7)], [encode_group_record(marker(7))], 0)
    nothing: list[tuple[Log, bytes]] = []
    for behind in (nothing, [(Log.CONSUMER_OFFSETS, marked)]):
        assert holds_controls(encode_entry(entry_of((Log.METADATA, control), *behind)))
        assert not holds_controls(encode_entry(entry_of((Log.METADATA, batch_of(*records)), *behind)))
        assert not holds_controls(encode_entry(entry_of(*behind)))


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
    pytest.param(Log.CONSUMER_OFFSETS, batch_of(FIRST), "group record with key", id="no-group-key"),
    pytest.param(Log.TRANSACTION_STATE, batch_of(FIRST), "transaction record with key", id="null-key"),
    pytest.param(
        Log.METADATA,
        encode_batch([BatchRecord(None, b"")], timestamp_ms=0, control=True),
        "key of a control record is None",
        id="control-without-key",
    ),
]


@table(("log", "raw", "says"), UNREADABLE)
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
    pytest.param(HEAD + "01 02 00000000", "magic 0xfe whose last batch is of log 2", id="groups-at-level-0"),
    pytest.param("fd 0002", "3 bytes, expected 29", id="level-2-cut"),
    pytest.param("fd 00", "2 bytes, expected 29", id="level-cut"),
    pytest.param(LATER_HEAD + "0000", "magic 0xfd whose last batch is of log -1", id="level-2-barrier"),
    pytest.param(
        LATER_HEAD + "0001 00 00000000", "0xfd whose last batch is of log 0", id="level-2-no-groups"
    ),
    pytest.param(LATER_HEAD + "0002 02 00000000", "inside a batch header", id="level-2-count-too-high"),
    pytest.param(LATER_HEAD + "0001 02 00000000 02 00000000", "5 bytes after", id="level-2-count-too-low"),
    pytest.param(LATER_HEAD + "0002 02 00000000 01 00000000", "log 1 after log 2", id="level-2-out-of-order"),
    pytest.param(LATER_HEAD + "0003 01 00000000 01 00000000 02 00000000", "log 1 after", id="level-2-twice"),
    pytest.param(LATER_HEAD + "0001 03 00000000", "log 3 after log -1", id="level-2-unknown-log"),
    pytest.param(LATER_HEAD + "ffff 02 00000000", "inside a batch header", id="65535-batches"),
    pytest.param(HEAD + "02 01 00000000 00 00000000", "log 0 after log 1", id="logs-out-of-order"),
    pytest.param(HEAD + "ff" + "00 00000000", "ends inside|after log", id="255-batches"),
]


@table(("raw", "says"), WRONG)
def test_a_bad_entry_is_named(raw: str, says: str) -> None:
    with pytest.raises(CorruptData, match=says):
        decode_entry(bytes.fromhex(raw))


@given(entries, st.data())
def test_a_cut_entry_is_corrupt(entry: Entry, data: st.DataObject) -> None:
    raw = encode_entry(entry)
    with pytest.raises(CorruptData):
        decode_entry(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=100), st.sampled_from(["", HEAD, LATER_HEAD, LATER_HEAD + "0001 02"]))
def test_decoding_is_total(raw: bytes, head: str) -> None:
    try:
        decode_records(decode_entry(bytes.fromhex(head) + raw))
    except (CorruptData, LevelTooHigh):
        pass


@given(entries, st.data())
def test_damage_is_named_or_is_another_entry(entry: Entry, data: st.DataObject) -> None:
    """One entry has one encoding: what decodes at all is what its bytes say."""
    raw = bytearray(encode_entry(entry))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(raw) - 1, 60)) | st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["change", "insert", "delete"])):
            case "change":
                raw[at] = data.draw(st.integers(0, 255))
            case "insert":
                raw.insert(at, data.draw(st.integers(0, 255)))
            case _ if len(raw) > 1:
                del raw[at]
    try:
        decoded = decode_entry(bytes(raw))
    except (CorruptData, LevelTooHigh):
        return
    assert encode_entry(decoded) == raw


@pytest.mark.parametrize("count", [1, 2, 5])
def test_batches_of_groups_get_consecutive_offsets(count: int) -> None:
    """The first of a log where the log ends, each other behind the one before it."""
    first = batch_of(FIRST, NoOpRecord())
    sizes = list(range(1, count + 1))
    groups = [batch_of(*[NoOpRecord()] * size) for size in sizes]
    entry = entry_of((Log.METADATA, first), *[(Log.CONSUMER_OFFSETS, each) for each in groups])
    bases = [100 + sum(sizes[:number]) for number in range(count)]
    assert list(placed(entry, (5, 6, 100))) == [
        (Log.METADATA, 5, first),
        *[(Log.CONSUMER_OFFSETS, base, batch) for base, batch in zip(bases, groups, strict=True)],
    ]


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
        pytest.param([Log.CONSUMER_OFFSETS, Log.METADATA], id="groups-first"),
        pytest.param([Log.CONSUMER_OFFSETS, Log.METADATA, Log.CONSUMER_OFFSETS], id="groups-around"),
    ],
)
def test_batches_out_of_order_are_our_bug(logs: list[Log]) -> None:
    with pytest.raises(InvariantViolation, match="batches by log"):
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
