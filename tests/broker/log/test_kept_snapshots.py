"""Which producer snapshots are due, kept and deleted, and what of a log waits for a flush."""

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.broker.log import durability
from fencepost.broker.log.durability import Durability
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import NOTHING, load_sums
from tests.broker.log.builders import SMALL, append, batch, filled, open_log
from tests.together import table


def with_snapshots(directory: Path, *offsets: int) -> tuple[PartitionLog, Durability]:
    """An open log that knows of these, all of whose files are there."""
    log = open_log(directory, SMALL)
    for offset in offsets:
        snapshot_path(log.directory, Offset(offset)).touch()
    log._durability._snapshots = [Offset(offset) for offset in offsets]
    return log, log._durability


def is_wanted(log: PartitionLog) -> bool:
    return log.flush_wanted


def left(log: PartitionLog) -> list[int]:
    """What is there is what is known."""
    found = snapshots_in(log.directory)
    assert found == log._durability._snapshots
    return [*found]


@table(
    ("bases", "kept"),
    [([], [8, 9]), ([0, 3], [0, 3, 8, 9]), ([8, 9], [8, 9]), ([0, 3, 5, 8, 9], [0, 3, 5, 8, 9])],
)
def test_those_are_kept_at_a_segment_and_the_newest_two(
    tmp_path: Path, bases: list[int], kept: list[int]
) -> None:
    log, kept_by = with_snapshots(tmp_path, 0, 3, 5, 8, 9)
    kept_by.prune({Offset(base) for base in bases})
    assert left(log) == kept
    kept_by.prune({Offset(base) for base in bases})
    assert left(log) == kept


@table(("end", "kept"), [(0, [0, 3, 5]), (1, [3, 5]), (3, [3, 5]), (4, [5]), (5, [5]), (6, [])])
def test_those_before_what_is_cleaned_go(tmp_path: Path, end: int, kept: list[int]) -> None:
    log, kept_by = with_snapshots(tmp_path, 0, 3, 5)
    kept_by.forget_before(Offset(end))
    assert left(log) == kept


@table(("end", "kept"), [(6, [0, 3, 5]), (5, [0, 3, 5]), (4, [0, 3]), (3, [0, 3]), (2, [0])])
def test_those_behind_a_cut_go_the_newest_first(tmp_path: Path, end: int, kept: list[int]) -> None:
    log, kept_by = with_snapshots(tmp_path, 0, 3, 5)
    gone: list[str] = []
    unlink = Path.unlink

    def noted(path: Path) -> None:
        gone.append(path.name)
        unlink(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", noted)
        kept_by.request_snapshot(Offset(9), {}, ())
        kept_by.forget_snapshots(Offset(end))
    assert left(log) == kept
    assert gone == sorted(gone, reverse=True)
    assert not is_wanted(log), "what waits to be written is no longer true"


@table(
    ("written", "is_due"),
    [
        ([(99, 1)], False),
        ([(100, 1)], True),
        ([(50, 1), (49, 1)], False),
        ([(50, 1), (50, 1)], True),
        ([(1, 9)], False),
        ([(1, 10)], True),
        ([(1, 4), (1, 6)], True),
    ],
)
def test_a_snapshot_is_due_after_so_many_bytes_or_batches(
    tmp_path: Path, written: list[tuple[int, int]], is_due: bool
) -> None:
    _, kept_by = with_snapshots(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durability, "SNAPSHOT_EVERY_BYTES", 100)
        patch.setattr(durability, "SNAPSHOT_EVERY_BATCHES", 10)
        due = [kept_by.wrote(Offset(5), size, batches) for size, batches in written]
        assert due[-1] == is_due
        kept_by.request_snapshot(Offset(5), {}, ())
        assert not kept_by.wrote(Offset(6), 99, 9), "it is counted from the last request on"


def test_a_full_segment_or_a_snapshot_waits_for_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    kept_by = log._durability
    append(log, batch())
    assert not is_wanted(log)
    assert kept_by.newest_snapshot == -1
    kept_by.request_snapshot(log.end, {}, log.scrubbable.segments())
    assert is_wanted(log)
    log.flush()
    assert not is_wanted(log)
    assert kept_by.newest_snapshot == 1
    path = log.scrubbable.segments()[0].path
    assert not kept_by.is_settled(path), "the segment is appended to"
    log.config = replace(SMALL, segment_bytes=1)
    append(log, batch())
    assert is_wanted(log)
    assert not kept_by.is_settled(path), "its index is not on the disk"
    log.flush()
    assert kept_by.is_settled(path)
    assert not kept_by.is_settled(log.scrubbable.segments()[1].path)


def test_a_log_that_is_opened_again_knows_what_is_on_the_disk(tmp_path: Path) -> None:
    filled(tmp_path).close()
    log = open_log(tmp_path, SMALL)
    assert log._durability.durable_end == log._durability.written_end == log.end
    paths = [each.path for each in log.scrubbable.segments()]
    assert [log._durability.is_settled(path) for path in paths] == [*[True] * (len(paths) - 1), False]
    assert log._durability.newest_snapshot == log.end
    assert not is_wanted(log)


def test_what_a_cleaner_replaced_is_summed_anew(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush()
    first = log.scrubbable.segments()[0]
    sums = load_sums(first.path)
    assert sums != NOTHING
    log._durability.replaced(first.path)
    assert load_sums(first.path) == NOTHING
    log._durability.request_snapshot(log.end, {}, log.scrubbable.segments())
    log.flush()
    assert load_sums(first.path) == sums
    log.close()


def test_a_table_is_saved_as_it_was_when_it_was_requested(tmp_path: Path) -> None:
    """Two are requested before the flush: the newer one is written."""
    log = filled(tmp_path, count=2)
    log.flush()
    for number in (2, 3):
        append(log, batch(7, number * 2, count=2))
        log._durability.request_snapshot(log.end, dict(log._states.table), log.scrubbable.segments())
    log.flush()
    assert snapshots_in(log.directory)[-1] == 8
    log.close()
    assert open_log(tmp_path, SMALL).producers() == log.producers()
