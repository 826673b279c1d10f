"""Damaged archives are put right from another node's, or given up as a named hole; the scrub finds them."""

import shutil
from pathlib import Path

import pytest

from fencepost.records.batch_layout import LEADER_EPOCH_AT
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, Offset
from fencepost.snapshots import archive_scrub
from fencepost.snapshots.archive_repair import give_up, take, wrong_segments
from fencepost.snapshots.archive_scrub import scrub_segment
from fencepost.snapshots.checksums import Content, SegmentSums, load_sums, write_content
from fencepost.snapshots.file_sums import NOT_SUMMED
from fencepost.snapshots.segments import Hole, archive_owner, list_segments, load_holes
from tests.snapshots.archives import BATCH_BYTES, batch, flip, segment
from tests.snapshots.test_archive_sums import CLUSTER, COUNT, EPOCHS, SUMS, read, reopened, written, wrong
from tests.together import table

OWNER = archive_owner(CLUSTER, Log.METADATA)
EPOCH_OF_LAST = 2 * BATCH_BYTES + LEADER_EPOCH_AT + 3


def folder(root: Path) -> Path:
    return root / Log.METADATA.directory


def contents(root: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder(root).iterdir()}


def repaired(root: Path, *peers: Path) -> list[bool]:
    """Of each thing that is wrong, whether it was put right."""
    found = wrong_segments(folder(root), OWNER)
    return [take(folder(root), each, [folder(peer) for peer in peers], OWNER) is not None for each in found]


def pair(root: Path) -> tuple[Path, Path]:
    """Archives of two nodes. The peer's segments begin elsewhere."""
    own, peer = root / "own", root / "peer"
    written(own).close()
    archive = reopened(peer, per_segment=4)
    for offset in range(COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.close()
    return own, peer


@table(
    ("base", "position", "has_sums"),
    [
        (base, position, has_sums)
        for base in (0, 3, 6)
        for position in (5, 9, 30, EPOCH_OF_LAST, 2 * BATCH_BYTES + 80)
        for has_sums in (True, False)
        if has_sums or position != EPOCH_OF_LAST
    ],
)
def test_a_changed_segment_is_taken_from_another_node(
    tmp_path_factory: pytest.TempPathFactory, base: int, position: int, has_sums: bool
) -> None:
    own, peer = pair(tmp_path_factory.mktemp("nodes"))
    path = segment(own, base)
    before = path.read_bytes()
    if not has_sums:
        path.with_suffix(SUMS).unlink()
    flip(path, position)
    changed = path.read_bytes()
    assert repaired(own, peer) == [True]
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o444)
    assert Path(f"{path}.damaged").read_bytes() == changed
    assert wrong(own) is None
    assert repaired(own, peer) == []
    flip(path, EPOCH_OF_LAST)
    assert wrong(own) is not None, "it is summed now"


@table("base", [0, 3, 6, 9])
def test_an_epoch_that_changed_before_it_was_summed_is_taken_from_another_node(
    tmp_path_factory: pytest.TempPathFactory, base: int
) -> None:
    own, peer = pair(tmp_path_factory.mktemp("nodes"))
    path = segment(own, base)
    before = path.read_bytes()
    flip(path, LEADER_EPOCH_AT + 3)
    sums = SegmentSums(NOT_SUMMED.followed_by(path.read_bytes()), NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)
    write_content(path.with_suffix(SUMS), base, Content(sums, OWNER), durable=False)
    (found,) = wrong_segments(folder(own), OWNER)
    assert "follows one of epoch" in found.reason
    assert repaired(own, peer) == [True]
    assert path.read_bytes() == before
    assert wrong(own) is None


def test_a_segment_that_is_gone_is_taken_from_another_node(tmp_path: Path) -> None:
    own, peer = pair(tmp_path)
    segment(own, 3).unlink()
    assert repaired(own, peer) == [True]
    assert wrong(own) is None


@table("has", [0, 1, 4])
def test_of_a_segment_that_is_gone_all_is_taken_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, has: int
) -> None:
    """Of what is gone, offsets 3 to 5, the peer has none, the first or the last."""
    own, peer = pair(tmp_path_factory.mktemp("nodes"))
    segment(own, 3).unlink()
    shutil.rmtree(peer)
    archive = reopened(peer)
    archive.start_at(Offset({0: 6, 1: 3, 4: 4}[has]))
    for offset in range(archive.end, 4 if has == 1 else COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.close()
    before = contents(own)
    assert repaired(own, peer) == [False]
    assert contents(own) == before


def test_a_segment_of_another_cluster_gives_way_to_the_own_one(tmp_path: Path) -> None:
    own, peer = pair(tmp_path)
    archive = reopened(tmp_path / "other", cluster="another")
    for offset in range(COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset] + 1))
    archive.close()
    for suffix in (".log", SUMS):
        name = f"{3:020d}{suffix}"
        (folder(own) / name).unlink()
        shutil.copy(folder(tmp_path / "other") / name, folder(own) / name)
    assert repaired(own, peer) == [True]
    assert wrong(own) is None


