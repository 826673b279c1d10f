"""ENOSPC and EIO in real nodes, at the calls and files that seeds draw: see disk_errors.py.

More of them   .venv/bin/python -m tests.processes.disk_errors --seeds 200
"""

import shutil
from collections.abc import Iterator

import pytest

from tests.processes.disk_errors import Fault, Trial, trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

SEEDS = (203, 204, 210, 211, 225, 228, 229, 235)
"""An index, the archive, the archive at a start, the store, files of new topics, snapshots."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("disk-errors")) as made:
        yield made


@pytest.mark.parametrize("seed", SEEDS, ids="seed-{}".format)
def test_a_call_that_fails_loses_nothing_and_is_named(tried: Trial, seed: int) -> None:
    assert tried.run(Fault.of(seed))


def test_cases_fail_calls(tried: Trial) -> None:
    """Runs last: of the cases above, most reached the call."""
    if tried.outcomes:
        assert tried.outcomes["not reached"] < sum(tried.outcomes.values()) / 2


def test_a_seed_draws_one_case() -> None:
    assert Fault.of(7) == Fault.of(7)
    assert len({(each.call, each.place) for each in map(Fault.of, range(300))}) > 30
