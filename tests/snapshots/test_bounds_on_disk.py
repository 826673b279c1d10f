"""Sums of files, segments and holes of an archive as they lie on the disk: at each bound, and one beyond."""

import struct
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from crc32c import crc32c

from fencepost.records.invariant import CorruptData
from fencepost.records.types import Log, Offset, Term
from fencepost.snapshots import segments
from fencepost.snapshots.checksums import (
    NOTHING,
    Content,
    Owner,
    SegmentSums,
    is_as_summed,
    is_torn,
    read_content,
    sums_path,
    write_content,
)
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed, read_sum
from fencepost.snapshots.segments import (
    HOLES_FILE,
    ArchiveReader,
    Hole,
    Segment,
    encode_holes,
    list_segments,
    load_holes,
    scan_segment,
    sound_part,
    unlike_written,
)
from tests.snapshots.archives import BATCH_BYTES, batch, filled, offsets
from tests.together import table

MIB = 1024 * 1024


def summed(content: bytes) -> Summed:
    return Summed(len(content), crc32c(content))


# -- sums of files ------------------------------------------------------------------------------


@table(("before", "size"), [(0, 0), (0, 7), (3, 7), (7, 7), (0, 100), (7, 100), (0, 10), (3, 10)])
def test_a_sum_goes_on_from_what_is_known(tmp_path: Path, before: int, size: int) -> None:
    content = b"0123456789"
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_sum(path, summed(content[:before]), size) == summed(content[:size])


def test_what_is_known_of_more_bytes_says_nothing_of_fewer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_sum(path, Summed(8, 5), 7) == summed(b"0123456")
    assert read_sum(path, Summed(7, 5), 7) == Summed(7, 5), "all of it is known"


