"""The archive after a crash: cut at any byte, appended again; nothing flushed is ever lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.records.types import Log, Offset
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.segments import HOLES_FILE
from tests.examples import examples
from tests.snapshots.archives import BATCH_BYTES, batch, files, filled, flip, offsets, opened, segment
from tests.together import Together


def copied(folder: Path, number: int) -> Path:
    """Another archive like that in ``folder / "whole"``."""
    root = folder / str(number)
    shutil.copytree(folder / "whole", root)
    return root


class TestCrash:
    """Opening after a crash cuts to the last whole batch; what is appended again makes it whole."""

    @pytest.mark.parametrize("whole", range(5), ids="{} batches are whole".format)
    def test_cut_at_any_byte_of_the_tail_and_appended_again(self, tmp_path: Path, whole: int) -> None:
        filled(tmp_path / "whole", 8).close()
        with Together() as cases:
            for torn in range(BATCH_BYTES if whole < 4 else 1):
                with cases.case(f"cut at byte {torn}"):
                    self.cut_and_appended_again(copied(tmp_path, torn), whole, torn)

    def cut_and_appended_again(self, root: Path, whole: int, torn: int) -> None:
        path = segment(root, 4)
        os.truncate(path, whole * BATCH_BYTES + torn)
        archive = opened(root)
        assert archive.end == archive.durable_end == 4 + whole
        if torn:
            assert archive.cut is not None
            assert archive.cut[:3] == (path, whole * BATCH_BYTES, torn)
            assert "the file ends" in archive.cut.reason
        else:
            assert archive.cut is None
        for offset in range(archive.end, 12):
            archive.append(batch(offset))
        archive.close()
        assert offsets(root) == list(range(12))

    @pytest.mark.parametrize("number", range(4), ids="batch-{}".format)
    def test_a_flipped_byte_in_the_tail_cuts_before_its_batch(self, tmp_path: Path, number: int) -> None:
        """Also where the CRC does not look: a base offset or an epoch out of order shows itself.

        The epoch of the very last batch does not: the sum of all of its segment says that one changed.
        """
        filled(tmp_path / "whole", 8).close()
        with Together() as cases:
            for byte in range(BATCH_BYTES):
                with cases.case(f"byte {byte}"):
                    self.flipped(copied(tmp_path, byte), number, byte)

    def flipped(self, root: Path, number: int, byte: int) -> None:
        flip(segment(root, 4), number * BATCH_BYTES + byte)
        archive = opened(root)
        is_summed_alone = number == 3 and 12 <= byte < 16
        assert archive.end == (4 if is_summed_alone else 4 + number)
        assert archive.cut is not None
        for offset in range(archive.end, 12):
            archive.append(batch(offset))
        archive.close()
        again = opened(root)
        assert again.cut is None
        again.close()
        assert offsets(root) == list(range(12))

    def test_zeros_after_a_power_loss_are_cut(self, tmp_path: Path) -> None:
        filled(tmp_path, 6).close()
        with segment(tmp_path, 4).open("ab") as file:
            file.write(bytes(5000))
        archive = opened(tmp_path)
        assert archive.end == 6
        assert archive.cut is not None
        assert "magic 0, expected 2" in archive.cut.reason
        archive.close()
        assert opened(tmp_path).cut is None

    def test_segments_after_a_torn_one_go_too(self, tmp_path: Path) -> None:
        """Rolled but never flushed: a power loss may keep the later file and tear the earlier one."""
        archive = opened(tmp_path)
        for offset in range(10):
            archive.append(batch(offset))
        archive.write()  # no sync: nothing is sealed
        os.truncate(segment(tmp_path, 4), 2 * BATCH_BYTES + 7)
        again = opened(tmp_path)
        assert again.cut is not None
        assert (again.end, again.cut[:3]) == (6, (segment(tmp_path, 4), 2 * BATCH_BYTES, 7))
        assert files(tmp_path) == [f"{base:020d}.log" for base in (0, 4)]
        again.close()

    def test_the_first_segment_that_is_not_sealed_is_read(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        for offset in range(5):
            archive.append(batch(offset))
        archive.write()
        archive.sync()
        for offset in range(5, 10):
            archive.append(batch(offset))
        archive.write()
        assert [segment(tmp_path, base).stat().st_mode & 0o222 for base in (0, 4, 8)] == [0, 0o200, 0o200]
        os.truncate(segment(tmp_path, 4), 2 * BATCH_BYTES + 7)
        again = opened(tmp_path)
        assert (again.end, files(tmp_path)) == (6, [f"{base:020d}.log" for base in (0, 4)])
        again.close()

    def test_segments_after_one_that_lost_whole_batches_go_too(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        for offset in range(10):
            archive.append(batch(offset))
        archive.write()
        os.truncate(segment(tmp_path, 4), 2 * BATCH_BYTES)
        again = opened(tmp_path)
        assert again.end == 6
        assert again.cut is not None
        assert (again.cut.path, again.cut.reason) == (
            segment(tmp_path, 8),
            "it begins at offset 8, expected 6",
        )
        for offset in range(6, 10):
            again.append(batch(offset))
        again.close()
        assert offsets(tmp_path) == list(range(10))

    def test_a_full_segment_that_rotted_at_the_end_is_cut_like_a_tail(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 4)
        archive.start_at(Offset(4))  # nothing to do
        archive.append(batch(4))
        archive.write()
        archive.sync()
        archive.close()
        segment(tmp_path, 4).unlink()
        flip(segment(tmp_path, 0), 3 * BATCH_BYTES + 30)
        again = opened(tmp_path)
        assert again.end == 3
        again.append(batch(3))
        again.close()
        assert offsets(tmp_path) == [0, 1, 2, 3]

    def test_what_is_sealed_is_not_read_again(self, tmp_path: Path) -> None:
        filled(tmp_path, 10).close()
        modes = [segment(tmp_path, base).stat().st_mode & 0o222 for base in (0, 4, 8)]
        assert modes == [0, 0, 0o200]
        flip(segment(tmp_path, 0), 30)
        archive = opened(tmp_path)
        assert (archive.end, archive.cut) == (10, None)
        archive.close()

    @settings(max_examples=examples(80), deadline=None)
    @given(st.lists(st.sampled_from(["append", "append", "write", "sync", "hole", "crash"])), st.randoms())
    def test_what_was_flushed_survives_any_history(
        self, tmp_path_factory: pytest.TempPathFactory, steps: list[str], random: Random
    ) -> None:
        """A power loss takes any bytes and any names that no fsync has seen; the rest is appended again."""
        root = tmp_path_factory.mktemp("archive")
        disk = Disk(root)
        with mock.patch.object(os, "fsync", disk.fsync):
            archive = opened(root)
            appended: dict[int, bytes] = {}
            for step in steps:
                if step == "append":
                    appended[archive.end] = batch(archive.end, random.randint(1, 3))
                    archive.append(appended[archive.end])
                elif step == "write":
                    archive.write()
                elif step == "sync":
                    archive.sync()
                elif step == "hole":
                    archive.start_at(Offset(archive.end + 5))
                else:
                    durable, holes = archive.durable_end, archive.holes()
                    disk.lose_power(random)
                    archive = opened(root)
                    assert archive.end >= durable
                    assert archive.holes() == holes
                    appended = {offset: raw for offset, raw in appended.items() if offset < archive.end}
            archive.close()
        read = list(Archive.read_only(root, Log.METADATA).read())
        assert {stored.header.base_offset: stored.content for stored in read} == appended


class Disk:
    """What a power loss may take from a directory: whatever no fsync has seen."""

    def __init__(self, root: Path) -> None:
        self.directory = root / Log.METADATA.directory
        self.sizes: dict[str, int] = {}  # by name, flushed
        self.names: set[str] = set()

    def fsync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == self.directory:
            self.names = {each.name for each in path.iterdir()}
            self.sizes = {name: size for name, size in self.sizes.items() if name in self.names}
        self.sizes[path.name] = os.fstat(descriptor).st_size

    def lose_power(self, random: Random) -> None:
        for path in sorted(self.directory.glob("*.log")):
            if path.name not in self.names and random.random() < 0.5:
                path.unlink()
                self.sizes.pop(path.name, None)
                continue
            size, mode = path.stat().st_size, path.stat().st_mode
            path.chmod(random.choice([0o644, mode]))  # a seal is not flushed
            os.truncate(path, random.randint(self.sizes.get(path.name, 0), size))


@pytest.mark.parametrize("step", [Path.unlink, os.truncate], ids=["before-the-later-ones-go", "then"])
def test_killed_while_it_begins_again_it_begins_again(tmp_path: Path, step: Callable[..., None]) -> None:
    archive = opened(tmp_path)
    for number in range(12):
        archive.append(batch(number))
    archive.write()  # and nothing of it is flushed
    segment(tmp_path, 0).unlink()
    owner = Path if step is Path.unlink else os
    for is_killed in (True, False):
        again = opened(tmp_path)
        assert again.lost_its_start
        if is_killed:
            killed = mock.patch.object(owner, step.__name__, side_effect=KeyboardInterrupt)
            with killed, pytest.raises(KeyboardInterrupt):
                again.begin_again()
        else:
            again.begin_again()
            assert [again.lost_its_start] == [False]
            assert (again.end, again.holes(), files(tmp_path)) == (0, (), [HOLES_FILE])
            again.close()
