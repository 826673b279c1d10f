"""What the driver does beside Raft, under virtual time: each test fails if the driver leaves it out.

Small enough for every run. The invariants of the storms are judged here, too. What a full disk must do is in
test_full_disks.py. That these tests can fail is shown by ``make mutants``.
"""

import shutil
from contextlib import nullcontext
from typing import Any

import lmdb
import msgspec
import pytest

import fencepost.controller.transactions.expiry
from fencepost.controller import brokers
from fencepost.controller.transactions.states import TRANSACTIONS, State
from fencepost.node.server import ControllerServer
from fencepost.quorum import journal
from fencepost.records.types import NodeId
from tests.simulation.bad_disk import FAILURES
from tests.simulation.config import SESSION_MS
from tests.simulation.desk import Desk, Program, calm_desk
from tests.simulation.invariants import Violation
from tests.simulation.process import Process
from tests.simulation.simulation import Simulation
from tests.simulation.starting import release
from tests.simulation.weather import BAD_DISKS, CALM
from tests.together import table

STEP_S = 0.002
WAIT_S = 10.0


def leader_of(sim: Simulation) -> Process:
    """The active one; of two that believe so the one of the later term."""
    active = [p for p in sim.processes.values() if p.replica is not None and p.replica.proposer.active]
    return max(active, key=lambda process: process.replica.raft.term if process.replica else 0)


def leads_after(sim: Simulation, term: int) -> list[Process]:
    """Who leads a later term."""
    return [
        process
        for process in sim.processes.values()
        if process.replica is not None and process.replica.raft.is_leader and process.replica.raft.term > term
    ]


def term_of(process: Process) -> int:
    assert process.replica is not None
    return process.replica.raft.term


# -- disks that fail ---------------------------------------------------------------------------------------


def test_a_disk_that_fails_ends_its_process_and_what_was_acknowledged_is_there() -> None:
    """It says nothing more (bad_disk.require_halt), and a restart recovers from what is on disk."""
    halts = 0
    for seed in range(4):
        with Simulation(seed, weather=BAD_DISKS) as sim:
            sim.run(5.0)
            sim.heal()
            sim.demand_progress()
            halts += sim.ledger.counts.get("halts", 0)
    assert halts > 15


@pytest.mark.parametrize("failure", [make() for make in FAILURES], ids=["EIO", "ENOSPC", "lmdb"])
@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_one_flush_that_fails_halts_its_node(victim: str, failure: Exception) -> None:
    with Simulation(1, weather=CALM) as sim:
        sim.run(1.5)
        leader = leader_of(sim)
        process = leader if victim == "leader" else next(p for p in sim.processes.values() if p is not leader)
        process.disk.next_flush = failure
        sim.run(0.5)
        assert sim.ledger.counts["halts"] == 1
        sim.heal()
        sim.demand_progress()


# -- sessions ----------------------------------------------------------------------------------------------


