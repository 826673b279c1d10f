"""Bits of a store's pages flip while it is closed: LMDB never sees a page that breaks its rules."""

import random
import shutil
from pathlib import Path

import lmdb
import pytest
from lmdb import verify

from fencepost.snapshots.store import Store
from fencepost.snapshots.store_pages import TABLES, require_sound_pages
from fencepost.snapshots.sums import StoreDamaged
from tests.harness.page_layout import spans
from tests.simulation.sweep_places import BITS, EITHER, UNUSED
from tests.together import table

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


CONTENT = (
    "meta key", "meta value", "free list value", "free list key",
    "overflow value length",
)  # fmt: skip
LENGTHS = ("leaf node data length", "leaf node key length")  # by one: where padding is, it is content, too
EACH = (
    "tables key",
    "table flags",
    "meta page tables flags",
    "meta page free list flags",
    "branch page lower",
)
SPANS_APART, STRIDE = 5, 13  # of fields, and of their bits: with 1 and 1 it takes two minutes


def test_each_bit_of_what_lmdb_goes_by_is_found(file: Path) -> None:
    """But for those that it does not read, and for content, which sums are of."""
    raw, looked = file.read_bytes(), 0
    for number, span in enumerate(spans(file)):
        if span.kind in CONTENT or span.kind.startswith((UNUSED, *EITHER)):
            continue
        used = BITS.get(span.kind, range(8 * (span.end - span.first)))
        if span.kind not in EACH:
            first = max(number % min(STRIDE, len(used)), span.kind in LENGTHS)
            used = range(0) if number % SPANS_APART else used[first::STRIDE]
        for bit in used:
            looked += 1
            assert is_broken(file, raw, span.first + bit // 8, bit % 8), (span, bit)
    assert looked > 400


def test_a_key_that_leads_elsewhere_is_found_or_leads_to_every_row(file: Path) -> None:
    """By those that come before and behind it: a cursor goes by it, and a row is looked for by it."""
    raw, looked = file.read_bytes(), [0, 0]
    for span in [each for each in spans(file) if each.kind == "separator"]:
        for bit in range(8 * (span.end - span.first)):
            is_found = is_broken(file, raw, span.first + bit // 8, bit % 8)
            looked[is_found] += 1
            if not is_found:
                with lmdb.open(str(file.parent), max_dbs=8, readonly=True, lock=False) as env:
                    db = env.open_db(b"meta", create=False)
                    with env.begin(db=db) as txn:
                        keys = list(txn.cursor().iternext(keys=True, values=False))
                        assert all(txn.get(key) is not None for key in keys), (span, bit)
    assert min(looked) > 0


def test_a_transaction_of_a_meta_page_that_changed_does_not_bring_the_store_before_back(file: Path) -> None:
    """Either page counts as the newer one, if its number says so: with what the other one wrote gone."""
    raw = file.read_bytes()
    numbers = [int.from_bytes(raw[page * PAGE + 144 : page * PAGE + 152], "little") for page in (0, 1)]
    newer, older = sorted((0, 1), key=numbers.__getitem__, reverse=True)
    brought_back = 0
    for page, bit in ((page, bit) for page in (newer, older) for bit in range(64)):
        changed = numbers[page] ^ 1 << bit
        if page == newer or changed > numbers[newer]:
            brought_back += page == older or changed < numbers[older]
            assert is_broken(file, raw, page * PAGE + 144 + bit // 8, bit % 8), (page, bit)
    assert brought_back > 50


def test_nothing_of_the_earlier_meta_page_is_believed(file: Path) -> None:
    raw = file.read_bytes()
    unused = [span for span in spans(file) if span.kind.startswith("unused of the earlier")]
    assert len(unused) > 10
    for span in unused:
        for at in range(span.first, span.end):
            assert not is_broken(file, raw, at, at % 8), span


def test_the_earlier_free_list_may_lead_to_any_page(file: Path) -> None:
    """Also to one of a table whose keys are numbers, with values of any length."""
    store = Store.open(file.parent, sync=False)
    for number in range(40):
        store.meta_put(f"{number:08d}", bytes(8 * (number % 4)))
    store.commit()
    store.meta_put("zzzzzzzz", b"")
    store.close()
    raw = file.read_bytes()
    (root,) = [span for span in spans(file) if span.kind == "unused of the earlier meta page: free list root"]
    for page in range(len(raw) // PAGE + 1):
        file.write_bytes(raw[: root.first] + page.to_bytes(8, "little") + raw[root.end :])
        require_sound_pages(file.parent)


LARGEST_PAGE = 1 << 15  # where those of the machine have 64 KiB


@table("root", [2**64 - 1, 2**64 - 2, 2**48 - 1, 1 << 47, 2])
def test_an_earlier_free_list_may_lead_past_any_file(tmp_path: Path, root: int) -> None:
    """As an empty one does, with pages of any size."""
    directory = tmp_path / f"{root}"
    lmdb.open(str(directory)).close()
    file = directory / "data.mdb"
    raw, larger = file.read_bytes(), b""
    for number in (0, 1):
        page = bytearray(raw[number * PAGE : (number + 1) * PAGE] + bytes(LARGEST_PAGE - PAGE))
        page[40:44] = LARGEST_PAGE.to_bytes(4, "little")
        page[144] = number  # its transaction
        if number == 0:
            page[80:88] = root.to_bytes(8, "little")
        larger += bytes(page)
    file.write_bytes(larger)
    require_sound_pages(directory)


OWN = tuple(name.decode() for name in TABLES)


@table(
    ("tables", "has_row", "is_own"),
    [
        ((), False, True),
        (OWN[:1], False, True),
        (OWN[:2], False, True),
        (OWN[:3], False, True),
        (OWN, False, True),
        (OWN, True, True),
        (OWN[:3], True, True),  # an earlier version's
        (OWN[:2], True, False),
        (OWN[:1], True, False),
        (OWN[1:], False, False),
        ((*OWN[:2], "sums"), False, False),
        ((*OWN, "imagf"), False, False),
        ((*OWN[:3], "sumt"), True, False),
        (("\xe9",), False, False),
    ],
)
def test_a_store_has_its_own_tables(
    tmp_path: Path, tables: tuple[str, ...], has_row: bool, is_own: bool
) -> None:
    """Under another name the rows of one would lie unread, beside a new one that is empty."""
    directory = tmp_path / "-".join((*tables, str(has_row)))
    with lmdb.open(str(directory), max_dbs=8) as env:
        for name in tables:
            db = env.open_db(name.encode("latin-1"))
            with env.begin(write=True) as txn:
                txn.put(b"a", b"", db=db) if has_row else None
    if is_own:
        require_sound_pages(directory)
        Store.open(directory, sync=False).close()
        return
    with pytest.raises(StoreDamaged, match="a store's tables are meta, journal, image, sums, and these are "):
        Store.open(directory, sync=False)


@pytest.mark.parametrize("shorter", [2500, 4080, 100, 0])
def test_a_value_that_a_transaction_wrote_longer_before_is_no_damage(tmp_path: Path, shorter: int) -> None:
    """It keeps its pages. A row of the image is one, where entries are replayed."""
    store = Store.open(tmp_path / "store", sync=False)
    store.meta_put("a", bytes(9000))
    store.meta_put("a", bytes(shorter))
    store.commit()
    store.close()
    Store.open(tmp_path / "store", sync=False).close()


def test_another_number_of_pages_of_a_value_is_damage(tmp_path: Path) -> None:
    """Though it has enough of them: the table's record says another sum."""
    store = Store.open(tmp_path / "store", sync=False)
    store.meta_put("a", bytes(9000))
    store.close()
    file = tmp_path / "store" / "data.mdb"
    raw = file.read_bytes()
    (count,) = [span for span in spans(file) if span.kind == "overflow pages"]
    assert raw[count.first] == 3
    for bit in range(8):
        assert is_broken(file, raw, count.first, bit)


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
