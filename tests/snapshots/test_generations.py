"""Generations of the image: what an installation that was killed leaves, and what a flip takes with it."""

from pathlib import Path

from fencepost.controller.features import FEATURES
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SEAL, Verdict
from tests.snapshots.test_store import again, fill, header, some_rows


def test_rows_of_an_installation_that_was_killed_are_not_in_the_next_one(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    store.flush()
    store.put_rows(store.fresh_generation(), some_rows(5))
    store.commit()
    store = again(store, Store.abandon)
    generation = store.fresh_generation()
    store.put_rows(generation, some_rows(2))
    store.flip(generation, header(9))
    assert [name for name, _ in store.image.items(FEATURES)] == ["f0", "f1"]
    store.flush()
    store = again(store, Store.abandon)
    assert store.verify_image() is Verdict.SOUND
    store.abandon()


def test_a_flip_takes_its_header_along_whatever_commits_it(tmp_path: Path) -> None:
    """A vote that is flushed commits what is in the transaction, without saving the image."""
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    store.flush()
    generation = store.fresh_generation()
    store.put_rows(generation, some_rows(2))
    store.flip(generation, header(9))
    store.commit()
    store = again(store, Store.abandon)
    assert store.image.header == header(9)
    store.abandon()


def test_an_image_without_a_seal_is_sealed_by_the_next_commit(tmp_path: Path) -> None:
    """An earlier version wrote none, or wrote behind it."""
    store = Store.open(tmp_path / "store", sync=False)
    fill(store, 1)
    store.flush()
    store.meta_delete(SEAL)
    store._must_seal = False
    store.commit()
    store = again(store, Store.abandon)
    assert store.verify_image() is Verdict.UNSEALED
    store.commit()
    store = again(store, Store.abandon)
    assert store.verify_image() is Verdict.SOUND
    store.abandon()
