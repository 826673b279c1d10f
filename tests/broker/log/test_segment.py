"""One segment by itself: what it finds, gives out, has room for, and cuts."""

import os
from pathlib import Path

import pytest

from fencepost.broker.log.open_files import OPEN_FILES, Closable
from fencepost.broker.log.segment import Placed, Segment, header_placed
from fencepost.broker.log.shapes import NO_TIMESTAMP
from fencepost.records.batch import batch_header, stamp
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Offset, Term
from fencepost.snapshots.checksums import Content, SegmentSums, load_sums, sums_path, write_content
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed
from tests.broker.log.builders import NOW_MS, batch
from tests.together import table

BASE = Offset(100)
INTERVAL = 200  # more than two batches, less than three
COUNT = 10  # batches of two records, one millisecond apart
SIZE = len(batch(count=2))


def filled(directory: Path, count: int = COUNT) -> Segment:
    segment = Segment.create(directory, BASE)
    for number in range(count):
        put(segment, batch(count=2, timestamp_ms=NOW_MS + number), Offset(BASE + 2 * number))
    return segment


def put(segment: Segment, raw: bytes, offset: Offset) -> Placed:
    placed_raw = stamp(raw, offset, Term(3))
    placed = header_placed(batch_header(placed_raw), segment.append(placed_raw))
    segment.index(placed, INTERVAL)
    return placed


def test_of_so_many_bytes_one_batch_is_in_the_index(tmp_path: Path) -> None:
    assert 2 * SIZE < INTERVAL < 3 * SIZE
    segment = filled(tmp_path)
    assert list(segment.offsets.entries()) == [(7, 3 * SIZE), (13, 6 * SIZE), (19, 9 * SIZE)]
    assert list(segment.times.entries()) == [(NOW_MS + n, 2 * n + 1) for n in (3, 6, 9)]


def test_a_batch_at_the_interval_is_not_in_the_index(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, BASE)
    for number in range(3):
        raw = stamp(batch(count=2), Offset(BASE + 2 * number), Term(3))
        segment.index(header_placed(batch_header(raw), segment.append(raw)), 2 * SIZE)
    assert segment.offsets.count == 0
    raw = stamp(batch(count=2), Offset(BASE + 6), Term(3))
    segment.index(header_placed(batch_header(raw), segment.append(raw)), 2 * SIZE)
    assert list(segment.offsets.entries()) == [(7, 3 * SIZE)]


def test_the_greatest_time_is_of_the_first_batch_that_has_it(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, BASE)
    for number, time_ms in enumerate([NOW_MS, NOW_MS + 5, NOW_MS + 5, NOW_MS - 1]):
        put(segment, batch(count=2, timestamp_ms=time_ms), Offset(BASE + 2 * number))
    segment.index_time()
    segment.index_time()
    assert list(segment.times.entries()) == [(NOW_MS + 5, 3)]
    assert segment.first_ms == NOW_MS


def test_an_empty_segment_has_no_time(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, BASE)
    segment.index_time()
    assert (segment.first_ms, segment.max_timestamp_ms, segment.times.count) == (NO_TIMESTAMP, -1, 0)
    put(segment, batch(timestamp_ms=0), BASE)
    segment.index_time()
    assert (segment.first_ms, list(segment.times.entries())) == (0, [(0, 0)])


