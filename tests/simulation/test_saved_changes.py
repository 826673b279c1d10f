"""A changed row that was written from memory is counted apart; what differs beside it is a violation."""

import random
from typing import Any

import msgspec
import pytest

from fencepost.controller.brokers import BROKERS
from fencepost.quorum.image_marks import trust
from fencepost.quorum.replica import Replica
from tests.simulation.flips import change_memory
from tests.simulation.process import Process
from tests.simulation.saved_changes import OUTSIDE
from tests.simulation.simulation import Failed, Simulation
from tests.simulation.weather import CALM

RNG_SEED = 1


def changed(sim: Simulation, follower: Process) -> tuple[str, Any]:
    """As a storm does it (faults.py)."""
    replica = running(follower)
    at = change_memory(replica, random.Random(RNG_SEED))
    assert at is not None
    sim.ledger.changed.add(follower.node_id)
    sim.ledger.changed_rows[follower.node_id] = {(at[0], BROKERS.encode_key(at[1]))}
    return at


def running(process: Process) -> Replica:
    assert process.replica is not None
    return process.replica


def write(process: Process, key: Any, value: Any) -> None:
    """As an entry that changes the row: it goes to the store, and into the sum of all rows."""
    replica = running(process)
    replica.store.flush()
    replica.store.image._stored.take({BROKERS: {key: value}})
    replica.store.dirty = replica.store._must_seal = True
    replica.store.commit()


def a_follower(sim: Simulation) -> Process:
    sim.run(3.0)
    follower = next(each for each in sim.processes.values() if not running(each).raft.is_leader)
    cache = running(follower).store.image._stored._cache
    for at in [each for each in cache if each[0] != BROKERS.name]:
        del cache[at]
    return follower


def restarted(sim: Simulation, process: Process) -> None:
    process.kill()
    process.start()
    sim.run(2.0)
    sim.demand_progress()


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "in-memory-alone"])
def test_a_changed_row_that_was_written_is_counted_and_a_snapshot_takes_its_place(is_written: bool) -> None:
    with Simulation(3, weather=CALM) as sim:
        follower = a_follower(sim)
        name, key = changed(sim, follower)
        if is_written:
            write(follower, key, running(follower).store.image._stored._cache[name, key])
        restarted(sim, follower)
        assert sim.ledger.counts.get(OUTSIDE, 0) == int(is_written)
        assert sim.ledger.counts.get("images restored", 0) == int(is_written)


def test_a_torn_store_may_say_again_that_its_image_is_bad() -> None:
    """The mark of an image that was restored since is back: the node waits for a snapshot, and is no bug."""
    with Simulation(3, weather=CALM) as sim:
        follower = a_follower(sim)
        leader = next(each.node_id for each in sim.processes.values() if running(each).raft.is_leader)
        follower.kill()
        trust(follower.directory, leader, follower.node_id)
        follower.is_damaged = True
        follower.start()
        assert running(follower).watch.is_bad
        sim.run(2.0)
        assert sim.ledger.counts.get("images restored", 0) == 1
        sim.demand_progress()


def test_another_row_that_differs_is_a_violation() -> None:
    with Simulation(3, weather=CALM) as sim:
        follower = a_follower(sim)
        name, key = changed(sim, follower)
        write(follower, key, running(follower).store.image._stored._cache[name, key])
        other, broker = next(each for each in running(follower).image.items(BROKERS) if each[0] != key)
        write(follower, other, msgspec.structs.replace(broker, rack="another"))
        with pytest.raises(Failed, match="I3: images differ"):
            restarted(sim, follower)
        assert OUTSIDE not in sim.ledger.counts
