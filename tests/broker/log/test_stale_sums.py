"""A file of a segment's sums that is old, torn or another segment's takes no partition offline."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.broker.log import segment_sums
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment_sums import save_sums
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import MADE_AGAIN, SUFFIX, SegmentSums, load_sums
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, append, batch
from tests.broker.log.sums import everything, opened, segments
from tests.broker.log.test_recovery import start


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def of_the_next_segment(path: Path) -> None:
    path.write_bytes(sorted(path.parent.glob(f"*{SUFFIX}"))[1].read_bytes())


def of_another_partition(path: Path) -> None:
    """Its segment has the same base, is larger, and has other indexes."""
    far = SegmentSums(Summed(10_000, 1), *[Summed(120, 2)] * 3)
    save_sums(path.with_suffix(".log"), far)


def of_indexes_that_were_never_finished(path: Path) -> None:
    save_sums(path.with_suffix(".log"), SegmentSums(Summed(1, 1), *[MADE_AGAIN] * 3))


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_folder_of_an_old_copy(path: Path) -> None:
    """Each segment has sums, of which no one fits."""
    for each in path.parent.glob(f"*{SUFFIX}"):
        of_another_partition(each)


def orphan(path: Path) -> None:
    (path.parent / f"{99_999:020d}{SUFFIX}").write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    "spoil",
    [
        torn,
        of_the_next_segment,
        of_another_partition,
        of_indexes_that_were_never_finished,
        a_folder_of_an_old_copy,
        orphan,
    ],
)
@pytest.mark.parametrize("went_down", [False, True], ids=["process", "machine"])
def test_no_file_of_sums_takes_a_sound_partition_offline(
    closed: tuple[Path, tuple[object, ...]], spoil: Callable[[Path], None], went_down: bool
) -> None:
    directory, answers = closed
    for number in range(len(segments(directory))):
        spoil(sorted(directory.glob(f"*{SUFFIX}"))[number])
        log = opened(directory, went_down=went_down)
        assert everything(log) == answers
        log._let_go()
        assert inspect(directory, machine_went_down=went_down).damage is None
        log = opened(directory, went_down=went_down)
        assert log.repairs == (), "what was wrong is mended, not found again"
        log.close()


def test_an_unreadable_file_of_sums_says_nothing(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    unreadable(min(directory.glob(f"*{SUFFIX}")))
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), answers)
    log._let_go()


def test_a_log_that_an_earlier_version_cut_and_filled_opens(tmp_path: Path) -> None:
    """It leaves all sums: also those of segments that it deleted, and made again at other places."""
    log = start(tmp_path / "a")
    log.close()
    left = {path: path.read_bytes() for path in log.directory.glob(f"*{SUFFIX}")}
    log = opened(log.directory)
    log.truncate_to(Offset(20), NOW_MS)
    log.config = LogConfig(verification=False, segment_bytes=700, index_interval_bytes=50)
    append(log, *(batch(timestamp_ms=NOW_MS + 1) for _ in range(40)))
    answers = everything(log)
    log.close()
    for path in log.directory.glob(f"*{SUFFIX}"):
        path.unlink()
    for path, raw in left.items():
        path.write_bytes(raw)
    for went_down in (False, True):
        log = opened(log.directory, went_down=went_down)
        assert everything(log) == answers
        log.close()
    assert inspect(log.directory, machine_went_down=False).damage is None


def test_a_newest_snapshot_that_is_lost_leaves_no_stale_sums(closed: tuple[Path, tuple[object, ...]]) -> None:
    """Indexes behind the snapshot before it are written again, not always entry by entry the same."""
    directory, answers = closed
    for spoiled in sorted(directory.glob("*.snapshot"), reverse=True):
        spoiled.unlink()
        log = opened(directory, LogConfig(verification=False, segment_bytes=1500, index_interval_bytes=10))
        assert everything(log) == answers
        log._let_go()
        assert all(
            segment_sums.changed_index(segment, load_sums(segment)) is None for segment in segments(directory)
        )


def test_a_producer_snapshot_that_is_no_use_is_named_once(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    spoiled = max(directory.glob("*.snapshot"))
    spoiled.write_bytes(spoiled.read_bytes()[:-1])
    log = opened(directory)
    assert any(spoiled.name in each for each in log.repairs)
    assert not spoiled.exists()
    assert everything(log) == answers
    log._let_go()
    log = opened(directory)
    assert log.repairs == ()
    log._let_go()