def test_a_segment_that_is_opened_again_has_the_times_of_its_index(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    segment.close()
    again = Segment(tmp_path, BASE)
    assert (again.max_timestamp_ms, again.size) == (NOW_MS + 9, COUNT * SIZE)
    again.cut_indexes(Offset(BASE + 14))
    assert again.max_timestamp_ms == NOW_MS + 6
    again.times.cut(0)
    put(again, batch(count=2, timestamp_ms=NOW_MS + 6), Offset(BASE + 20))
    again.index_time()
    assert list(again.times.entries()) == [(NOW_MS + 6, 13)], "it is the batch of the index's last entry"


@table(
    ("offset", "position"),
    [(99, 0), (100, 0), (101, 0), (102, 1), (106, 3), (107, 3), (108, 4), (119, 9), (120, 10), (500, 10)],
)
def test_the_batch_that_holds_an_offset(tmp_path: Path, offset: int, position: int) -> None:
    assert filled(tmp_path).locate(Offset(offset)) == position * SIZE


@table(
    ("offset", "position"), [(100, 0), (106, 0), (107, 3), (108, 3), (112, 3), (113, 6), (119, 9), (200, 9)]
)
def test_the_index_names_a_batch_at_or_before_an_offset(tmp_path: Path, offset: int, position: int) -> None:
    assert filled(tmp_path).floor(Offset(offset)) == position * SIZE


@table(
    ("position", "bytes_max", "limit", "batches", "end"),
    [
        (0, SIZE, 10, 1, 102),
        (0, SIZE - 1, 10, 1, 102),  # at least one
        (0, 2 * SIZE - 1, 10, 1, 102),
        (0, 2 * SIZE, 10, 2, 104),
        (0, 3 * SIZE, 10, 3, 106),
        (0, 4 * SIZE - 1, 10, 3, 106),  # the batch of the index is cut short
        (0, 4 * SIZE, 10, 4, 108),
        (3, 1, 10, 1, 108),
        (3, 100 * SIZE, 10, 7, None),
        (3, 100 * SIZE, 9, 6, None),
        (3, 5 * SIZE, 8, 5, None),
        (3, 5 * SIZE, 9, 5, 116),
        (8, 2 * SIZE - 1, 10, 1, 118),
        (0, 100 * SIZE, 1, 1, None),
    ],
)
def test_whole_batches_are_read_up_to_a_limit(
    tmp_path: Path, position: int, bytes_max: int, limit: int, batches: int, end: int | None
) -> None:
    segment = filled(tmp_path)
    content, after = segment.read(position * SIZE, bytes_max, limit * SIZE, at_least_one=True)
    assert content == segment.path.read_bytes()[position * SIZE : (position + batches) * SIZE]
    assert after == end


@table(
    ("position", "bytes_max", "limit", "batches"),
    [(0, SIZE - 1, 10, 0), (0, 0, 10, 0), (0, SIZE, 10, 1), (4, SIZE, 4, 0), (4, SIZE, 3, 0)],
)
def test_no_batch_is_read_that_is_too_large_unless_one_must_be(
    tmp_path: Path, position: int, bytes_max: int, limit: int, batches: int
) -> None:
    segment = filled(tmp_path)
    content, _ = segment.read(position * SIZE, bytes_max, limit * SIZE, at_least_one=False)
    assert len(content) == batches * SIZE
    if limit <= position:
        assert segment.read(position * SIZE, 0, limit * SIZE, at_least_one=True)[0] == b""


def changed(segment: Segment, position: int, content: bytes) -> Segment:
    """The segment with other bytes there, opened again."""
    segment.close()
    raw = segment.path.read_bytes()
    segment.path.write_bytes(raw[:position] + content + raw[position + len(content) :])
    return Segment(segment.path.parent, segment.base)


@table(
    ("position", "content"),
    [
        (8, (SIZE - 13).to_bytes(4)),  # a length that leads into the batch
        (8, (SIZE - 11).to_bytes(4)),  # or past the end
        (8, (48).to_bytes(4)),  # less than a header
        (8, b"\xff" * 4),
        (23, b"\xff" * 4),  # the last offset delta is negative
    ],
)
def test_headers_that_lead_nowhere_are_corrupt(tmp_path: Path, position: int, content: bytes) -> None:
    segment = changed(filled(tmp_path, 1), position, content)
    with pytest.raises(CorruptData, match=segment.path.name):
        list(segment.walk())


def test_a_piece_of_a_header_at_the_end_is_corrupt(tmp_path: Path) -> None:
    segment = filled(tmp_path, 2)
    os.truncate(segment.path, SIZE + 60)
    torn = Segment(tmp_path, BASE)
    walked = torn.walk()
    assert next(walked).end == 102
    with pytest.raises(CorruptData, match="60 bytes of a header"):
        next(walked)


def test_a_batch_of_a_header_alone_is_walked_and_read(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, BASE)
    for number in range(2):
        empty = bytearray(stamp(batch(), Offset(BASE + number), Term(3))[:61])
        empty[8:12] = (61 - 12).to_bytes(4)
        segment.append(bytes(empty))
    assert [(each.position, each.size, each.end) for each in segment.walk()] == [(0, 61, 101), (61, 61, 102)]
    assert segment.read(0, 61, 122, at_least_one=False) == (segment.path.read_bytes()[:61], 101)


def test_walking_goes_on_behind_what_is_read_at_a_time(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, BASE)
    sizes = [put(segment, batch(value=bytes(2_000 + n)), Offset(BASE + n)).size for n in range(9)]
    walked = list(segment.walk())
    assert [each.size for each in walked] == sizes
    assert [each.end for each in walked] == list(range(101, 110))
    assert [each.leader_epoch for each in walked] == [3] * 9


@table(
    ("size", "end", "segment_bytes", "has_room"),
    [
        (SIZE, 104, 2 * SIZE, True),
        (SIZE, 104, 2 * SIZE - 1, False),
        (SIZE, BASE + 2**31 - 1, 2**31, True),  # the relative offset of the last record is an int32
        (SIZE, BASE + 2**31, 2**31, False),
    ],
)
def test_room_in_a_segment(tmp_path: Path, size: int, end: int, segment_bytes: int, has_room: bool) -> None:
    segment = filled(tmp_path, 1)
    assert segment.has_room(size, Offset(end), segment_bytes) == has_room
    segment.cut(0)
    assert segment.has_room(size, Offset(end), segment_bytes), "an empty one takes any batch"


@table(("index_bytes", "has_room"), [(48, True), (47, False)])
def test_room_in_the_indexes(tmp_path: Path, index_bytes: int, has_room: bool) -> None:
    """Three entries are there, of 8 bytes and of 12."""
    segment = filled(tmp_path)
    assert segment.has_index_room(index_bytes) == has_room
    segment.times.cut(0)
    assert segment.has_index_room(32)
    assert not segment.has_index_room(31)
    segment.cut(0)
    assert segment.has_index_room(0), "an empty segment takes any batch"


@table(("offset", "position", "left"), [(100, 0, 0), (107, 0, 0), (108, 3, 1), (113, 3, 1), (114, 6, 2)])
def test_indexes_are_cut_at_an_offset(tmp_path: Path, offset: int, position: int, left: int) -> None:
    segment = filled(tmp_path)
    assert segment.cut_indexes(Offset(offset)) == position * SIZE
    assert (segment.offsets.count, segment.times.count) == (left, left)


def test_a_cut_forgets_what_was_known_of_the_bytes(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    write_content(
        sums_path(segment.path), BASE, Content(SegmentSums(segment.sum, *[NOT_SUMMED] * 3)), durable=False
    )
    assert segment.first_ms == NOW_MS
    with pytest.raises(InvariantViolation):
        segment.cut(COUNT * SIZE + 1)
    segment.cut(COUNT * SIZE)
    assert segment.is_summed, "nothing of it went"
    assert load_sums(segment.path).batches == NOT_SUMMED
    segment.cut(SIZE)
    assert (segment.size, segment.sum, segment.is_summed) == (SIZE, NOT_SUMMED, False)
    segment.cut(0)
    assert segment.first_ms == NO_TIMESTAMP
    put(segment, batch(timestamp_ms=7), BASE)
    assert segment.first_ms == 7


def test_a_sum_goes_on_from_what_was_saved_if_all_of_that_is_there(tmp_path: Path) -> None:
    segment = filled(tmp_path)
    whole = segment.sum
    assert whole.size == segment.size
    segment.begin_sum(segment.size)
    assert segment.sum == whole
    saved = Summed(SIZE, 5)
    for size, expected in ((saved.size, saved), (segment.size, saved._replace(size=segment.size))):
        sums = SegmentSums(saved._replace(size=size), *[NOT_SUMMED] * 3)
        write_content(sums_path(segment.path), BASE, Content(sums), durable=False)
        segment.begin_sum(2 * SIZE)
        assert segment.sum == expected
    sums = SegmentSums(saved._replace(size=segment.size + 1), *[NOT_SUMMED] * 3)
    write_content(sums_path(segment.path), BASE, Content(sums), durable=False)
    segment.begin_sum(2 * SIZE)
    assert segment.sum == NOT_SUMMED
    segment.sum = whole
    segment.begin_sum(0)
    assert segment.sum == NOT_SUMMED


def test_a_write_in_pieces_is_a_write_and_one_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = filled(tmp_path, 1)
    write = os.write
    raw = stamp(batch(count=2), Offset(102), Term(3))
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:50]))
    assert segment.append(raw) == SIZE
    assert segment.path.read_bytes()[SIZE:] == raw
    pieces = iter([1])

    def failing(descriptor: int, content: bytes) -> int:
        if next(pieces, None) is None:
            raise OSError(28, "full")
        return write(descriptor, bytes(content)[:50])

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(OSError, match="full") as failed:
        segment.append(raw)
    assert failed.value.filename == str(segment.path)
    assert segment.path.stat().st_size == segment.size == segment.sum.size == 2 * SIZE


