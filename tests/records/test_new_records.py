"""What a new metadata record comes with, beside its bytes (test_frame.py) and its replay (test_replay.py)."""

from typing import Any

import pytest
from hypothesis import given, settings

from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import METADATA_RECORDS
from tests.records.strategies import metadata_records

EXAMPLES = 500  # several times as many as a law of this folder looks at
WRITTEN_FROM_LEVEL = {
    0: {0, 1, 2, 3, 4, 9, 12, 15, 17, 20, 21},
    1: set[int](),
    2: set[int](),
    3: set[int](),
    4: set[int](),
    5: set[int](),
    6: {5},
    7: set[int](),
    8: {18, 19},
    9: set[int](),
    10: {11, 22},
    11: set[int](),
}
"""Keys of records by the log level from which on they are written: an older node halts at others."""


def test_every_record_is_written_from_a_log_level_on() -> None:
    """A new one needs a level of its own: those below are what earlier versions read."""
    keys = [key for level in WRITTEN_FROM_LEVEL.values() for key in level]
    assert sorted(keys) == sorted(METADATA_RECORDS)
    assert list(WRITTEN_FROM_LEVEL) == list(range(LEVEL_MAX + 1))


@pytest.fixture(scope="module")
def made() -> set[type[Any]]:
    """The kinds of records among EXAMPLES."""
    kinds: set[type[Any]] = set()

    @settings(max_examples=EXAMPLES)
    @given(metadata_records)
    def make(record: Any) -> None:
        kinds.add(type(record))

    make()
    return kinds


@pytest.mark.parametrize("kind", METADATA_RECORDS.values(), ids=lambda kind: kind.__name__)
def test_hypothesis_makes_every_record(kind: type[Any], made: set[type[Any]]) -> None:
    assert kind in made
