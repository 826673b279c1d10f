"""What a producer may send: each refusal beside what is taken, each codec, and no bomb."""

import struct
import zlib
from collections.abc import Callable
from typing import TypeAlias

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log.validation import (
    BATCHES_MAX,
    RECORDS_MAX,
    STEP_BYTES,
    Budget,
    check_produced,
    checking,
)
from fencepost.controller.errors import (
    ApiError,
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from fencepost.records.batch import (
    BATCH_BYTES_MAX,
    HEADERS_MAX,
    BatchHeader,
    encode_batch,
)
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    GZIP_MEMBERS_MAX,
    SNAPPY_BLOCKS_MAX,
    decompress,
)
from fencepost.records.invariant import CorruptData
from fencepost.records.record_walk import Body, check_records, record_times, walk
from tests.broker.log.builders import CODECS, NOW_MS, batch, compress, compressed, patched, resealed, xerial
from tests.records.strategies import batch_records
from tests.together import table

Check: TypeAlias = Callable[[bytes, LogConfig, int], tuple[BatchHeader, ...]]

CONFIG = LogConfig()
GOOD = batch(7, 0, count=3)
I16, I32, I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


def records(content: str, count: int = 1) -> bytes:
    """A batch of one record with these bytes, its header right."""
    raw = batch(7, 0, count=count)
    return resealed(raw[:HEADER_BYTES] + bytes.fromhex(content))


def headers(count: int) -> bytes:
    """A batch whose record has so many headers."""
    return encode_batch([(None, b"", [(b"k", None)] * count)], timestamp_ms=NOW_MS)


def in_slices(sent: bytes, config: LogConfig, now_ms: int) -> tuple[BatchHeader, ...]:
    """``checking`` with a small budget, filled up whenever it pauses."""
    budget = Budget(STEPS)
    steps = checking(sent, config, now_ms, budget)
    answer: Body | None = None
    try:
        while True:
            wanted = next(steps) if answer is None else steps.send(answer)
            answer = None
            while wanted is not None:
                try:
                    answer = wanted.open()
                    break
                except CorruptData as error:
                    wanted = steps.throw(error)
            if wanted is None:
                assert budget.steps <= 0, "it pauses when the budget is spent"
                budget.steps = STEPS
    except StopIteration as ended:
        headers: tuple[BatchHeader, ...] = ended.value.headers
        return headers


SIZES = [0, pytest.param(30, marks=pytest.mark.slow), 150]  # of the value of each of many records

CHECKS = table("check", [check_produced, in_slices])
STEPS = 50