def test_all_files_are_open_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = Segment.create(tmp_path, BASE)
    opened: list[str] = []
    original = OPEN_FILES.open

    def watched(owner: Closable, path: Path, flags: int) -> int:
        opened.append(path.suffix)
        return original(owner, path, flags)

    monkeypatch.setattr(OPEN_FILES, "open", watched)
    segment = Segment(tmp_path, BASE)
    assert (segment.unchecked_end, opened) == (0, [])
    segment.make_ready()
    assert sorted(opened) == [".index", ".log", ".timeindex", ".txnindex"]
    segment.offsets.close()
    segment.make_ready()
    assert len(opened) == 4, "it is ready, as long as it is not closed"
    segment.close()
    segment.make_ready()
    assert len(opened) == 8
    segment.close()


def test_a_new_segment_has_no_sums_of_an_old_one_and_a_deleted_one_leaves_none(tmp_path: Path) -> None:
    segment = filled(tmp_path, 1)
    sums = SegmentSums(segment.sum, *[NOT_SUMMED] * 3)
    write_content(sums_path(segment.path), BASE, Content(sums), durable=False)
    segment.delete()
    assert list(tmp_path.iterdir()) == []
    write_content(sums_path(segment.path), BASE, Content(sums), durable=False)
    again = Segment.create(tmp_path, BASE)
    assert load_sums(again.path).batches == NOT_SUMMED
    segment.close()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".index", ".log", ".timeindex", ".txnindex"]