def test_a_new_leader_gives_every_broker_a_whole_session() -> None:
    """The brokers fall silent with the old leader: the new one fences them a session after its activation."""
    with Simulation(2, weather=CALM) as sim:
        sim.run(2.0)
        for client in sim.clients:
            client.rests = True
        old = leader_of(sim)
        everyone, before = registered(old, fenced=False), registered(old)
        assert before < everyone
        old.kill()
        for _ in range(SESSION_MS // 100 - 1):
            sim.run(0.1)
            assert all(registered(process) == before for process in sim.processes.values() if process.up)
        sim.run(1.5)
        assert registered(leader_of(sim)) == everyone


def registered(process: Process, *, fenced: bool = True) -> set[int]:
    """Brokers that are fenced, or all."""
    assert process.replica is not None
    rows = process.replica.image.items(brokers.BROKERS)
    return {broker.broker_id for _, broker in rows if broker.fenced or not fenced}


# -- a clean stop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_stop_leaves_a_cluster_that_is_led(seed: int) -> None:
    """The successor has its vote before the process ends, so no client waits for an election timeout."""
    with Simulation(seed, weather=CALM) as sim:
        sim.run(2.0)
        leader = leader_of(sim)
        term = term_of(leader)
        leader.end()
        until_s = sim.agenda.now + WAIT_S
        while leader.up and sim.agenda.now < until_s:
            sim.run(STEP_S)
        assert not leader.up, "it never ends"
        sim.run(2 * STEP_S)  # the vote arrives
        (successor,) = leads_after(sim, term)
        assert term_of(successor) == term + 1, "the first voter that was asked won"
        assert not any(attempt.outcome == "unknown" for attempt in sim.ledger.attempts)
        sim.heal()
        sim.demand_progress()


# -- quarantine --------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_decided_keep_no_others_from_their_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as a sweep takes at once, the oldest of all; once the fault is gone they are done, too."""
    expiry = fencepost.controller.transactions.expiry
    timed_out = expiry.timed_out
    bad, sound = ["bad-1", "bad-2"], ["sound-1", "sound-2", "sound-3"]

    def fails(row: Any, now_ms: int) -> Any:
        if row.transactional_id in bad:
            raise KeyError("planted")
        return timed_out(row, now_ms)

    monkeypatch.setattr(expiry, "TIMEOUTS_MAX", len(bad))
    with calm_desk() as desk:
        for process in desk.sim.processes.values():
            process.planted = {"transaction timeout"}
        for name in (*bad, *sound):
            program = Program(desk, name, timeout_ms=1_000)
            program.identify()
            program.begin()
            program.write(0)
        with monkeypatch.context() as planted:
            planted.setattr(expiry, "timed_out", fails)
            desk.wait(6.0)
            assert open_of(desk) == set(bad)
        desk.wait(WAIT_S)
        assert open_of(desk) == set()


def open_of(desk: Desk) -> set[str]:
    """Transactional ids that have an open transaction. Those without one expire meanwhile."""
    assert desk.leader.replica is not None
    rows = desk.leader.replica.image.items(TRANSACTIONS)
    return {row.transactional_id for _, row in rows if row.state is State.ONGOING}


def test_a_services_timer_that_fails_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that raises before it has decided anything: it fails at each tick, on whichever node leads."""

    def fails(_self: ControllerServer, _now_ms: int) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(ControllerServer, "sweep", fails)
    with Simulation(3, weather=CALM) as sim:
        for process in sim.processes.values():
            process.planted = {fails.__qualname__}
        sim.run(3.0)
        sim.demand_progress()


# -- proposals of a previous term ----------------------------------------------------------------------------


def test_a_leader_that_comes_back_answers_for_what_it_proposed_in_an_earlier_term() -> None:
    """Its entry was replaced by that of a leader who died before anything of it was committed.

    So no later entry of another leader proves what became of it: this node's own LeaderChange does.
    """
    answered: list[int] = []
    for seed in range(30):
        with Simulation(seed, weather=CALM) as sim:
            sim.run(2.0)
            old = leader_of(sim)
            term = term_of(old)
            if not _depose_for_a_moment(sim, old) or leader_of(sim) is not old:
                continue
            sim.run(0.5)
            lost = [
                attempt
                for attempt in sim.ledger.attempts
                if attempt.node == old.node_id
                and attempt.leader_ms is not None
                and attempt.leader_ms[0] == term
                and attempt.outcome != "done"
            ]
            assert lost
            assert {attempt.outcome for attempt in lost} == {"refused"}, "known not to be done"
            sim.heal()
            sim.demand_progress()
            answered.append(len(lost))
            if len(answered) == 2:
                break
    assert len(answered) == 2, "too few seeds bring it about"


def _depose_for_a_moment(sim: Simulation, old: Process) -> bool:
    """Replace what a leader has in flight, and let it win again. False: this seed went another way."""
    others = [process for process in sim.processes.values() if process is not old]
    unheard = [(old.node_id, process.node_id) for process in others]
    sim.network.block(unheard)
    term, until_s = term_of(old), sim.agenda.now + WAIT_S
    while not leads_after(sim, term) and sim.agenda.now < until_s:
        sim.run(0.0002)
    (rival,) = leads_after(sim, term)
    third = next(process for process in others if process is not rival)
    deaf = [(NodeId(third.node_id), rival.node_id)]
    sim.network.block(deaf)
    sim.run(0.1)
    reached = (
        term_of(old) == term_of(rival) and rival.replica is not None and not rival.replica.proposer.active
    )
    rival.kill()
    sim.network.unblock([*unheard, *deaf])
    sim.run(1.0)
    return reached


# -- maintenance and activation ------------------------------------------------------------------------------


def test_maintenance_takes_snapshots_and_readmits_a_wiped_voter() -> None:
    with Simulation(5, weather=CALM) as sim:
        sim.run(2.0)
        leader = leader_of(sim)
        wiped = next(process for process in sim.processes.values() if process is not leader)
        wiped.kill()
        wiped.wipe(sim.new_uuid())
        wiped.start()
        sim.run(3.0)
        assert sim.ledger.counts["snapshots installed"] >= 1
        assert sim.ledger.bound[wiped.node_id] == wiped.directory_id
        sim.demand_progress()


@table("is_believed", [False, True])
def test_a_vote_that_a_flip_takes_back_is_found(is_believed: bool) -> None:
    """The storms' own check: term and vote are read from their copy; where they were not, a start says so."""
    with Simulation(5, weather=CALM) as sim, pytest.MonkeyPatch.context() as patch:
        sim.run(2.0)
        voter = leader_of(sim)
        voter.kill()
        assert voter.flushed is not None
        vote = voter.flushed[2]
        env = lmdb.open(str(voter.directory / "store"), max_dbs=8, map_size=1 << 40, sync=False)
        with env.begin(write=True, db=env.open_db(b"meta")) as txn:
            assert txn.get(b"raft.vote") == msgspec.msgpack.encode(vote)
            txn.put(b"raft.vote", msgspec.msgpack.encode(vote ^ 1))  # type: ignore[operator]
        env.close()
        voter.is_damaged = voter.is_flipped = True
        if is_believed:
            patch.setattr(journal, "ballot", lambda _copy, term, vote: (term, vote))
        with pytest.raises(Violation, match="a vote is forgotten") if is_believed else nullcontext():
            voter.start()
        assert voter.up != is_believed
        if is_believed:
            release(voter.directory, voter.disk)


@table("leaves_a_trace", [False, True])
def test_entries_that_a_journal_lost_at_its_end_are_missed(leaves_a_trace: bool) -> None:
    """Their checksums say that there were more, and the archive, too. Without both a storm's check does."""
    with Simulation(5, weather=CALM) as sim:
        sim.run(2.0)
        voter = leader_of(sim)
        directory_id = voter.directory_id
        voter.kill()
        env = lmdb.open(str(voter.directory / "store"), max_dbs=8, map_size=1 << 40, sync=False)
        for name in (b"journal",) if leaves_a_trace else (b"journal", b"sums"):
            with env.begin(write=True, db=env.open_db(name)) as txn:
                cursor = txn.cursor()
                for _ in range(2):
                    assert cursor.last()
                    assert cursor.delete()
        env.close()
        if not leaves_a_trace:
            shutil.rmtree(voter.directory / "archive")
        voter.is_damaged = voter.is_flipped = True
        missed = pytest.raises(Violation, match="acknowledged entries are forgotten")
        with nullcontext() if leaves_a_trace else missed:
            voter.start()
        assert (voter.up, voter.directory_id != directory_id) == (leaves_a_trace, leaves_a_trace)
        if not leaves_a_trace:
            release(voter.directory, voter.disk)
