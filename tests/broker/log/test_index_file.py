"""An index file by itself: what is counted, found, cut, summed, and what cannot be."""

import errno
import os
import struct
from pathlib import Path

import pytest

from fencepost.broker.log.index_file import TIME_ENTRY, IndexFile
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed
from tests.together import table

ENTRIES = [(10 * n, n) for n in range(1, 1_101)]  # more than are read at a time, two times


def opened(path: Path) -> IndexFile:
    return IndexFile(path, TIME_ENTRY, lambda file, flags: os.open(file, flags, 0o644))


def filled(path: Path, entries: list[tuple[int, int]]) -> IndexFile:
    path.write_bytes(b"".join(TIME_ENTRY.pack(*entry) for entry in entries))
    return opened(path)


def summed(content: bytes) -> Summed:
    return NOT_SUMMED.followed_by(content)


def test_a_file_that_is_not_there_or_empty_has_no_entry(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    assert (index.count, index.last, index.sum) == (0, None, NOT_SUMMED)
    assert not index.is_whole()
    index.append(5, 0)
    assert (index.count, index.last, index.size) == (1, (5, 0), 12)
    index.path.unlink()
    index.refresh()
    assert (index.count, index.last) == (0, None)


def test_a_part_of_an_entry_is_not_counted_and_goes_with_a_cut(tmp_path: Path) -> None:
    index = filled(tmp_path / "index", ENTRIES[:3])
    with index.path.open("ab") as file:
        file.write(bytes(11))
    index.refresh()
    assert (index.count, index.last, index.is_whole()) == (3, ENTRIES[2], False)
    with pytest.raises(struct.error):
        index[3]
    index.cut(3)
    assert (index.count, index.is_whole()) == (3, True)
    index.cut(1)
    assert (list(index.entries()), index.last) == (ENTRIES[:1], ENTRIES[0])
    index.cut(0)
    assert (index.count, index.last, index.is_whole()) == (0, None, True)


@table(
    ("first", "end"),
    [(0, 0), (0, 1), (0, 511), (0, 512), (0, 513), (1, 514), (588, 1_100), (3, 1_099), (7, 7)],
)
def test_entries_are_read_from_one_to_another(tmp_path: Path, first: int, end: int) -> None:
    index = filled(tmp_path / "index", ENTRIES)
    assert list(index.between(first, end)) == ENTRIES[first:end]
    assert list(index.entries(first)) == ENTRIES[first:]


@table("field", [0, 1])
def test_how_many_are_below_a_bound(tmp_path: Path, field: int) -> None:
    for count in range(6):
        index = filled(tmp_path / f"index-{count}", ENTRIES[:count])
        for bound in range(-1, 70):
            expected = sum(entry[field] < bound for entry in ENTRIES[:count])
            assert index.count_below(field, bound) == expected


def test_the_sum_is_of_what_was_appended_or_read_by_a_cut(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    for entry in ENTRIES[:3]:
        index.append(*entry)
        assert index.sum == summed(index.path.read_bytes())
    index.close()
    again = opened(index.path)
    again.append(*ENTRIES[3])
    assert again.sum == NOT_SUMMED, "of entries that were there nothing is known"
    again.cut(3)
    assert again.sum == summed(again.path.read_bytes())
    again.append(*ENTRIES[3])
    assert again.sum == summed(again.path.read_bytes())


def test_half_an_entry_that_is_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = opened(tmp_path / "index")
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:5]))
    with pytest.raises(OSError, match="half an index entry") as failed:
        index.append(1, 2)
    assert (failed.value.errno, failed.value.filename) == (errno.ENOSPC, str(index.path))
    assert (index.count, index.last, index.sum) == (0, None, NOT_SUMMED)


@table(
    ("entries", "field", "is_sorted"),
    [
        ([], 0, True),
        ([(0, 0)], 0, True),
        ([(-1, 0)], 0, False),
        ([(0, -1)], 0, True),  # one that is not known
        ([(0, -2)], 0, False),
        ([(5, 0), (5, 1)], 0, False),
        ([(5, 1), (6, 0)], 0, True),
        ([(5, 1), (6, 0)], 1, False),
        ([(5, 0), (6, 1), (4, 2)], 0, False),
    ],
)
def test_entries_that_go_back_cannot_be(
    tmp_path: Path, entries: list[tuple[int, int]], field: int, is_sorted: bool
) -> None:
    assert filled(tmp_path / "index", entries).is_sorted(field) == is_sorted


def test_a_closed_file_opens_again(tmp_path: Path) -> None:
    index = opened(tmp_path / "index")
    index.close()
    descriptor = index.open()
    assert index.open() == descriptor
    index.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    index.close()
    index.append(*ENTRIES[0])
    assert list(index.entries()) == ENTRIES[:1]
