"""The archive as read beside its writer: every bad byte is named with file and position."""

import os
from pathlib import Path

import pytest

from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.segments import EpochFell, TornTail
from tests.snapshots.archives import ALL, BATCH_BYTES, batch, filled, flip, offsets, opened, segment
from tests.together import table


class TestReading:
    """A reader changes nothing; it ends before a batch being written, and names every other bad byte."""

    @table("kept", range(BATCH_BYTES))
    def test_a_write_in_progress_ends_the_reading(self, tmp_path: Path, kept: int) -> None:
        filled(tmp_path, 6).close()
        path = segment(tmp_path, 4)
        os.truncate(path, BATCH_BYTES + kept)
        assert offsets(tmp_path) == list(range(5))
        assert path.stat().st_size == BATCH_BYTES + kept

    @table("position", [*range(12), *range(16, BATCH_BYTES)])
    def test_a_corrupt_middle_segment_is_named_with_file_and_position(
        self, tmp_path: Path, position: int
    ) -> None:
        filled(tmp_path, 12).close()
        path = segment(tmp_path, 4)
        flip(path, 2 * BATCH_BYTES + position)
        reading = Archive.read_only(tmp_path, Log.METADATA).read()
        assert [next(reading).header.base_offset for _ in range(4)] == list(range(4)), "none of that segment"
        with pytest.raises(CorruptData, match=f"{path}, position {2 * BATCH_BYTES}: "):
            next(reading)

    def test_an_epoch_that_falls_is_named(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        for offset, epoch in enumerate([1, 5, 4]):
            archive.append(batch(offset, epoch=epoch))
        archive.close()
        with pytest.raises(
            CorruptData, match=f"position {2 * BATCH_BYTES}: a batch of epoch 4 follows one of epoch 5"
        ):
            list(Archive.read_only(tmp_path, Log.METADATA).read())

    @table(("base", "number", "bit"), [(4, 3, 27), (4, 3, 1), (4, 0, 0), (0, 3, 2)])
    def test_an_epoch_that_changed_at_the_edge_of_a_segment_is_named(
        self, tmp_path: Path, base: int, number: int, bit: int
    ) -> None:
        """The last batch, or the first: no CRC covers an epoch, and what tells lies in the other segment.

        In an earlier version's archive: there are no files of sums.
        """
        archive = opened(tmp_path)
        for offset in range(12):
            archive.append(batch(offset, epoch=1))
        archive.close()
        path = segment(tmp_path, base)
        for sums in path.parent.glob("*.checksums"):
            sums.unlink()
        content = bytearray(path.read_bytes())
        content[number * BATCH_BYTES + LEADER_EPOCH_AT + 3 - bit // 8] ^= 1 << bit % 8
        path.chmod(0o644)
        path.write_bytes(content)
        path.chmod(0o444)
        with pytest.raises(
            EpochFell, match=r"\d+\.log, position 0: a batch of epoch \d follows one of epoch"
        ):
            list(Archive.read_only(tmp_path, Log.METADATA).read())

    @table("kept", [0, 1, BATCH_BYTES, 2 * BATCH_BYTES + 50])
    def test_a_middle_segment_cut_short_is_named(self, tmp_path: Path, kept: int) -> None:
        filled(tmp_path, 12).close()
        segment(tmp_path, 4).chmod(0o644)
        os.truncate(segment(tmp_path, 4), kept)
        with pytest.raises(CorruptData) as raised:
            offsets(tmp_path)
        if kept % BATCH_BYTES:
            assert isinstance(raised.value, TornTail)
            assert str(segment(tmp_path, 4)) in str(raised.value)
        else:
            expected = (
                f"{segment(tmp_path, 8)}: begins at offset 8, expected offset {4 + kept // BATCH_BYTES}"
            )
            assert str(raised.value) == expected

    def test_a_missing_segment_is_named(self, tmp_path: Path) -> None:
        filled(tmp_path, 12).close()
        segment(tmp_path, 4).unlink()
        with pytest.raises(CorruptData, match="begins at offset 8, expected offset 4"):
            offsets(tmp_path)

    def test_a_flipped_byte_in_a_segment_before_what_is_read_does_no_harm(self, tmp_path: Path) -> None:
        filled(tmp_path, 12).close()
        flip(segment(tmp_path, 4), 40)
        assert offsets(tmp_path, 8) == list(range(8, 12))
        with pytest.raises(CorruptData):
            offsets(tmp_path, 7)

    def test_a_reader_beside_a_writer_sees_what_is_written_and_disturbs_nothing(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        assert offsets(tmp_path) == []
        for offset in range(10):
            archive.append(batch(offset))
            assert offsets(tmp_path) == list(range(offset // 4 * 4))  # a full segment was written
        archive.write()
        assert offsets(tmp_path) == list(range(10))
        reading = Archive.read_only(tmp_path, Log.METADATA).read()
        assert next(reading).header.base_offset == 0
        archive.append(batch(10))
        archive.write()
        assert [stored.header.base_offset for stored in reading] == list(range(1, 11))
        archive.close()

    def test_a_reader_outlives_retention(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 12)
        reading = Archive.read_only(tmp_path, Log.METADATA).read()
        assert next(reading).header.base_offset == 0
        archive.retain(0, ALL)
        assert [stored.header.base_offset for stored in reading] == [1, 2, 3, 8, 9, 10, 11]
        archive.close()

    def test_no_archive_at_all_reads_as_empty(self, tmp_path: Path) -> None:
        assert offsets(tmp_path / "nowhere") == []

    def test_other_files_are_left_alone(self, tmp_path: Path) -> None:
        filled(tmp_path, 2).close()
        for name in ("1.log", "partition.metadata", "00000000000000000000.index"):
            (tmp_path / Log.METADATA.directory / name).write_text("x")
        assert offsets(tmp_path) == [0, 1]
