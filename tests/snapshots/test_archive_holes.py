"""The archive's gaps: holes that a snapshot leaves, and segments that retention deletes."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import Log, Offset
from fencepost.snapshots import archive as archive_module
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.segments import HOLES_FILE, HOLES_MAX, Hole, load_holes
from tests.snapshots.archives import ALL, BATCH_BYTES, batch, files, filled, flip, offsets, opened, segment
from tests.together import table


class TestHoles:
    """A follower that took a snapshot goes on later, and says what it does not have."""

    def test_a_hole_is_named_and_jumped_over(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 6)
        archive.start_at(Offset(100))
        assert archive.holes() == (Hole(Offset(6), Offset(100)),)
        assert (archive.end, archive.durable_end) == (100, 100)
        archive.append(batch(100))
        archive.close()
        assert offsets(tmp_path) == [*range(6), 100]
        assert files(tmp_path) == [*(f"{base:020d}.log" for base in (0, 4, 100)), HOLES_FILE]
        again = opened(tmp_path)
        assert (again.end, again.holes(), again.cut) == (101, archive.holes(), None)
        again.close()

    def test_what_was_only_buffered_is_flushed_before_the_hole_is_named(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        archive.append(batch(0))
        archive.start_at(Offset(9))
        del archive
        assert (offsets(tmp_path), opened(tmp_path).end) == ([0], 9)

    def test_killed_after_naming_a_hole(self, tmp_path: Path) -> None:
        filled(tmp_path, 6).start_at(Offset(100))
        segment(tmp_path, 4).chmod(0o644)  # its seal was not flushed
        archive = opened(tmp_path)
        assert archive.end == 100
        archive.append(batch(100))
        archive.close()
        assert opened(tmp_path).end == 101
        assert offsets(tmp_path) == [*range(6), 100]

    def test_killed_before_naming_a_hole(self, tmp_path: Path) -> None:
        filled(tmp_path, 6).close()
        (tmp_path / Log.METADATA.directory / f"{HOLES_FILE}.tmp").write_bytes(b'{"version":1,"hol')
        archive = opened(tmp_path)
        assert (archive.end, archive.holes()) == (6, ())
        archive.close()

    def test_a_new_follower_begins_with_a_hole(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        archive.start_at(Offset(50))
        assert (archive.start, archive.end, archive.holes()) == (50, 50, (Hole(Offset(0), Offset(50)),))
        archive.append(batch(50))
        archive.close()
        assert (offsets(tmp_path), Archive.read_only(tmp_path, Log.METADATA).start) == ([50], 50)

    def test_an_empty_segment_does_not_stay_before_a_hole(self, tmp_path: Path) -> None:
        opened(tmp_path).append(batch(0))
        os.truncate(segment(tmp_path, 0), 0)
        archive = opened(tmp_path)
        archive.start_at(Offset(50))
        archive.append(batch(50))
        archive.close()
        assert files(tmp_path) == [f"{50:020d}.log", HOLES_FILE]

    def test_holes_with_nothing_between_them_are_one(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 2)
        archive.start_at(Offset(10))
        archive.start_at(Offset(20))
        archive.append(batch(20))
        archive.start_at(Offset(30))
        expected = (Hole(Offset(2), Offset(20)), Hole(Offset(21), Offset(30)))
        assert archive.holes() == expected == load_holes(tmp_path / Log.METADATA.directory)
        archive.close()
        assert (offsets(tmp_path), opened(tmp_path).end) == ([0, 1, 20], 30)

    def test_an_archive_never_goes_back(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 6)
        with pytest.raises(InvariantViolation, match="would go back"):
            archive.start_at(Offset(5))
        archive.start_at(Offset(6))
        assert archive.holes() == ()
        archive.close()

    def test_a_cut_before_a_hole_forgets_the_hole(self, tmp_path: Path) -> None:
        """Where the hole begins now depends on what the journal still has: the next start_at says."""
        filled(tmp_path, 6).start_at(Offset(100))
        flip(segment(tmp_path, 4), BATCH_BYTES + 50)
        archive = opened(tmp_path)
        assert (archive.end, archive.holes()) == (5, ())
        archive.start_at(Offset(100))
        archive.append(batch(100))
        archive.close()
        assert offsets(tmp_path) == [*range(5), 100]

    def test_holes_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archive_module, "HOLES_MAX", 2)
        archive = opened(tmp_path)
        for number in range(2):
            archive.start_at(Offset(archive.end + 5))
            archive.append(batch(archive.end))
            assert len(archive.holes()) == number + 1
        with pytest.raises(InvariantViolation, match="too many holes"):
            archive.start_at(Offset(archive.end + 5))
        archive.close()
        assert HOLES_MAX > 1000


@table(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"version":1,"holes":[[5,9]', id="torn"),
        pytest.param(b'{"version":2,"holes":[]}', id="another-version"),
        pytest.param(b'{"version":1,"holes":[[9,5]]}', id="backwards"),
        pytest.param(b'{"version":1,"holes":[[5,9],[9,12]]}', id="adjacent"),
        pytest.param(b'{"version":1,"holes":[[5,9,12]]}', id="three-bounds"),
        pytest.param(b'{"version":1,"holes":[["a","b"]]}', id="not-numbers"),
        pytest.param(b"\x80\x04N.", id="pickle"),
    ],
)
def test_a_bad_holes_file_is_named_and_made_again(tmp_path: Path, content: bytes) -> None:
    archive = filled(tmp_path, 6)
    archive.start_at(Offset(100))
    archive.append(batch(100))
    archive.close()
    path = tmp_path / Log.METADATA.directory / HOLES_FILE
    path.write_bytes(content)
    with pytest.raises(CorruptData, match=str(path)):
        offsets(tmp_path)
    again = opened(tmp_path)
    assert again.damage is not None
    assert again.damage.path == path
    assert (again.end, again.holes(), again.cut) == (101, archive.holes(), None)
    again.close()
    assert offsets(tmp_path) == [*range(6), 100]
    assert path.with_name(f"{HOLES_FILE}.damaged").read_bytes() == content


def with_holes(root: Path) -> Archive:
    """Of batches 50 to 55, with a hole before, in between and behind."""
    archive = opened(root)
    for first in (50, 100):
        archive.start_at(Offset(first))
        archive.append(batch(first))
    archive.start_at(Offset(200))
    archive.close()
    return archive


def test_no_byte_of_the_holes_can_change_unseen(tmp_path: Path) -> None:
    """A hole that ended later would hide what is committed until then: the archive never gets it."""
    archive = with_holes(tmp_path)
    path = tmp_path / Log.METADATA.directory / HOLES_FILE
    written = path.read_bytes()
    assert load_holes(path.parent) == archive.holes()
    for position, byte in enumerate(written):
        for changed in {byte ^ 1 << bit for bit in range(8)} | set(b" \t\r\n0123456789,[]") - {byte}:
            path.write_bytes(written[:position] + bytes([changed]) + written[position + 1 :])
            with pytest.raises(CorruptData, match=str(path)):
                load_holes(path.parent)
    for end in range(len(written)):
        path.write_bytes(written[:end])
        with suppress(CorruptData):
            assert load_holes(path.parent) == archive.holes(), "all of the text is there"


def test_changed_holes_are_made_again_of_the_segments(tmp_path: Path) -> None:
    archive = with_holes(tmp_path)
    path = tmp_path / Log.METADATA.directory / HOLES_FILE
    changed = path.read_bytes().replace(b",200]", b",300]")
    path.write_bytes(changed)
    again = opened(tmp_path)
    assert (again.end, again.holes()) == (101, (Hole(Offset(51), Offset(100)),)), "not 300"
    again.close()
    assert again.damage is not None
    assert again.damage.path == path
    assert path.with_name(f"{HOLES_FILE}.damaged").read_bytes() == changed
    again = opened(tmp_path)
    assert (again.damage, again.end) == (None, 101)
    again.start_at(Offset(200))
    assert again.holes() == archive.holes()[1:]


def test_an_earlier_versions_holes_have_no_checksum_and_stay_as_they_are(tmp_path: Path) -> None:
    archive = with_holes(tmp_path)
    path = tmp_path / Log.METADATA.directory / HOLES_FILE
    earlier = b'{"version":1,"holes":[[0,50],[51,100],[101,200]]}\n'
    assert msgspec.json.decode(path.read_bytes()) == msgspec.json.decode(earlier), "it reads ours"
    path.write_bytes(earlier)
    again = opened(tmp_path)
    assert (again.end, again.holes(), again.damage) == (200, archive.holes(), None)
    again.close()
    assert path.read_bytes() == earlier
    again = opened(tmp_path)
    again.append(batch(200))
    again.start_at(Offset(300))
    assert path.read_bytes().startswith(earlier[:-3])
    assert len(path.read_bytes()) > len(earlier) + 32


class TestRetention:
    """Whole old segments go; the state is not in them."""

    @table(
        ("bytes_max", "start"),
        [
            pytest.param(10 * BATCH_BYTES, 0, id="fits"),
            pytest.param(10 * BATCH_BYTES - 1, 4, id="one-byte-too-many"),
            pytest.param(6 * BATCH_BYTES, 4, id="fits-without-the-oldest"),
            pytest.param(3 * BATCH_BYTES, 8, id="two-too-many"),
            pytest.param(0, 8, id="the-last-one-stays"),
        ],
    )
    def test_the_oldest_segments_go(self, tmp_path: Path, bytes_max: int, start: int) -> None:
        archive = filled(tmp_path, 10)
        assert archive.retain(bytes_max, ALL) == archive.start == start
        archive.append(batch(10))
        archive.close()
        assert offsets(tmp_path) == list(range(start, 11))
        again = opened(tmp_path)
        assert (again.start, again.end) == (start, 11)
        again.close()

    @table(
        ("below", "start"),
        [
            pytest.param(0, 0, id="none"),
            pytest.param(3, 0, id="within-the-first"),
            pytest.param(4, 4, id="behind-the-first"),
            pytest.param(7, 4, id="within-the-second"),
            pytest.param(8, 8, id="behind-the-second"),
            pytest.param(100, 8, id="behind-all"),
        ],
    )
    def test_what_is_not_in_the_newest_snapshot_stays(self, tmp_path: Path, below: int, start: int) -> None:
        """Of the segments [0, 4), [4, 8) and the last one, only what a snapshot at ``below`` stands for."""
        archive = filled(tmp_path, 10)
        assert archive.retain(0, Offset(below)) == start
        archive.close()

    def test_what_is_not_flushed_stays(self, tmp_path: Path) -> None:
        archive = opened(tmp_path)
        for offset in range(10):
            archive.append(batch(offset))
        archive.write()
        assert archive.retain(0, ALL) == 0
        archive.sync()
        assert archive.retain(0, ALL) == 8
        archive.close()

    def test_holes_before_the_start_are_forgotten(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 4)
        archive.start_at(Offset(20))
        for offset in range(20, 30):
            archive.append(batch(offset))
        archive.write()
        archive.sync()
        assert archive.retain(7 * BATCH_BYTES, ALL) == 24
        assert archive.holes() == () == load_holes(tmp_path / Log.METADATA.directory)
        archive.close()

    def test_a_hole_right_before_the_start_is_forgotten_one_after_it_stays(self, tmp_path: Path) -> None:
        archive = filled(tmp_path, 8)
        archive.start_at(Offset(20))
        archive.append(batch(20))
        archive.write()
        archive.sync()
        assert archive.retain(5 * BATCH_BYTES, ALL) == 4
        assert archive.holes() == (Hole(Offset(8), Offset(20)),)
        assert archive.retain(BATCH_BYTES, ALL) == 20
        assert archive.holes() == ()
        archive.close()
