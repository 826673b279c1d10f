"""Disks that fill up: a leader without room gives way; one that leads refuses, until there is room again.

What a full disk must never lead to is invariants.a_full_disk_takes_nothing, in every storm whose weather
fills disks; here are storms of it alone, small enough for every run.
"""

from fencepost.controller.errors import ErrorCode
from fencepost.quorum.succession import FULL_PERIOD_S
from tests.simulation.config import DISK_FREE_MIN
from tests.simulation.desk import Program, calm_desk
from tests.simulation.simulation import Simulation
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.weather import FULL

SWEEPS_S = 1.2  # two, and what they lead to


def test_who_is_refused_by_a_full_disk_is_served_when_there_is_room() -> None:
    refused = granted = 0
    for seed in range(3):
        with Simulation(seed, weather=FULL) as sim:
            sim.run(5.0)
            sim.heal()
            sim.demand_progress()
            refused += sim.ledger.counts.get("refused by full disks", 0)
            granted += len(sim.ledger.granted)
    assert refused > 20
    assert granted > 20


def test_transactions_end_though_disks_fill_up() -> None:
    with TransactionSimulation(1, weather=FULL) as sim:
        sim.run(4.0)
        sim.heal()
        sim.demand_commits()
        sim.demand_progress()
        assert sim.ledger.counts["refused by full disks"]


def test_a_leader_without_room_gives_way_to_one_that_has_some() -> None:
    with calm_desk() as desk:
        program = Program(desk)
        program.identify()
        full = desk.leader
        full.free_bytes = DISK_FREE_MIN - 1
        desk.wait(SWEEPS_S)
        assert desk.leader is not full
        assert program.add(0) == ErrorCode.NONE


def test_a_coordinator_without_room_says_15_until_there_is_room() -> None:
    with calm_desk() as desk:
        program = Program(desk)
        program.identify()
        voters = desk.sim.processes.values()
        for each in voters:
            each.free_bytes = DISK_FREE_MIN - 1
        desk.wait(len(voters) * SWEEPS_S)  # each gives way once
        assert desk.leader.replica is not None
        term = desk.leader.replica.raft.term
        assert program.add(0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        desk.wait(FULL_PERIOD_S / 2)
        assert desk.leader.replica is not None
        assert desk.leader.replica.raft.term == term
        for each in voters:
            each.free_bytes = DISK_FREE_MIN
        desk.wait(SWEEPS_S)
        assert program.add(0) == ErrorCode.NONE
