"""Log levels in storms: voters of two versions are upgraded one by one, and the level is raised in between.

Goal     the level in force is never above what a bound voter reads, and no node meets what it cannot read.
Method   tests/simulation/levels.py, in every weather; at the end the level is raised on every node.
Replay   ``pytest tests/simulation/test_level_storms.py -k level-seed-17``, any number.
"""

import pytest

from tests.simulation.storms import weather_the_levels

SOME = 4


def test_levels_in_short_storms() -> None:
    """Rough enough that a broken rule shows in one of them: `make mutants` relies on it."""
    for seed in range(SOME):
        weather_the_levels(seed, storm_s=4.0)


def test_the_operator_is_refused_before_it_is_time() -> None:
    """Or these storms would show nothing."""
    assert any(weather_the_levels(seed, storm_s=2.0).refused > 3 for seed in range(SOME))


@pytest.mark.slow
def test_levels(level_seed: int) -> None:
    weather_the_levels(level_seed)
