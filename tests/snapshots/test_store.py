"""The store: what a flush keeps, what a crash takes, and that a stored image is the image."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings

import fencepost.snapshots.image
from fencepost.controller import producer_ids
from fencepost.controller.brokers import BROKERS
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.producer_ids import PRODUCER_IDS
from fencepost.controller.view import KEY_BYTES_MAX, ImageHeader
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.types import ImageVersion, NodeId, ProducerId, Term
from fencepost.snapshots.image import _Rows, image_digest
from fencepost.snapshots.reader import read_store
from fencepost.snapshots.row_ranges import RANGE_ROWS_MAX
from fencepost.snapshots.rows import Row, row_key
from fencepost.snapshots.store import Store, StoreInUse
from tests.controller.worlds import Step, allocated, histories, image, live_through, registered, rows
from tests.examples import examples
from tests.together import table


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store", sync=False)
    yield opened
    opened.abandon()


def header(version: int) -> ImageHeader:
    return ImageHeader(ImageVersion(version), Term(1), NodeId(1), (version, 0, 0))


def fill(store: Store, version: int = 1) -> None:
    """A broker and a block, at a version."""
    producer_ids.replay(store.image, allocated(1000 * version))
    store.image.put(FEATURES, "metadata.version", FeatureLevel(25))
    store.image.header = header(version)


def again(store: Store, end: Callable[[Store], object]) -> Store:
    """Another process on the same directory, after this one ended."""
    path = Path(store.env.path())
    end(store)
    return Store.open(path, sync=False)


# -- what is kept ------------------------------------------------------------------------------------------


def test_a_new_store_has_an_empty_image(store: Store) -> None:
    assert store.image.header == ImageHeader()
    assert not any(rows(store.image).values())


def test_nothing_is_flushed_twice(store: Store) -> None:
    before = store.commit()
    fill(store)
    assert [before, store.flush(), store.flush(), store.commit()] == [False, True, False, False]


def test_a_commit_waits_for_the_disk_unless_it_is_simulated(tmp_path: Path) -> None:
    flags = []
    for opened in (Store.open(tmp_path / "real"), Store.open(tmp_path / "simulated", sync=False)):
        flags.append(opened.env.flags())
        opened.abandon()
    real, simulated = flags
    assert (real["sync"], real["metasync"], simulated["sync"]) == (True, True, False)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda store: store.meta_put("other", b"x"), id="a-name-put"),
        pytest.param(lambda store: store.meta_delete("name"), id="a-name-removed"),
        pytest.param(lambda store: store.put_rows(2, some_rows(3)), id="rows-of-the-next-generation"),
        pytest.param(lambda store: store.clear_others(9), id="rows-of-another-generation-removed"),
    ],
)
def test_each_thing_written_is_a_reason_to_commit(tmp_path: Path, write: Callable[[Store], object]) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    store.meta_put("name", b"x")
    store.put_rows(1, some_rows(2))
    store.commit()
    write(store)
    there = _raw(store)
    assert store.commit()
    store = again(store, Store.abandon)
    assert _raw(store) == there
    store.close()


def _raw(store: Store) -> list[dict[bytes, bytes]]:
    """What the image's and the named values' tables hold."""
    return [
        {bytes(key): bytes(value) for key, value in store.txn.cursor(db=each)}
        for each in (store.image_db, store.meta_db)
    ]


def test_what_was_flushed_is_there_after_a_crash_and_the_rest_is_not(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    assert store.flush()
    before = rows(store.image)
    fill(store, 2)
    store.meta_put("lost", b"x")
    store = again(store, Store.abandon)
    assert (rows(store.image), store.image.header) == (before, header(1))
    assert store.meta_get("lost") is None
    store.close()


def test_a_commit_without_a_save_keeps_what_was_put_and_not_what_was_applied(tmp_path: Path) -> None:
    """What votes and acks wait for: the journal on disk is ahead of the image, never behind it."""
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    store.flush()
    fill(store, 2)
    store.meta_put("kept", b"x")
    assert store.commit()
    store = again(store, Store.abandon)
    assert (store.image.header.version, store.meta_get("kept")) == (1, b"x")
    store.close()


def test_closing_commits_what_was_put(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    store.meta_put("kept", b"x")
    store = again(store, Store.close)
    assert store.meta_get("kept") == b"x"
    store.close()


def test_a_reader_sees_what_was_flushed_last(store: Store) -> None:
    fill(store, 1)
    store.flush()
    fill(store, 2)
    with store.reader() as reader:
        assert reader.header.version == 1
        block = reader.get(PRODUCER_IDS, 0)
        assert block is not None
        assert block.end == 1000
        assert [key for key, _ in reader.items(PRODUCER_IDS)] == [0]
        store.flush()
        assert reader.get(PRODUCER_IDS, 0) == block, "and goes on seeing it"
    with store.reader() as reader:
        assert reader.header.version == 2


# -- who may open it ---------------------------------------------------------------------------------------


def test_a_directory_has_one_owner(store: Store) -> None:
    with pytest.raises(StoreInUse, match="stop that one first"):
        Store.open(Path(store.env.path()))


def test_another_process_reads_beside_its_owner(store: Store) -> None:
    fill(store, 3)
    store.flush()
    expected = image_digest(store)
    path = Path(store.env.path())
    store.env.close()  # LMDB wants one environment per process; the lock stays
    with read_store(path) as reader:
        assert (reader.header.version, reader.digest(), reader.journal_end()) == (3, expected, (1, 0))
    store.env = lmdb.open(str(path), max_dbs=8)


def test_reading_where_there_is_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no store"), read_store(tmp_path):
        pass


def test_reading_another_lmdb_says_so(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path), max_dbs=1).close()
    with pytest.raises(CorruptData, match="not a fencepost store"), read_store(tmp_path):
        pass


# -- generations -------------------------------------------------------------------------------------------


def some_rows(count: int) -> list[Row]:
    return [
        (FEATURES.name, FEATURES.encode_key(f"f{n}"), FEATURES.encode_value(FeatureLevel(n)))
        for n in range(count)
    ]


def test_rows_of_the_next_generation_are_not_seen_before_the_flip(store: Store) -> None:
    fill(store, 1)
    store.put_rows(1, some_rows(3))
    assert [name for name, _ in store.image.items(FEATURES)] == ["metadata.version"]
    store.flip(1, header(9))
    assert [name for name, _ in store.image.items(FEATURES)] == ["f0", "f1", "f2"]
    assert store.image.get(PRODUCER_IDS, 0) is None
    assert store.image.header == header(9)


@pytest.mark.parametrize(("flushed", "version"), [(False, 1), (True, 9)])
def test_a_crash_leaves_the_old_generation_or_the_new_one(
    tmp_path: Path, flushed: bool, version: int
) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    store.flush()
    store.put_rows(1, some_rows(3))
    store.commit()
    store.flip(1, header(9))
    if flushed:
        store.flush()
    store = again(store, Store.abandon)
    assert store.image.header.version == version
    assert len(list(store.image.items(FEATURES))) == (3 if flushed else 1)
    store.close()


def test_other_generations_are_cleared_in_slices_and_the_current_one_is_not(store: Store) -> None:
    """The image before a snapshot was installed, and what an installation that never ended left."""
    store.put_rows(1, some_rows(3))
    store.put_rows(3, some_rows(2))
    store.put_rows(2, some_rows(4))
    store.flip(2, header(9))
    assert [store.clear_others(2) for _ in range(4)] == [False, False, True, True]
    assert len(list(store.image.items(FEATURES))) == 4
    assert store.txn.stat(store.image_db)["entries"] == 4


def test_the_current_generation_is_not_written_to(store: Store) -> None:
    with pytest.raises(InvariantViolation, match="current generation"):
        store.put_rows(0, some_rows(1))


def test_a_row_of_an_unknown_table_is_corrupt(store: Store) -> None:
    with pytest.raises(CorruptData, match="unknown table 'nonsense'"):
        store.put_rows(1, [("nonsense", b"k", b"v")])


@table("has_later_rows", [False, True])
def test_an_image_without_a_row_of_its_generation_is_lost(store: Store, has_later_rows: bool) -> None:
    """Rows of a later one are not its own: of a snapshot that was being received, or its own once."""
    store.image.put(FEATURES, "f", FeatureLevel(1))
    store.image.header = header(1)
    store.flush()
    assert not store.forget_lost_image()
    if has_later_rows:
        store.put_rows(1, some_rows(3))
    row = row_key(store.generation, FEATURES.name, FEATURES.encode_key("f"))
    assert store.txn.delete(row, db=store.image_db)
    assert store.forget_lost_image()
    assert (store.image.header, store.commit()) == (ImageHeader(), True)


# -- the image ---------------------------------------------------------------------------------------------


def test_a_key_has_a_bound(store: Store) -> None:
    store.image.put(FEATURES, "f" * KEY_BYTES_MAX, FeatureLevel(1))
    store.image.header = header(1)
    store.flush()
    store.image.put(FEATURES, "f" * (KEY_BYTES_MAX + 1), FeatureLevel(1))
    store.image.header = header(2)
    with pytest.raises(InvariantViolation, match="key too long"):
        store.flush()


def test_a_full_cache_loses_one_row_for_each_that_it_takes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencepost.snapshots.image, "CACHED_ROWS_MAX", 3)
    for version in range(1, 6):
        store.image.put(FEATURES, f"f{version}", FeatureLevel(version))
        store.image.header = header(version)
        store.flush()
    rows = store.image._base
    assert isinstance(rows, _Rows)
    assert [key for _, key in rows._cache] == ["f3", "f4", "f5"]
    assert [store.image.get(FEATURES, f"f{n}") for n in range(7)] == [
        None,
        *map(FeatureLevel, range(1, 6)),
        None,
    ]


def test_the_latest_producer_ids_are_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of their row on the disk of a leader, and however many rows were read since."""
    monkeypatch.setattr(fencepost.snapshots.image, "CACHED_ROWS_MAX", 3)
    ids = producer_ids.ProducerIds(end=ProducerId(7000))
    store.image.put(PRODUCER_IDS, 0, ids)
    for version in range(1, 9):
        store.image.put(FEATURES, f"f{version}", FeatureLevel(version))
        store.image.header = header(version)
        store.flush()
    at = row_key(store.generation, PRODUCER_IDS.name, PRODUCER_IDS.encode_key(0))
    assert store.txn.delete(at, db=store.image_db)
    assert producer_ids.latest(store.image) == ids
    rows = store.image._base
    assert isinstance(rows, _Rows)
    assert len(rows._cache) == 3