REFUSED = [
    pytest.param(b"", InvalidRecord, id="nothing"),
    pytest.param(GOOD[:60], CorruptMessage, id="a torn header"),
    pytest.param(GOOD[:-1], CorruptMessage, id="a torn batch"),
    pytest.param(GOOD + GOOD[:30], CorruptMessage, id="a whole batch and a torn one"),
    pytest.param(GOOD[:70] + b"\xff" + GOOD[71:], CorruptMessage, id="a wrong CRC"),
    pytest.param(GOOD[:16] + b"\x01" + GOOD[17:], InvalidRecord, id="record format 1"),
    pytest.param(GOOD + GOOD, InvalidRecord, id="two batches of one producer"),
    pytest.param(batch() + GOOD, InvalidRecord, id="two batches, one with a producer"),
    pytest.param(batch() * (BATCHES_MAX + 1), MessageTooLarge, id="too many batches"),
    pytest.param(patched(GOOD, 0, I64.pack(1)), InvalidRecord, id="an offset of its own"),
    pytest.param(
        patched(GOOD, 23, I32.pack(3)), InvalidRecord, id="a last offset that its records do not have"
    ),
    pytest.param(patched(GOOD, 57, I32.pack(0)), InvalidRecord, id="no records"),
    pytest.param(patched(GOOD, 23, I32.pack(-1)), CorruptMessage, id="a negative last offset"),
    pytest.param(
        patched(patched(GOOD, 57, I32.pack(2)), 23, I32.pack(1)), InvalidRecord, id="a record more than said"
    ),
    pytest.param(
        patched(patched(GOOD, 57, I32.pack(4)), 23, I32.pack(3)), InvalidRecord, id="a record less than said"
    ),
    pytest.param(patched(GOOD, 21, I16.pack(0x20)), InvalidRecord, id="a control batch"),
    pytest.param(patched(GOOD, 21, I16.pack(5)), UnsupportedCompressionType, id="codec 5"),
    pytest.param(patched(GOOD, 21, I16.pack(7)), UnsupportedCompressionType, id="codec 7"),
    pytest.param(patched(GOOD, 21, I16.pack(8)), InvalidTimestamp, id="the time of the append"),
    pytest.param(patched(GOOD, 21, I16.pack(0x40)), InvalidRecord, id="a delete horizon"),
    pytest.param(batch(transactional=True), InvalidRecord, id="a transaction of no producer"),
    pytest.param(batch(7, -1), InvalidRecord, id="a producer without a sequence"),
    pytest.param(batch(7, 0, epoch=-1), InvalidRecord, id="a producer without an epoch"),
    pytest.param(batch(timestamp_ms=NOW_MS + 3_600_001), InvalidTimestamp, id="an hour and 1 ms ahead"),
    pytest.param(batch(value=b"x" * CONFIG.message_bytes_max), MessageTooLarge, id="above max.message.bytes"),
    pytest.param(patched(GOOD, 8, b"")[:8] + I32.pack(2**31 - 1) + GOOD[12:], MessageTooLarge, id="2 GB"),
    pytest.param(records("0e0000000102 00"), InvalidRecord, id="a record shorter than it says"),
    pytest.param(records("0c0000000102 6100 00"), InvalidRecord, id="bytes after the last record"),
    pytest.param(records("0c0000020102 6100"), InvalidRecord, id="an offset delta of 1 first"),
    pytest.param(records("0c0000010102 6100"), InvalidRecord, id="an offset delta of -1"),
    pytest.param(records("0c0000000302 6100"), InvalidRecord, id="a key of -2 bytes"),
    pytest.param(records("0c0000000102 6101"), InvalidRecord, id="-1 headers"),
    pytest.param(records("100000000102 610201 00"), InvalidRecord, id="a header without a name"),
    pytest.param(records("0c00ffffffffffffffffffff01"), InvalidRecord, id="a varint without an end"),
    pytest.param(headers(HEADERS_MAX + 1), InvalidRecord, id="too many headers"),
]


@CHECKS
@table(("sent", "refusal"), REFUSED)
def test_refused(sent: bytes, refusal: type[ApiError], check: Check) -> None:
    with pytest.raises(refusal) as refused:
        check(sent, CONFIG, NOW_MS)
    assert type(refused.value) is refusal


TAKEN = [
    pytest.param(GOOD, id="three records of a producer"),
    pytest.param(batch(), id="a batch of no producer"),
    pytest.param(batch() * BATCHES_MAX, id="many batches of no producer"),
    pytest.param(batch(timestamp_ms=NOW_MS + 3_600_000), id="an hour ahead"),
    pytest.param(batch(timestamp_ms=-1), id="no time"),
    pytest.param(batch(timestamp_ms=0), id="1970"),
    pytest.param(batch(2**63 - 1, 2**31 - 1, epoch=32_767, transactional=True), id="the greatest numbers"),
    pytest.param(headers(HEADERS_MAX), id="as many headers as may be"),
    pytest.param(encode_batch([(b"k" * 5000, b"v" * 70_000, ())], timestamp_ms=NOW_MS), id="long lengths"),
    pytest.param(encode_batch([(None, None, ())] * 20_000, timestamp_ms=NOW_MS), id="20,000 records"),
]


@CHECKS
@table("sent", TAKEN)
def test_taken(sent: bytes, check: Check) -> None:
    assert sum(header.size for header in check(sent, CONFIG, NOW_MS)) == len(sent)


