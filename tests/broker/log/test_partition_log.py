"""A partition's log as its owner uses it: append, read, transactions, find by time and epoch."""

import struct
from pathlib import Path

import pytest

from fencepost.broker.log import search
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.shapes import NO_EPOCH, NO_OFFSET, Aborted, EpochEnd, LogConfig
from fencepost.controller.errors import (
    FencedLeaderEpoch,
    InvalidTxnState,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from fencepost.records.batch import decode_batch, encode_batch, iter_batches
from fencepost.records.batch_layout import HEADER_BYTES
from fencepost.records.types import Offset, ProducerId, Term
from tests.broker.log.builders import (
    CODECS,
    EPOCH,
    NOW_MS,
    SMALL,
    UNVERIFIED,
    append,
    batch,
    compressed,
    end_transaction,
    filled,
    memory,
    offsets,
    open_log,
    read_all,
    resealed,
)
from tests.together import table


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (log.start, log.end, log.high_watermark, log.last_stable_offset) == (0, 0, 0, 0)
    assert log.read(Offset(0), 1000, Offset(0)) == b""
    assert log.offset_for_time(0) is None
    assert log.offset_of_newest() is None
    assert log.offset_for_epoch(Term(0)) == EpochEnd(NO_EPOCH, NO_OFFSET)
    assert log.repairs == ()
    assert log.producers() == ()


def test_batches_get_their_place_and_are_else_what_came(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sent = batch(7, 0, count=3)
    assert log.append(sent, NOW_MS, Term(4))[:3] == (0, 2, False)
    assert log.append(batch(7, 3), NOW_MS, Term(4))[:3] == (3, 3, False)
    stored = log.read(Offset(0), len(sent), log.end)
    assert stored[16:] == sent[16:]
    assert decode_batch(stored)[0].leader_epoch == 4
    assert log.epoch_at(Offset(0)) == 4


def test_nothing_is_read_of_a_batch_that_the_upper_offset_lies_in(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(count=2), batch(count=3))
    assert log.read(Offset(3), 1000, Offset(4)) == b""
    assert offsets(log.read(Offset(0), 1000, Offset(4))) == [0]


def test_several_batches_of_nobody_are_appended_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, batch(count=2) + batch() + batch(count=3))[:2] == (0, 5)
    assert offsets(log.read(Offset(0), 1000, log.end)) == [0, 2, 3]


def test_a_duplicate_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0, count=3), batch(7, 3))
    assert append(log, batch(7, 0, count=3))[:3] == (0, 2, True)
    assert log.end == 4


def test_a_refusal_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0))
    size, known = log.size, memory(log)
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(7, 5))
    assert (log.end, log.size, memory(log)) == (1, size, known)


def test_append_time_replaces_the_time_under_the_crc(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(log_append_time=True))
    outcome = append(log, batch(7, 0, timestamp_ms=5))
    assert outcome.log_append_time_ms == NOW_MS
    (stored,) = iter_batches(log.read(Offset(0), 1000, log.end))  # checks the CRC
    assert (stored.attributes, stored.max_timestamp_ms) == (8, NOW_MS)
    again = append(log, batch(7, 0, timestamp_ms=5), now_ms=NOW_MS + 99)
    assert (again.duplicate, again.log_append_time_ms) == (True, NOW_MS)
    found = log.offset_for_time(NOW_MS)
    assert found is not None
    assert found[:2] == (0, NOW_MS)


@table("codec", CODECS)
def test_a_compressed_batch_is_kept_as_it_came(tmp_path: Path, codec: str) -> None:
    log = open_log(tmp_path)
    sent = compressed(encode_batch([(None, b"v", ())] * 40, timestamp_ms=NOW_MS), codec)
    append(log, batch(), sent)
    stored = log.read(Offset(1), 1, log.end)
    assert stored[16:] == sent[16:]
    assert log.end == 41
    found = log.offset_for_time(NOW_MS)
    assert found is not None
    assert found.offset == 0


# Reading


@table("bytes_max", [1, 100, 350, 1000, 100_000])
def test_a_consumer_reads_on_and_gets_every_batch_once(tmp_path: Path, bytes_max: int) -> None:
    log = filled(tmp_path)
    assert len(list((tmp_path / "topic-0").glob("*.log"))) > 4
    assert offsets(read_all(log, bytes_max)) == list(range(0, 120, 2))


