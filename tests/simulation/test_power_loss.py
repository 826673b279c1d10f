"""Power losses that take sectors of what an archive did not sync: it is cut, and refilled by the journal."""

from dataclasses import replace

from tests.simulation.simulation import Simulation
from tests.simulation.weather import CRASHES


def test_an_archive_that_lost_sectors_is_again_what_was_committed() -> None:
    """Compared batch by batch at the end of each storm (archives.archive_is_the_log)."""
    weather = replace(CRASHES, crashes=1.5, power_loss=1.0)
    lost = 0
    for seed in range(9):
        with Simulation(seed, weather=weather) as sim:
            sim.run(4.0)
            sim.heal()
            sim.demand_progress()
            lost += sum(process.unsynced.sectors_lost for process in sim.processes.values())
    assert lost >= 6
