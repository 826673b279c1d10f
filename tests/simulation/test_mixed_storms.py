"""Storms of failing disks, lost writes, clocks and networks: see mixed.py. ``make storms`` runs more."""

from collections import Counter
from itertools import islice

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
def test_a_leader_whose_row_of_producer_ids_is_gone_from_its_store_gives_none_out_twice() -> None:
    """Its cache held three rows, and read that one again."""
    assert weather_the_mixed(70180, 4.0).ledger.counts["store of a leader"]


ACTS = {
    "flips": "flips",
    "tears": "tears",
    "lost flushes": "lost flushes",
    "file flips": "file flips",
    "lost names": "names lost",
    "bad calls": "calls that failed",
    "pair cuts": "pairs cut",
    "silences": "silences",
}
"""What the ledger calls the faults of a kind of storm."""
SEEDS_MAX = 6  # of a kind, until its fault has acted


@pytest.mark.slow
@pytest.mark.row("beyond.8", "beyond.13")
def test_storms_of_every_fault() -> None:
    """Short ones: each kind until its fault has acted, then all faults at once around other clusters."""
    counts: Counter[str] = Counter()
    for kind in dict.fromkeys(KINDS):
        for seed in islice(seeds_of((kind,), 0), SEEDS_MAX):
            counts.update(weather_the_mixed(seed, SHORT_S).ledger.counts)
            if kind not in ACTS or counts[ACTS[kind]]:
                break
        else:
            pytest.fail(f"{ACTS[kind]}: none in {SEEDS_MAX} storms")
    for seed in (23, 36):
        counts.update(weather_the_mixed(seed, SHORT_S).ledger.counts)
    assert counts["topics made"] > len(KINDS)
    assert counts["settings changed"] > len(KINDS)
    assert counts["settings read"] > len(KINDS)
    assert counts["ended"]
