"""Seeds: the first ``SEEDS`` of them, and whichever ``-k seed-N`` names, so that any failure replays."""

import re

import pytest

SEEDS = 40


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``storm_seed`` runs once per seed, called ``seed-N``."""
    if "storm_seed" in metafunc.fixturenames:
        named = re.findall(r"seed-(\d+)", metafunc.config.option.keyword or "")
        seeds = sorted({*range(SEEDS), *map(int, named)})
        metafunc.parametrize("storm_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])
