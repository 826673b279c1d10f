"""What is read of an open store is what was written there, or nothing is read."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.cluster_version import CLUSTER_VERSION
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.topics import COLLIDING
from fencepost.controller.view import ImageHeader, Overlay
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ImageVersion
from fencepost.snapshots.row_ranges import (
    RANGE_BYTES_MAX,
    RANGE_ROWS_MAX,
    RawRow,
    RowRanges,
    RowsChanged,
)
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import Verdict
from tests.examples import examples
from tests.together import table

ROWS = 10 * RANGE_ROWS_MAX
Written = dict[str, int | None]
"""By name; None: deleted."""


def name_of(number: int) -> str:
    return f"feature-{number:04}"


def encoded(level: int) -> bytes:
    return FEATURES.encode_value(FeatureLevel(level))


def write(store: Store, levels: Written) -> None:
    overlay = Overlay(store.image)
    for name, level in levels.items():
        if level is None:
            overlay.delete(FEATURES, name)
        else:
            overlay.put(FEATURES, name, FeatureLevel(level))
    overlay.header = ImageHeader(version=ImageVersion(store.image.header.version + 1))
    overlay.write_to(store.image)
    store.flush()


def opened(directory: Path) -> Store:
    store = Store.open(directory / "store", sync=False)
    assert store.verify_image() is not Verdict.DAMAGED
    return store


def by_a_start(directory: Path) -> Store:
    """Every second row; nothing of them is in memory."""
    store = opened(directory)
    write(store, {name_of(number): 1 for number in range(0, ROWS, 2)})
    rows = [(FEATURES.name, FEATURES.encode_key(name_of(number)), b"later") for number in range(ROWS)]
    store.put_rows(store.fresh_generation(), rows)  # an installation that did not end
    store.close()
    return opened(directory)


def by_a_snapshot(directory: Path) -> Store:
    """The same rows."""
    store = opened(directory)
    generation, value = store.fresh_generation(), encoded(1)
    rows = [(FEATURES.name, FEATURES.encode_key(name_of(number)), value) for number in range(0, ROWS, 2)]
    for at in range(0, len(rows), 7):
        store.put_rows(generation, rows[at : at + 7])
    store.flip(generation, ImageHeader(version=ImageVersion(1)))
    store.flush()
    return store


def by_writes(directory: Path) -> Store:
    """The same rows, the last ones first, others beside them that are no more; then out of memory."""
    store = opened(directory)
    for number in reversed(range(ROWS)):
        write(store, {name_of(number): 1})
    write(store, {name_of(number): None for number in range(1, ROWS, 2)})
    forget(store)
    return store


def forget(store: Store) -> None:
    """Its image's rows in memory, as if they had not been read for a while."""
    store.image._stored._cache.clear()


def at(store: Store, number: int) -> bytes:
    return row_key(store.generation, FEATURES.name, FEATURES.encode_key(name_of(number)))


WAYS = (by_a_start, by_a_snapshot, by_writes)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 3 * RANGE_ROWS_MAX).map(name_of),
            st.one_of(st.none(), st.integers(0, 300)),
            max_size=2 * RANGE_ROWS_MAX,
        ),
        max_size=12,
    ),
    st.sets(st.integers(0, 11)),
)
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, played: list[Written], again_at: set[int]
) -> None:
    directory = tmp_path_factory.mktemp("ranges")
    store, meant = opened(directory), dict[str, int]()
    for turn, written in enumerate(played):
        write(store, written)
        for name, level in written.items():
            meant.pop(name, None)
            if level is not None:
                meant[name] = level
        if turn in again_at:
            store.close()
            store = opened(directory)
        forget(store)
        found = {name: row.level for name, row in store.image.items(FEATURES)}
        assert found == meant
        assert sum(store.ranges._bytes) == sum(len(encoded(level)) for level in meant.values())
        for name in written:
            row = store.image.get(FEATURES, name)
            assert (None if row is None else row.level) == meant.get(name)
    store.close()


def changed(store: Store, number: int) -> None:
    store.txn.put(at(store, number), encoded(2), db=store.image_db)


def gone(store: Store, number: int) -> None:
    assert store.txn.delete(at(store, number), db=store.image_db)


