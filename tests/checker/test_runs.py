"""A short run on real processes finds nothing; ``python -m tests.checker`` is a long one."""

from pathlib import Path

import pytest

from tests.checker.__main__ import run_on_new_cluster
from tests.checker.evidence import Outcome, events_of, evidence_of
from tests.checker.run import Plan
from tests.checker.settings import MIXED

pytestmark = pytest.mark.slow

COMMITS_MIN = 50


def test_nothing_is_found_while_nodes_and_applications_are_killed(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    plan = Plan(seconds=18.0, seed=13, kill_every=4.0, trouble_every=3.0, client=MIXED, feature_every=4.0)
    found = run_on_new_cluster(plan, tmp_path, 3)
    evidence = evidence_of(events_of(tmp_path / "history"))
    commits = [each for each in evidence.attempts.values() if each.outcome is Outcome.COMMITTED]
    assert found == []
    assert len(commits) >= COMMITS_MIN
    assert evidence.acknowledged
    assert evidence.samples
    assert evidence.reads
