"""Garbage collections: each visits new objects alone, and cycles are found in the end."""

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from fencepost.wire import garbage
from fencepost.wire.garbage import spare_long_lived

VISITED_MAX = 20_000  # ten collections of the youngest generation, and what a test runner makes meanwhile
LONG_LIVED = 300_000


class Node:
    """In a cycle with itself."""

    def __init__(self) -> None:
        self.itself: Node | None = self


@pytest.fixture
def spare() -> Iterator[Callable[[int], None]]:
    """``spare_long_lived`` until the test ends."""
    undo: list[Callable[[], None]] = []
    yield lambda blocks_min: undo.append(spare_long_lived(blocks_min))
    for each in undo:
        each()


@pytest.fixture
def visited() -> Iterator[list[int]]:
    """How many objects each collection but those of the youngest generation visits, at most."""
    found: list[int] = []

    def note(phase: str, collection: dict[str, int]) -> None:
        if phase == "start" and collection["generation"]:
            found.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_no_collection_visits_what_lives_long(spare: Callable[[int], None], visited: list[int]) -> None:
    spare(100 * LONG_LIVED)
    visited.clear()
    kept = [[number] for number in range(LONG_LIVED)]
    assert len(visited) > 10  # the collector runs
    assert max(visited) < VISITED_MAX
    assert len(kept) == LONG_LIVED


def test_cycles_that_lived_long_are_collected_past_the_bound(
    spare: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are counted from here on: of what the test runner has there are millions."""
    before = sys.getallocatedblocks()
    counter = SimpleNamespace(getallocatedblocks=lambda: sys.getallocatedblocks() - before)
    monkeypatch.setattr(garbage, "sys", counter)
    spare(LONG_LIVED)
    node = Node()
    alive = weakref.ref(node)
    kept = [[number] for number in range(LONG_LIVED // 30)]  # the node is frozen by now
    del node
    while alive() is not None and len(kept) < 5 * LONG_LIVED:
        kept.append([len(kept)])
    assert alive() is None
    assert counter.getallocatedblocks() > LONG_LIVED  # and not before


def test_what_is_frozen_is_not_counted_object_by_object(
    spare: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a million objects that takes the loop 7 ms, and several times that if they are in no cache."""
    spare(100 * LONG_LIVED)
    counted: list[int] = []

    def count() -> int:
        counted.append(1)
        return 0

    monkeypatch.setattr(gc, "get_freeze_count", count)
    kept = [[number] for number in range(LONG_LIVED * 3)]
    assert not counted
    assert len(kept) == LONG_LIVED * 3


def test_what_is_in_no_cycle_is_freed_at_once(spare: Callable[[int], None]) -> None:
    node = Node()
    node.itself = None
    alive = weakref.ref(node)
    spare(LONG_LIVED)
    del node
    assert alive() is None
