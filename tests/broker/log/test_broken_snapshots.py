"""A snapshot of producers that is broken still says, by its name, that what is before it was on the disk.

It is written once that is flushed, durably. So a start that takes an older one cuts nothing before it, and
says what ``storage repair`` and ``storage verify`` say.
"""

import os
from pathlib import Path
from shutil import copytree

import pytest

from fencepost.broker.log.cleaned_end import save_cleaned_end
from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.broker.log.repair import cut, inspect
from fencepost.broker.log.segment import Placed, Segment
from fencepost.broker.log.segment_sums import save_sums
from fencepost.records.types import Offset
from fencepost.snapshots.checksums import forget_sums, load_sums
from fencepost.snapshots.file_sums import Summed
from tests.broker.log.builders import SMALL, append, batch, open_log
from tests.broker.log.sums import everything, opened, segments
from tests.together import table

Closed = tuple[Path, tuple[object, ...]]


def broken(source: Path, directory: Path) -> Path:
    """A copy of a closed log whose newest snapshot has another bit; its last segment that has batches."""
    copytree(source, directory)
    path = snapshot_path(directory, snapshots_in(directory)[-1])
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    return [each for each in segments(directory) if each.stat().st_size][-1]


def contents(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir()}


@table("went_down", [False, True])
@table("taken", [1, 40, "a batch"])
def test_a_start_cuts_nothing_that_was_on_the_disk(
    tmp_path_factory: pytest.TempPathFactory, closed: Closed, taken: int | str, went_down: bool
) -> None:
    source, _ = closed
    directory = tmp_path_factory.mktemp("log") / source.name
    last = broken(source, directory)
    size = last.stat().st_size
    if taken == "a batch":
        os.truncate(last, size - last_batch_bytes(last))
    else:
        os.truncate(last, size - int(taken))
    before = contents(directory)
    shown = inspect(directory, machine_went_down=went_down).damage
    assert shown is not None
    with pytest.raises(DamagedLog) as raised:
        opened(directory, went_down=went_down)
    assert (raised.value.damage.segment, raised.value.damage.offset) == (shown.segment, shown.offset)
    assert contents(directory) == before
    cut(shown)
    opened(directory, went_down=went_down).close()


def test_without_a_file_of_sums_its_own_checksum_says_that_it_changed(tmp_path: Path, closed: Closed) -> None:
    """Earlier versions write none; after a crash of the machine it may be gone."""
    source, answers = closed
    directory = tmp_path / "copy" / source.name
    broken(source, directory)
    for path in segments(directory):
        forget_sums(path)
    log = opened(directory, went_down=True)
    (said,) = [each for each in log.repairs if ".snapshot: removed" in each]
    assert "CRC" in said
    assert everything(log) == answers
    log.close()


def last_batch_bytes(segment: Path) -> int:
    raw, at, size = segment.read_bytes(), 0, 0
    while at < len(raw):
        size = 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
        at += size
    return size


def test_a_whole_log_opens_and_the_broken_one_goes(tmp_path: Path, closed: Closed) -> None:
    source, answers = closed
    directory = tmp_path / source.name
    broken(source, directory)
    newest = snapshot_path(directory, snapshots_in(directory)[-1])
    log = opened(directory)
    assert everything(log) == answers
    assert [newest.name in each for each in log.repairs] == [True]
    assert not newest.exists()
    log.close()


def placed(directory: Path) -> list[tuple[Path, Placed]]:
    """Every batch of a log's files."""
    found = []
    for path in segments(directory):
        segment = Segment(directory, Offset(int(path.stem)))
        found += [(path, each) for each in segment.walk()]
        segment.close()
    return found


@pytest.fixture
def wide(tmp_path: Path) -> tuple[Closed, Path]:
    """A closed log with a batch of three records, and its snapshot, in the middle of it by its name."""
    log = open_log(tmp_path / "a", SMALL)
    append(log, batch(1, 0, count=3))
    answers = everything(log)
    log.close()
    return (log.directory, answers), named(log.directory, Offset(2))


def named(directory: Path, offset: Offset) -> Path:
    """The newest snapshot, under another name; the others are gone."""
    (*older, newest) = snapshots_in(directory)
    for each in older:
        snapshot_path(directory, each).unlink()
    return snapshot_path(directory, newest).rename(snapshot_path(directory, offset))


def test_one_with_the_name_of_a_place_in_a_batch_is_not_believed(
    wide: tuple[Closed, Path],
) -> None:
    """As a copy by hand leaves it. The start took the log offline, ``storage repair`` called it sound."""
    (directory, answers), snapshot = wide
    shown = inspect(directory, machine_went_down=False)
    assert shown.damage is None
    assert str(shown.changed).startswith(snapshot.name)
    log = opened(directory)
    assert any(each.startswith(snapshot.name) for each in log.repairs)
    assert everything(log) == answers
    log.close()
    assert not snapshot.exists()


def test_where_the_batches_are_what_changed_it_is_believed(wide: tuple[Closed, Path]) -> None:
    """Start and repair say the same of it, and the repair takes effect."""
    (directory, _), snapshot = wide
    (segment,) = segments(directory)
    sums = load_sums(segment)
    save_sums(segment, sums._replace(batches=Summed(sums.batches.size, sums.batches.crc ^ 1)))
    require_the_same(directory)
    assert not snapshot.exists()


def test_one_before_a_batch_that_a_cleaner_never_left_so_is_believed(tmp_path: Path, closed: Closed) -> None:
    """Below the cleaned end offsets may be gone, but not the end of the last batch before a snapshot."""
    source, _ = closed
    directory = tmp_path / "copy" / source.name
    copytree(source, directory)
    batches = placed(directory)
    number = max(n for n, (segment, _) in enumerate(batches) if is_within(segment, batches[n - 1 : n + 2]))
    segment, gone = batches[number]
    raw = segment.read_bytes()
    segment.write_bytes(raw[: gone.position] + raw[gone.position + gone.size :])
    forget_sums(segment)
    save_cleaned_end(directory, batches[-1][1].end)
    named(directory, gone.end)
    require_the_same(directory)


def is_within(segment: Path, batches: list[tuple[Path, Placed]]) -> bool:
    """One before and one behind it are in the segment, too."""
    return [path for path, _ in batches] == [segment] * 3


def require_the_same(directory: Path) -> None:
    shown = inspect(directory, machine_went_down=False).damage
    assert shown is not None
    with pytest.raises(DamagedLog) as raised:
        opened(directory)
    found = raised.value.damage
    assert (found.segment, found.offset, found.reason) == (shown.segment, shown.offset, shown.reason)
    cut(shown)
    opened(directory).close()
