"""The scrub: its sum is that of all rows, whatever is written during a pass, and a changed row is found."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.view import ImageHeader, Overlay
from fencepost.records.types import ImageVersion
from fencepost.snapshots.reader import read_store
from fencepost.snapshots.rows import row_key
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SealBroken, require_sealed
from tests.examples import examples

KEYS = 12


def filled(directory: Path) -> Store:
    store = Store.open(directory / "store", sync=False)
    store.verify_image()
    write(store, {key: key for key in range(0, KEYS, 2)})
    return store


def write(store: Store, levels: dict[int, int | None]) -> None:
    overlay = Overlay(store.image)
    for key, level in levels.items():
        if level is None:
            overlay.delete(FEATURES, f"feature-{key:02}")
        else:
            overlay.put(FEATURES, f"feature-{key:02}", FeatureLevel(level))
    overlay.header = ImageHeader(version=ImageVersion(store.image.header.version + 1))
    overlay.write_to(store.image)
    store.flush()


def passes(store: Store, rows: int) -> bool:
    """One pass to its end."""
    for _ in range(2 * KEYS):
        if not store.scrub_rows(rows):
            return False
        if not store.scrub.cursor:
            return True
    raise AssertionError("a pass without end")


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, KEYS), st.one_of(st.none(), st.integers(0, 300))),
        max_size=20,
    )
)
def test_rows_that_are_written_during_a_pass_are_no_damage(
    tmp_path_factory: pytest.TempPathFactory, played: list[tuple[int, int, int | None]]
) -> None:
    store = filled(tmp_path_factory.mktemp("scrub"))
    for rows, key, level in played:
        assert store.scrub_rows(rows)
        write(store, {key: level})
    assert passes(store, 3)
    assert passes(store, 3)
    store.close()


@pytest.mark.parametrize("key", [0, 4, KEYS - 2])
@pytest.mark.parametrize("before", [0, 3])
def test_a_row_that_changes_in_the_store_is_found(tmp_path: Path, key: int, before: int) -> None:
    store = filled(tmp_path)
    if before:
        store.scrub_rows(before)
    at = row_key(store.generation, FEATURES.name, FEATURES.encode_key(f"feature-{key:02}"))
    store.txn.put(at, FEATURES.encode_value(FeatureLevel(299)), db=store.image_db)
    found = [passes(store, 2) for _ in range(2)]
    assert not all(found), "in this pass, or in the next one if the cursor had passed it"
    store.close()


def test_an_image_of_another_generation_is_scrubbed_from_its_first_row(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.scrub_rows(3)
    generation = store.fresh_generation()
    value = FEATURES.encode_value(FeatureLevel(1))
    store.put_rows(generation, [(FEATURES.name, FEATURES.encode_key(f"f{at}"), value) for at in range(5)])
    store.flip(generation, ImageHeader(version=ImageVersion(9)))
    assert passes(store, 2)
    store.close()


def test_a_copy_of_rows_that_changed_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.flush()
    at = row_key(store.generation, FEATURES.name, FEATURES.encode_key("feature-04"))
    with store.reader() as reader:
        require_sealed(reader)
    store.txn.put(at, FEATURES.encode_value(FeatureLevel(299)), db=store.image_db)
    store.dirty = True
    store.commit()
    store.close()
    with read_store(tmp_path / "store") as reader, pytest.raises(SealBroken):
        require_sealed(reader)
