"""ENOSPC and EIO in real nodes, at the calls and files that seeds draw: see disk_errors.py.

More of them   .venv/bin/python -m tests.processes.disk_errors --seeds 200, and with --at-start
"""

import errno
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.nodes import wait_for
from tests.processes.disk_errors import LOG, Fault, Trial, trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

SEEDS = (203, 204, 210, 211, 225, 228, 229, 235)
"""An index, the archive, the archive at a start, the store, files of new topics, snapshots."""

SEEDS_AT_START = (400, 481, 494)
"""Reading which logs are hosted, flushing the store, reading it."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("disk-errors")) as made:
        yield made


@pytest.mark.parametrize("seed", SEEDS, ids="seed-{}".format)
def test_a_call_that_fails_loses_nothing_and_is_named(tried: Trial, seed: int) -> None:
    assert tried.run(Fault.of(seed))


@pytest.mark.parametrize("seed", SEEDS_AT_START, ids="seed-{}".format)
def test_a_call_that_fails_while_a_node_starts_loses_nothing_and_is_named(tried: Trial, seed: int) -> None:
    assert not tried.run(Fault.of(seed, at_start=True)).startswith("not reached")


def test_nodes_whose_logs_cannot_be_written_elect_and_serve(tried: Trial) -> None:
    nodes = tried.nodes
    old = nodes.leader()
    marks = {each: nodes.log_size(each) for each in nodes.node_ids}
    for each in nodes.node_ids:
        tried.faults[each].arm("write", f"/{LOG}", errno.ENOSPC)
    try:
        nodes.kill(old)
        led = nodes.leader()
        tried.logged("unwritten", old)
        tried.start(old)
        assert nodes.leader()
        tried.given_out(old)
        assert tried.faults[led].hits > 1
        assert tried.faults[old].hits
    finally:
        for each in nodes.node_ids:
            tried.faults[each].disarm()

    def said() -> list[dict[str, Any]]:
        tried.logged("written", old)  # snapshots are taken, and logged, a while later
        return [each for each in nodes.events(led, since=marks[led]) if each["event"] == "log_lines_lost"]

    lost = wait_for("lost lines are counted", said)[0]
    assert lost["lines"] > 1
    assert lost["reason"] == os.strerror(errno.ENOSPC)


def test_cases_fail_calls(tried: Trial) -> None:
    """Runs last: of the cases above, most reached the call."""
    if tried.outcomes:
        assert tried.outcomes["not reached"] < sum(tried.outcomes.values()) / 2


def test_a_seed_draws_one_case() -> None:
    assert Fault.of(7) == Fault.of(7)
    assert len({(each.call, each.place) for each in map(Fault.of, range(300))}) > 30
