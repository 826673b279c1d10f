"""Changed bytes in an archive's last segment: what the journal has comes again, the rest is kept."""

import os
from pathlib import Path
from typing import Any

import pytest
import structlog

import fencepost.quorum.snapshotter
from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, Offset
from fencepost.snapshots.archive import Archive
from fencepost.snapshots.checksums import sums_path
from fencepost.snapshots.segments import ArchiveReader
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig
from tests.quorum.transfers import advance
from tests.snapshots.archives import BATCH_BYTES, batch, filled, flip

BEFORE = 5  # entries before the snapshot, and as many behind it


@pytest.fixture
def marked(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Node 2's archive was flushed up to its snapshot, and its journal begins there. It was killed."""
    monkeypatch.setattr(fencepost.quorum.snapshotter, "TAIL_ENTRIES", 0)
    rig = make_rig(3, snapshot_entries=BEFORE)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, BEFORE)
    rig.maintenance_tick(2)
    rig.work()
    advance(rig, 1, BEFORE)
    rig[2].archiver.write()
    rig.flush(2)
    rig.crash(2)
    return rig


def segment(rig: Rig) -> Path:
    (path,) = (rig.root / "node-2" / "archive" / Log.METADATA.directory).glob("*.log")
    return path


def marked_end(rig: Rig) -> Offset:
    """Up to where its archive is flushed, and the journal reaches no more."""
    started = rig.start(2)
    end = started.archiver._mark[1].log_end(Log.METADATA)
    rig.crash(2)
    return end


def batches(path: Path) -> list[tuple[int, int]]:
    """Position and base offset of each batch."""
    return [(each.position, each.header.base_offset) for each in ArchiveReader(path.parent).read()]


def started(rig: Rig) -> list[dict[str, Any]]:
    """Node 2 starts: what it logs."""
    with structlog.testing.capture_logs() as logged, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig, "log_of", lambda _node: structlog.get_logger())
        rig.start(2)
        rig[2].archiver.write()
    return [dict(line) for line in logged if line["event"].startswith("archive")]


def test_a_changed_batch_before_the_mark_is_named_and_no_byte_is_cut(marked: Rig) -> None:
    path, end = segment(marked), marked_end(marked)
    whole = path.read_bytes()
    seen = 0
    for position, offset in batches(path):
        if offset >= end:
            continue
        seen += 1
        raw = bytearray(whole)
        raw[position + 70] ^= 1
        path.chmod(0o644)
        path.write_bytes(raw)
        logged = started(marked)
        (damaged,) = [line for line in logged if line["event"] == "archive_damaged"]
        assert (damaged["position"], damaged["offset"]) == (position, offset)
        assert path.read_bytes() == raw, "all is kept, also the whole batches behind"
        assert not [line for line in logged if line["event"] == "archive_cut"]
        later = ArchiveReader(path.parent).segments[1:]
        assert [each.base for each in later] == [end], "what the journal has goes on behind"
        marked.crash(2)
        assert [line["event"] for line in started(marked)] == [], "named once: it is sealed"
        marked.crash(2)
        for each in (*later, *ArchiveReader(path.parent).segments[1:]):
            each.path.unlink(missing_ok=True)
        (path.parent / "holes.json").unlink()
    assert seen >= BEFORE


@pytest.mark.parametrize("at", range(LEADER_EPOCH_AT, LEADER_EPOCH_AT + 4))
def test_an_epoch_that_changed_behind_the_mark_comes_again_from_the_journal(marked: Rig, at: int) -> None:
    """Before any sum covered it: no CRC does, and only a lower one behind it would tell."""
    path, end = segment(marked), marked_end(marked)
    whole = path.read_bytes()
    for position, offset in batches(path):
        raw = bytearray(whole)
        raw[position + at] ^= 1
        path.write_bytes(raw)
        if offset >= end:
            sums_path(path).unlink(missing_ok=True)
            assert [line["event"] for line in started(marked)] == ["archive_cut", "archive_refilled"]
            assert path.read_bytes() == whole
            marked.crash(2)


def test_a_changed_batch_behind_the_mark_comes_again_from_the_journal(marked: Rig) -> None:
    path, end = segment(marked), marked_end(marked)
    whole = path.read_bytes()
    for position, offset in batches(path):
        if offset < end:
            continue
        raw = bytearray(whole)
        raw[position + 70] ^= 1
        path.write_bytes(raw)
        assert [line["event"] for line in started(marked)] == ["archive_cut", "archive_refilled"]
        assert path.read_bytes() == whole
        marked.crash(2)


@pytest.mark.parametrize("whole", [True, False], ids=["between-batches", "inside-a-batch"])
def test_an_archive_that_lost_its_end_before_the_mark_goes_on_behind_a_hole(marked: Rig, whole: bool) -> None:
    """The journal has its entries from the mark on: what lies between is named, and the node starts."""
    path, end = segment(marked), marked_end(marked)
    position, offset = batches(path)[2]
    os.truncate(path, position + (0 if whole else 30))
    logged = started(marked)
    assert [line["event"] for line in logged] == [
        *([] if whole else ["archive_cut"]),
        "archive_hole",
        "archive_refilled",
    ]
    assert [(each.first, each.end) for each in ArchiveReader(path.parent).holes] == [(offset, end)]
    assert path.stat().st_size == position
    assert batches(path)[-1][1] >= end


