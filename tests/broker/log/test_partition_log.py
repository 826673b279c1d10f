"""A partition's log as its owner uses it: append, read, find by time and epoch, flush, retain, delete."""

import os
import threading
from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log import durability, search
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import NO_EPOCH, NO_OFFSET, Aborted, EpochEnd, LogConfig
from fencepost.controller.errors import (
    FencedLeaderEpoch,
    InvalidTxnState,
    OffsetOutOfRange,
    OutOfOrderSequence,
)
from fencepost.records.batch import decode_batch, encode_batch, iter_batches
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Offset, ProducerId, Term
from tests.broker.log.builders import (
    CODECS,
    EPOCH,
    NOW_MS,
    UNVERIFIED,
    append,
    batch,
    compressed,
    end_of,
    end_transaction,
    memory,
    open_log,
    read_all,
)

SMALL = LogConfig(verification=False, segment_bytes=1000, index_interval_bytes=100)


def offsets(batches: bytes) -> list[int]:
    return [one.base_offset for one in iter_batches(batches)]


def filled(directory: Path, config: LogConfig = SMALL, count: int = 60) -> PartitionLog:
    """A log of ``count`` batches of two records, in several segments, one millisecond apart."""
    log = open_log(directory, config)
    for number in range(count):
        append(log, batch(7, number * 2, count=2, timestamp_ms=NOW_MS + number))
    return log


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


@pytest.mark.parametrize("codec", CODECS)
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


@pytest.mark.parametrize("bytes_max", [1, 100, 350, 1000, 100_000])
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


# Flushing, closing


def test_a_flush_beside_appends_says_what_is_safe(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    stop = threading.Event()
    seen: list[int] = []

    def flush_on() -> None:
        while not stop.is_set():
            seen.append(log.flush())

    flusher = threading.Thread(target=flush_on)
    flusher.start()
    for number in range(2_000):
        append(log, batch(7, number))
    stop.set()
    flusher.join()
    assert seen == sorted(seen)
    assert log.flush() == log.end == 2_000
    assert not log.flush_wanted
    log.close()
    assert open_log(tmp_path, SMALL).repairs == ()


def test_every_file_is_flushed_before_a_snapshot_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    for call in ("fsync", "fdatasync"):
        original = getattr(os, call)

        def noted(descriptor: int, original: object = original) -> None:
            flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            original(descriptor)  # type: ignore[operator]

        monkeypatch.setattr(os, call, noted)
    log = filled(tmp_path, count=20)
    assert log.flush_wanted
    flushed.clear()
    log.flush()
    names = {path.name for path in log.directory.iterdir()}
    snapshot = flushed.index(next(name for name in flushed if name.endswith(".snapshot.tmp")))
    full = {name for name in names if not name.endswith(".snapshot")} - {"partition.metadata"}
    assert full <= set(flushed[:snapshot])
    assert flushed.index("topic-0") < snapshot


@pytest.mark.parametrize(
    ("limit", "appended"),
    [("SNAPSHOT_EVERY_BATCHES", 5), ("SNAPSHOT_EVERY_BYTES", 5 * len(batch(7, 0)))],
    ids=["batches", "bytes"],
)
def test_what_a_crash_would_have_read_again_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, appended: int
) -> None:
    monkeypatch.setattr(durability, limit, appended)
    log = open_log(tmp_path)
    log.flush()  # the folder's own
    wanted = []
    for sequence in range(6):
        append(log, batch(7, sequence))
        wanted.append(log.flush_wanted)
    assert wanted == [False] * 4 + [True] * 2
    log.flush()
    assert not log.flush_wanted
    assert [path.name for path in log.directory.glob("*.snapshot")] == [f"{5:020d}.snapshot"]


def test_flush_messages_demands_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(flush_messages=3))
    assert [append(log, batch()).flush_due for _ in range(4)] == [False, False, True, True]
    log.flush()
    assert append(log, batch()).flush_due is False


def test_a_failed_flush_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, batch())

    def broken(descriptor: int) -> None:
        raise OSError(5, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="broken disk"):
            log.flush()
    with pytest.raises(OSError, match="an earlier flush failed"):
        log.flush()
    with pytest.raises(OSError, match="an earlier flush failed"):
        log.close()
    assert open_log(tmp_path).end == 1


def test_a_failed_write_is_undone_and_the_log_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0))
    size, write = log.size, os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) < 40:
            raise OSError(28, "No space left")
        return write(descriptor, content[:40])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            append(log, batch(7, 1))
    assert (log.end, log.size, (log.directory / f"{0:020d}.log").stat().st_size) == (1, size, size)
    with pytest.raises(OSError, match="an earlier write failed"):
        append(log, batch(7, 1))
    assert len(log.read(Offset(0), 1000, log.end)) == size, "it is still read"
    log.close()
    assert append(open_log(tmp_path), batch(7, 1))[:3] == (1, 1, False)


