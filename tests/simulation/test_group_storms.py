"""Groups in storms: see groups.py."""

import pytest

from tests.simulation.groups import GroupSimulation
from tests.simulation.post import PostWeather
from tests.simulation.weather import CALM, Weather

LEADERS_DIE = Weather(crashes=0.8, hand_overs=0.5, downtime_s=(0.05, 0.5))


def weather_the_group(seed: int, weather: Weather | None = None, seconds: float = 20.0) -> GroupSimulation:
    with GroupSimulation(seed, weather=weather) as sim:
        sim.run(seconds)
        sim.heal()
        sim.demand_stability()
        sim.demand_progress()
        return sim


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8), ids="group-seed-{}".format)
def test_groups(seed: int) -> None:
    weather_the_group(seed)


@pytest.mark.row("beyond.12")
@pytest.mark.row("beyond.12")
def test_leaders_die_at_every_step_of_a_rebalance() -> None:
    """No weather but the leader's deaths, among members that come and go."""
    sim = weather_the_group(11, LEADERS_DIE, seconds=30.0)
    counts = sim.facts.counts
    assert min(counts["joins"], counts["syncs"], counts["heartbeats"]) > 15, counts


def test_processes_are_replaced_while_they_live() -> None:
    """Static members are started twice, again and again: the first process is fenced, never the second."""
    with GroupSimulation(5, weather=CALM, post_weather=PostWeather().calmed()) as sim:
        sim.world.whims = sim.world.whims.calmed()._replace(doubles=0.1)
        sim.run(20.0)
        sim.heal()
        sim.demand_stability()
        counts = sim.facts.counts
    assert counts["doubles"] > 10
    assert counts["FENCED_INSTANCE_ID"] > 5


def test_a_calm_day_of_a_group() -> None:
    """Members that stay are stable within one rebalance timeout, and stay so."""
    with GroupSimulation(7, weather=CALM, post_weather=PostWeather().calmed()) as sim:
        sim.world.whims = sim.world.whims.calmed()
        sim.run(4.0)
        generation = max(sim.facts.announced)
        sim.run(4.0)
        sim.demand_stability()
        assert max(sim.facts.announced) == generation