def test_any_offset_finds_its_batch(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for offset in reversed(range(120)):
        assert offsets(log.read(Offset(offset), 1, log.end)) == [offset // 2 * 2]


def test_reading_stops_at_whole_batches_of_bytes_max(tmp_path: Path) -> None:
    log = filled(tmp_path, UNVERIFIED)
    size = len(log.read(Offset(0), 1, log.end))
    for bytes_max in range(size, 6 * size, 7):
        piece = log.read(Offset(0), bytes_max, log.end)
        assert offsets(piece) == list(range(0, bytes_max // size * 2, 2))
    assert log.read(Offset(0), size - 1, log.end, at_least_one=False) == b""
    assert len(log.read(Offset(0), size - 1, log.end)) == size
    assert log.read(Offset(0), 0, log.end, at_least_one=False) == b""


def test_reading_stops_at_an_upper_offset(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for upper in range(0, 120, 2):
        got: list[int] = []
        while (end := got[-1] + 2 if got else 0) < upper:
            got += offsets(log.read(Offset(end), 10_000, Offset(upper)))
        assert got == list(range(0, upper, 2))
        assert log.read(Offset(upper), 10_000, Offset(upper)) == b""


def test_out_of_range(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for offset in (-1, 121):
        with pytest.raises(OffsetOutOfRange):
            log.read(Offset(offset), 1000, log.end)
    assert log.read(Offset(120), 1000, log.end) == b""


def test_remembered_places_and_open_files_are_bounded(tmp_path: Path) -> None:
    log = filled(tmp_path, count=300)
    for offset in range(600):
        log.read(Offset(offset), 1, log.end)
    assert len(log._places._remembered) == search.PLACES_MAX
    assert sum(segment._descriptor >= 0 for segment in log._segments) <= search.OPEN_SEGMENTS_MAX + 1


def test_nothing_is_remembered_of_segments_that_are_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush()
    for offset in range(0, 120, 5):
        log.read(Offset(offset), 1, log.end)
    log.first_kept = Offset(60)
    assert log.retain(NOW_MS) == 2
    assert (log._places._remembered, log._places._opened) == ({}, [])


def test_an_offset_is_located_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers that wait read at the same offset again and again."""
    log = filled(tmp_path)
    log._places._remembered.clear()
    located: list[Offset] = []
    original = Segment.locate

    def locate(segment: Segment, offset: Offset) -> int:
        located.append(offset)
        return original(segment, offset)

    monkeypatch.setattr(Segment, "locate", locate)
    for _ in range(3):
        log.read(Offset(30), 1, log.end)
    assert located == [30]


# Transactions


def test_the_stable_offset_is_that_of_the_oldest_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(), batch(1, 0, transactional=True), batch(2, 0, transactional=True))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    end_transaction(log, 1)
    assert log.last_stable_offset == 2
    end_transaction(log, 2, committed=False)
    assert log.last_stable_offset == log.end == 5
    assert log.aborted(Offset(0), log.end) == (Aborted(ProducerId(2), Offset(2)),)


def test_a_marker_is_kafkas_control_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0, epoch=3, transactional=True))
    assert end_transaction(log, 7, epoch=3, coordinator_epoch=5, version=600).offset == 1
    (_, marker) = iter_batches(log.read(Offset(0), 1000, log.end))
    assert (marker.attributes, marker.producer_id, marker.producer_epoch) == (0x30, 7, 3)
    (record,) = marker.records
    assert (record.key, record.value) == (b"\0\0\0\x01", b"\0\0\0\0\0\x05")
    assert record.headers == ((b"fencepost.image.version", (600).to_bytes(8)),)
    assert end_transaction(log, 7, epoch=3, coordinator_epoch=5, version=600).appended is False
    assert log.end == 2


def test_a_marker_without_a_version_has_no_header(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    end_transaction(log, 7, committed=False)
    (marker,) = iter_batches(log.read(Offset(0), 1000, log.end))
    assert (marker.records[0].key, marker.records[0].headers) == (b"\0\0\0\0", ())


def test_aborted_transactions_are_found_over_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    expected = []
    for number in range(40):
        first = log.end
        append(log, batch(number, 0, transactional=True), batch(), batch(number, 1, transactional=True))
        end_transaction(log, number, committed=number % 2 == 0)
        if number % 2:
            expected.append((number, first, log.end - 1))
    assert len(log._segments) > 5
    for offset in range(0, log.end, 3):
        for upper in (offset + 1, offset + 9, log.end):
            touching = tuple((p, f) for p, f, last in expected if last >= offset and f < upper)
            assert log.aborted(Offset(offset), Offset(upper)) == touching


def test_transactions_that_overlap_are_all_found(tmp_path: Path) -> None:
    """The last stable offset in the index ends a search: it must not end too early."""
    log = open_log(tmp_path, SMALL)
    append(log, *(batch(number, 0, transactional=True) for number in range(5)))
    for number in (3, 1, 4, 0, 2):
        end_transaction(log, number, committed=False)
    append(log, batch())
    assert {one.producer_id for one in log.aborted(Offset(0), log.end)} == {0, 1, 2, 3, 4}
    assert {one.producer_id for one in log.aborted(Offset(0), Offset(2))} == {0, 1}


def test_a_guard_opens_a_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    sent = batch(7, 0, transactional=True)
    with pytest.raises(InvalidTxnState):
        append(log, sent)
    guard = log.verification_guard(ProducerId(7), 0, 0, NOW_MS)
    assert log.producer(ProducerId(7)) is None
    log.append(sent, NOW_MS, EPOCH, guard)
    assert log.producer(ProducerId(7)) is not None
    assert log.verification_guard(ProducerId(7), 0, 1, NOW_MS) is None


def test_producers_are_described(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(9, 0, epoch=2, count=4, transactional=True), batch(3, 5))
    end_transaction(log, 4, epoch=1, coordinator_epoch=6)
    assert [tuple(row) for row in log.producers()] == [
        (3, 0, 5, NOW_MS, -1, -1),
        (4, 1, -1, NOW_MS, 6, -1),
        (9, 2, 3, NOW_MS, -1, 0),
    ]
    assert log.producer(ProducerId(3)) == log.producers()[0]
    assert log.producer(ProducerId(5)) is None


# Times and epochs


def test_a_record_is_found_by_its_time(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for number in range(60):
        found = log.offset_for_time(NOW_MS + number)
        assert found is not None
        assert found == (number * 2, NOW_MS + number, 0)
    assert log.offset_for_time(NOW_MS + 60) is None
    assert log.offset_for_time(0) == (0, NOW_MS, 0)
    assert log.offset_of_newest() == (118, NOW_MS + 59, 0)


def test_times_that_go_back_do_not_hide_a_record(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    times = [NOW_MS + (number * 37) % 50 for number in range(50)]
    append(log, *(batch(timestamp_ms=time) for time in times))
    for wanted in range(NOW_MS - 1, NOW_MS + 51):
        first = next((n for n, time in enumerate(times) if time >= wanted), None)
        found = log.offset_for_time(wanted)
        assert (found.offset if found else None) == first
    newest = log.offset_of_newest()
    assert newest is not None
    assert newest[:2] == (times.index(max(times)), max(times))


def test_a_batch_before_the_first_kept_record_is_not_found_by_its_append_time(tmp_path: Path) -> None:
    """Its segment is there, and its time is that of all its records."""
    log = open_log(tmp_path, LogConfig(verification=False, log_append_time=True))
    for number in range(3):
        append(log, batch(count=2), now_ms=NOW_MS + number)
    log.first_kept = Offset(2)
    assert log.offset_for_time(NOW_MS) == (2, NOW_MS + 1, 0)


def test_leader_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in (2, 2, 5, 9, 9):
        log.append(batch(), NOW_MS, Term(epoch))
    asked = {epoch: log.offset_for_epoch(Term(epoch)) for epoch in (-1, 0, 2, 3, 5, 8, 9, 10)}
    assert {epoch: tuple(answer) for epoch, answer in asked.items()} == {
        -1: (-1, -1), 0: (0, 0), 2: (2, 2), 3: (2, 2), 5: (5, 3), 8: (5, 3), 9: (9, 5), 10: (-1, -1),
    }  # fmt: skip
    assert [log.epoch_at(Offset(offset)) for offset in range(5)] == [2, 2, 5, 9, 9]
    with pytest.raises(FencedLeaderEpoch):
        log.append(batch(), NOW_MS, Term(8))
    assert end_transaction(log, 1).offset == 5
    assert log.epoch_at(Offset(5)) == 9


def test_a_time_is_found_inside_a_batch(tmp_path: Path) -> None:
    """Its records have times of their own: the offset is that of the record, not of the batch."""

    def record(number: int) -> bytes:
        body = bytes((0, 2 * 5 * number, 2 * number, 1, 2, 0x76, 0))  # five milliseconds apart
        return bytes((2 * len(body),)) + body

    raw = batch(count=3)[:HEADER_BYTES] + b"".join(map(record, range(3)))
    log = open_log(tmp_path)
    append(
        log, batch(timestamp_ms=NOW_MS - 1), resealed(raw[:35] + struct.pack(">q", NOW_MS + 10) + raw[43:])
    )
    found = [log.offset_for_time(NOW_MS + after) for after in (0, 1, 5, 6, 10, 11)]
    times = {1: NOW_MS, 2: NOW_MS + 5, 3: NOW_MS + 10}
    assert found == [*((offset, times[offset], 0) for offset in (1, 2, 2, 3, 3)), None]