def moved(store: Store, number: int) -> None:
    """A bit of its key is another one."""
    gone(store, number)
    added(store, number)


def added(store: Store, number: int) -> None:
    store.txn.put(at(store, number) + b"x", encoded(1), db=store.image_db)


def looked_up(store: Store, number: int) -> None:
    store.image.get(FEATURES, name_of(number))


def looked_up_beside(store: Store, number: int) -> None:
    """A row that is not there: nor may it be."""
    assert store.image.get(FEATURES, name_of(number) + "-") is None


def scanned(store: Store, number: int) -> None:
    list(store.image.scan(FEATURES, name_of(number - 1)))


def listed(store: Store, number: int) -> None:
    list(store.image.items(FEATURES))


@table("way", WAYS)
@table("change", [changed, gone, moved, added])
@table("look", [looked_up, looked_up_beside, scanned, listed])
@table("number", [0, ROWS // 2, ROWS - 2])
def test_a_row_that_changed_is_not_read(
    tmp_path: Path,
    way: Callable[[Path], Store],
    change: Callable[[Store, int], None],
    look: Callable[[Store, int], None],
    number: int,
) -> None:
    store = way(tmp_path)
    change(store, number)
    with pytest.raises(RowsChanged, match="the store's table features was changed while it was open"):
        look(store, number)
    looked_up(store, ROWS - 2 if number < ROWS // 2 else 0)  # another range
    store.abandon()


def test_a_row_of_a_snapshot_that_changed_before_it_was_the_image_is_not_read(tmp_path: Path) -> None:
    store = opened(tmp_path)
    generation = store.fresh_generation()
    key, value = FEATURES.encode_key(name_of(0)), encoded(1)
    store.put_rows(generation, [(FEATURES.name, key, value)])
    other = encoded(2)
    store.txn.put(row_key(generation, FEATURES.name, key), other, db=store.image_db)
    store.flip(generation, ImageHeader(version=ImageVersion(1)))
    with pytest.raises(RowsChanged):
        looked_up(store, 0)
    store.abandon()


@table("way", WAYS)
def test_a_row_that_changed_and_is_written_again_leaves_its_range_refused(
    tmp_path: Path, way: Callable[[Path], Store]
) -> None:
    """What it was in between may have been read; and the image's sum is another from then on."""
    store = way(tmp_path)
    changed(store, 8)
    write(store, {name_of(8): 1})
    forget(store)
    with pytest.raises(RowsChanged):
        looked_up(store, 8)
    store.abandon()


def test_rows_that_came_are_found_when_their_range_is_split(tmp_path: Path) -> None:
    store = by_a_start(tmp_path)
    added(store, 0)
    write(store, {f"{name_of(0)}-{number}": 1 for number in range(2 * RANGE_ROWS_MAX)})
    assert "rows were written, " in store.ranges.changed
    with pytest.raises(RowsChanged):
        looked_up(store, 0)
    store.abandon()


def test_a_lost_row_is_found_when_its_range_has_no_other_one(tmp_path: Path) -> None:
    store = by_a_start(tmp_path)
    gone(store, ROWS - 2)
    added(store, ROWS - 4)
    store.image.put(FEATURES, name_of(ROWS - 4) + "x", FeatureLevel(1))  # in memory alone
    names = [*map(name_of, range(0, ROWS, 2)), name_of(ROWS - 4) + "x"]
    write(store, dict.fromkeys(names))
    assert "others were written" in store.ranges.changed
    forget(store)
    with pytest.raises(RowsChanged):
        looked_up(store, ROWS - 2)
    store.abandon()


def ranges(store: Store) -> list[list[RawRow]]:
    """The rows of each."""
    found, key, end = [], row_key(store.generation, "", b""), (store.generation + 1).to_bytes(4, "big")
    while key < end:
        rows, key = store.ranges.read(store.txn, store.image_db, key)
        found.append(rows)
    return found


def sizes(store: Store) -> list[int]:
    return [*map(len, ranges(store))]


@table("way", WAYS)
def test_a_range_is_as_long_as_its_rows_are_many(tmp_path: Path, way: Callable[[Path], Store]) -> None:
    store = way(tmp_path)
    before = sizes(store)
    assert sum(before) == ROWS // 2
    assert max(before) <= RANGE_ROWS_MAX
    assert len(before) <= ROWS // 2 // (RANGE_ROWS_MAX // 4)
    for level in range(2 * RANGE_ROWS_MAX):
        write(store, {name_of(0): level})
    assert sizes(store) == before, "rows that are written over are no more of them"
    write(store, {name_of(number): None for number in range(2, ROWS, 2)})
    assert sizes(store) == [1], "ranges without rows take no memory"
    store.abandon()


def long_rows(store: Store, numbers: Iterable[int], size: int) -> None:
    overlay = Overlay(store.image)
    for number in numbers:
        overlay.put(COLLIDING, f"name-{number:03}", "x" * size)
    overlay.header = ImageHeader(version=ImageVersion(store.image.header.version + 1))
    overlay.write_to(store.image)
    store.flush()


def test_a_long_row_is_in_a_range_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a group's members may be: whatever is read beside it costs no more than elsewhere."""
    store = opened(tmp_path)
    long_rows(store, range(RANGE_ROWS_MAX), 1)
    long_rows(store, range(0, RANGE_ROWS_MAX, 4), RANGE_BYTES_MAX + 1)
    for _ in range(2):
        found = ranges(store)
        for rows in found:
            assert len(rows) == 1 or sum(len(value) for _, value in rows) <= RANGE_BYTES_MAX
        assert len(found) <= 1 + RANGE_ROWS_MAX * 2 // 3
        assert list(store.ranges._bytes) == [sum(len(value) for _, value in rows) for rows in found]
        store.close()
        store = opened(tmp_path)
    monkeypatch.setattr(RowRanges, "_read", None)  # it is not read to be written
    long_rows(store, [0], RANGE_BYTES_MAX + 2)
    store.abandon()


def test_a_verified_reader_finds_its_rows_whatever_meta_says_of_their_generation(tmp_path: Path) -> None:
    store = by_a_start(tmp_path)
    store.flush()
    store.txn.put(b"generation", msgspec.msgpack.encode(7), db=store.meta_db)  # no word of it: it changed
    store.txn.commit()
    store._txn, store.dirty = None, False
    with store.verified_reader() as view:
        assert len(list(view.items(FEATURES))) == ROWS // 2
        assert view.get(FEATURES, name_of(0)) is not None
    store.abandon()


class Counting:
    """Stands for a transaction, and counts the rows that are read in it."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn
        self.read = 0

    def cursor(self, db: Any) -> "Counting":
        self._cursor = self._txn.cursor(db=db)
        return self

    def set_range(self, key: bytes) -> bool:
        return bool(self._cursor.set_range(key))

    def iternext(self) -> Iterator[Any]:
        for row in self._cursor.iternext():
            self.read += 1
            yield row


def test_a_start_reads_the_image_s_rows_and_few_of_an_installation_that_did_not_end(tmp_path: Path) -> None:
    store = by_a_start(tmp_path)
    txn = Counting(store.txn)
    RowRanges(store.generation).fill(txn, store.image_db)
    assert txn.read <= ROWS // 2 + RANGE_ROWS_MAX
    store.abandon()


def test_rows_of_a_store_that_was_not_verified_are_those_found_first(tmp_path: Path) -> None:
    by_a_start(tmp_path).close()
    store = Store.open(tmp_path / "store", sync=False)
    looked_up(store, 0)
    changed(store, 2)
    with pytest.raises(RowsChanged):
        looked_up(store, 2)
    store.abandon()


def test_a_row_that_was_written_so_and_cannot_be_read_is_corrupt(tmp_path: Path) -> None:
    store = opened(tmp_path)
    generation = store.fresh_generation()
    store.put_rows(generation, [(CLUSTER_VERSION.name, CLUSTER_VERSION.encode_key(0), b"\xc1")])
    store.flip(generation, ImageHeader(version=ImageVersion(1)))
    with pytest.raises(CorruptData, match=r"has a row that cannot be read"):
        store.image.get(CLUSTER_VERSION, 0)
    store.abandon()
