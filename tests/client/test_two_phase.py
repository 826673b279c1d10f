"""Two-phase commit from the producer's side, and the dual write that stands on it."""

import random
from pathlib import Path

import pytest

from fencepost.client import IllegalState, PreparedTxnState, Producer
from tests.client.test_cluster import fresh, read, run
from tests.dual_write.databases import database
from tests.dual_write.kills import APPLICATION, COORDINATOR, Killer
from tests.dual_write.player import STEPS
from tests.harness.nodes import Nodes

pytestmark = pytest.mark.slow
KILLS = 2 * len(STEPS)  # the application, then the coordinator, at each step


def two_phase(bootstrap: str, name: str, *, keep: bool = False) -> Producer:
    return Producer(bootstrap, transactional_id=name, two_phase=True, keep_prepared=keep)


@pytest.mark.row("939.11")
@pytest.mark.parametrize("same", [True, False], ids=["same-state", "another-state"])
def test_a_new_instance_ends_what_another_one_prepared(ours: str, same: bool) -> None:
    topic = fresh("prepared")

    async def story() -> None:
        async with two_phase(ours, topic) as producer:
            producer.begin_transaction()
            await producer.send(topic, b"x")
            state = await producer.prepare_transaction()
            assert PreparedTxnState.parse(str(state)) == state
            with pytest.raises(IllegalState):
                await producer.send(topic, b"too late")
        async with two_phase(ours, topic, keep=True) as producer:
            with pytest.raises(IllegalState):
                producer.begin_transaction()
            stored = state if same else PreparedTxnState(state.producer_id, state.epoch + 9)
            assert await producer.complete_transaction(stored) is same
            async with producer.transaction():
                await producer.send(topic, b"next")
        seen = [each.value for each in await read(ours, topic, 2 if same else 1)]
        assert sorted(seen, key=str) == ([b"next", b"x"] if same else [b"next"])

    run(story())


def test_there_is_nothing_to_complete_where_nothing_is_open(ours: str) -> None:
    topic = fresh("nothing")

    async def story() -> None:
        async with two_phase(ours, topic, keep=True) as producer:
            await producer.complete_transaction(PreparedTxnState(1, 2))
            with pytest.raises(IllegalState):
                await producer.complete_transaction(PreparedTxnState(1, 2))
            async with producer.transaction():
                await producer.send(topic, b"x")
        async with Producer(ours, transactional_id=topic) as plain:
            plain.begin_transaction()
            with pytest.raises(IllegalState):
                await plain.prepare_transaction()

    run(story())


@pytest.mark.row("beyond.10")
def test_a_dual_write_that_is_killed_at_every_step_is_both_or_neither(nodes: Nodes, tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as store:
        killer = Killer(nodes, store, fresh("dual"), random.Random(1))
        killer.run(KILLS, (APPLICATION, COORDINATOR))
        assert killer.differences() == set()
    assert killer.killed.total() == KILLS
