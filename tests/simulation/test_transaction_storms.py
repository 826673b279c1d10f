"""Transactions in storms: see transactions.py. ``make simulate ARGS=--transactions`` runs more of them."""

import pytest

from tests.simulation.post import PostWeather
from tests.simulation.storms import weather_the_transactions
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.weather import CALM


@pytest.mark.slow
def test_transactions(transaction_seed: int) -> None:
    weather_the_transactions(transaction_seed)


@pytest.mark.slow
def test_rough_transactions() -> None:
    """Rough enough that a broken rule shows in one of them: `make mutants` relies on it."""
    for seed in (*range(6), 27):
        weather_the_transactions(seed)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_transactions() -> None:
    assert weather_the_transactions(4).digest == weather_the_transactions(4).digest


def test_a_calm_day() -> None:
    """Nobody is fenced, nobody waits for long, and what was committed is read."""
    with TransactionSimulation(7, weather=CALM, post_weather=PostWeather().calmed()) as sim:
        sim.run(3.0)
        sim.demand_commits()
        counts = sim.ledger.counts
    assert counts["identified"] == len(sim.producers)
    assert counts["ended"] == counts["asked"] > 20
    assert counts["acknowledged"] == counts["wrote"]
