"""Stores whose bytes change while their process is down, under storms: never an id twice, and all goes on.

Method   a value of a dead process's LMDB store gets a flipped bit, another value, or is gone (flips.py),
         while fewer than half of the voters may be without their memory. The process starts as node/main.py
         starts it: a damaged image is made again, a damaged journal is a lost store and a new voter.
Replay   ``make simulate ARGS='--flips --from 3 --seeds 1'``.
"""

from collections import Counter

import pytest

from tests.simulation.storms import weather_the_flips

pytestmark = pytest.mark.slow

SEEDS = range(6)


def test_damaged_stores_give_no_wrong_answer() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts.update(weather_the_flips(seed).ledger.counts)
    assert counts["flips"] > 2 * len(SEEDS)
    assert 0 < counts["stores_lost"] < counts["flips"], "journals were damaged, and images"
