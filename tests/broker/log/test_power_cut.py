"""A power cut at any time: what was flushed is there, and what is there agrees with itself."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from fencepost.broker.log.partition_log import PartitionLog
from tests.broker.log.builders import NOW_MS, append, batch, contents, end_transaction, memory
from tests.broker.log.test_laws import CONFIG, Played, Step, steps, stored
from tests.examples import examples


class Disk:
    """What a power cut leaves at worst: of each file what its last flush put there, names as flushed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._flushed: dict[int, bytes] = {}  # by inode, which no two files share while the test runs
        self._names: dict[str, int] = {}
        self._kept: list[int] = []  # descriptors, so that no inode is given to another file

    def adopt(self) -> None:
        """Everything there is was flushed long ago."""
        self._names = {entry.name: entry.stat().st_ino for entry in self.directory.iterdir()}
        self._flushed = {entry.stat().st_ino: entry.read_bytes() for entry in self.directory.iterdir()}

    def sync(self, descriptor: int) -> None:
        """In place of fsync and fdatasync."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == self.directory:
            self._names = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        elif path.parent == self.directory:
            self._flushed[os.fstat(descriptor).st_ino] = path.read_bytes()
            self._kept.append(os.dup(descriptor))

    def after_power_cut(self, directory: Path) -> Path:
        """Another directory with what is left."""
        directory.mkdir(parents=True)
        for name, inode in self._names.items():
            (directory / name).write_bytes(self._flushed.get(inode, b""))
        return directory

    def close(self) -> None:
        """Inodes may be used again."""
        for descriptor in self._kept:
            os.close(descriptor)


@settings(max_examples=examples(60))
@given(steps)
def test_what_was_flushed_survives_a_power_cut(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        directory = Path(made)
        disk = Disk(directory / "log" / "topic-0")
        patch.setattr(os, "fsync", disk.sync)
        patch.setattr(os, "fdatasync", disk.sync)
        played = Played(directory / "log")
        end, batches = 0, stored(played.log)
        for step in history:
            if step[0] == "truncate":
                continue  # what is cut away without a flush may come back
            played.play(step)
            if step[0] in {"flush", "restart"}:
                end, batches = played.log.end, stored(played.log)
        cut = PartitionLog.open(disk.after_power_cut(directory / "cut" / "topic-0"), CONFIG, NOW_MS)
        disk.close()
        assert cut.end >= end
        there = stored(cut)
        assert all(there[offset] == raw for offset, raw in batches.items() if offset >= played.log.start)
        if played.log.end == cut.end:
            assert memory(cut) == memory(played.log)
            assert cut.last_stable_offset == played.log.last_stable_offset
            first = played.log.start
            assert cut.aborted(first, cut.end) == played.log.aborted(first, cut.end)
        assert not [repair for repair in cut.repairs if "snapshot" in repair]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """The disk under the log of ``tmp_path / "log"``."""
    made = Disk(tmp_path / "log" / "topic-0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", made.sync)
        patch.setattr(os, "fdatasync", made.sync)
        yield made
    made.close()


def test_after_each_flush_a_power_cut_changes_nothing(tmp_path: Path, disk: Disk) -> None:
    """Aborted transactions above all: a transaction index that lost its end looks sound."""
    played = Played(tmp_path / "log")
    for number in range(60):
        append(played.log, batch(number % 3, number // 3, transactional=True), batch())
        if number % 2:
            end_transaction(played.log, number % 3, committed=False, version=number)
        if number % 5:
            continue
        played.log.flush()
        cut = PartitionLog.open(disk.after_power_cut(tmp_path / f"{number}" / "topic-0"), CONFIG, NOW_MS)
        assert contents(cut) == contents(played.log)
        assert set(cut.repairs) <= {"leader-epoch-checkpoint: made again from the batches"}
        cut._let_go()


def test_an_index_that_was_made_again_is_on_the_disk(tmp_path: Path, disk: Disk) -> None:
    played = Played(tmp_path / "log")
    for number in range(30):
        append(played.log, batch(1, number, transactional=True))
        end_transaction(played.log, 1, committed=False)
    played.log.close()
    disk.adopt()
    for path in disk.directory.glob("*.txnindex"):
        path.write_bytes(b"torn")
    disk.adopt()
    mended = played.open()
    assert mended.repairs
    cut = PartitionLog.open(disk.after_power_cut(tmp_path / "cut" / "topic-0"), CONFIG, NOW_MS)
    assert contents(cut) == contents(mended)
    assert cut.repairs == ()
