"""The whole upgrade while leaders die on both sides; ``python -m tests.upgrade.fire`` takes larger counts."""

from pathlib import Path

import pytest

from tests.upgrade.fire import upgrade_under_fire

pytestmark = pytest.mark.slow


@pytest.mark.row("730.11")
@pytest.mark.row("730.12")
def test_no_block_is_given_twice_while_leaders_die_on_both_sides(tmp_path: Path) -> None:
    outcome = upgrade_under_fire(tmp_path, writers=3, askers=3, leader_kills=2, zookeeper_kills=1)
    assert outcome.faults() == []
    assert (outcome.leader_kills, outcome.zookeeper_kills) == (2, 1)
    assert len(outcome.asked) > 0 < len(outcome.old)