def test_a_batch_may_be_as_large_as_max_message_bytes_and_no_larger() -> None:
    sent = batch(value=b"x" * 1000)
    check_produced(sent, LogConfig(message_bytes_max=len(sent)), NOW_MS)
    with pytest.raises(MessageTooLarge):
        check_produced(sent, LogConfig(message_bytes_max=len(sent) - 1), NOW_MS)


def test_no_setting_allows_a_batch_that_the_codec_refuses() -> None:
    with pytest.raises(MessageTooLarge):
        check_produced(
            batch()[:8] + I32.pack(BATCH_BYTES_MAX) + batch()[12:],
            LogConfig(message_bytes_max=2**31 - 1),
            NOW_MS,
        )


@pytest.mark.parametrize("count", [RECORDS_MAX, RECORDS_MAX + 1], ids="{}-records".format)
def test_records_are_bounded(count: int) -> None:
    sent = compressed(encode_batch([(None, None, ())] * count, timestamp_ms=NOW_MS), "zstd")
    if count > RECORDS_MAX:
        with pytest.raises(MessageTooLarge):
            check_produced(sent, CONFIG, NOW_MS)
    else:
        check_produced(sent, CONFIG, NOW_MS)


@given(batch_records, st.integers(1, 40))
def test_a_walk_in_slices_is_the_walk(
    parts: list[tuple[bytes | None, bytes | None, list[object]]], steps: int
) -> None:
    raw = encode_batch(parts, timestamp_ms=NOW_MS)  # type: ignore[arg-type]
    costs = [1 + len(headers) for _, _, headers in parts]
    position, delta, taken = HEADER_BYTES, 0, 0
    while delta < len(parts):
        before = delta
        position, delta, left = walk(raw, position, delta, len(parts), steps)
        assert delta > before
        assert sum(costs[before : delta - 1]) < steps, "only the last record may take more than is left"
        taken += steps - left
        assert left <= 0 or delta == len(parts), "it stops at the last step, not before"
    assert position == len(raw)
    assert taken == sum(costs)


def test_a_log_with_append_time_takes_any_time() -> None:
    check_produced(batch(timestamp_ms=2**62), LogConfig(log_append_time=True), NOW_MS)


@given(batch_records)
def test_what_is_encoded_is_taken_and_walked(
    parts: list[tuple[bytes | None, bytes | None, list[object]]],
) -> None:
    raw = encode_batch(parts, timestamp_ms=NOW_MS)  # type: ignore[arg-type]
    check_records(raw, HEADER_BYTES, len(parts))
    assert list(record_times(raw, HEADER_BYTES, len(parts))) == [(delta, 0) for delta in range(len(parts))]


@given(st.binary(max_size=200), st.integers(0, 5))
def test_any_bytes_are_checked_or_refused_as_corrupt(body: bytes, count: int) -> None:
    try:
        check_records(body, 0, count)
    except CorruptData:
        pass


@pytest.mark.parametrize("codec", CODECS)
class TestCompressed:
    @CHECKS
    def test_is_taken(self, codec: str, check: Check) -> None:
        check(compressed(batch(7, 0, count=50), codec), CONFIG, NOW_MS)

    @CHECKS
    @pytest.mark.parametrize("size", SIZES, ids="{}-bytes-each".format)
    def test_may_have_more_records_than_bytes(self, codec: str, size: int, check: Check) -> None:
        sent = compressed(batch(7, 0, value=b"x" * size, count=20_000), codec)
        assert check(sent, CONFIG, NOW_MS)[0].record_count == 20_000

    @CHECKS
    def test_is_opened_and_its_records_checked(self, codec: str, check: Check) -> None:
        for wrong in (patched(GOOD, 57, I32.pack(2)), patched(GOOD, 57, I32.pack(4))):
            count = I32.unpack_from(wrong, 57)[0]
            with pytest.raises(InvalidRecord):
                check(compressed(patched(wrong, 23, I32.pack(count - 1)), codec), CONFIG, NOW_MS)

    @table("size", [0, 1, 2, 65_535, 65_536, 300_000])
    def test_comes_out_as_it_went_in(self, codec: str, size: int) -> None:
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert decompress(*compress(codec, content)) == content

    def test_damage_is_refused(self, codec: str) -> None:
        text = b"some text, some more text, some text again" * 20
        number, body = compress(codec, text)
        for cut in range(len(body)):
            try:
                assert len(decompress(number, body[:cut])) < len(text)  # cut between two members or blocks
            except CorruptData:
                pass

    def test_any_flipped_byte_is_refused_or_harmless(self, codec: str) -> None:
        number, body = compress(codec, b"some text, some more text, some text again" * 20)
        for position in range(len(body)):
            try:
                decompress(number, body[:position] + bytes((body[position] ^ 0x55,)) + body[position + 1 :])
            except CorruptData:
                pass

    def test_a_bomb_is_refused(self, codec: str) -> None:
        assert len(decompress(*compress(codec, bytes(DECOMPRESSED_BYTES_MAX)))) == DECOMPRESSED_BYTES_MAX
        with pytest.raises(CorruptData, match="bytes come out"):
            decompress(*compress(codec, bytes(DECOMPRESSED_BYTES_MAX + 2)))


