"""A cleaner was killed between deciding a swap and its end, and a byte of the new segment changed since."""

import contextlib
from itertools import product
from pathlib import Path

import pytest

from fencepost.broker.log import swaps
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment import Segment
from fencepost.broker.log.segment_sums import is_summed
from fencepost.broker.log.swaps import SWAP, finish_swaps
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from tests.broker.log.builders import NOW_MS, crash, open_log
from tests.broker.log.sums import scrub
from tests.broker.log.test_cleaner import CONFIG, clean, committed, play
from tests.broker.log.test_laws import Killed, killed_at

OFFSET_AT = 7  # the last byte of a batch's base offset
FIELDS = (11, 15, 26)  # and those of its length, leader epoch and last offset delta


@pytest.fixture(scope="module")
def swapping(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Logs whose cleaner was killed, one for each step with a decided swap; the first was not cleaned."""
    directory = tmp_path_factory.mktemp("swaps")
    found: list[Path] = []
    for call in range(1, 400):
        log = open_log(directory / f"{call}", CONFIG)
        play(log, 11)
        log.flush()
        if not found:
            found.append(crash(log, directory / "sound") / "topic-0")
        with killed_at(call) as reached, contextlib.suppress(Killed):
            clean(log)
        was_reached = reached()
        left = crash(log, directory / f"{call}-killed") / "topic-0"
        log._let_go()
        if any(left.glob(f"*.log{SWAP}")):
            found.append(left)
        if not was_reached:
            return found
    raise AssertionError


def copied(directory: Path, target: Path) -> Path:
    target.mkdir()
    for each in directory.iterdir():
        (target / each.name).write_bytes(each.read_bytes())
    return target


def answers(log: PartitionLog) -> tuple[object, ...]:
    scrub(log)
    return (committed(log), log.start, log.end)


@pytest.mark.parametrize("has_sums", [True, False], ids=["sums", "of-an-earlier-version"])
def test_no_segment_is_removed_by_what_changed(swapping: list[Path], tmp_path: Path, has_sums: bool) -> None:
    """A changed offset of the last batch said that later segments were replaced, too: they were removed.

    Without sums it is seen where no segment begins at the end that the changed one has.
    """
    sound, *killed = swapping
    expected = answers(PartitionLog.open(copied(sound, tmp_path / "sound"), CONFIG, NOW_MS))
    removed = offline = 0
    for number, left in enumerate(killed[:: 3 if has_sums else 5]):
        (swap,) = left.glob(f"*.log{SWAP}")
        segment = Segment(left, Offset(int(swap.name[:20])), SWAP)
        *_, first, last = (placed.position for placed in segment.walk())
        segment.close()
        bases = {int(each.stem) for each in left.glob("*.log")}
        fields = (last + field for field in FIELDS) if has_sums else ()
        for at, mask in product((last + OFFSET_AT, *fields, first), (1, 4, 8)):
            raw = bytearray(swap.read_bytes())
            raw[at] ^= mask
            changed_end = int.from_bytes(raw[last : last + 8], "big") + 1
            if not has_sums and (at != last + OFFSET_AT or changed_end in bases):
                continue
            folder = copied(left, tmp_path / f"{number}-{at}-{mask}")
            (folder / swap.name).write_bytes(raw)
            if not has_sums:
                (folder / f"{swap.name[:20]}.checksums{SWAP}").unlink()
            assert swap.name in str(inspect(folder, machine_went_down=False).changed)
            before = {each.name for each in folder.glob("*.log*")}
            try:
                log = PartitionLog.open(folder, CONFIG, NOW_MS, machine_went_down=False)
                assert answers(log) == expected, (left, at, mask)
                log._let_go()
                removed += any("what it was to replace is there" in each for each in log.repairs)
            except CorruptData:
                offline += 1
                assert before == {each.name for each in folder.glob("*.log*")}
    assert removed
    assert offline


def test_what_a_killed_pass_decided_is_on_the_disk_before_the_log_goes_on(
    swapping: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine brings segments back that lie in the new one."""
    folder = copied(swapping[1], tmp_path / "killed")
    synced: list[set[str]] = []
    monkeypatch.setattr(swaps, "sync_path", lambda _: synced.append({each.name for each in folder.iterdir()}))
    assert finish_swaps(folder)
    assert synced[-1] == {each.name for each in folder.iterdir()}
    assert not [name for name in synced[-1] if name.endswith(SWAP)]


def test_an_index_that_changed_is_made_again(swapping: list[Path], tmp_path: Path) -> None:
    sound, *killed = swapping
    expected = answers(PartitionLog.open(copied(sound, tmp_path / "sound"), CONFIG, NOW_MS))
    for number, left in enumerate(killed):
        for index in (*left.glob(f"*index{SWAP}"), *left.glob(f"*.checksums{SWAP}")):
            if not index.stat().st_size:
                continue
            folder = copied(left, tmp_path / f"{number}-{index.name}")
            raw = bytearray(index.read_bytes())
            raw[-1] ^= 8
            (folder / index.name).write_bytes(raw)
            log = PartitionLog.open(folder, CONFIG, NOW_MS, machine_went_down=False)
            assert answers(log) == expected, index
            log._let_go()


def test_a_swap_that_ends_well_has_the_sums_of_what_was_meant(swapping: list[Path], tmp_path: Path) -> None:
    for number, left in enumerate(swapping[1:]):
        folder = copied(left, tmp_path / f"{number}")
        (swap,) = folder.glob(f"*.log{SWAP}")
        PartitionLog.open(folder, CONFIG, NOW_MS, machine_went_down=False)._let_go()
        assert is_summed(folder / f"{swap.name[:20]}.log")
        assert not list(folder.glob(f"*{SWAP}"))
