"""Laws: on any segment the decoder says what kio's record decoder says, one batch at a time, and no more.

kio (0.6.5) opens no compressed batches: they are held against what was there before they were compressed.
"""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.serial.errors import BufferUnderflow

from fencepost.audit.decode import walk
from fencepost.audit.decode.batches import is_sound, stop_of
from fencepost.audit.decode.opened import open_records
from fencepost.records.batch_layout import COMPRESSION
from tests.audit.decode.corpus import (
    NOW_MS,
    WHERE,
    Segment,
    any_batch,
    any_segment,
    plain_batch,
    read,
    rows,
    written,
)
from tests.broker.log.builders import CODECS, compressed
from tests.examples import examples

RANDOMS = st.randoms(use_true_random=True)  # one number for the engine to record, not hundreds
segments = RANDOMS.map(any_segment)
EXAMPLES = 120
"""Besides these, test_mutated_files.py reads 10,000 files with changed bytes."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segments")


def header_by_kio(content: bytes, position: int) -> dict[str, Any]:
    """What kio says of a batch; of a compressed one only that its checksum is right."""
    batch, size = read_batch(content, position)
    return {
        "position": position,
        "size": size,
        "base_offset": batch.base_offset,
        "last_offset": batch.base_offset + batch.last_offset_delta,
        "leader_epoch": batch.partition_leader_epoch,
        "crc": batch.crc,
        "attributes": batch.attributes,
        "base_timestamp_ms": batch.base_timestamp,
        "max_timestamp_ms": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "record_count": len(batch.records),
    }


@given(segment=segments)
@settings(max_examples=examples(EXAMPLES))
def test_a_row_says_what_kio_reads(directory: Path, segment: Segment) -> None:
    path = written(directory, segment.content, segment.base)
    found, stop = read(path)
    assert [row["position"] for row in found] == list(segment.positions)
    assert (stop.stop, stop.reason) == ("end", None)
    for row in found:
        assert row["fault"] is None
        assert (row["node"], row["topic"], row["partition"], row["path"]) == (*WHERE[:3], path)
        if not row["attributes"] & COMPRESSION:
            expected = header_by_kio(segment.content, row["position"])
            assert {name: row[name] for name in expected} == expected


@given(batch=RANDOMS.map(plain_batch), codec=st.sampled_from(CODECS))
def test_the_records_of_a_batch_are_those_that_kio_reads(batch: bytes, codec: str) -> None:
    expected: list[tuple[object, ...]] = [
        (record.offset, record.key, record.value, tuple((each.key, each.value) for each in record.headers))
        for record in read_batch(batch, 0)[0].records
    ]
    for content in (batch, compressed(batch, codec)):
        opened = open_records(content)
        assert [(each.offset, each.key, each.value, each.headers) for each in opened] == expected
        assert {each.timestamp_ms for each in opened} == {NOW_MS}


@given(
    segment=RANDOMS.map(partial(any_segment, batches_min=1)),
    place=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
)
@settings(max_examples=examples(EXAMPLES))
def test_a_byte_that_kio_refuses_is_a_fault(
    directory: Path, segment: Segment, place: float, flip: int
) -> None:
    """Of any byte but the offset and the leader epoch, which no checksum covers."""
    at = int(place * len(segment.content))
    position, size = next(each for each in segment.sizes() if each[0] <= at < sum(each))
    mutated = segment.content[:at] + bytes((segment.content[at] ^ flip,)) + segment.content[at + 1 :]
    before = read(written(directory, segment.content, segment.base))[0]
    after, stop = read(written(directory, mutated, segment.base))
    if at - position < 8 or 12 <= at - position < 16:
        return
    with pytest.raises((ValueError, BufferUnderflow)):
        read_batch(mutated[: position + size], position)
    outside = [row for row in before if row["position"] != position]
    assert [row for row in after if row["fault"] is None] == outside
    covered = [row for row in after if row["fault"] is not None]
    if covered:
        assert [(row["position"], row["size"]) for row in covered] == [(position, size)]
        assert covered[0]["reason"]
    else:
        assert (stop.stop, stop.valid_end) == ("torn", position)


@given(segment=segments, window=st.integers(61, 900), flips=st.lists(st.integers(0, 10_000), max_size=2))
@settings(max_examples=examples(EXAMPLES))
def test_rows_do_not_depend_on_windows(
    directory: Path, segment: Segment, window: int, flips: list[int]
) -> None:
    content = bytearray(segment.content)
    for flip in flips:
        if content:
            content[flip % len(content)] ^= 0x41
    path = written(directory, bytes(content), segment.base)
    expected, stop = read(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "WINDOW_BYTES", window)
        assert read(path) == (expected, stop)


@given(segment=segments, flips=st.lists(st.integers(0, 10_000), max_size=3))
@settings(max_examples=examples(EXAMPLES))
def test_pieces_of_a_file_give_what_the_whole_gives(
    directory: Path, segment: Segment, flips: list[int]
) -> None:
    content = bytearray(segment.content)
    for flip in flips:
        if content:
            content[flip % len(content)] ^= 0x41
    path = written(directory, bytes(content), segment.base)
    whole, stop = read(path)
    cuts = [row["position"] for row in whole if is_sound(path, row["position"])]
    edges = [0, *cuts, stop.valid_end]
    pieces = [row for start, end in pairwise(edges) for row in rows(path, start, end)]
    assert pieces == whole
    for cut in cuts:
        assert stop_of(path, cut) == stop


@given(batch=RANDOMS.map(any_batch), count=st.integers(1, 400))
@settings(max_examples=examples(40))
def test_many_batches_alike_are_each_a_row(directory: Path, batch: bytes, count: int) -> None:
    path = written(directory, batch * count)
    found, stop = read(path)
    assert [row["position"] for row in found] == [len(batch) * each for each in range(count)]
    assert len({tuple((name, row[name]) for name in row if name != "position") for row in found}) == 1
    assert stop.stop == "end"