def test_much_that_compresses_well_grows_the_buffer() -> None:
    """cramjam tells only by its text that a buffer is too small: this fails if the text changes."""
    for module, number in ((cramjam.lz4, 3), (cramjam.zstd, 4)):
        content = bytes(5_000_000)
        assert decompress(number, bytes(module.compress(content))) == content


@table(
    "body",
    [
        pytest.param(xerial([b"ab"])[:-1], id="a block cut short"),
        pytest.param(xerial([]) + b"\0\0", id="a length cut short"),
        pytest.param(xerial([]) + struct.pack(">i", -1), id="a negative length"),
        pytest.param(xerial([]) + struct.pack(">i", 0), id="an empty block"),
        pytest.param(b"\xff\xff\xff\xff\x0f", id="4 GB promised"),
    ],
)
def test_snappy_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptData):
        decompress(2, body)


def test_gzip_with_bytes_after_it_is_refused() -> None:
    with pytest.raises(CorruptData):
        decompress(1, zlib.compress(b"x", wbits=31) + b"more")


@pytest.mark.parametrize(
    ("codec", "piece", "most"),
    [
        pytest.param(1, zlib.compress(b"x", wbits=31), GZIP_MEMBERS_MAX, id="gzip members"),
        pytest.param(2, xerial([b"x"])[16:], SNAPPY_BLOCKS_MAX, id="snappy blocks"),
    ],
)
def test_pieces_that_are_walked_one_by_one_are_bounded(codec: int, piece: bytes, most: int) -> None:
    start = xerial([]) if codec == 2 else b""
    assert decompress(codec, start + piece * most) == b"x" * most
    with pytest.raises(CorruptData, match=f"more than {most}"):
        decompress(codec, start + piece * (most + 1))


def test_a_large_append_is_alone_in_its_slice() -> None:
    """The last pause is before it, and what is left of that slice is not enough for anything else."""
    sent = encode_batch([(None, bytes(500_000), ())], timestamp_ms=NOW_MS) * 2
    budget = Budget(len(sent) // STEP_BYTES + 100)  # more than the checks take
    steps = checking(sent, LogConfig(), NOW_MS, budget)
    assert next(steps) is None
    budget.steps = 100
    assert list(steps) == []
    assert budget.steps < 0


@CHECKS
def test_a_compacted_topic_takes_no_record_without_a_key(check: Check) -> None:
    compacted = LogConfig(compact=True)
    for keys in ([b"k"], [b""], [b"k" * 100] * 3):
        assert check(encode_batch([(key, None, ()) for key in keys], timestamp_ms=NOW_MS), compacted, NOW_MS)
    for without in ([None], [b"k", b"k", None]):
        sent = encode_batch([(key, b"v", ()) for key in without], timestamp_ms=NOW_MS)
        assert check(sent, CONFIG, NOW_MS)
        with pytest.raises(InvalidRecord, match="has no key"):
            check(sent, compacted, NOW_MS)
