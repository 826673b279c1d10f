"""The clocks that a voter has seen lead: whose stamps count, and what a leader whose clock jumped forgets."""

import pytest

from fencepost.controller.transactions import states
from fencepost.coordinator.transaction_timers import FIRST_EXPIRY_S_MAX, TransactionTimes
from tests.coordinator.bench import Bench
from tests.node.conftest import MakeStage
from tests.quorum.conftest import MakeRig
from tests.quorum.rig import Rig

DAY_S = 24 * 3600
DAY_MS = DAY_S * 1000


def behind_s(rig: Rig, node: int) -> int | None:
    """How far the slowest clock that a node has seen lead is behind the wall clock, in whole seconds."""
    slowest_ms = rig[node].slowest_ms()
    return None if slowest_ms is None else (rig.wall_ms - slowest_ms) // 1000


@pytest.mark.parametrize("jump_s", [8 * DAY_S, -8 * DAY_S, 0], ids="{}-s".format)
def test_every_voter_sees_the_clock_of_each_leadership(make_rig: MakeRig, jump_s: int) -> None:
    rig = make_rig()
    rig.elect(1)
    assert [behind_s(rig, node) for node in (1, 2, 3)] == [None, None, None], "one clock, its own"
    rig.settle()
    rig.wait(5.0)
    rig.wall_ms += jump_s * 1000
    rig.elect(2)
    rig.settle()
    assert [behind_s(rig, node) for node in (1, 2, 3)] == [max(0, jump_s)] * 3
    rig.wait(100.0)
    rig.elect(3)
    assert behind_s(rig, 3) == max(0, jump_s), "for as long as it lives"


def test_a_voter_that_starts_sees_the_last_leadership_of_its_journal_and_those_that_come(
    make_rig: MakeRig,
) -> None:
    rig = make_rig()
    rig.elect(1)
    rig.elect(2)
    rig.wall_ms += DAY_MS
    rig.crash(3)
    rig.start(3)
    rig.connect(3)
    rig.settle()
    assert rig[3].slowest_ms() is None
    rig.elect(1)
    rig.settle()
    assert behind_s(rig, 3) == DAY_S


def test_a_leader_whose_clock_jumped_ahead_forgets_no_id_and_later_forgets_what_is_idle(
    make_stage: MakeStage,
) -> None:
    bench = Bench(make_stage(), TransactionTimes(expiration_ms=7 * DAY_MS, expiry_interval_ms=3_600_000))
    bench.elect()
    bench.register(1)
    for number in range(5):
        bench.init(f"id-{number}")
    bench.settle()
    bench.server.deposed()
    proposer = bench.replica.proposer
    proposer.clock_base_ms += 8 * DAY_MS
    bench.server.activated(proposer.now_ms())
    bench.wait(FIRST_EXPIRY_S_MAX + 5)
    assert all(states.get(bench.replica.image, f"id-{number}") for number in range(5))
    bench.wait(7 * DAY_MS / 1000 + 3600, step_s=600.0)
    assert not any(states.get(bench.replica.image, f"id-{number}") for number in range(5))


def test_a_leader_whose_clock_jumped_forgets_nothing_until_it_is_believed(make_stage: MakeStage) -> None:
    bench = Bench(make_stage(), TransactionTimes(expiration_ms=7 * DAY_MS, expiry_interval_ms=3_600_000))
    bench.elect()
    bench.register(1)
    bench.init("idle")
    bench.settle()
    bench.server._timers._may_expire = lambda: False
    bench.wait(15 * DAY_S, step_s=600.0)
    assert states.get(bench.replica.image, "idle")
    bench.server._timers._may_expire = lambda: True
    bench.wait(2 * 3600, step_s=600.0)
    assert not states.get(bench.replica.image, "idle")