def test_a_deleted_row_is_gone_from_the_cache_too(store: Store) -> None:
    for version, names in enumerate((("kept", "gone"), ("kept",), ("kept", "gone")), 1):
        for name in ("kept", "gone"):
            if name in names:
                store.image.put(FEATURES, name, FeatureLevel(version))
            else:
                store.image.delete(FEATURES, name)
        store.image.header = header(version)
        store.flush()
        expected = FeatureLevel(version) if "gone" in names else None
        assert (store.image.get(FEATURES, "gone"), store.image.get(FEATURES, "kept")) == (
            expected,
            FeatureLevel(version),
        )


def test_a_walk_may_be_written_under(store: Store) -> None:
    for number in range(3):
        store.image.put(FEATURES, f"f{number}", FeatureLevel(number))
    store.image.header = header(1)
    store.flush()
    for name, _ in store.image.items(FEATURES):
        store.image.delete(FEATURES, name)
    assert list(store.image.items(FEATURES)) == []


def test_a_scan_goes_on_after_a_key_over_what_is_saved_and_what_is_not(store: Store) -> None:
    count = 8 * RANGE_ROWS_MAX
    for number in range(0, count, 2):
        store.image.put(FEATURES, f"f{number:04}", FeatureLevel(1))
    store.image.header = header(1)
    store.flush()
    for number in range(1, count, 2):
        store.image.put(FEATURES, f"f{number:04}", FeatureLevel(2))
    store.image.delete(FEATURES, "f0002")
    names = [f"f{number:04}" for number in range(count) if number != 2]
    for after in ("f0000", "f0002", f"f{count // 2:04}", "f0001x", "zzz"):
        expected = [name for name in names if name > after]
        assert [name for name, _ in store.image.scan(FEATURES, after)] == expected
    store.image.header = header(2)
    store.flush()
    with store.reader() as reader:
        assert [name for name, _ in reader.scan(FEATURES)] == names
        assert next(reader.scan(FEATURES, names[70]))[0] == names[71]