@table(("size", "pieces"), [(MIB, [MIB]), (MIB + 1, [MIB, 1]), (2 * MIB + 5, [MIB, MIB, 5]), (9, [9])])
def test_a_file_is_summed_in_pieces(tmp_path: Path, size: int, pieces: list[int]) -> None:
    path, paces = tmp_path / "file", list[int]()
    content = bytes(range(256)) * (2 * MIB // 256) + b"12345"
    path.write_bytes(content)
    assert read_sum(path, NOT_SUMMED, size, paces.append) == summed(content[:size])
    assert paces == pieces


def test_a_file_that_is_gone_is_as_summed_if_nothing_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert is_as_summed(path, NOT_SUMMED)
    assert not is_as_summed(path, summed(b"a"))
    path.write_bytes(b"ab")
    assert is_as_summed(path, summed(b"a"))
    assert is_as_summed(path, summed(b"ab"))
    assert not is_as_summed(path, summed(b"abc"))
    assert not is_as_summed(path, summed(b"b"))


SUMS = SegmentSums(Summed(1, 2), Summed(3, 4), Summed(5, 6), Summed(2**64 - 1, 0))
OWNER = Owner(UUID(int=7), 0)


@table(
    "content",
    [
        Content(),
        Content(SUMS),
        Content(SUMS, OWNER),
        Content(SUMS, OWNER._replace(partition=2**31 - 1), (Offset(2**63 - 1), 2**32 - 1)),
        Content(SUMS, None, (Offset(0), 0)),
    ],
)
def test_what_a_file_of_sums_says_comes_back(tmp_path: Path, content: Content) -> None:
    path = tmp_path / "sums"
    write_content(path, 5, content, durable=False)
    assert read_content(path, 5) == content
    assert read_content(path, 6) == Content(), "it is another segment's"
    raw = path.read_bytes()
    assert len(raw) == 94
    for cut in (0, 1, 4, 93):
        path.write_bytes(raw[:cut])
        assert read_content(path, 5) == Content()
    path.write_bytes(raw + b"\0")
    assert read_content(path, 5) == Content()
    path.write_bytes(raw[:-1] + bytes((raw[-1] ^ 1,)))
    assert read_content(path, 5) == Content()


def test_a_file_of_sums_of_version_1_has_neither_owner_nor_snapshot(tmp_path: Path) -> None:
    raw = struct.pack(">hq", 1, 5) + b"".join(struct.pack(">QI", *part) for part in SUMS)
    path = tmp_path / "sums"
    path.write_bytes(raw + struct.pack(">I", crc32c(raw)))
    assert read_content(path, 5) == Content(SUMS)
    other = struct.pack(">h", 2) + raw[2:]
    path.write_bytes(other + struct.pack(">I", crc32c(other)))
    assert read_content(path, 5) == Content()


def test_a_file_of_sums_is_torn_if_its_checksum_is_wrong(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    assert not is_torn(log)
    write_content(sums_path(log), 0, Content(), durable=False)
    assert not is_torn(log)
    for cut in (0, 1, 3, 5, 93):
        raw = sums_path(log).read_bytes()
        sums_path(log).write_bytes(raw[:cut])
        assert is_torn(log), cut
        sums_path(log).write_bytes(raw)
    sums_path(log).write_bytes(bytes(4))
    assert not is_torn(log), "nothing has that checksum"


# -- segments and holes -------------------------------------------------------------------------


def sealed_with(root: Path, sums: Summed, owner: Owner | None = None, *, is_sealed: bool = True) -> Segment:
    """A segment of 100 bytes, and a file that says so of them."""
    path = root / f"{0:020d}.log"
    path.write_bytes(bytes(100))
    write_content(sums_path(path), 0, Content(NOTHING._replace(batches=sums), owner), durable=False)
    return Segment(Offset(0), path, is_sealed)


@table(
    ("sums", "is_sealed", "says"),
    [
        (NOT_SUMMED, True, None),
        (summed(bytes(100)), True, None),
        (summed(bytes(99)), True, None),
        (summed(bytes(101)), True, "it has 100 bytes, and 101 were written"),
        (summed(bytes(101)), False, None),
        (Summed(100, 5), True, "other bytes than were written"),
        (Summed(100, 5), False, "other bytes than were written"),
    ],
)
def test_why_a_segment_is_not_what_was_written(
    tmp_path: Path, sums: Summed, is_sealed: bool, says: str | None
) -> None:
    found = unlike_written(sealed_with(tmp_path, sums, is_sealed=is_sealed))
    assert found is None if says is None else found is not None and found.startswith(says)


@table(
    ("said", "wanted", "is_other"),
    [
        (None, OWNER, False),
        (OWNER, None, False),
        (OWNER, OWNER, False),
        (OWNER, OWNER._replace(partition=1), True),
    ],
)
def test_a_segment_of_another_owner(
    tmp_path: Path, said: Owner | None, wanted: Owner | None, is_other: bool
) -> None:
    found = unlike_written(sealed_with(tmp_path, summed(bytes(100)), said), wanted)
    assert (found is not None) == is_other


def test_segments_are_those_with_names_of_segments_and_sealed_without_a_permission(tmp_path: Path) -> None:
    for name, mode in ((f"{5:020d}.log", 0o444), (f"{3:020d}.log", 0o644), (f"{4:020d}.log", 0o464)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    for other in (f"{7:019d}.log", f"{7:020d}.log.damaged", f"x{7:020d}.log", f"{7:020d}.checksums"):
        (tmp_path / other).touch()
    assert [(each.base, each.sealed) for each in list_segments(tmp_path)] == [
        (3, False),
        (4, False),
        (5, True),
    ]
    assert list_segments(tmp_path / "nowhere") == ()


@table(("count", "is_read"), [(3, True), (4, False)])
def test_so_many_holes_and_no_more_are_read(tmp_path: Path, count: int, is_read: bool) -> None:
    holes = tuple(Hole(Offset(10 * n), Offset(10 * n + 5)) for n in range(count))
    (tmp_path / HOLES_FILE).write_bytes(encode_holes(holes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "HOLES_MAX", 3)
        if is_read:
            assert load_holes(tmp_path) == holes
        else:
            with pytest.raises(CorruptData, match=HOLES_FILE):
                load_holes(tmp_path)


@table(
    "holes",
    [
        pytest.param([(5, 5)], id="empty"),
        pytest.param([(5, 4)], id="backwards"),
        pytest.param([(0, 5), (4, 9)], id="overlapping"),
        pytest.param([(0, 5), (5, 9)], id="touching"),
        pytest.param([(6, 9), (0, 5)], id="in-another-order"),
    ],
)
def test_holes_that_do_not_ascend_are_corrupt(tmp_path: Path, holes: list[tuple[int, int]]) -> None:
    (tmp_path / HOLES_FILE).write_bytes(msgspec.json.encode({"version": 1, "holes": holes}))
    with pytest.raises(CorruptData, match="ascending"):
        load_holes(tmp_path)


def test_where_an_archive_begins(tmp_path: Path) -> None:
    assert ArchiveReader(tmp_path).start == 0
    (tmp_path / HOLES_FILE).write_bytes(
        encode_holes((Hole(Offset(0), Offset(5)), Hole(Offset(7), Offset(9))))
    )
    assert ArchiveReader(tmp_path).start == 9
    (tmp_path / f"{9:020d}.log").touch()
    (tmp_path / f"{12:020d}.log").touch()
    assert ArchiveReader(tmp_path).start == 9


@table(
    ("checked_from", "cleaned_end", "content"),
    [
        (0, 0, [True, True, True]),
        (1, 0, [False, True, True]),
        (3, 0, [False, False, False]),
        (2, 9, [False, False, True]),
    ],
)
def test_batches_before_an_offset_are_passed_over_unread(
    tmp_path: Path, checked_from: int, cleaned_end: int, content: list[bool]
) -> None:
    filled(tmp_path, 3)
    (found,) = list_segments(tmp_path / Log.METADATA.directory)
    scanned = list(scan_segment(found, Offset(checked_from), Offset(cleaned_end)))
    assert [each.content == batch(n) for n, each in enumerate(scanned)] == content
    assert [each.position for each in scanned] == [0, BATCH_BYTES, 2 * BATCH_BYTES]


@table(("cleaned_end", "is_sound"), [(0, False), (5, False), (6, True), (7, True)])
def test_only_below_where_a_cleaner_was_offsets_may_be_missing(
    tmp_path: Path, cleaned_end: int, is_sound: bool
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0) + batch(5))
    scan = scan_segment(Segment(Offset(0), path, True), cleaned_end=Offset(cleaned_end))
    assert next(scan).header.base_offset == 0
    if is_sound:
        assert next(scan).header.base_offset == 5
    else:
        with pytest.raises(CorruptData, match="begins at offset 5, expected 1"):
            next(scan)


@table(
    ("epochs", "end"),
    [((1, 1, 1), 3), ((1, 2, 2), 3), ((2, 1, 2), 0), ((1, 3, 3, 2), 1), ((1, 1, 2, 2, 1), 2)],
)
def test_where_an_epoch_falls_both_are_in_doubt(tmp_path: Path, epochs: tuple[int, ...], end: int) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(batch(n, epoch=epoch) for n, epoch in enumerate(epochs)))
    found, position, error = sound_part(Segment(Offset(0), path, True))
    assert (found, position, error is None) == (end, end * BATCH_BYTES, end == len(epochs))


@table(
    ("at", "must_be", "end"),
    [
        (3, None, 1),
        (3, 1, 1),
        (3, 2, 1),
        (3, 3, 3),
        (3, 4, 3),
        (1, 3, 1),
        (1, 4, 1),
        (2, 2, 2),
        (0, 1, 1),
        (0, 2, 0),
    ],
)
def test_where_it_is_known_which_epoch_is_right_that_one_stays(
    tmp_path: Path, at: int, must_be: int | None, end: int
) -> None:
    """Epochs 1, 3, 3, and then 2."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(batch(n, epoch=epoch) for n, epoch in enumerate((1, 3, 3, 2))))

    def epoch_at(offset: Offset) -> Term | None:
        return None if must_be is None or offset != at else Term(must_be)

    found, position, error = sound_part(Segment(Offset(0), path, True), epoch_at)
    assert (found, position) == (end, end * BATCH_BYTES)
    assert error is not None


def test_an_epoch_may_not_fall_from_one_segment_to_the_next(tmp_path: Path) -> None:
    folder = tmp_path / Log.METADATA.directory
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(batch(0, epoch=2))
    (folder / f"{1:020d}.log").write_bytes(batch(1, epoch=1))
    with pytest.raises(CorruptData, match="epoch 1 follows one of epoch 2"):
        offsets(tmp_path)
