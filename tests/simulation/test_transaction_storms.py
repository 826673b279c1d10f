"""Transactions in storms: see transactions.py. ``make simulate ARGS=--transactions`` runs more of them."""

import pytest

from tests.simulation.conftest import ROUGH_TRANSACTION_SEEDS
from tests.simulation.post import PostWeather
from tests.simulation.storms import STORM_S, weather_the_transactions
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.weather import CALM, Weather

LEADERS_DIE = Weather(crashes=0.8, hand_overs=0.5, downtime_s=(0.05, 0.5))


@pytest.mark.slow
def test_transactions(transaction_seed: int) -> None:
    weather_the_transactions(transaction_seed)


@pytest.mark.slow
def test_rough_transactions() -> None:
    """Rough enough that a broken rule shows in one of them: `make mutants` relies on it."""
    for seed in ROUGH_TRANSACTION_SEEDS:
        weather_the_transactions(seed)


@pytest.mark.slow
@pytest.mark.row("939.10")
@pytest.mark.parametrize("seed", range(4))
def test_clients_of_transactions_v2_beside_those_of_v1(seed: int) -> None:
    """Also on one transactional id in turn. A late EndTxn of theirs may come whenever it likes."""
    sim = weather_the_transactions(seed, transactions_v2=0.5)
    assert sim.ledger.counts["pairs of transactions V2"] > 5


@pytest.mark.slow
@pytest.mark.row("360.2")
def test_instances_that_keep_what_is_open_beside_those_that_do_not() -> None:
    """V1 and V2 mixed: one ends what another began, whose batches still arrive."""
    kept = announced = 0
    for seed in range(4):
        sim = weather_the_transactions(seed, 4 * STORM_S, transactions_v2=0.5, keeps=0.6)
        kept += sim.ledger.counts.get("transactions kept", 0)  # few where disks are full
        announced += sim.ledger.counts.get("additions announced", 0)
    assert kept > 12
    assert announced > 8


@pytest.mark.slow
@pytest.mark.row("360.2", "939.10")
@pytest.mark.parametrize("seed", [0, 1, 3, 4, 7, 9])
def test_whose_answer_was_lost_at_a_rotation_goes_on(seed: int) -> None:
    """Every seventh end rotates, and three answers of ten are lost."""
    sim = weather_the_transactions(seed, 1.5 * STORM_S, transactions_v2=0.7, keeps=0.3, loses_answers=True)
    assert sim.ledger.counts["given"] > sim.ledger.counts["pairs of transactions V2"]


@pytest.mark.slow
@pytest.mark.row("360.2", "939.10")
@pytest.mark.parametrize("seed", range(6))
def test_the_last_epochs_of_ids_with_clients_of_both_kinds(seed: int) -> None:
    """Rotations of ends, of what is kept, and after fences, while answers are lost and others take over."""
    sim = weather_the_transactions(
        seed, 1.5 * STORM_S, transactions_v2=0.5, keeps=0.6, at_overflow=True, loses_answers=seed % 2 == 1
    )
    counts, owners = sim.ledger.counts, sim.ledger.transactions.owners
    assert len(owners) >= 2 * len(sim.producers), "each id has had another producer id"
    assert counts["given"] > 10
    assert counts["transactions kept"] > 0


@pytest.mark.slow
def test_transactions_among_strangers(stranger_seed: int) -> None:
    weather_the_transactions(stranger_seed, strangers=4.0)


def test_partitions_are_wedged_while_leaders_change_and_every_commit_is_read() -> None:
    """Without a storm but for the leader, which is killed again and again."""
    post = PostWeather().calmed()
    with TransactionSimulation(14, weather=LEADERS_DIE, post_weather=post, strangers=8.0) as sim:
        sim.run(8.0)
        sim.heal()
        sim.demand_commits()
        counts = sim.ledger.counts
    assert counts["markers refused"] > 5, "nothing was wedged"
    assert counts["markers forced"] > 2, "nothing was forced"
    assert counts["foreign markers refused"] > 2
    assert counts["foreign markers written"] > 2


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