@table("harm", ["none is given", "damaged", "shorter", "other batches"])
def test_nothing_is_taken_that_is_not_proven(tmp_path_factory: pytest.TempPathFactory, harm: str) -> None:
    own, peer = pair(tmp_path_factory.mktemp("nodes"))
    flip(segment(own, 3), EPOCH_OF_LAST)
    before = contents(own)
    if harm == "damaged":
        flip(segment(peer, 4), 30)
    elif harm == "shorter":
        for base in (4, 8):
            segment(peer, base).unlink()
    elif harm == "other batches":
        shutil.rmtree(peer)
        archive = reopened(peer)
        for offset in range(COUNT):
            archive.append(batch(offset, epoch=EPOCHS[offset] + 1))
        archive.close()
    assert repaired(own, *([] if harm == "none is given" else [peer])) == [False]
    assert contents(own) == before


@table("has_sums", [True, False])
@table(("count", "is_taken"), [(COUNT - 1, False), (COUNT, True), (COUNT + 1, True)])
def test_a_last_segment_is_taken_as_far_as_it_went(
    tmp_path: Path, has_sums: bool, count: int, is_taken: bool
) -> None:
    """Without sums its own size says how far: fewer batches do not take its place."""
    own = tmp_path / "own"
    written(own).close()
    archive = reopened(tmp_path / "peer", per_segment=4)
    for offset in range(count):
        archive.append(batch(offset, epoch=EPOCHS[min(offset, COUNT - 1)]))
    archive.close()
    last = list_segments(folder(own))[-1]
    size = last.path.stat().st_size
    flip(last.path, 30)
    if not has_sums:
        last.path.with_suffix(SUMS).unlink()
    before = contents(own)
    assert repaired(own, tmp_path / "peer") == [is_taken]
    if is_taken:
        assert last.path.stat().st_size == size
        assert wrong(own) is None
    else:
        assert contents(own) == before


@table("end", [9, 10])
def test_the_hole_that_a_start_named_behind_a_damaged_segment_is_filled(
    tmp_path_factory: pytest.TempPathFactory, end: int
) -> None:
    """And no other one. It begins with the segment, where no batch of that was sound."""
    own, peer = pair(tmp_path_factory.mktemp("nodes"))
    flip(segment(own, 3), 30)
    give_up(folder(own), wrong_segments(folder(own), OWNER)[0])
    given_up = Hole(Offset(3), Offset(6))
    flip(segment(own, 9), (end - 9) * BATCH_BYTES + 30)
    archive = reopened(own, flushed=COUNT)
    assert archive.end == end
    assert segment(own, 9).stat().st_mode & 0o777 == 0o444, "nothing is appended to it any more"
    archive.start_at(Offset(COUNT))  # as the archiver does: the journal begins there
    archive.append(batch(COUNT, epoch=9))
    archive.close()
    assert archive.holes() == (given_up, Hole(Offset(end), Offset(COUNT)))
    assert repaired(own, peer) == [True]
    assert load_holes(folder(own)) == (given_up,)
    there = [batch(n, epoch=EPOCHS[n]) for n in range(COUNT) if not 3 <= n < 6]
    assert list(read(own)) == [*there, batch(COUNT, epoch=9)]


def test_a_segment_that_goes_beyond_the_next_one_is_taken_up_to_it(tmp_path: Path) -> None:
    """A crash left it damaged: a start went on in front of its summed end, where the journal began."""
    own, peer = pair(tmp_path)
    archive = reopened(tmp_path / "longer", per_segment=COUNT + 1)
    for offset in range(COUNT):
        archive.append(batch(offset, epoch=EPOCHS[offset]))
    archive.close()
    for suffix in (".log", SUMS):
        name = f"{0:020d}{suffix}"
        shutil.copy(folder(tmp_path / "longer") / name, folder(own) / name)
    for base in (3, 6):
        segment(own, base).unlink()
    flip(segment(own, 0), BATCH_BYTES + 30)
    assert repaired(own, peer) == [True]
    assert segment(own, 0).stat().st_size == 9 * BATCH_BYTES
    assert wrong(own) is None


