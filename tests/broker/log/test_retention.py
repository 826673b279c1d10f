"""What is deleted from a partition's log, and what outlives it: retention, truncation, producers."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log import durability, partition_log
from fencepost.broker.log.recovery import recover
from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.errors import OffsetOutOfRange, OutOfOrderSequence
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import Offset
from tests.broker.log.builders import (
    NOW_MS,
    SMALL,
    append,
    batch,
    end_of,
    end_transaction,
    filled,
    memory,
    open_log,
    read_all,
)
from tests.together import table


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
        log._durability.request_snapshot(log.end, dict(log._states.table), log._segments)
    log.flush()
    append(log, *(batch() for _ in range(20)))
    kept = {int(path.stem) for path in log.directory.glob("*.snapshot")}
    bases = {int(path.stem) for path in log.directory.glob("*.log")}
    assert len(kept - bases) <= durability.SNAPSHOTS_KEPT


@table("offset", [0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 59, 60, 61, 118, 119, 120])
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


def test_a_log_that_is_cut_is_opened_as_after_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has all that was written: bytes that make no sense now were changed."""
    log = filled(tmp_path)
    went_down: list[bool] = []

    def noted(*words: Any) -> Any:
        went_down.append(words[-1])
        return recover(*words)

    monkeypatch.setattr(partition_log, "recover", noted)
    log.truncate_to(log.end, NOW_MS)
    assert went_down == [], "there is nothing to cut"
    log.truncate_to(Offset(50), NOW_MS)
    assert went_down == [False]
