"""The segment that is appended to, below the recovery point: a start reads it by its sums alone."""

from pathlib import Path

import pytest

from fencepost.broker.log import segment_sums
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment_sums import is_summed, save_sums
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Term
from fencepost.snapshots.checksums import load_sums
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import NOW_MS, batch, open_log
from tests.broker.log.sums import everything, opened, scrub, segments
from tests.broker.log.test_recovery import transactions
from tests.together import table

ONE_SEGMENT = LogConfig(verification=False, index_interval_bytes=100)


def active(directory: Path) -> Path:
    """A closed log of one segment, in two leader epochs; the path of the segment."""
    log = open_log(directory, ONE_SEGMENT)
    transactions(log, 2)
    add(log, batch(), batch())
    log.close()
    (path,) = segments(log.directory)
    assert is_summed(path)
    return path


def cut_on_demand(path: Path, *, went_down: bool) -> None:
    """What is offline by name can be repaired by the command that is named."""
    found = inspect(path.parent, machine_went_down=went_down)
    assert found.damage is not None
    cut(found.damage)
    log = opened(path.parent, ONE_SEGMENT, went_down=went_down)
    assert log.end == found.damage.offset
    log._let_go()


@table("went_down", [False, True])
def test_below_the_recovery_point_every_flipped_bit_is_named_and_kept(
    tmp_path: Path, went_down: bool
) -> None:
    path = active(tmp_path)
    raw = path.read_bytes()
    size = len(batch())
    files = {each: each.read_bytes() for each in path.parent.iterdir()}
    for position in range(len(raw)):
        changed = raw[:position] + bytes((raw[position] ^ 1 << position % 8,)) + raw[position + 1 :]
        path.write_bytes(changed)
        with pytest.raises(DamagedLog, match=f"{path.name}: damaged at position"):
            opened(path.parent, ONE_SEGMENT, went_down=went_down)
        assert path.read_bytes() == changed
        if position > len(raw) - size or position % 5 == 0:
            cut_on_demand(path, went_down=went_down)
        for each in path.parent.iterdir():
            each.unlink()
        for each, content in files.items():
            each.write_bytes(content)
    log = opened(path.parent, ONE_SEGMENT, went_down=went_down)
    assert log.repairs == ()
    log._let_go()


def add(log: PartitionLog, *batches: bytes) -> None:
    for each in batches:
        log.append(each, NOW_MS, Term(2))


def stale(path: Path) -> None:
    """As an earlier version leaves them, which cuts a log and fills it: of other bytes."""
    known = load_sums(path)
    save_sums(path, known._replace(batches=Summed(known.batches.size, known.batches.crc ^ 1)))


@table("went_down", [False, True])
def test_sums_of_other_bytes_are_made_anew_and_take_no_partition_offline(
    tmp_path: Path, went_down: bool
) -> None:
    path = active(tmp_path)
    log = opened(path.parent, ONE_SEGMENT)
    answers = everything(log)
    log._let_go()
    stale(path)
    log = opened(path.parent, ONE_SEGMENT, went_down=went_down)
    assert log.repairs == (f"{path.stem}: read again, its batches are not as they were summed",)
    assert everything(log) == answers
    assert inspect(path.parent, machine_went_down=went_down).changed is None
    add(log, batch())
    log.close()
    assert is_summed(path), "with the next snapshot"
    log = opened(path.parent, ONE_SEGMENT, went_down=went_down)
    assert log.repairs == (), "once"
    log._let_go()


def test_killed_while_it_is_read_again_the_next_start_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = active(tmp_path)
    raw = path.read_bytes()
    changed = raw[:-1] + bytes((raw[-1] ^ 1,))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("begin_indexes", "end_indexes", "forget_batches"):
        stale(path)
        with monkeypatch.context() as patch:
            patch.setattr(segment_sums, step, killed)
            with pytest.raises(KeyboardInterrupt):
                opened(path.parent, ONE_SEGMENT)
        path.write_bytes(changed)
        with pytest.raises(DamagedLog):
            opened(path.parent, ONE_SEGMENT)
        path.write_bytes(raw)
        log = opened(path.parent, ONE_SEGMENT)
        assert log.repairs
        add(log, batch())
        log.close()
        raw = path.read_bytes()
        changed = raw[:-1] + bytes((raw[-1] ^ 1,))


def test_of_an_older_snapshot_what_lies_behind_it_is_no_difference(tmp_path: Path) -> None:
    """The newest snapshot is lost, and a machine's crash tore the end: the sums cover more than is there."""
    path = active(tmp_path)
    (first,) = path.parent.glob("*.snapshot")
    kept = first.read_bytes()
    log = opened(path.parent, ONE_SEGMENT)
    add(log, *(batch(timestamp_ms=NOW_MS + 1) for _ in range(3)))
    log.close()
    for each in path.parent.glob("*.snapshot"):
        each.unlink()
    first.write_bytes(kept)
    path.write_bytes(path.read_bytes()[:-1])
    log = opened(path.parent, ONE_SEGMENT, went_down=True)
    assert log.end == int(first.stem) + 2
    log.close()
    log = opened(path.parent, ONE_SEGMENT)
    assert log.repairs == ()
    log._let_go()


def test_a_start_compares_no_more_than_it_reads_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = active(tmp_path)
    size = path.stat().st_size
    stale(path)
    monkeypatch.setattr(segment_sums, "COMPARED_BYTES_MAX", size - 1)
    log = opened(path.parent, ONE_SEGMENT)
    assert log.repairs == (), "not compared: 'fencepost storage verify' does"
    log._let_go()
    assert inspect(path.parent, machine_went_down=False).changed is not None
    monkeypatch.setattr(segment_sums, "COMPARED_BYTES_MAX", size)
    log = opened(path.parent, ONE_SEGMENT)
    assert log.repairs
    log._let_go()


def test_the_scrub_finds_that_bytes_without_a_sum_are_gone(tmp_path: Path) -> None:
    """Of the segment that is appended to; its whole file, too."""
    log = open_log(tmp_path, ONE_SEGMENT)
    add(log, batch(), batch())
    scrub(log)
    (path,) = segments(log.directory)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(CorruptData, match=f"has {len(raw) - 1} bytes, and {len(raw)} bytes were written"):
        scrub(log)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        scrub(log)