def test_a_node_without_its_store_cuts_nothing_but_a_torn_tail_of_its_archive(marked: Rig) -> None:
    """No journal has it any more: the node is a new voter, and the archive is what it was."""
    path = segment(marked)
    whole = path.read_bytes()
    position, _ = batches(path)[-2]
    for store in (marked.root / "node-2" / "store").iterdir():
        store.unlink()
    raw = bytearray(whole)
    raw[position + 70] ^= 1
    path.write_bytes(raw)
    assert [line["event"] for line in started(marked)] == ["archive_damaged"]
    assert path.read_bytes() == raw


def opened(root: Path) -> Archive:
    """An archive alone, of four batches a segment, that no journal refills."""
    return Archive.open(
        root, Log.METADATA, "one", segment_bytes=4 * BATCH_BYTES, flushed_end=Offset(2**63 - 1)
    )


def path_of(root: Path, base: int) -> Path:
    return root / Log.METADATA.directory / f"{base:020d}.log"


def test_a_length_that_grew_is_no_torn_tail(tmp_path: Path) -> None:
    """The file ends inside that batch, and whole ones lie behind its beginning."""
    filled(tmp_path, 7).close()
    path = path_of(tmp_path, 4)
    flip(path, BATCH_BYTES + 9)
    raw = path.read_bytes()
    archive = opened(tmp_path)
    assert archive.damage is not None
    assert (archive.damage.position, archive.damage.offset, archive.end) == (BATCH_BYTES, 5, 5)
    assert "the file ends" in archive.damage.reason
    archive.close()
    assert path.read_bytes() == raw


def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    filled(tmp_path, 7).close()
    os.truncate(path_of(tmp_path, 4), 2 * BATCH_BYTES + 5)
    archive = opened(tmp_path)
    assert (archive.damage, archive.end) == (None, 6)
    assert archive.cut is not None
    archive.close()


def test_a_segment_that_is_bad_from_its_first_byte_makes_way_for_the_next(tmp_path: Path) -> None:
    filled(tmp_path, 7).close()
    path = path_of(tmp_path, 4)
    flip(path, 30)
    raw = path.read_bytes()
    archive = opened(tmp_path)
    archive.append(batch(4))
    archive.close()
    assert path.read_bytes() == batch(4)
    assert Path(f"{path}.damaged").read_bytes() == raw


def test_a_segment_that_is_gone_takes_no_other_with_it(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    for offset in range(10):
        archive.append(batch(offset))
    archive.write()
    path_of(tmp_path, 4).unlink()
    again = opened(tmp_path)
    assert again.damage is not None
    assert again.damage.reason == "it begins at offset 8, expected 4"
    assert (again.end, again.cut) == (10, None)
    again.close()
    with pytest.raises(CorruptData, match="begins at offset 8"):
        list(ArchiveReader(path_of(tmp_path, 0).parent).read())


@pytest.mark.row("beyond.13")
def test_an_archive_whose_first_names_were_lost_begins_again(make_rig: MakeRig) -> None:
    """Nothing of it was flushed, and a power failure took the name of a segment, not those behind it."""
    rig = make_rig(3, segment_bytes=3 * BATCH_BYTES)
    rig.elect(1)
    rig.register(1)
    advance(rig, 1, 4 * BEFORE)
    rig[2].archiver.write()
    rig.flush(2)
    expected = offsets(rig)
    rig.crash(2)
    first, second, *_ = sorted((rig.root / "node-2" / "archive" / Log.METADATA.directory).glob("*.log"))
    assert first.stat().st_mode & second.stat().st_mode & 0o200, "nothing was flushed yet"
    first.unlink()
    logged = started(rig)
    assert [each["position"] for each in logged if each["event"] == "archive_cut"] == [0]
    assert offsets(rig) == expected
    assert rig[2].archiver.archives[Log.METADATA].holes() == ()


def offsets(rig: Rig) -> list[Offset]:
    """Base offsets of the batches in node 2's archive."""
    return [each.header.base_offset for each in rig[2].archiver.archives[Log.METADATA].reader().read()]


def test_a_sum_that_cannot_be_saved_is_named_and_ends_nothing(
    marked: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, for these files."""

    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("fencepost.snapshots.archive.write_content", full)
    with structlog.testing.capture_logs() as logged, pytest.MonkeyPatch.context() as patch:
        patch.setattr(marked, "log_of", lambda _node: structlog.get_logger())
        marked.start(2)
        marked[2].archiver.sync()
        for _ in range(2):
            marked[2].archiver.write()
    (said,) = [each for each in logged if each["event"] == "archive_sums_not_saved"]
    assert ".checksums" in said["reason"]
    assert "No space left on device" in said["reason"]
