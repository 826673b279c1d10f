"""``transaction.version`` is lowered and raised in the middle of transactions, with the same binaries.

What is open, prepared for two-phase commit, kept by another instance, or ending with a broker away, at small
epochs and where the producer id changes, ends as its client says, with V1's requests or with V2's.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.test_transactions_v2 import restart_leader, says
from tests.processes.txn_client import TWO_PHASE
from tests.processes.txn_lives import LAST_EPOCH, SECOND, THIRD, Life, Story

pytestmark = pytest.mark.slow

STORIES: Final = (
    Story(v2=True, then_v2=False, epoch=LAST_EPOCH, ending=True),
    Story(v2=False, then_v2=False),
    Story(v2=True, then_v2=True),
    Story(v2=True, then_v2=False),
    Story(v2=False, then_v2=True),
    Story(v2=True, then_v2=False, ending=True),
    Story(v2=False, then_v2=False, ending=True),
    Story(v2=True, then_v2=True, two_phase=True),
    Story(v2=True, then_v2=False, two_phase=True),
    Story(v2=False, then_v2=False, two_phase=True),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("downgrade") / "cluster", NO_QUOTA, TWO_PHASE) as nodes:
        yield nodes


@pytest.mark.row("939.12")
def test_transactions_of_every_kind_survive_a_downgrade_and_the_upgrade_after_it(nodes: Nodes) -> None:
    under_way = {story: Life(nodes, story) for story in STORIES}
    away = nodes.followers()[0]
    nodes.kill(away)
    for life in under_way.values():
        life.ends_if_it_is_to()
    before = {story: life.client.stored() for story, life in under_way.items()}
    nodes.run("features", "downgrade", "--feature", "transaction.version=0")
    assert {story: life.client.stored() for story, life in under_way.items()} == before
    nodes.start(away)
    wait_for("clients learn that it is at 0", lambda: says(nodes, 0))
    nodes.await_followed()
    restart_leader(nodes)
    for life in under_way.values():
        life.ends_what_was_open()
        life.writes(SECOND)
    nodes.run("features", "upgrade", "--feature", "transaction.version=2")
    wait_for("clients learn that it is at 2", lambda: says(nodes, 2))
    restart_leader(nodes)
    for life in under_way.values():
        life.ends(committed=False)
        life.writes(THIRD)
        life.ends(committed=True)
    for life in under_way.values():
        life.is_sound()
    assert nodes.complaints() == []
