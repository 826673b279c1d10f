"""Images whose rows change while their process runs, under storms: never a wrong answer, and all come back.

Method   a row of a running process's image changes, in memory or in its store, while fewer than half of the
         voters may be without their memory (flips.py says which rows). Digests and the scrub find it, the
         node stops answering, and a snapshot of a confirmed leader takes the image's place.
Replay   ``make simulate ARGS='--changes --from 3 --seeds 1'``.
"""

from collections import Counter

import pytest

from tests.simulation.storms import weather_the_changes

pytestmark = pytest.mark.slow

SEEDS = range(8)


def test_images_that_change_in_running_nodes_give_no_wrong_answer() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts.update(weather_the_changes(seed).ledger.counts)
    for kind in ("memory", "store"):
        for role in ("leader", "follower"):
            assert counts[f"{kind} of a {role}"], counts
    assert counts["images restored"] > len(SEEDS)
