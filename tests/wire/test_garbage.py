"""Garbage collections: each visits new objects alone, and cycles are found in the end."""

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from fencepost.wire import garbage
from fencepost.wire.garbage import COUNTED_EVERY, LongLived

VISITED_MAX = 20_000  # ten collections of the youngest generation, and what a test runner makes meanwhile
LONG_LIVED = 300_000


class Node:
    """In a cycle with itself."""

    def __init__(self) -> None:
        self.itself: Node | None = self


@pytest.fixture
def spare() -> Iterator[Callable[[int], LongLived]]:
    """What lives long is spared until the test ends."""
    made: list[LongLived] = []

    def of(blocks_min: int) -> LongLived:
        made.append(LongLived(blocks_min))
        return made[-1]

    yield of
    for each in made:
        each.undo()


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


def test_no_collection_visits_what_lives_long(spare: Callable[[int], LongLived], visited: list[int]) -> None:
    spare(100 * LONG_LIVED)
    visited.clear()
    kept = [[number] for number in range(LONG_LIVED)]
    assert len(visited) > 10  # the collector runs
    assert max(visited) < VISITED_MAX
    assert len(kept) == LONG_LIVED


@pytest.fixture
def counted_from_here(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many blocks there are more than before: of what the test runner has there are millions."""
    before = sys.getallocatedblocks()
    counter = SimpleNamespace(getallocatedblocks=lambda: sys.getallocatedblocks() - before)
    monkeypatch.setattr(garbage, "sys", counter)
    count: Callable[[], int] = counter.getallocatedblocks
    return count


def grown_until_due(spared: LongLived) -> list[list[int]]:
    kept: list[list[int]] = []
    while not spared.full_is_due and len(kept) < 5 * LONG_LIVED:
        kept.append([len(kept)])
    return kept


def test_cycles_that_lived_long_are_collected_past_the_bound(
    spare: Callable[[int], LongLived], counted_from_here: Callable[[], int]
) -> None:
    spared = spare(LONG_LIVED)
    node = Node()
    alive = weakref.ref(node)
    kept = [[number] for number in range(LONG_LIVED // 30)]  # the node is frozen by now
    del node
    spared.collect_if_due()
    assert alive() is not None  # it is not due yet
    kept += grown_until_due(spared)
    assert counted_from_here() > LONG_LIVED
    spared.collect_if_due()
    assert alive() is None
    assert not spared.full_is_due
    assert len(kept) > LONG_LIVED // 30


def test_a_full_collection_comes_when_it_is_called_for_and_not_before(
    spare: Callable[[int], LongLived], counted_from_here: Callable[[], int], visited: list[int]
) -> None:
    """However many objects are made after it is due: they are a request's."""
    spared = spare(LONG_LIVED)
    kept = grown_until_due(spared)
    visited.clear()
    more = [[number] for number in range(2 * LONG_LIVED)]
    assert len(visited) > COUNTED_EVERY
    assert max(visited) < VISITED_MAX
    spared.collect_if_due()
    assert visited[-1] > len(kept) + len(more)


def test_what_is_frozen_is_not_counted_object_by_object(
    spare: Callable[[int], LongLived], monkeypatch: pytest.MonkeyPatch
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


def test_what_is_in_no_cycle_is_freed_at_once(spare: Callable[[int], LongLived]) -> None:
    node = Node()
    node.itself = None
    alive = weakref.ref(node)
    spare(LONG_LIVED)
    del node
    assert alive() is None
