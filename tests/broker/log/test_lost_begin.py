"""The first segments of a log that are gone, and all of them: not what retention leaves."""

from pathlib import Path

import pytest

from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import SUFFIXES, Segment
from fencepost.broker.log.shapes import LogConfig
from fencepost.snapshots.checksums import SUFFIX
from tests.broker.log.builders import NOW_MS, append, batch, open_log
from tests.broker.log.sums import opened, segments
from tests.broker.log.test_recovery import transactions

RETAINED = LogConfig(verification=False, segment_bytes=1500, index_interval_bytes=200, retention_bytes=3000)


def a_log(directory: Path) -> PartitionLog:
    return transactions(open_log(directory, RETAINED), 12)


def remove(segment: Path) -> None:
    """As a disk does that loses files."""
    for suffix in (*SUFFIXES, SUFFIX):
        segment.with_suffix(suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("count", [1, 2])
def test_offsets_of_first_segments_that_are_lost_are_named_once(tmp_path: Path, count: int) -> None:
    log = a_log(tmp_path)
    log.close()
    paths = segments(log.directory)
    for path in paths[:count]:
        remove(path)
    said = f"no segment has offsets 0 to {int(paths[count].stem) - 1}: deleted before a crash, or lost"
    assert inspect(log.directory, machine_went_down=False).changed == said
    log = opened(log.directory, RETAINED)
    assert log.repairs == (said,)
    log.close()
    assert opened(log.directory, RETAINED).repairs == ()


def test_what_retention_deletes_is_not_lost(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.flush()
    assert log.retain(NOW_MS)
    answers = everything_from(log)
    log.close()
    log = opened(log.directory, RETAINED)
    assert (log.repairs, everything_from(log)) == ((), answers)


def test_killed_while_segments_are_deleted_nothing_is_called_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each of them, and before the first: the epochs' file may say less than is there."""
    delete, left = Segment.delete, 0

    def killed(self: Segment) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        delete(self)

    monkeypatch.setattr(Segment, "delete", killed)
    for steps in range(3):
        log = a_log(tmp_path / str(steps))
        log.flush()
        left = steps
        if steps < 2:
            with pytest.raises(KeyboardInterrupt):
                log.retain(NOW_MS)
        else:
            assert log.retain(NOW_MS) == steps
        log._let_go()
        there = opened(log.directory, RETAINED)
        assert not any("no segment has" in each for each in there.repairs), steps
        assert there.epoch_at(there.start) == 0
        there._let_go()


@pytest.mark.parametrize("went_down", [True, False])
def test_a_log_whose_segments_are_all_gone_is_not_an_empty_one(tmp_path: Path, went_down: bool) -> None:
    """It had no producer snapshot yet. A crash of the machine may undo the names alone."""
    log = open_log(tmp_path, RETAINED)
    append(log, batch(), batch())
    log._let_go()
    (path,) = segments(log.directory)
    remove(path)
    damage = inspect(log.directory, machine_went_down=went_down).damage
    if went_down:
        assert damage is None
        assert opened(log.directory, RETAINED, went_down=True).end == 0
        return
    assert damage is not None
    with pytest.raises(DamagedLog, match="the segments are gone"):
        opened(log.directory, RETAINED)
    cut(damage)
    log = opened(log.directory, RETAINED)
    assert (log.end, log.repairs) == (0, ())


@pytest.mark.parametrize("number", [0, 1, -2, -1])
def test_batches_alone_that_are_lost_are_damage_wherever_they_were(tmp_path: Path, number: int) -> None:
    """A segment that is deleted loses its indexes first, so no killed process leaves them alone."""
    log = a_log(tmp_path)
    log.close()
    paths = segments(log.directory)
    lost = paths[number]
    lost.unlink()
    with pytest.raises(DamagedLog, match="its indexes are there, its batches are not") as raised:
        opened(log.directory, RETAINED)
    found = inspect(log.directory, machine_went_down=False)
    assert found.damage is not None
    base = int(lost.stem)
    assert raised.value.damage == found.damage
    assert (found.damage.segment, found.damage.offset, found.end) == (lost, base, base)
    assert all(path.exists() for path in paths if path != lost), "nothing is cut without a word"
    cut(found.damage)
    log = opened(log.directory, RETAINED)
    assert log.end == base
    log.close()


def everything_from(log: PartitionLog) -> tuple[object, ...]:
    return (log.start, log.end, log.read(log.start, 1_000_000, log.end), log.epoch_at(log.start))