def test_what_no_one_has_is_a_named_hole(tmp_path: Path) -> None:
    own, _ = pair(tmp_path)
    flip(segment(own, 3), 30)
    (found,) = wrong_segments(folder(own), OWNER)
    give_up(folder(own), found)
    assert load_holes(folder(own)) == (Hole(Offset(3), Offset(6)),)
    assert len(list(read(own))) == COUNT - 3
    assert Path(f"{segment(own, 3)}.damaged").exists()
    archive = reopened(own, flushed=COUNT)
    assert (archive.end, archive.damage) == (COUNT, None)
    archive.close()


def test_what_no_one_has_and_was_not_summed_is_a_named_hole(tmp_path: Path) -> None:
    own, _ = pair(tmp_path)
    segment(own, 3).with_suffix(SUMS).unlink()
    flip(segment(own, 3), 30)
    (found,) = wrong_segments(folder(own), OWNER)
    give_up(folder(own), found)
    assert load_holes(folder(own)) == (Hole(Offset(3), Offset(6)),)


def test_a_write_in_progress_is_no_damage(tmp_path: Path) -> None:
    own, _ = pair(tmp_path)
    with segment(own, 9).open("ab") as file:
        file.write(batch(COUNT)[:30])
    assert wrong_segments(folder(own), OWNER) == []


def test_killed_before_the_new_file_has_its_name_the_damaged_one_is_there(tmp_path: Path) -> None:
    own, peer = pair(tmp_path)
    flip(segment(own, 3), 30)
    changed = segment(own, 3).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            repaired(own, peer)
    assert segment(own, 3).read_bytes() == changed
    assert repaired(own, peer) == [True]
    assert wrong(own) is None


def killed(*_: object) -> None:
    raise KeyboardInterrupt


# -- the scrub ---------------------------------------------------------------------------------------------


def scrubbed(root: Path) -> list[str]:
    said = []
    for each in list_segments(folder(root)):
        if each.sealed:
            try:
                scrub_segment(each, OWNER, lambda _: None)
            except CorruptData as error:
                said.append(str(error))
    return said


def test_the_scrub_names_what_changed(tmp_path: Path) -> None:
    written(tmp_path).close()
    assert scrubbed(tmp_path) == []
    flip(segment(tmp_path, 6), EPOCH_OF_LAST)
    assert scrubbed(tmp_path) == [f"{segment(tmp_path, 6)}: other bytes than were written, by {6:020d}{SUMS}"]
    segment(tmp_path, 6).with_suffix(SUMS).unlink()
    flip(segment(tmp_path, 6), 30)
    assert "00000000000000000006.log, position 0:" in scrubbed(tmp_path)[0]


def test_the_scrub_sums_what_an_earlier_version_wrote_once_the_archive_has_sums(tmp_path: Path) -> None:
    written(tmp_path).close()
    for base in (0, 3):
        segment(tmp_path, base).with_suffix(SUMS).unlink()
    assert scrubbed(tmp_path) == []
    for base in (0, 3, 6):
        assert load_sums(segment(tmp_path, base)).batches.size == 3 * BATCH_BYTES
    flip(segment(tmp_path, 3), EPOCH_OF_LAST)
    assert wrong(tmp_path) is not None
    flip(segment(tmp_path, 3), EPOCH_OF_LAST)
    for path in folder(tmp_path).glob(f"*{SUMS}"):
        path.unlink()
    assert scrubbed(tmp_path) == []
    assert not list(folder(tmp_path).glob(f"*{SUMS}")), "an old directory stays as it was"


def test_no_sums_are_left_of_a_segment_that_goes_while_it_is_scrubbed(tmp_path: Path) -> None:
    """Retention removes the sums last: before this writes them, or behind it."""
    for is_written in (True, False):
        own = tmp_path / str(is_written)
        written(own).close()
        first = list_segments(folder(own))[0]
        first.path.with_suffix(SUMS).unlink()

        def gone(size: int, path: Path = first.path) -> None:
            if size:
                path.unlink(missing_ok=True)

        with pytest.MonkeyPatch.context() as patch:
            if not is_written:
                patch.setattr(archive_scrub, "write_content", lambda *_, **__: None)
            scrub_segment(first, OWNER, gone)
        assert not first.path.with_suffix(SUMS).exists()
