"""Every byte of an archive is covered: no reader is given a batch that was not written.

Attacks   each byte of each header of each batch, segments of other logs and clusters, older copies, segments
          that are gone. What is read is what was written, or an error that names the file.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.records.batch_layout import HEADER_BYTES, LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, Offset
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.checksums import load_sums
from fencepost.snapshots.segments import ArchiveReader
from tests.simulation.power_loss import close_files
from tests.snapshots.archives import ALL, BATCH_BYTES, OPENED, batch, files, flip, segment
from tests.together import table

COUNT = 11  # three full segments of three, and two batches more
PER_SEGMENT = 3
EPOCHS = [1, 1, 2, 2, 2, 5, 5, 6, 6, 6, 9]
CLUSTER = "a-cluster"
SUMS = ".checksums"


def written(root: Path, log: Log = Log.METADATA, *, cluster: str = CLUSTER, first: int = 0) -> Archive:
    """Epochs rise, and a segment ends with a batch whose epoch is its own."""
    archive = reopened(root, log, cluster=cluster)
    for offset in range(first, COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.write()
    archive.sync()
    return archive


def reopened(
    root: Path,
    log: Log = Log.METADATA,
    *,
    cluster: str = CLUSTER,
    flushed: int = 0,
    per_segment: int = PER_SEGMENT,
) -> Archive:
    archive = Archive.open(
        root, log, cluster, segment_bytes=per_segment * BATCH_BYTES, flushed_end=Offset(flushed)
    )
    OPENED.append(archive)
    return archive


def read(root: Path, log: Log = Log.METADATA) -> Iterator[bytes]:
    return (stored.content for stored in ArchiveReader(root / log.directory).read())


def wrong(root: Path) -> str | None:
    """What is said of the archive; None: it is taken, and then it is what was written."""
    expected = [batch(offset, epoch=EPOCHS[offset]) for offset in range(COUNT)]
    found: list[bytes] = []
    try:
        for content in read(root):
            found.append(content)
            assert content == expected[len(found) - 1], "a batch that was not written"
    except CorruptData as error:
        return str(error)
    assert found == expected, "batches are missing, and no one says so"
    return None


@pytest.mark.parametrize("base", [0, 3, 6, 9])
def test_a_byte_of_a_header_that_changed_is_named(tmp_path: Path, base: int) -> None:
    """Also the leader epoch, which no batch's checksum covers, where epochs rise, or of the last batch."""
    written(tmp_path).close()
    path = segment(tmp_path, base)
    whole, mode = path.read_bytes(), path.stat().st_mode
    for number in range(len(whole) // BATCH_BYTES):
        for at in range(HEADER_BYTES):
            for bit in (0x01, 0x40):
                changed = bytearray(whole)
                changed[number * BATCH_BYTES + at] ^= bit
                path.chmod(0o644)
                path.write_bytes(changed)
                path.chmod(mode)
                said = wrong(tmp_path)
                assert said is not None, (number, at, bit)
                assert path.name in said or "follows one of epoch" in said
    path.chmod(0o644)
    path.write_bytes(whole)
    path.chmod(mode)
    assert wrong(tmp_path) is None


def test_what_says_that_a_segment_changed_names_its_file_of_checksums(tmp_path: Path) -> None:
    written(tmp_path).close()
    flip(segment(tmp_path, 3), 2 * BATCH_BYTES + LEADER_EPOCH_AT + 3)
    said = wrong(tmp_path)
    assert said is not None
    assert said.startswith(f"{segment(tmp_path, 3)}: other bytes than were written, by {3:020d}{SUMS}")


# -- whole files -------------------------------------------------------------------------------------------


def taken_from(source: Path, log: Log, target: Path, base: int, *, with_sums: bool) -> None:
    """A segment of ``source`` in the place of the one of ``target``."""
    there = segment(target, base)
    there.unlink()
    for name in (there.name, *([f"{base:020d}{SUMS}"] if with_sums else [])):
        shutil.copy(source / log.directory / name, there.with_name(name))
    there.chmod(0o444)


@pytest.mark.parametrize("with_sums", [False, True], ids=["its-batches", "with-its-sums"])
@pytest.mark.parametrize("cluster", [CLUSTER, "another"])
def test_a_segment_of_another_log_or_cluster_is_named(tmp_path: Path, cluster: str, with_sums: bool) -> None:
    """Sound batches, at the offsets of those whose place they take: with other records in them."""
    own, other, log = tmp_path / "own", tmp_path / "other", Log.TRANSACTION_STATE
    written(own).close()
    archive = reopened(other, log, cluster=cluster)
    for offset in range(COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset] + 1))
    archive.close()
    for base in (0, 3, 6):
        shutil.rmtree(tmp_path / "tried", ignore_errors=True)
        shutil.copytree(own, tmp_path / "tried")
        taken_from(other, log, tmp_path / "tried", base, with_sums=with_sums)
        with pytest.raises(CorruptData) as raised:
            list(read(tmp_path / "tried"))
        assert f"{3 if with_sums and base == 0 else base:020d}.log" in str(raised.value)
        if with_sums:
            assert "it is another cluster's, or another log's, by" in str(raised.value)


