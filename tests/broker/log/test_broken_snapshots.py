"""A snapshot of producers that is broken still says, by its name, that what is before it was on the disk.

It is written once that is flushed, durably. So a start that takes an older one cuts nothing before it, and
says what ``storage repair`` and ``storage verify`` say.
"""

import os
from pathlib import Path
from shutil import copytree

import pytest

from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.broker.log.repair import cut, inspect
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