def test_brokers_come_in_the_order_of_their_ids(store: Store) -> None:
    """Also past 255, where the order of bytes and that of little-endian numbers part."""
    in_memory = image(*(registered(n, n) for n in (300, 2, 256, 255, 1)))
    in_memory.write_to(store.image)
    store.flush()
    assert [key for key, _ in store.image.items(BROKERS)] == [1, 2, 255, 256, 300]


# -- laws --------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(histories, histories)
def test_a_stored_image_is_the_image(
    tmp_path_factory: pytest.TempPathFactory, first: list[Step], then: list[Step]
) -> None:
    """Lived through in memory, or in a store that is flushed and opened again in between."""
    in_memory = image()
    live_through(in_memory, [*first, *then])
    store = Store.open(tmp_path_factory.mktemp("law") / "store", sync=False)
    store.image.header = image().header
    live_through(store.image, first)
    store.flush()
    store = again(store, Store.abandon)
    live_through(store.image, then)
    assert rows(store.image) == rows(in_memory)
    assert store.image.header == in_memory.header
    in_store = image_digest(store)
    store.flush()
    with store.reader() as reader:
        assert reader.digest() == in_store, "saved or not, it has one digest"
    store.close()


@settings(max_examples=examples(40))
@given(histories, histories)
def test_images_have_one_digest_exactly_if_they_are_equal(
    tmp_path_factory: pytest.TempPathFactory, first: list[Step], second: list[Step]
) -> None:
    lived = []
    for history in (first, second):
        store = Store.open(tmp_path_factory.mktemp("law") / "store", sync=False)
        live_through(store.image, history)
        lived.append((rows(store.image), store.image.header, image_digest(store)))
        store.abandon()
    (rows_1, header_1, digest_1), (rows_2, header_2, digest_2) = lived
    assert (digest_1 == digest_2) == ((rows_1, header_1) == (rows_2, header_2))