def test_the_same_segment_of_another_node_is_the_same(tmp_path: Path) -> None:
    """Committed batches do not differ, and nodes of one cluster have one owner."""
    written(tmp_path / "own").close()
    written(tmp_path / "peer").close()
    taken_from(tmp_path / "peer", Log.METADATA, tmp_path / "own", 3, with_sums=True)
    assert wrong(tmp_path / "own") is None


@table("base", [0, 3, 6, 9])
def test_an_older_copy_of_a_segment_is_named(tmp_path: Path, base: int) -> None:
    """Of when it was shorter. The last one may be: what follows is in the journal."""
    written(tmp_path).close()
    path = segment(tmp_path, base)
    path.chmod(0o644)
    os.truncate(path, BATCH_BYTES)
    path.chmod(0o644 if base == 9 else 0o444)
    if base == 9:
        assert list(read(tmp_path))[-1] == batch(9, epoch=EPOCHS[9])
    else:
        assert "it has 92 bytes, and 276 were written, by" in str(wrong(tmp_path))


@table("content", [b"", b"x" * 40, bytes(110)])
def test_a_bad_file_of_sums_says_nothing(tmp_path: Path, content: bytes) -> None:
    written(tmp_path).close()
    segment(tmp_path, 3).with_suffix(SUMS).write_bytes(content)
    assert wrong(tmp_path) is None


# -- a start -----------------------------------------------------------------------------------------------


def flipped_epoch(root: Path, base: int, number: int) -> bytes:
    flip(segment(root, base), number * BATCH_BYTES + LEADER_EPOCH_AT + 3)
    return segment(root, base).read_bytes()


def test_a_start_keeps_a_changed_segment_and_goes_on_behind_it(tmp_path: Path) -> None:
    """The journal reaches it no more. Its offsets are sound, so no hole is named."""
    written(tmp_path).close()
    raw = flipped_epoch(tmp_path, 9, 1)
    archive = reopened(tmp_path, flushed=COUNT)
    assert archive.damage is not None
    assert (archive.damage.path, archive.damage.position, archive.damage.offset) == (
        segment(tmp_path, 9),
        0,
        9,
    )
    assert archive.damage.reason == f"other bytes than were written, by {9:020d}{SUMS}"
    assert (archive.end, archive.holes(), archive.cut) == (COUNT, (), None)
    archive.append(batch(COUNT, epoch=20))
    archive.close()
    assert segment(tmp_path, 9).read_bytes() == raw
    assert segment(tmp_path, COUNT).exists()
    assert "other bytes than were written" in str(wrong(tmp_path))


def test_a_start_cuts_a_changed_segment_that_the_journal_has(tmp_path: Path) -> None:
    written(tmp_path).close()
    flipped_epoch(tmp_path, 9, 1)
    archive = reopened(tmp_path, flushed=9)
    assert (archive.end, archive.damage) == (9, None)
    assert archive.cut is not None
    for offset in (9, 10):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.close()
    assert wrong(tmp_path) is None


