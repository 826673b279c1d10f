"""Log levels in storms: voters of three versions are upgraded one by one, and the level is raised in between.

Goal     the level in force is never above what a bound voter reads, and no node meets what it cannot read.
Method   tests/simulation/levels.py, in every weather; at the end the level is raised on every node.
Replay   ``pytest tests/simulation/test_level_storms.py -k level-seed-17``, any number.
"""

from functools import cache

import pytest

from tests.examples import share
from tests.simulation.levels import LevelSimulation
from tests.simulation.storms import weather_the_levels

SOME = share(4)


@cache
def short_storm(seed: int) -> LevelSimulation:
    return weather_the_levels(seed, storm_s=4.0)


def test_levels_in_short_storms() -> None:
    """Rough enough that a broken rule shows in one of them: `make mutants` relies on it."""
    for seed in (15, 44, *range(SOME)):
        short_storm(seed)


def test_the_operator_is_refused_before_it_is_time() -> None:
    """Or these storms would show nothing."""
    assert any(weather_the_levels(seed, storm_s=2.0).refused > 3 for seed in range(SOME))


def test_records_of_groups_are_refused_until_the_level_has_them_then_written() -> None:
    storms = [short_storm(seed) for seed in range(SOME)]
    assert any(sim.too_low > 3 for sim in storms)
    assert all(sim.written > 3 for sim in storms)


@pytest.mark.slow
def test_levels(level_seed: int) -> None:
    weather_the_levels(level_seed)
