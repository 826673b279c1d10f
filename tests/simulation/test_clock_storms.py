"""Wall clocks that jump by days, of one voter and of all together, while leaders change and processes die.

Goal     no transactional id is forgotten before it was idle for its whole time; once the clocks are back,
         what is idle is forgotten.
Method   the voters of transactions.py, whose ids expire after seconds; the true time is the agenda's. Clocks
         and what is kept of them are settings/node_clock.py's own, on a real directory.
Replay   pytest tests/simulation -k clock-seed-3
"""

from collections import Counter
from typing import Final

import pytest

from fencepost.records.transaction_log import TransactionForgotten
from tests.simulation.coordinator import TIMES
from tests.simulation.invariants import Violation
from tests.simulation.ledger import Ledger, News
from tests.simulation.post import PostWeather
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.weather import CALM, JUMPS, Weather

DRIFT: Final = JUMPS.drift * TIMES.expiration_ms / 1000
LATE_S: Final = 0.5  # a record is used when it is stamped, seen here when it is applied
SEEN_IDLE_S: Final = TIMES.expiration_ms / 1000 - DRIFT - LATE_S


class ClockSimulation(TransactionSimulation):
    """See the module."""

    def __init__(self, seed: int, weather: Weather = JUMPS) -> None:
        super().__init__(seed, 3, weather, post_weather=PostWeather(naps=0.15))
        self._used_s: dict[str, float] = {}
        self._read: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.invariants.append(self._nothing_is_forgotten_early)

    def __enter__(self) -> "ClockSimulation":
        return self

    def _nothing_is_forgotten_early(self, _ledger: Ledger, news: News) -> None:
        for seen in news.seen:
            if not seen.applied or seen.index in self._read:
                continue
            self._read.add(seen.index)
            for record in seen.transactions:
                of = record.transactional_id
                if isinstance(record, TransactionForgotten):
                    idle_s = self.agenda.now - self._used_s.pop(of)
                    self.counts["forgotten"] += 1
                    if idle_s < SEEN_IDLE_S:
                        raise Violation(f"{of} was forgotten {idle_s:.2f} s after it was used")
                else:
                    self._used_s[of] = self.agenda.now


def weather_the_jumps(seed: int, storm_s: float = 12.0) -> ClockSimulation:
    with ClockSimulation(seed) as sim:
        sim.run(storm_s)
        sim.heal()
        for process in sim.processes.values():
            process.skew_ms = 0
        sim.demand_commits()
        sim.demand_progress()
        sim.counts["jumps"] = sim.ledger.counts["jumps"]
        before = sim.counts["forgotten"]
        sim.run(4 * TIMES.expiration_ms / 1000)
        sim.counts["forgotten after it"] = sim.counts["forgotten"] - before
    return sim


@pytest.mark.parametrize("days", [8, -8], ids="{}-days".format)
def test_all_clocks_jump_and_all_start_again(days: int) -> None:
    """Then leaders change: none of them sees another clock than one that jumped."""
    with ClockSimulation(4, CALM) as sim:  # a seed in which all ends soon
        sim.run(1.0)
        sim.world.closing = True  # no producer begins anything any more
        while not sim._all_ended():
            sim.run(0.1)
        assert sim._used_s
        assert sim.counts["forgotten"] == 0
        for process in sim.processes.values():
            process.kill()
            process.skew_ms = days * 24 * 3_600_000
            process.start()
        for _ in range(2):
            sim.run(0.6)
            for process in sim.processes.values():
                if process.replica is not None and process.replica.raft.is_leader:
                    process.end()
                    break
            sim.run(0.1)
            process.start()
        sim.run(1.2)
        assert sim.counts["forgotten"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 13), ids="clock-seed-{}".format)
def test_more_clocks_jump(seed: int) -> None:
    counts = weather_the_jumps(seed).counts
    assert counts["jumps"] > 1
    assert counts["forgotten after it"] > 0