def test_a_byte_that_changed_after_it_was_written_and_before_its_sum_was_saved_is_found(
    tmp_path: Path,
) -> None:
    archive = reopened(tmp_path)
    for offset in range(3):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.write()
    flipped_epoch(tmp_path, 0, 2)
    for offset in range(3, COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.close()
    assert "other bytes than were written" in str(wrong(tmp_path))


def test_the_sum_goes_on_over_what_a_start_read(tmp_path: Path) -> None:
    for offset in range(COUNT):
        archive = reopened(tmp_path)
        archive.append(batch(offset, epoch=EPOCHS[offset]))
        archive.close()
    assert wrong(tmp_path) is None
    for base in (0, 3, 6, 9):
        flipped_epoch(tmp_path, base, 1)
        assert wrong(tmp_path) is not None
        flip(segment(tmp_path, base), BATCH_BYTES + LEADER_EPOCH_AT + 3)


# -- files that go -----------------------------------------------------------------------------------------


def test_sums_go_with_their_segments(tmp_path: Path) -> None:
    archive = written(tmp_path)
    archive.retain(0, ALL)
    archive.close()
    assert files(tmp_path) == [f"{9:020d}.log"]
    assert [path.name for path in segment(tmp_path, 9).parent.glob(f"*{SUMS}")] == [f"{9:020d}{SUMS}"]


def test_no_sums_are_left_of_segments_behind_a_cut(tmp_path: Path) -> None:
    written(tmp_path).close()
    folder = tmp_path / Log.METADATA.directory
    for path in folder.glob("*.log"):
        path.chmod(0o644)  # no seal was flushed
    flip(segment(tmp_path, 3), 30)
    archive = reopened(tmp_path)
    assert (archive.end, archive.cut is not None) == (3, True)
    assert sorted(path.name for path in folder.glob(f"*{SUMS}")) == [f"{0:020d}{SUMS}"]
    archive.close()


def test_sums_are_forgotten_before_a_cut(tmp_path: Path) -> None:
    written(tmp_path).close()
    path = segment(tmp_path, 9)
    os.truncate(path, BATCH_BYTES + 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "truncate", killed)
        with pytest.raises(KeyboardInterrupt):
            reopened(tmp_path)
    assert not path.with_suffix(SUMS).exists()
    reopened(tmp_path).close()
    assert list(read(tmp_path))[-1] == batch(9, epoch=EPOCHS[9])


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_full_disk_leaves_the_sums_of_before(tmp_path: Path) -> None:
    """They only add to what is checked."""
    archive = reopened(tmp_path)
    archive.append(batch(0))
    archive.close()
    before = segment(tmp_path, 0).with_suffix(SUMS).read_bytes()
    archive = reopened(tmp_path)
    archive.append(batch(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.snapshots.archive.write_content", full)
        archive.close()
    assert segment(tmp_path, 0).with_suffix(SUMS).read_bytes() == before
    assert list(read(tmp_path)) == [batch(0), batch(1)]


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


# -- an earlier version's directory ------------------------------------------------------------------------


def test_an_old_directory_keeps_its_bytes_until_a_segment_is_sealed(tmp_path: Path) -> None:
    written(tmp_path).close()
    for path in segment(tmp_path, 0).parent.glob(f"*{SUMS}"):
        path.unlink()
    before = {path.name: path.read_bytes() for path in segment(tmp_path, 0).parent.iterdir()}
    for _ in range(2):
        reopened(tmp_path).close()
        assert {path.name: path.read_bytes() for path in segment(tmp_path, 0).parent.iterdir()} == before
    archive = reopened(tmp_path)
    archive.append(batch(COUNT, epoch=9))
    archive.write()
    archive.sync()
    assert not list(segment(tmp_path, 0).parent.glob(f"*{SUMS}"))
    archive.append(batch(COUNT + 1, epoch=9))
    archive.close()
    assert sorted(path.name for path in segment(tmp_path, 0).parent.glob(f"*{SUMS}")) == [
        f"{base:020d}{SUMS}" for base in (9, 12)
    ]


def test_an_archive_that_was_killed_before_its_first_flush_is_summed_all_the_same(tmp_path: Path) -> None:
    """Its segment has no sum yet, as one of an earlier version, whose directory stays as it is."""
    first = reopened(tmp_path)
    first.append(batch(0))
    first.write()
    close_files(first)
    again = reopened(tmp_path)
    again.sync()
    assert load_sums(segment(tmp_path, 0)).batches.size == BATCH_BYTES
