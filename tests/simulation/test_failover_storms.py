"""The coordinator of a group fails at every step of every request: see group_loops.py."""

import pytest

from tests.simulation.failovers import DIES
from tests.simulation.group_loops import GroupLoops
from tests.simulation.storms import weather_the_failovers


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3), ids="failover-seed-{}".format)
def test_failovers(seed: int) -> None:
    sim = weather_the_failovers(seed)
    assert not sim.failovers.missing, "it failed at each step of each request in each way"
    counts = sim.facts.counts
    assert min(counts["commits"], counts["commits in transactions"], counts["ends"], counts["reads"]) > 40, (
        counts
    )
    assert min(counts["FENCED_INSTANCE_ID"], counts["read UNSTABLE_OFFSET_COMMIT"]) > 0, counts
    assert counts["group-aware"] > 5, counts


def test_the_coordinator_dies_while_members_join_and_commit() -> None:
    """A dozen deaths, each at a step of a request."""
    with GroupLoops(3, ways=(DIES,)) as sim:
        sim.run_through(12.0)
        sim.heal()
        sim.demand_stability()
        sim.demand_commits()
        counts, failovers = sim.facts.counts, sum(sim.failovers.counts.values())
    assert failovers > 8
    assert min(counts["joins"], counts["syncs"], counts["commits"], counts["ends"]) > 8, counts
