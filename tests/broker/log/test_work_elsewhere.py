"""What a check leaves to others: large records to be opened, and batches to be compressed anew."""

import struct
import zlib

import pytest

from fencepost.broker.log.shapes import NEVER, LogConfig
from fencepost.broker.log.validation import (
    OPENED_HERE_BYTES_MAX,
    OPENED_SMALL_BYTES_MAX,
    PACKED_HERE_BYTES_MAX,
    STEP_BYTES,
    Budget,
    Checked,
    Checking,
    Opening,
    Recompressing,
    check_produced,
    checking,
    opened_records,
)
from fencepost.controller.errors import InvalidRecord, MessageTooLarge
from fencepost.records.batch import BatchHeader, Buffer
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.compression import DECOMPRESSED_BYTES_MAX, GZIP, LZ4, NONE, ZSTD
from fencepost.records.invariant import CorruptData
from fencepost.records.record_walk import Body
from tests.broker.log.builders import NOW_MS, batch, compressed, patched, resealed
from tests.together import table

CONFIG = LogConfig()
I16 = struct.Struct(">h")


def packed(body: bytes) -> bytes:
    """A batch whose records are these bytes, for gzip."""
    return resealed(patched(batch(), 21, I16.pack(1))[:HEADER_BYTES] + body)


def open_all(steps: Checking, wanted: list[int]) -> None:
    """Open what is to be opened elsewhere; ``wanted``: the bounds of what may come out."""
    opening = next(steps)
    while isinstance(opening, Opening):
        wanted.append(opening.bytes_max)
        try:
            opened = opening.open()
        except CorruptData as error:
            opening = steps.throw(error)
        else:
            opening = steps.send(opened)


@table(
    ("body", "bytes_max"),
    [
        pytest.param(bytes(PACKED_HERE_BYTES_MAX), [], id="on the spot"),
        pytest.param(
            bytes(PACKED_HERE_BYTES_MAX + 1), [OPENED_SMALL_BYTES_MAX], id="too many bytes for that"
        ),
        pytest.param(
            zlib.compress(bytes(OPENED_HERE_BYTES_MAX + 1), wbits=31),
            [OPENED_SMALL_BYTES_MAX],
            id="too many come out",
        ),
        pytest.param(
            zlib.compress(bytes(OPENED_SMALL_BYTES_MAX + 1), wbits=31),
            [OPENED_SMALL_BYTES_MAX, DECOMPRESSED_BYTES_MAX],
            id="far too many come out",
        ),
    ],
)
def test_large_compressed_records_are_opened_elsewhere(body: bytes, bytes_max: list[int]) -> None:
    """Those of no sense are refused where they are opened: all of them are here."""
    budget = Budget(10_000)
    wanted: list[int] = []
    with pytest.raises(InvalidRecord):
        open_all(checking(packed(body), CONFIG, NOW_MS, budget), wanted)
    assert wanted == bytes_max
    is_tried = len(body) <= PACKED_HERE_BYTES_MAX
    assert (budget.steps < 10_000 - OPENED_HERE_BYTES_MAX // STEP_BYTES) == is_tried, (
        "what it costs is counted"
    )


@table(("codec", "is_changed"), [(GZIP, True), (LZ4, True), (ZSTD, False), (NONE, True), (None, False)])
def test_batches_of_another_codec_than_the_topics_are_compressed_anew(
    codec: int | None, is_changed: bool
) -> None:
    """Elsewhere, one after the other; what they say is the same, and the log has them as they are then."""
    one, other = batch(count=3), compressed(batch(count=2), "zstd")
    if codec == NONE:
        one = compressed(one, "lz4")
    sent, config = one + other if is_changed else other + other, LogConfig(codec=codec)
    wanted: list[Recompressing] = []
    checked = recompress_all(checking(sent, config, NOW_MS, Budget(10_000)), wanted)
    assert [each.codec for each in wanted] == ([codec, codec] if is_changed else [])
    assert b"".join(each.batch for each in wanted) == (sent if is_changed else b"")
    assert is_changed or bytes(checked.records) == sent
    assert values(checked.records, checked.headers) == values(sent, check_produced(sent, CONFIG, NOW_MS))
    if codec is not None:
        assert {each.compression for each in checked.headers} == {codec}


def values(records: Buffer, headers: tuple[BatchHeader, ...]) -> list[bytes]:
    """What lies in the batches, without compression."""
    found, position = [], 0
    for header in headers:
        body, start = opened_records(bytes(records[position : position + header.size]), header)
        found.append(bytes(body[start:]))
        position += header.size
    assert position == len(records)
    return found


def recompress_all(steps: Checking, wanted: list[Recompressing]) -> Checked:
    """Do all that is wanted."""
    answer: Body | None = None
    while True:
        try:
            step = next(steps) if answer is None else steps.send(answer)
        except StopIteration as ended:
            checked: Checked = ended.value
            return checked
        answer = None
        if isinstance(step, Recompressing):
            wanted.append(step)
        if step is not None:
            answer = step.open()


def test_a_batch_that_became_too_large_is_refused() -> None:
    sent = compressed(batch(value=bytes(5_000)), "zstd")
    config = LogConfig(codec=NONE, message_bytes_max=len(batch(value=bytes(5_000))) - 1)
    with pytest.raises(MessageTooLarge):
        recompress_all(checking(sent, config, NOW_MS, Budget(10_000)), [])
    config = LogConfig(codec=NONE, message_bytes_max=len(batch(value=bytes(5_000))))
    assert len(recompress_all(checking(sent, config, NOW_MS, Budget(10_000)), []).records) == len(
        batch(value=bytes(5_000))
    )


def test_what_is_compressed_anew_takes_the_place_of_its_records() -> None:
    plain, packed_ = batch(count=3), compressed(batch(count=3), "gzip")
    for sent, bound in ((plain, len(plain)), (packed_, DECOMPRESSED_BYTES_MAX)):
        steps = checking(sent, LogConfig(codec=ZSTD), NOW_MS, Budget(10_000))
        wanted = next(steps)
        assert isinstance(wanted, Recompressing)
        assert wanted.bytes_max == bound


def test_times_that_are_looked_at_take_a_step_each() -> None:
    """Beside those of the walk."""
    sent = batch(count=100)
    taken = []
    for before_ms_max in (NEVER, 10**15):
        budget = Budget(10_000)
        assert list(checking(sent, LogConfig(timestamp_before_ms_max=before_ms_max), NOW_MS, budget)) == []
        taken.append(10_000 - budget.steps)
    assert taken[1] - taken[0] == 100
    budget, pauses = Budget(1), 0
    for _ in checking(sent, LogConfig(timestamp_before_ms_max=10**15), NOW_MS, budget):
        budget.steps, pauses = 10, pauses + 1
    assert pauses > 18
