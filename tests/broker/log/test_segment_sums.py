"""Checksums beside a segment: an index that changed is made again, a segment that shrank is damage."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import SUFFIX, SegmentSums, Summed, load_sums, save_sums
from fencepost.records.types import Offset
from tests.broker.log.builders import NOW_MS, append, batch, contents, memory
from tests.broker.log.test_recovery import SMALL, start

EPOCH_AT = 15  # the last byte of a batch's leader epoch


def everything(log: PartitionLog) -> tuple[object, ...]:
    """What clients are answered: also what only an index says."""
    offsets = [Offset(offset) for offset in range(log.end)]
    return (
        contents(log),
        [log.read_committed(offset, 300) for offset in offsets],
        [log.offset_for_time(NOW_MS + number) for number in range(14)],
        memory(log),
    )


@pytest.fixture
def closed(tmp_path: Path) -> tuple[Path, tuple[object, ...]]:
    """A log of several segments, its directory, and what it answers."""
    log = start(tmp_path / "a")
    answers = everything(log)
    log.close()
    return log.directory, answers


def opened(directory: Path, *, went_down: bool = False) -> PartitionLog:
    return PartitionLog.open(directory, SMALL, NOW_MS, machine_went_down=went_down)


def changed(raw: bytes) -> Iterator[bytes]:
    for position in range(0, len(raw), 7):
        yield raw[:position] + bytes((raw[position] ^ 0x01,)) + raw[position + 1 :]
    if raw:
        yield raw[: -(34 if len(raw) % 34 == 0 else 12 if len(raw) % 12 == 0 else 8)]
        yield b""


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_that_changed_is_made_again_before_it_is_used(
    tmp_path: Path, closed: tuple[Path, tuple[object, ...]], suffix: str
) -> None:
    """In a full segment and in the last one, whatever byte it is, and if entries are missing at its end."""
    directory, answers = closed
    for path in sorted(directory.glob(f"*{suffix}")):
        for raw in changed(path.read_bytes()):
            copy = tmp_path / "copy"
            copytree(directory, copy)
            (copy / path.name).write_bytes(raw)
            log = opened(copy)
            assert log.repairs, (path.name, raw)
            assert everything(log) == answers, (path.name, raw)
            log._let_go()
            rmtree(copy)


def test_a_log_with_sums_opens_without_a_repair(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    assert len(list(directory.glob(f"*{SUFFIX}"))) == len(list(directory.glob("*.log")))
    log = opened(directory)
    assert log.repairs == ()
    assert everything(log) == answers
    append(log, *(batch() for _ in range(40)))
    again = everything(log)
    log.close()
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), again)
    log.close()


def test_a_full_segment_that_shrank_is_damage_and_repaired_on_demand(
    tmp_path: Path, closed: tuple[Path, tuple[object, ...]]
) -> None:
    """Also where a batch ends: no checksum of a batch says that another one followed."""
    directory, _ = closed
    first = min(directory.glob("*.log"))
    raw = first.read_bytes()
    size = int.from_bytes(raw[8:12], "big") + 12
    for length in (0, 10, size, len(raw) - 1):
        copy = tmp_path / "copy"
        copytree(directory, copy)
        (copy / first.name).write_bytes(raw[:length])
        with pytest.raises(DamagedLog, match="bytes of it were on the disk"):
            opened(copy)
        found = inspect(copy, machine_went_down=False)
        assert found.damage is not None
        cut(found.damage)
        mended = opened(copy)
        append(mended, batch())
        mended.close()
        assert inspect(copy, machine_went_down=False).damage is None
        rmtree(copy)


def test_bytes_that_no_batch_checks_are_named_by_a_look_at_all(
    closed: tuple[Path, tuple[object, ...]],
) -> None:
    """The leader epoch of a segment's last batch: no checksum of its own covers it, and none follows."""
    directory, _ = closed
    assert inspect(directory, machine_went_down=False).changed is None
    path = min(directory.glob("*.log"))
    *_, last = Segment(directory, Offset(0)).walk()
    raw = bytearray(path.read_bytes())
    raw[last.position + EPOCH_AT] ^= 0x01
    path.write_bytes(raw)
    found = inspect(directory, machine_went_down=False)
    assert found.damage is None
    assert path.name in str(found.changed)


def test_a_directory_of_an_earlier_version_opens_and_is_summed_with_the_next_snapshot(
    closed: tuple[Path, tuple[object, ...]],
) -> None:
    directory, answers = closed
    for path in directory.glob(f"*{SUFFIX}"):
        path.unlink()
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), answers)
    append(log, batch())
    log.close()
    assert len(list(directory.glob(f"*{SUFFIX}"))) == len(list(directory.glob("*.log")))


def test_a_file_of_sums_that_changed_says_nothing(closed: tuple[Path, tuple[object, ...]]) -> None:
    directory, answers = closed
    path = min(directory.glob(f"*{SUFFIX}"))
    whole = path.read_bytes()
    for raw in changed(whole):
        path.write_bytes(raw)
        assert load_sums(path) is None
    log = opened(directory)
    assert (log.repairs, everything(log)) == ((), answers)
    log._let_go()


def test_sums_come_back(tmp_path: Path) -> None:
    sums = SegmentSums(Summed(5, 6), Summed(0, 0), Summed(2**40, 2**32 - 1), Summed(2**64 - 1, 0))
    save_sums(tmp_path / "1.log", sums)
    assert load_sums(tmp_path / "1.log") == sums
    assert load_sums(tmp_path / "2.log") is None
