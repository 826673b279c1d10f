"""The upgrade from ZooKeeper in storms: see upgrade.py. ``make simulate`` runs more of them."""

import pytest

from tests.simulation.storms import weather_the_upgrade

pytestmark = pytest.mark.slow


def test_upgrade(upgrade_seed: int) -> None:
    weather_the_upgrade(upgrade_seed)
