"""Storms: seeded simulations of the real Raft core, journal, archive and snapshots.

Goal     no order of faults makes an invariant fail, and once they end everything goes on.
Method   tests/simulation/simulation.py; the weather follows from the seed. A longer hunt:
         ``make simulate SEEDS=1000 FROM=0``.
Replay   ``pytest tests/simulation -k seed-17``, any number.

That these tests can fail at all is shown by ``make mutants``.
"""

import re

import pytest

import tests.simulation.clients
from tests.simulation.conftest import SEEDS
from tests.simulation.invariants import Violation
from tests.simulation.ledger import Ledger, News
from tests.simulation.simulation import Failed, Simulation
from tests.simulation.storms import Storm, weather_the_storm
from tests.simulation.weather import CRASHES, DEATHS, DUPLICATES, EVERYTHING, KINDS, Weather

pytestmark = pytest.mark.slow


def test_storm(storm_seed: int) -> None:
    weather_the_storm(storm_seed)


@pytest.mark.parametrize(
    ("weather", "seeds"),
    [pytest.param(DUPLICATES, 4, id="duplicates"), pytest.param(DEATHS, 12, id="deaths")],
)
def test_storms_of_one_kind(weather: Weather, seeds: int) -> None:
    """Rough enough that a broken rule shows in one of them: `make mutants` relies on it."""
    for seed in range(seeds):
        with Simulation(seed, node_count=3, weather=weather) as sim:
            sim.run(8.0)
            sim.heal()
            sim.demand_progress()


def test_the_same_seed_gives_the_same_events() -> None:
    digests = []
    for _ in range(2):
        with Simulation(seed=4, node_count=3, weather=EVERYTHING) as sim:
            sim.run(4.0)
            digests.append((sim.digest, sim.agenda.done))
    assert digests[0] == digests[1]


def test_another_seed_gives_other_events() -> None:
    digests = set()
    for seed in range(2):
        with Simulation(seed=seed, node_count=3, weather=CRASHES) as sim:
            sim.run(2.0)
            digests.add(sim.digest)
    assert len(digests) == 2


def test_a_failure_says_how_to_replay_it() -> None:
    def nothing_is_ever_granted(ledger: Ledger, _news: News) -> None:
        if ledger.granted:
            raise Violation("a block was granted")

    said = re.escape("pytest tests/simulation -k seed-7")
    with Simulation(seed=7, invariants=[nothing_is_ever_granted]) as sim, pytest.raises(Failed, match=said):
        sim.run(5.0)


def test_the_storms_are_rough() -> None:
    """Among forty seeds everything happens that the invariants are there for."""
    kinds = {(storm.name, storm.node_count) for storm in map(Storm.of, range(SEEDS))}
    assert kinds == {(name, count) for name in KINDS for count in (3, 5)} - {("elections", 3)}


def test_a_wiped_voter_comes_back_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty clients without a pause: something is always in flight, and snapshots follow one another."""
    monkeypatch.setattr(tests.simulation.clients, "PAUSE_S", (0.0, 0.001))
    with Simulation(0, weather=Weather(wipes=0.3, downtime_s=(0.1, 0.3)), clients=40) as sim:
        sim.run(6.0)
        sim.heal()
        sim.demand_progress()
        assert sim.ledger.counts["wipes"]
