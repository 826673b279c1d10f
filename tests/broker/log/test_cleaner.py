"""A cleaner's pass over a log on the disk: readers and producers see what they saw, killed or not."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.broker.log.cleanable import Dirt
from fencepost.broker.log.cleaned_end import CLEANED_FILE, COPY
from fencepost.broker.log.cleaner import Cleaned, CleanerPass
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import is_summed, save_sums
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.batch import batch_header, checked_header
from fencepost.records.batch_builder import BatchBuilder
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import SegmentSums
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, append, crash, end_transaction, open_log, read_all
from tests.broker.log.test_compaction import DAY_MS, known, last_values, rebuilt
from tests.broker.log.test_compaction import read as records_of
from tests.broker.log.test_laws import Killed, killed_at
from tests.broker.log.test_power_cut import Disk
from tests.examples import examples

CONFIG = LogConfig(
    verification=False, segment_bytes=700, index_interval_bytes=150, delete=False, compact=True,
    min_cleanable_dirty_ratio=0.0,
)  # fmt: skip


def keyed(
    log: PartitionLog,
    producer: int,
    pairs: Sequence[tuple[bytes, bytes | None]],
    *,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> None:
    """Append a batch of records with keys."""
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(key, value, (), timestamp_ms)
    row = None if producer < 0 else log.producer(producer)  # type: ignore[arg-type]
    append(
        log,
        builder.build(
            builder.body(), producer_id=producer, producer_epoch=max(row.producer_epoch if row else 0, 0),
            base_sequence=0 if row is None else row.last_sequence + 1, transactional=transactional,
        ),
    )  # fmt: skip


def play(log: PartitionLog, count: int = 60) -> None:
    """Values and tombstones of six keys, plain and in transactions of which every third aborts."""
    for number in range(count):
        key, value = b"key-%d" % (number % 6), None if number % 13 == 5 else b"value %d" % number
        keyed(log, 7, [(key, value), (b"extra", b"%d" % number)])
        writer = 1 + number % 2
        keyed(log, writer, [(b"of-%d" % (number % 4), b"in %d" % number)], transactional=True)
        end_transaction(log, writer, committed=number % 3 > 0, version=number + 1)


def clean(
    log: PartitionLog, now_ms: int = NOW_MS, clean_end: int = 0, *, stable: int | None = None, **named: Any
) -> Cleaned:
    """One pass, as a broker makes it."""
    bound = log.last_stable_offset if stable is None else Offset(stable)
    dirt = log.cleanable.dirt(Offset(clean_end), bound, log.config, now_ms)
    work = CleanerPass(log.cleanable.begin(dirt, log.config), now_ms, lambda: None, **named)
    work.begin()
    while (group := work.next_group()) is not None:
        log.cleanable.swap_in(group)
        work.remove_old(group)
        log.cleanable.settle(group)
        log.cleanable.settled(group)
    return work.cleaned


def batches_of(log: PartitionLog) -> list[bytes]:
    """Every batch, as a consumer reads on."""
    raw, batches = read_all(log, 500), []
    while raw:
        size = batch_header(raw).size
        batches.append(raw[:size])
        raw = raw[size:]
    return batches


def committed(log: PartitionLog) -> dict[bytes, bytes | None]:
    """The last values, as consumers with read_committed see them, from the very answers to their fetches."""
    values: dict[bytes, bytes | None] = {}
    offset = log.start
    while offset < log.last_stable_offset:
        raw, aborted = log.read_committed(offset, 400)
        first = {each.producer_id: [] for each in aborted}  # type: ignore[var-annotated]
        for each in aborted:
            first[each.producer_id].append(each.first_offset)
        open_now: set[int] = set()
        while raw:
            header = checked_header(raw)
            batch, raw = raw[: header.size], raw[header.size :]
            offset = header.end
            waiting = first.get(header.producer_id, [])
            while waiting and waiting[0] <= header.base_offset:
                waiting.pop(0)
                open_now.add(header.producer_id)
            if header.is_control:
                open_now.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in open_now):
                values.update((key, value) for _, key, value in records_of([batch], (), committed=False))
    return {key: value for key, value in values.items() if value is not None}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """A log with dirty segments, flushed."""
    made = open_log(tmp_path / "log", CONFIG)
    play(made)
    made.flush()
    yield made
    with contextlib.suppress(OSError):
        made.close()


def test_a_pass_leaves_the_last_value_of_each_key(log: PartitionLog, tmp_path: Path) -> None:
    values, states, size, end = committed(log), known(log._states), log.size, log.end
    files = len(list(log.directory.glob("*.log")))
    dirt = log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS)
    records = sum(
        batch_header(each).record_count for each in batches_of(log) if batch_header(each).end <= dirt.end
    )
    done = clean(log)
    assert (done.bytes_read, done.records_read) == (dirt.dirty_bytes, records)
    assert done.bytes_read > 2 * done.bytes_written
    assert done.records_written == 69  # one of each key, and markers until the next pass
    assert log.size < 0.6 * size  # with the active segment, which is as it was
    assert (committed(log), known(log._states), log.end) == (values, states, end)
    assert last_values(records_of(batches_of(log), (), committed=False)) == values
    reopened = PartitionLog.open(crash(log, tmp_path / "killed") / "topic-0", CONFIG, NOW_MS)
    assert (committed(reopened), known(reopened._states), reopened.end) == (values, states, end)
    assert reopened.repairs == ()
    clean(log, NOW_MS + DAY_MS)
    clean(log, NOW_MS + 2 * DAY_MS)
    assert len(list(log.directory.glob("*.log"))) < files / 3, "small segments become one"
    log.close()
    assert inspect(log.directory, machine_went_down=False).changed is None, "sums are those of the new files"
    assert PartitionLog.open(log.directory, CONFIG, NOW_MS).repairs == ()


def test_the_log_alone_tells_everything_after_passes(log: PartitionLog, tmp_path: Path) -> None:
    values, states = committed(log), known(log._states)
    for days in range(4):
        clean(log, NOW_MS + days * 2 * DAY_MS)
    bare = crash(log, tmp_path / "bare") / "topic-0"
    for path in bare.iterdir():
        if path.suffix != ".log" and path.name != CLEANED_FILE:
            path.unlink()
    reopened = PartitionLog.open(bare, CONFIG, NOW_MS)
    assert (committed(reopened), known(reopened._states), reopened.end) == (values, states, log.end)
    assert reopened.last_stable_offset == reopened.end


def test_a_snapshot_that_has_a_transaction_open_whose_marker_is_gone_is_not_used(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(60):
        keyed(log, 1 + number % 2, [(b"a", b"%d" % number)], transactional=True)
        log.flush()
        end_transaction(log, 1 + number % 2, committed=number % 3 > 0, version=number + 1)
        log.flush()
    for days in range(4):
        clean(log, NOW_MS + days * 2 * DAY_MS)
    for kept in range(len(list(log.directory.glob("*.snapshot")))):
        torn = crash(log, tmp_path / f"{kept}") / "topic-0"
        for path in sorted(torn.glob("*.snapshot"))[kept:]:
            path.unlink()
        opened = PartitionLog.open(torn, CONFIG, NOW_MS)
        assert opened.last_stable_offset == opened.end
        assert known(opened._states) == known(log._states)


def test_nothing_at_or_above_the_last_stable_offset_is_touched(log: PartitionLog) -> None:
    stable = log.end
    keyed(log, 9, [(b"key-1", b"open")], transactional=True)
    play(log)
    log.flush()
    assert log.last_stable_offset == stable
    above = [raw for raw in batches_of(log) if batch_header(raw).end > stable]
    done = clean(log, NOW_MS + DAY_MS)
    assert done.clean_end <= stable
    assert [raw for raw in batches_of(log) if batch_header(raw).end > stable] == above
    assert last_values(records_of(batches_of(log), (), committed=False))[b"key-1"] is not None


def test_the_active_segment_is_never_touched(log: PartitionLog) -> None:
    active = max(log.directory.glob("*.log"))
    content = active.read_bytes()
    clean(log, NOW_MS + DAY_MS)
    assert active.read_bytes() == content


def test_what_is_not_on_the_disk_is_not_cleaned(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    play(log)
    assert log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS).dirty_bytes == 0
    log.flush()
    assert log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS).is_due(CONFIG)


def test_a_pass_is_due_by_the_share_of_the_bytes_that_is_dirty() -> None:
    dirt = Dirt(Offset(0), Offset(9), dirty_bytes=300, clean_bytes=100, overdue_ms=0)
    assert dirt.ratio == 0.75
    due = [dirt.is_due(replace(CONFIG, min_cleanable_dirty_ratio=ratio)) for ratio in (0.74, 0.75)]
    assert due == [True, False]


def test_young_segments_wait_and_old_ones_are_due(log: PartitionLog) -> None:
    lagging = replace(CONFIG, min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    stable = log.last_stable_offset

    def dirt(now_ms: int, config: LogConfig = lagging) -> Any:
        return log.cleanable.dirt(Offset(0), stable, config, now_ms)

    assert dirt(NOW_MS + 999).dirty_bytes == 0
    assert dirt(NOW_MS + 1000).dirty_bytes > 0
    assert not dirt(NOW_MS + 1000).is_due(lagging)
    overdue = replace(lagging, max_compaction_lag_ms=2000)
    assert not dirt(NOW_MS + 2000, overdue).is_due(overdue)
    assert dirt(NOW_MS + 2001, overdue).is_due(overdue)


def test_a_checkpoint_of_another_log_of_that_name_is_not_believed(log: PartitionLog) -> None:
    assert log.cleanable.dirt(log.end, log.last_stable_offset, CONFIG, NOW_MS).first_dirty == 0
    done = clean(log)
    assert log.cleanable.dirt(done.clean_end, log.end, CONFIG, NOW_MS).first_dirty == done.clean_end
    assert log.cleanable.dirt(done.clean_end, log.end, CONFIG, NOW_MS).dirty_bytes == 0


def test_a_pass_in_parts_ends_where_one_does(log: PartitionLog) -> None:
    values = committed(log)
    clean_end = 0
    for _ in range(100):
        done = clean(log, clean_end=clean_end, keys_max=3)
        if done.clean_end == clean_end:
            break
        clean_end = done.clean_end
    assert clean_end == int(max(log.directory.glob("*.log")).stem)
    assert committed(log) == values


def test_offsets_that_no_cleaner_left_out_are_damage(log: PartitionLog, tmp_path: Path) -> None:
    clean(log)
    left = crash(log, tmp_path / "lost") / "topic-0"
    (left / CLEANED_FILE).unlink()
    (left / COPY).unlink()
    for path in (*left.glob("*.snapshot"), *left.glob("*.index")):
        path.unlink()
    with pytest.raises(DamagedLog, match="expected"):
        PartitionLog.open(left, CONFIG, NOW_MS)
    log.close()
    assert inspect(log.directory, machine_went_down=False).damage is None


def test_killed_at_any_step_nothing_is_lost(tmp_path: Path) -> None:
    for call in range(1, 200):
        log = open_log(tmp_path / f"{call}", replace(CONFIG, segment_bytes=1500))
        play(log, 11)
        log.flush()
        before = (committed(log), known(log._states), log.end)
        with killed_at(call) as reached, contextlib.suppress(Killed):
            clean(log, NOW_MS)
            clean(log, NOW_MS + 2 * DAY_MS)
        was_reached = reached()
        left = crash(log, tmp_path / f"{call}-killed") / "topic-0"
        log.release_files()
        for again in range(1, 30):  # and the start after it is killed, too
            retry = crash(log, tmp_path / f"{call}-{again}") / "topic-0"
            with killed_at(again) as reached, contextlib.suppress(Killed):
                PartitionLog.open(retry, CONFIG, NOW_MS)
            if not reached() or call % 7:
                break
            check(retry, before)
        check(left, before)
        if not was_reached:
            return
    pytest.fail("a pass makes more calls than this test looks at")


def check(directory: Path, before: tuple[Any, ...]) -> None:
    """The log of a directory is what it was; cleaned once more, too."""
    opened = PartitionLog.open(directory, CONFIG, NOW_MS)
    assert (committed(opened), known(opened._states), opened.end) == before
    assert not [path for path in directory.iterdir() if path.suffix in {".cleaned", ".swap"}]
    assert known(rebuilt(batches_of(opened))) == known(opened._states)
    opened.flush()
    clean(opened, NOW_MS + 4 * DAY_MS)
    assert (committed(opened), known(opened._states), opened.end) == before
    opened.close()


@settings(max_examples=examples(20))
@given(st.integers(0, 120), st.integers(0, 3))
def test_a_power_cut_at_any_step_loses_nothing(calls: int, turns: int) -> None:
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        directory = Path(made)
        disk = Disk(directory / "log" / "topic-0")
        patch.setattr(os, "fsync", disk.sync)
        patch.setattr(os, "fdatasync", disk.sync)
        log = open_log(directory / "log", CONFIG)
        play(log, 24)
        log.flush()
        before = (committed(log), known(log._states), log.end)
        with killed_at(calls + 1), contextlib.suppress(Killed):
            for days in range(turns + 1):
                clean(log, NOW_MS + 2 * days * DAY_MS)
        cut = disk.after_power_cut(directory / "cut" / "topic-0")
        disk.close()
        check(cut, before)


def test_half_a_rename_decides_nothing(log: PartitionLog, tmp_path: Path) -> None:
    before = (committed(log), known(log._states), log.end)
    dirt = log.cleanable.dirt(Offset(0), log.last_stable_offset, CONFIG, NOW_MS)
    work = CleanerPass(log.cleanable.begin(dirt, CONFIG), NOW_MS, lambda: None)
    work.begin()
    renamed: list[str] = []
    original = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if len(renamed) == 2:
            raise Killed
        renamed.append(path.name)
        return original(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        patch.setattr("fencepost.broker.log.cleaner.remove_unfinished", lambda _: None)
        with pytest.raises(Killed):
            work.next_group()
    left = crash(log, tmp_path / "half") / "topic-0"
    opened = PartitionLog.open(left, CONFIG, NOW_MS)
    assert opened.repairs == ()
    assert (committed(opened), known(opened._states), opened.end) == before
    assert not list(left.glob("*.cleaned")) + list(left.glob("*.swap"))


def test_sums_that_a_flush_made_of_the_old_files_are_gone(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = CleanerPass.remove_old
    stale: list[Path] = []

    def remove_old(work: CleanerPass, group: Any) -> None:
        original(work, group)
        path = log.directory / f"{group.bases[0]:020d}.log"
        save_sums(path, SegmentSums(*[Summed(7, 7)] * 4))
        stale.append(path)

    monkeypatch.setattr(CleanerPass, "remove_old", remove_old)
    clean(log)
    assert stale
    assert all(map(is_summed, stale)), "they have those of the new ones"
    assert inspect(log.directory, machine_went_down=False).changed is None


def test_a_log_whose_first_records_were_deleted_is_cleaned(log: PartitionLog) -> None:
    log.first_kept = Offset(100)  # inside a segment
    before = (committed(log), log.start, log.end)
    clean(log)
    assert (committed(log), log.start, log.end) == before


def test_a_full_segment_is_found_by_its_first_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(CONFIG, segment_ms=1000, segment_bytes=10_000))
    keyed(log, -1, [(b"a", b"1")])
    keyed(log, -1, [(b"a", b"2")], timestamp_ms=NOW_MS + 1000)
    assert len(list(log.directory.glob("*.log"))) == 1
    keyed(log, -1, [(b"a", b"3")], timestamp_ms=NOW_MS + 1001)
    assert [int(path.stem) for path in sorted(log.directory.glob("*.log"))] == [0, 2]
    log.roll_overdue(NOW_MS + 2001)
    assert len(list(log.directory.glob("*.log"))) == 2
    log.roll_overdue(NOW_MS + 2002)
    assert [int(path.stem) for path in sorted(log.directory.glob("*.log"))] == [0, 2, 3]
    assert Segment(log.directory, Offset(2)).first_ms == NOW_MS + 1001
