"""The upgrade from ZooKeeper in storms: see upgrade.py. ``make simulate ARGS=--upgrade`` runs more of
them."""

import pytest

from tests.simulation.storms import weather_the_upgrade

pytestmark = pytest.mark.slow


def test_upgrade(upgrade_seed: int) -> None:
    weather_the_upgrade(upgrade_seed)


def test_a_rough_upgrade() -> None:
    """A leader whose write of unknown outcome looks as if it had been done: `make mutants` relies on it."""
    for seed in (18, 114):
        weather_the_upgrade(seed)


def test_an_upgrade_with_brokers_before_3_0() -> None:
    """One of them takes the block that stands in the znode in its own name: `make mutants` relies on it."""
    for seed in (1, 9):
        weather_the_upgrade(seed)


def test_the_same_seed_gives_the_same_upgrade() -> None:
    assert weather_the_upgrade(9).digest == weather_the_upgrade(9).digest
