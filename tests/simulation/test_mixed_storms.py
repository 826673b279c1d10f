"""Storms of failing disks, lost writes, clocks and networks: see mixed.py. ``make storms`` runs more."""

from collections import Counter

import pytest

from tests.simulation.hunt import seeds_of
from tests.simulation.mixed import KINDS, kind_of, name_of, weather_the_mixed

SHORT_S = 3.0
CLUSTERS = 3


def test_every_kind_and_every_cluster_is_among_the_first_seeds() -> None:
    names = {name_of(seed) for seed in range(CLUSTERS * len(KINDS))}
    assert {name.partition(", ")[0] for name in names} == set(KINDS)
    assert {name.partition(", ")[2] for name in names} == {"topics", "transactions", "upgrade"}


def test_seeds_of_one_kind() -> None:
    seeds = seeds_of(("bad node",), 0)
    assert {kind_of(next(seeds)) for _ in range(4)} == {"bad node"}


@pytest.mark.slow
@pytest.mark.row("beyond.8", "beyond.13")
def test_storms_of_every_fault() -> None:
    """Short ones: each kind once around brokers and topics, all faults at once around the other clusters."""
    counts: Counter[str] = Counter()
    for seed in (*range(len(KINDS)), 23, 36):
        counts.update(weather_the_mixed(seed, SHORT_S).ledger.counts)
    for fault in (
        "flips",
        "tears",
        "lost flushes",
        "file flips",
        "calls that failed",
        "pairs cut",
        "silences",
    ):
        assert counts[fault], fault
    assert counts["topics made"] > len(KINDS)
    assert counts["ended"]
