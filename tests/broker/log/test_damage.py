"""Bytes of a log that changed: torn ends are cut, anything else is named and kept, and repaired on demand."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker.log import repair
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import cut, inspect
from fencepost.records.types import Offset
from fencepost.snapshots.flushes import sync_path
from tests.broker.log.builders import NOW_MS, UNVERIFIED, append, batch, contents, open_log, patched, read_all
from tests.broker.log.test_recovery import SMALL, start
from tests.together import table

COUNT = 4


def opened(directory: Path, *, went_down: bool) -> PartitionLog:
    return PartitionLog.open(directory / "topic-0", UNVERIFIED, NOW_MS, machine_went_down=went_down)


def small(directory: Path) -> tuple[Path, bytes, int]:
    """A killed log of ``COUNT`` batches of one size: its segment, its bytes, the size of each batch."""
    log = open_log(directory)
    append(log, *(batch(7, number) for number in range(COUNT)))
    raw = read_all(log)
    log._let_go()
    return log.directory / f"{0:020d}.log", raw, len(raw) // COUNT


def flipped(raw: bytes, position: int, bits: int = 1) -> bytes:
    return raw[:position] + bytes((raw[position] ^ bits,)) + raw[position + 1 :]


@table("bits", [0x01, 0x40, 0x80])
def test_after_the_death_of_a_process_every_flipped_byte_is_named_and_kept(tmp_path: Path, bits: int) -> None:
    path, raw, size = small(tmp_path)
    for position in range(len(raw)):
        changed = flipped(raw, position, bits)
        path.write_bytes(changed)
        with pytest.raises(DamagedLog) as caught:
            opened(tmp_path, went_down=False)
        damage = caught.value.damage
        assert damage.position == position // size * size
        assert damage.offset == position // size
        assert "storage repair --partition topic-0" in str(damage)
        assert path.read_bytes() == changed


def test_after_a_crash_of_the_machine_only_the_last_batch_may_be_torn(tmp_path: Path) -> None:
    """An epoch is not under the checksum, and no file of epochs was flushed: a higher one is believed."""
    path, raw, size = small(tmp_path)
    for position in range(len(raw)):
        path.write_bytes(flipped(raw, position, 0x41))
        number, at = divmod(position, size)
        try:
            log = opened(tmp_path, went_down=True)
        except DamagedLog:
            assert number < COUNT - 1 or at < 8, "the last batch is whole, at another offset"
            assert path.read_bytes() == flipped(raw, position, 0x41)
            continue
        if 12 <= at < 16:
            assert log.end == COUNT
        else:
            assert (number, log.end) == (COUNT - 1, COUNT - 1)
        log._let_go()
        (path.parent / "leader-epoch-checkpoint").write_text("0\n0\n")


@table("went_down", [False, True])
def test_a_torn_end_is_cut_at_every_byte_and_nothing_else(tmp_path: Path, went_down: bool) -> None:
    path, raw, size = small(tmp_path)
    for length in range(len(raw) - size + 1, len(raw)):
        path.write_bytes(raw[:length])
        log = opened(tmp_path, went_down=went_down)
        assert (log.end, path.read_bytes()) == (COUNT - 1, raw[:-size])
        assert log.repairs[0].startswith(f"{path.name}: cut at position {len(raw) - size} of {length}")
        log._let_go()


def test_pages_that_never_reached_the_disk_are_torn_only_if_the_machine_went_down(tmp_path: Path) -> None:
    path, raw, size = small(tmp_path)
    for zeros in (4, size - 70, size - 20, size):
        path.write_bytes(raw[:-zeros] + bytes(zeros))
        with pytest.raises(DamagedLog):
            opened(tmp_path, went_down=False)
        log = opened(tmp_path, went_down=True)
        assert (log.end, path.read_bytes()) == (COUNT - 1, raw[:-size])
        log._let_go()


def test_a_whole_batch_behind_a_torn_one_is_damage_at_any_distance(tmp_path: Path) -> None:
    path, raw, size = small(tmp_path)
    last = raw[-size:]
    for gap in (0, 1, 7, size - 1, size + 3):
        path.write_bytes(raw[:-size] + b"\x02" * gap + struct.pack(">q", COUNT + 5) + last[8:])
        with pytest.raises(DamagedLog) as caught:
            opened(tmp_path, went_down=True)
        assert caught.value.damage.whole == (len(raw) - size + gap, COUNT + 5)


def test_a_batch_inside_a_record_of_a_torn_one_is_not_behind_it(tmp_path: Path) -> None:
    path, raw, _ = small(tmp_path)
    outer = struct.pack(">q", COUNT) + batch(7, COUNT, value=batch(9, 0) * 3)[8:]
    path.write_bytes(raw + outer[:-1])
    for went_down in (False, True):
        log = opened(tmp_path, went_down=went_down)
        assert (log.end, path.read_bytes()) == (COUNT, raw)
        log._let_go()
        path.write_bytes(raw + outer[:-1])


def test_bytes_like_headers_are_searched_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, raw, size = small(tmp_path)
    alike = patched(struct.pack(">q", COUNT) + raw[8:size], 30, b"\0")
    path.write_bytes(raw + flipped(alike, size - 1) * 20 + b"\0")
    monkeypatch.setattr("fencepost.records.whole_batches.SEARCHED_BYTES_MAX", size * 10)
    with pytest.raises(DamagedLog) as caught:
        opened(tmp_path, went_down=True)
    assert caught.value.damage.whole is not None


def a_torn_segment(directory: Path) -> str:
    second = sorted(directory.glob("*.log"))[1]
    second.write_bytes(second.read_bytes()[:-1])
    return "later segments have batches"


def a_missing_segment(directory: Path) -> str:
    sorted(directory.glob("*.log"))[1].unlink()
    return "it begins at offset|its indexes are there"


def no_segments(directory: Path) -> str:
    for path in directory.glob("*.log"):
        path.unlink()
    return "the segments are gone"


def an_end_below_the_recovery_point(directory: Path) -> str:
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    return "bytes, only"


def an_end_between_two_batches(directory: Path) -> str:
    last = max(directory.glob("*.log"))
    raw = last.read_bytes()
    sizes: list[int] = []
    while sum(sizes) < len(raw):
        sizes.append(struct.unpack_from(">i", raw, sum(sizes) + 8)[0] + 12)
    last.write_bytes(raw[: -sizes[-1]])
    return "on the disk"


@table(
    ("damaging", "is_closed"),
    [
        (a_torn_segment, False),
        (a_missing_segment, False),
        (no_segments, True),
        (an_end_below_the_recovery_point, True),
        (an_end_between_two_batches, True),
    ],
)
@table("went_down", [False, True])
def test_what_no_crash_leaves_is_kept_and_repaired_on_demand(
    tmp_path: Path, damaging: object, is_closed: bool, went_down: bool
) -> None:
    log = start(tmp_path)
    end = log.end
    if is_closed:
        log.close()
    else:
        log._let_go()
        for snapshot in log.directory.glob("*.snapshot"):
            snapshot.unlink()
    assert callable(damaging)
    words = damaging(log.directory)
    kept = {path.name: path.read_bytes() for path in log.directory.glob("*.log")}
    with pytest.raises(DamagedLog, match=words):
        PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=went_down)
    assert {path.name: path.read_bytes() for path in log.directory.glob("*.log")} == kept
    found = inspect(log.directory, machine_went_down=went_down)
    assert found.damage is not None
    assert found.lost is not None
    cut(found.damage)
    mended = PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=went_down)
    assert mended.end == found.damage.offset <= end
    append(mended, batch())
    mended.close()
    assert inspect(log.directory, machine_went_down=went_down).damage is None


@table(("at", "deleted_before"), [(0, 1), (1, 2), (1, COUNT + 3), (None, COUNT + 1)])
def test_a_log_cut_before_the_offset_it_begins_at_is_empty_from_there_on(
    tmp_path: Path, at: int | None, deleted_before: int
) -> None:
    """Damage in records that were deleted: what is kept before it would end before the log begins."""
    path, raw, size = small(tmp_path)
    start = Offset(deleted_before)
    if at is not None:
        path.write_bytes(flipped(raw, at * size + 40))
    found = inspect(path.parent, machine_went_down=False, deleted_before=start)
    assert found.damage is not None
    assert found.damage.offset == (COUNT if at is None else at)
    cut(found.damage, deleted_before=start)
    assert inspect(path.parent, machine_went_down=False, deleted_before=start).damage is None
    log = opened(tmp_path, went_down=False)
    assert (log.start, log.end) == (start, start)
    append(log, batch(7, 0))
    assert log.end == start + 1
    log.close()
    again = opened(tmp_path, went_down=False)
    assert again.end == start + 1
    again.close()


def test_flipped_bytes_before_the_recovery_point_are_found(tmp_path: Path) -> None:
    """Where an index is made again, and the log read for it."""
    log = start(tmp_path)
    log.close()
    min(log.directory.glob("*.index")).unlink()
    first = min(log.directory.glob("*.log"))
    raw = first.read_bytes()
    for position in (0, 20, 70, len(raw) - 1):
        first.write_bytes(flipped(raw, position))
        with pytest.raises(DamagedLog):
            PartitionLog.open(log.directory, SMALL, NOW_MS, machine_went_down=True)
        assert first.read_bytes() == flipped(raw, position)


def test_what_was_on_the_disk_is_never_torn(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, *(batch(7, number) for number in range(COUNT)))
    log.close()
    path = log.directory / f"{0:020d}.log"
    raw = path.read_bytes()
    path.with_suffix(".index").unlink()
    path.write_bytes(raw[:-1])
    with pytest.raises(DamagedLog, match="it was on the disk once"):
        opened(tmp_path, went_down=True)
    assert path.read_bytes() == raw[:-1]


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many more changes of a directory happen before the process dies."""
    left = [0]

    def change(original: object) -> object:
        def call(*words: object, **named: object) -> object:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            assert callable(original)
            return original(*words, **named)

        return call

    monkeypatch.setattr(Path, "unlink", change(Path.unlink))
    monkeypatch.setattr(repair, "sync_path", change(sync_path))
    yield left
    left[0] = -1


