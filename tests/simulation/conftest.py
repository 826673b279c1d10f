"""Seeds: the first few of them, and whichever ``-k seed-N`` names, so that any failure replays."""

import re

import pytest

SEEDS = 40
UPGRADE_SEEDS = 12
TRANSACTION_SEEDS = 18
ROUGH_TRANSACTION_SEEDS = (*range(6), 27, 39, 59)
"""Of a test of their own, test_rough_transactions: not played twice."""
STRANGER_SEEDS = 12
LEVEL_SEEDS = 16


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``storm_seed`` runs once per seed, called ``seed-N``."""
    named = re.findall(r"seed-(\d+)", metafunc.config.option.keyword or "")
    for fixture, count, name in (
        ("storm_seed", SEEDS, "seed"),
        ("upgrade_seed", UPGRADE_SEEDS, "upgrade-seed"),
        ("transaction_seed", TRANSACTION_SEEDS, "transaction-seed"),
        ("stranger_seed", STRANGER_SEEDS, "stranger-seed"),
        ("level_seed", LEVEL_SEEDS, "level-seed"),
    ):
        if fixture in metafunc.fixturenames:
            elsewhere = ROUGH_TRANSACTION_SEEDS if fixture == "transaction_seed" else ()
            seeds = sorted({*range(count)} - {*elsewhere} | {*map(int, named)})
            metafunc.parametrize(fixture, seeds, ids=[f"{name}-{seed}" for seed in seeds])
