"""A stopped log is checked whole: each file beside its batches that changed is named, and made again."""

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from fencepost.broker.log.checkpoints import EPOCHS_FILE
from fencepost.broker.log.index_file import INDEX_SUFFIXES
from fencepost.broker.log.producer_snapshot import snapshot_path, snapshots_in
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.segment_sums import save_sums
from fencepost.snapshots.checksums import MADE_AGAIN, SUFFIX, load_sums
from tests.broker.log.sums import everything, opened, segments
from tests.together import table

Closed = tuple[Path, tuple[object, ...]]


def said(directory: Path, *, went_down: bool = False) -> str | None:
    found = inspect(directory, machine_went_down=went_down)
    assert found.damage is None
    return found.changed


@pytest.mark.parametrize("suffix", [*INDEX_SUFFIXES, SUFFIX, ".snapshot"])
def test_a_byte_that_changed_is_named_with_its_file(closed: Closed, suffix: str) -> None:
    directory, _ = closed
    assert said(directory) is None
    for path in sorted(directory.glob(f"*{suffix}")):
        raw = path.read_bytes()
        for at in {*range(0, len(raw), 1 + len(raw) // 8), len(raw) - 1} if raw else ():
            path.write_bytes(raw[:at] + bytes((raw[at] ^ 4,)) + raw[at + 1 :])
            assert path.name in str(said(directory)), at
        path.write_bytes(raw)
    assert said(directory) is None


def test_a_file_of_epochs_that_changed_is_named(closed: Closed) -> None:
    directory, _ = closed
    path = directory / EPOCHS_FILE
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes((raw[at] ^ 4,)) + raw[at + 1 :])
        assert EPOCHS_FILE in str(said(directory)), at
    path.unlink()
    assert EPOCHS_FILE in str(said(directory))
    assert said(directory, went_down=True) is None, "it is not flushed"


@table("suffix", [*INDEX_SUFFIXES, ".snapshot", EPOCHS_FILE])
def test_what_is_named_is_made_again_by_a_start(
    tmp_path_factory: pytest.TempPathFactory, closed: Closed, suffix: str
) -> None:
    source, answers = closed
    directory = tmp_path_factory.mktemp("log") / source.name
    copytree(source, directory)
    path = max(
        (each for each in directory.glob(f"*{suffix}") if each.stat().st_size), key=lambda each: each.name
    )
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 4,)))
    assert "the next start makes it again" in str(said(directory))
    log = opened(directory)
    assert (everything(log), len(log.repairs)) == (answers, 1)
    log.close()
    assert said(directory) is None
    rmtree(directory)


def test_an_older_snapshot_under_the_newest_name_is_named(closed: Closed) -> None:
    directory, _ = closed
    older, newest = snapshots_in(directory)[-2:]
    snapshot_path(directory, newest).write_bytes(snapshot_path(directory, older).read_bytes())
    assert "other producers than were written last" in str(said(directory))


def test_indexes_that_are_being_made_again_are_no_finding(closed: Closed) -> None:
    """A start was killed meanwhile; the next one goes on."""
    directory, _ = closed
    for path in segments(directory):
        save_sums(path, load_sums(path)._replace(offsets=MADE_AGAIN, times=MADE_AGAIN, aborts=MADE_AGAIN))
    assert said(directory) is None


@table("length", [0, 3, 50])
def test_a_torn_file_of_sums_is_a_finding_unless_the_machine_went_down(
    tmp_path_factory: pytest.TempPathFactory, closed: Closed, length: int
) -> None:
    source, _ = closed
    directory = tmp_path_factory.mktemp("log") / source.name
    copytree(source, directory)
    path = min(directory.glob(f"*{SUFFIX}"))
    path.write_bytes(path.read_bytes()[:length])
    assert path.name in str(said(directory))
    assert said(directory, went_down=True) is None
