"""One storm per seed: how many voters, which weather, how long."""

from dataclasses import dataclass, replace
from typing import Final

from tests.controller.notes import known
from tests.simulation.group_loops import GroupLoops
from tests.simulation.levels import LevelSimulation
from tests.simulation.post import PostWeather
from tests.simulation.simulation import Simulation
from tests.simulation.transactions import PRODUCERS, TransactionSimulation
from tests.simulation.upgrade import UpgradeSimulation
from tests.simulation.weather import CHANGES, FLIPS, KINDS, Weather, weather_of

STORM_S: Final = 10.0
UPGRADE_S: Final = 12.0
FAILOVERS_S_MAX: Final = 300.0
OFTEN_LED: Final = Weather(crashes=0.1, hand_overs=0.2, downtime_s=(0.05, 0.5))
LOST_OFTEN: Final = 0.3


@dataclass(frozen=True, slots=True)
class Storm:
    """What a seed means."""

    seed: int
    name: str
    weather: Weather
    node_count: int
    initial_voters: bool  # told by `storage format`; else the voters bind each other when they first meet

    @classmethod
    def of(cls, seed: int) -> "Storm":
        """Every kind of weather in turn; every fourth round with five voters, elections always."""
        name, weather = weather_of(seed)
        five = name == "elections" or seed // len(KINDS) % 4 == 3
        return cls(seed, name, weather, 5 if five else 3, initial_voters=seed % 4 != 0)

    def simulation(self) -> Simulation:
        """The simulation, not run yet."""
        return Simulation(self.seed, self.node_count, self.weather, initial_voters=self.initial_voters)


def weather_the_storm(seed: int, storm_s: float = STORM_S) -> tuple[Storm, Simulation]:
    """Run a seed: safety under faults, then liveness without. Raises simulation.Failed."""
    storm = Storm.of(seed)
    with storm.simulation() as sim:
        sim.run(storm_s)
        sim.heal()
        sim.demand_progress()
    return storm, sim


def weather_the_flips(seed: int, storm_s: float = STORM_S) -> Simulation:
    """As ``weather_the_storm``, with bytes of stores that change while their process is down."""
    with Simulation(seed, 5 if seed % 4 == 3 else 3, FLIPS) as sim:
        sim.run(storm_s)
        sim.heal()
        sim.demand_progress()
    return sim


def weather_the_changes(seed: int, storm_s: float = STORM_S) -> Simulation:
    """As ``weather_the_flips``, with rows of images that change while their process runs."""
    with Simulation(seed, 5 if seed % 4 == 3 else 3, CHANGES) as sim:
        sim.run(storm_s)
        sim.heal()
        sim.restart_changed()
        sim.demand_progress()
    return sim


def weather_the_upgrade(seed: int, storm_s: float = UPGRADE_S) -> UpgradeSimulation:
    """As ``weather_the_storm``, for a cluster that upgrades from ZooKeeper meanwhile."""
    _, weather = weather_of(seed)
    with UpgradeSimulation(seed, weather) as sim:
        sim.run(storm_s)
        sim.heal()
        sim.bring_to_an_end()
        sim.demand_progress()
    return sim


def weather_the_transactions(
    seed: int,
    storm_s: float = STORM_S,
    *,
    strangers: float = 0.0,
    transactions_v2: float = 0.0,
    keeps: float = 0.0,
    at_overflow: bool = False,
    loses_answers: bool = False,
) -> TransactionSimulation:
    """As ``weather_the_storm``, with transactional producers, brokers and partitions around the voters.

    ``transactions_v2``   the share of the producers' instances that use them.
    ``keeps``             the share that begins with KeepPreparedTxn, half of it with two-phase commit.
    ``loses_answers``     the voters mostly live; many an answer with a pair, or with an outcome, is lost.
    ``at_overflow``       the transactional ids begin at epochs 32763 to 32767.
    """
    storm = Storm.of(seed)
    post = PostWeather(transactions_v2=transactions_v2, keeps=keeps)
    if keeps:  # more is left open, and what is kept has two instances
        post = replace(post, client_dies=0.06, second_instance=0.03)
    weather = storm.weather
    if loses_answers:
        weather, post = OFTEN_LED, replace(post, lost_outcomes=LOST_OFTEN)
    with TransactionSimulation(
        seed,
        storm.node_count,
        weather,
        post_weather=post,
        producers=PRODUCERS * 2 if at_overflow else PRODUCERS,
        strangers=strangers,
        at_overflow=at_overflow,
    ) as sim:
        sim.world.keep_late_adds = not transactions_v2
        sim.run(storm_s)
        sim.heal()
        sim.demand_commits()
        sim.demand_progress()
    return sim


def weather_the_failovers(seed: int, seconds_max: float = FAILOVERS_S_MAX) -> GroupLoops:
    """Members of a group commit while its coordinator fails at every step of what they request."""
    with GroupLoops(seed) as sim:
        sim.run_through(seconds_max)
        sim.heal()
        sim.demand_stability()
        sim.demand_commits()
        sim.demand_progress()
    return sim


def weather_the_levels(seed: int, storm_s: float = STORM_S) -> LevelSimulation:
    """As ``weather_the_storm``, for voters of two versions whose log level is raised meanwhile."""
    storm = Storm.of(seed)
    with (
        known(),
        LevelSimulation(seed, storm.node_count, storm.weather, initial_voters=storm.initial_voters) as sim,
    ):
        sim.run(storm_s)
        sim.heal()
        sim.finish()
        sim.demand_progress()
    return sim
