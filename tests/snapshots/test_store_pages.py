"""Bits of a store's pages flip while it is closed: LMDB never sees a page that breaks its rules."""

import random
import shutil
from pathlib import Path

import pytest
from lmdb import verify

from fencepost.snapshots.store import Store
from fencepost.snapshots.store_pages import require_sound_pages
from fencepost.snapshots.sums import StoreDamaged

PAGE = 4096
HEADER = 16  # page number 8, unused 2, kind 2, lower 2, upper 2
BRANCH, LEAF, OVERFLOW = 1, 2, 4


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a store with rows on every kind of page, some of which are free."""
    store = Store.open(tmp_path / "store", sync=False)
    for turn in range(4):
        for number in range(120):
            store.meta_put(f"{(number * 7 + turn * 40) % 300}", bytes(5000 if number % 20 == 0 else 60))
        for number in range(30):
            store.meta_delete(f"{number * 3}")
        store.commit()
    store.close()
    return tmp_path / "store" / "data.mdb"


def reached(raw: bytes, file: Path) -> list[int]:
    """Pages that the last commit reaches: those that are missed if they say another number."""
    pages = []
    for page in range(2, len(raw) // PAGE):
        at = page * PAGE
        kind = int.from_bytes(raw[at + 10 : at + 12], "little")
        if int.from_bytes(raw[at : at + 8], "little") == page and kind in (BRANCH, LEAF, OVERFLOW):
            if is_broken(file, raw, at, 0):
                pages.append(page)
    file.write_bytes(raw)
    return pages


def is_broken(file: Path, raw: bytes, at: int, bit: int) -> bool:
    file.write_bytes(raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :])
    try:
        require_sound_pages(file.parent)
    except StoreDamaged:
        return True
    return False


def test_a_bit_of_a_page_number_a_kind_or_a_pointer_is_found_before_lmdb_reads_it(file: Path) -> None:
    raw = file.read_bytes()
    pages = reached(raw, file)
    kinds = {raw[page * PAGE + 10] for page in pages}
    assert kinds == {BRANCH, LEAF, OVERFLOW}
    rng = random.Random(1)
    for page in pages:
        begin, kind = page * PAGE, raw[page * PAGE + 10]
        lower = int.from_bytes(raw[begin + 12 : begin + 14], "little")
        places = [*range(8), 10, 11, *(() if kind == OVERFLOW else (rng.randrange(HEADER, lower),))]
        for at in places:
            assert is_broken(file, raw, begin + at, rng.randrange(8)), (page, at)


def test_a_store_with_a_broken_page_is_not_opened(file: Path) -> None:
    """A page that says another number: LMDB opens it, and writes to the wrong place with the next commit."""
    raw = file.read_bytes()
    at = reached(raw, file)[0] * PAGE + 6
    file.write_bytes(raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :])
    for _ in range(2):  # nor is it locked then
        with pytest.raises(StoreDamaged, match=r"data\.mdb: .* of its pages' rules are broken, the first: "):
            Store.open(file.parent, sync=False)
    file.write_bytes(raw)
    Store.open(file.parent, sync=False).close()


def test_unused_space_and_free_pages_change_nothing(file: Path) -> None:
    raw = file.read_bytes()
    pages = set(reached(raw, file))
    free = [page for page in range(2, len(raw) // PAGE) if page not in pages]
    unused = []
    for page in pages:
        lower, upper = (
            int.from_bytes(raw[page * PAGE + at : page * PAGE + at + 2], "little") for at in (12, 14)
        )
        if raw[page * PAGE + 10] != OVERFLOW and lower < upper:
            unused.append(page * PAGE + lower)
    assert free
    assert unused
    for at in unused:
        assert not is_broken(file, raw, at, 3)
    changed = bytearray(raw)
    for page in free:  # also what follows the first page of a long row
        changed[page * PAGE + 100] ^= 1
    file.write_bytes(changed)
    require_sound_pages(file.parent)


def test_pages_that_nothing_reaches_are_lost_room_and_no_damage(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the library that is installed."""
    words: list[str] = []

    class Leaking(verify._Verifier):
        def _check_cover(self) -> None:
            self.free = bytearray(self.next_pgno)
            super()._check_cover()  # type: ignore[no-untyped-call]
            words.extend(self.errors)

    monkeypatch.setattr(verify, "_Verifier", Leaking)
    require_sound_pages(file.parent)
    assert len(words) == 1


@pytest.mark.parametrize("size", [0, 100, PAGE, 2 * PAGE + 100])
def test_a_file_that_is_cut_short_is_not_opened(file: Path, size: int) -> None:
    """But one that a killed process just made, empty, is that of a new store."""
    with file.open("r+b") as stream:
        stream.truncate(size)
    if size:
        with pytest.raises(StoreDamaged):
            Store.open(file.parent, sync=False)
        return
    Store.open(file.parent, sync=False).close()
    shutil.rmtree(file.parent)
    Store.open(file.parent, sync=False).close()
