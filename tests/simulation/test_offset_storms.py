"""Offsets in transactions, in storms: see offset_loops.py."""

import pytest

from tests.simulation.offset_loops import OffsetSimulation
from tests.simulation.weather import Weather

LEADERS_DIE = Weather(crashes=0.8, hand_overs=0.5, downtime_s=(0.05, 0.5))


def weather_the_loops(seed: int, weather: Weather | None = None, seconds: float = 20.0) -> OffsetSimulation:
    with OffsetSimulation(seed, weather=weather) as sim:
        sim.run(seconds)
        sim.heal()
        sim.demand_commits()
        sim.demand_progress()
        return sim


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8), ids="offset-seed-{}".format)
def test_offsets(seed: int) -> None:
    weather_the_loops(seed)


def test_leaders_die_at_every_step_of_a_transaction() -> None:
    """No weather but the leader's deaths, among loops that commit, abort and sleep too long."""
    sim = weather_the_loops(11, LEADERS_DIE, 12.0)
    names = ("InitProducerId", "AddOffsets", "CommitTransactionOffsets", "EndTxn", "FetchOffsets")
    assert min(sim.counts[name] for name in names) > 10, sim.counts
    assert min(each.commits for each in sim.loops) > 5
