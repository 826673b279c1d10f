"""Generations of the image: what an installation that was killed leaves, and what a flip takes with it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.controller.features import FEATURES
from fencepost.controller.view import ImageHeader
from fencepost.quorum.opened_store import open_store
from fencepost.records.invariant import InvariantViolation
from fencepost.snapshots.reader import APPLIED
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import SEAL, SEAL_COPY, Verdict
from tests.quorum.clients import Silence
from tests.snapshots.test_store import again, fill, header, some_rows
from tests.together import table

QUIET: Any = Silence()


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


@table("torn", [("generation", SEAL, SEAL_COPY), ("generation", SEAL)])
def test_an_installed_image_whose_generation_was_not_written_is_lost(
    tmp_path_factory: pytest.TempPathFactory, torn: tuple[str, ...]
) -> None:
    """Its header was, and an earlier seal says that an earlier version went on from there."""
    directory = tmp_path_factory.mktemp("node")
    store = open_store(directory, sync=False, log=QUIET)
    fill(store, 1)
    store.meta_put(APPLIED, msgspec.msgpack.encode((2, 1)))
    store.meta_put("generation", msgspec.msgpack.encode(0))
    store.flush()
    before = {name: store.meta_get(name) for name in torn}
    generation = store.fresh_generation()
    store.put_rows(generation, some_rows(2))
    store.flip(generation, header(9))
    store.meta_put(APPLIED, msgspec.msgpack.encode((10, 1)))
    assert store.clear_others(100)
    store.flush()
    store.rows_sum = None  # what follows is not sealed
    for name, raw in before.items():
        assert raw is not None
        store.meta_put(name, raw)
    store.close()
    store = open_store(directory, sync=False, log=QUIET)
    assert store.image.header == ImageHeader()
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


def test_a_generation_that_was_not_filled_last_does_not_become_the_image(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    store.put_rows(1, some_rows(1))
    with pytest.raises(InvariantViolation, match="another generation"):
        store.flip(2, header(9))
    store.abandon()