@pytest.mark.parametrize("written", [0, 10], ids=["nothing-written", "a-part-written"])
def test_a_marker_whose_index_entry_fails_ends_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    log = open_log(tmp_path)
    append(log, batch(7, 0, transactional=True))
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) > 34:
            return write(descriptor, content)
        if not written:
            raise OSError(28, "No space left")
        return write(descriptor, content[:written])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left|half an index entry"):
            end_transaction(log, 7, committed=False)
    with pytest.raises(OSError, match="an earlier write failed"):
        append(log, batch())
    log.close()
    again = open_log(tmp_path)
    assert again.aborted(Offset(0), again.end) == (Aborted(ProducerId(7), Offset(0)),)


def test_a_closed_log_takes_nothing_and_flushes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    assert log.flush() == 0
    with pytest.raises(OSError, match="the log is closed"):
        append(log, batch())


def test_a_directory_belongs_to_one_topic(tmp_path: Path) -> None:
    mine, other = UUID(int=1 << 70), UUID(int=2)
    PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS, mine).close()
    text = (tmp_path / "t-0" / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAAAAAAAAEAAAAAAAAAAAA\n"
    assert PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS).topic_id == mine
    with pytest.raises(CorruptData, match=r"expected 0{8}-0{4}-0{4}-0{4}-0{11}2"):
        PartitionLog.open(tmp_path / "t-0", LogConfig(), NOW_MS, other)


# Retention, truncation


def test_producers_outlive_their_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    append(log, batch(1, 0), batch(1, 1), batch(2, 0, transactional=True))
    end_transaction(log, 2, version=77)
    for _ in range(40):
        append(log, batch())
    log.config = LogConfig(
        verification=False, segment_bytes=1000, index_interval_bytes=100, retention_bytes=2000
    )
    assert log.retain(NOW_MS) == 0, "no producer snapshot is on the disk yet"
    log.flush()
    assert log.retain(NOW_MS) > 0
    assert log.start > 10
    assert log.size <= 3000
    for reopened in (False, True):
        if reopened:
            log.close()
            log = open_log(tmp_path, log.config)
            assert log.repairs == ()
        assert append(log, batch(1, 1))[:3] == (1, 1, True)
        assert end_transaction(log, 2, version=77).appended is False
        with pytest.raises(OutOfOrderSequence):
            append(log, batch(1, 3))
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(0), 1000, log.end)


def test_producers_outlive_their_records_over_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1000, retention_bytes=0))
    append(log, batch(1, 0))
    append(log, *(batch() for _ in range(40)))
    log.flush()
    log.retain(NOW_MS)
    append(log, batch(3, 0))
    assert log.start > 0
    again = open_log(tmp_path)  # not closed: killed
    assert append(again, batch(1, 0))[:3] == (0, 0, True)
    assert again.repairs == ()


def test_retention_by_time_takes_the_active_segment_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1000, retention_ms=10_000))
    append(log, *(batch(timestamp_ms=NOW_MS + number) for number in range(40)))
    assert log.retain(NOW_MS + 10_000) == 0
    assert log.retain(NOW_MS + 20_000) == 0
    log.flush()
    assert log.retain(NOW_MS + 20_000) > 3
    assert (log.start, log.end, log.size) == (40, 40, 0)
    assert append(log, batch()).base_offset == 40
    assert log.epoch_at(Offset(40)) == 0
    log.close()
    assert open_log(tmp_path).repairs == ()


def test_no_retention_keeps_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1000, retention_ms=-1))
    append(log, *(batch(timestamp_ms=0) for _ in range(40)))
    log.flush()
    assert log.retain(NOW_MS) == 0


def test_snapshots_are_kept_at_segments_and_the_newest(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(100):
        append(log, batch(7, number))
        log.flush()
        log._durability.request_snapshot(log.end, dict(log._states.table))
    log.flush()
    append(log, *(batch() for _ in range(20)))
    kept = {int(path.stem) for path in log.directory.glob("*.snapshot")}
    bases = {int(path.stem) for path in log.directory.glob("*.log")}
    assert len(kept - bases) <= durability.SNAPSHOTS_KEPT


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 59, 60, 61, 118, 119, 120])
def test_truncation_takes_state_back(tmp_path: Path, offset: int) -> None:
    """A log cut at an offset is the log that never went further."""
    log = filled(tmp_path / "cut")
    log.flush()
    log.truncate_to(Offset(offset), NOW_MS)
    kept = offset // 2
    never = filled(tmp_path / "never", count=kept)
    assert log.end == never.end == kept * 2
    assert read_all(log) == read_all(never)
    assert memory(log) == memory(never)
    assert log.repairs == ()
    assert append(log, batch(7, kept * 2))[:3] == (kept * 2, kept * 2, False)
    assert log.flush() == log.end
    log.close()
    again = open_log(tmp_path / "cut", SMALL)
    assert again.repairs == ()
    assert end_of(read_all(again)) == kept * 2 + 1


def test_truncation_reopens_a_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(1, 0, transactional=True), batch())
    end_transaction(log, 1, committed=False, version=5)
    log.flush()
    log.truncate_to(Offset(2), NOW_MS)
    assert (log.last_stable_offset, log.end, log.aborted(Offset(0), log.end)) == (0, 2, ())
    assert end_transaction(log, 1, committed=False, version=5).offset == 2


def test_a_log_is_not_cut_before_its_start(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation):
        open_log(tmp_path).truncate_to(Offset(-1), NOW_MS)