def test_a_repair_that_is_killed_at_any_step_goes_on(tmp_path: Path, dying: list[int]) -> None:
    """And leaves the log damaged until it is done: nothing opens half of it."""
    dying[0] = -1
    log = start(tmp_path / "whole")
    log.close()
    before = contents(PartitionLog.open(log.directory, SMALL, NOW_MS))
    assert before
    second = sorted(log.directory.glob("*.log"))[1]
    raw = second.read_bytes()
    for steps in range(200):
        directory = tmp_path / f"killed-{steps}" / "topic-0"
        directory.mkdir(parents=True)
        for path in log.directory.iterdir():
            (directory / path.name).write_bytes(path.read_bytes())
        (directory / second.name).write_bytes(flipped(raw, 40))
        damage = inspect(directory, machine_went_down=False).damage
        assert damage is not None
        dying[0] = steps
        try:
            cut(damage)
            is_done = True
        except KeyboardInterrupt:
            is_done = False
        dying[0] = -1
        if not is_done:
            again = inspect(directory, machine_went_down=False).damage
            if again is not None:
                cut(again)
        mended = PartitionLog.open(directory, SMALL, NOW_MS, machine_went_down=False)
        assert mended.end == damage.offset
        mended._let_go()
        if is_done:
            break
    assert 5 < steps < 199


def test_what_a_cut_would_lose_is_counted(tmp_path: Path) -> None:
    path, raw, size = small(tmp_path)
    path.write_bytes(flipped(raw, size + 30))
    found = inspect(path.parent, machine_went_down=False)
    assert found.lost is not None
    lost = found.lost
    assert (lost.size, lost.batches, lost.first, lost.last) == (3 * size, 2, 2, 3)
    assert (found.start, found.end, found.torn) == (0, 1, None)


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    path, raw, _ = small(tmp_path)
    path.write_bytes(raw[:-1])
    found = inspect(path.parent, machine_went_down=False)
    assert found.damage is None
    assert found.torn is not None
    assert path.read_bytes() == raw[:-1], "inspecting changes nothing"
