"""Wide transactions that fall due in one second, under load: all are aborted, and leaders do not take turns.

FENCEPOST_WIDE_PRODUCERS and FENCEPOST_WIDE_TOPICS make it larger: 100 and 500 are 13 MB of rows and 50,000
markers. How long it takes to drain is printed with ``-s``.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator

import click
import pytest

from fencepost.controller.errors import ApiError
from fencepost.controller.topics import CreateTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.client import ControllerClient
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.checks import check_run
from tests.processes.load import Load

pytestmark = pytest.mark.slow

PRODUCERS = int(os.environ.get("FENCEPOST_WIDE_PRODUCERS", "20"))
TOPICS = int(os.environ.get("FENCEPOST_WIDE_TOPICS", "200"))
DUE_SECONDS = tuple((4.0 + PRODUCERS / 10) * 2**number for number in range(5))
"""From when they begin to be opened: twice as long each time that a machine was too slow to open them all."""
DRAIN_SECONDS_MAX = 300.0
ELECTIONS_MAX = 2  # a slow machine may hold a leader up for longer than an election timeout
CALL_SECONDS_MAX = 20.0


@pytest.fixture
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("wide") / "cluster", NO_QUOTA) as nodes:
        yield nodes


@pytest.mark.row("588.1", "card.7")
@pytest.mark.parametrize("leader_is_killed", [False, True], ids=["under-load", "leader-killed"])
def test_wide_transactions_that_fall_due_together_are_all_aborted(
    wide: Nodes, leader_is_killed: bool
) -> None:
    names = [f"{index:05}-" + "x" * (94 + index % 150) for index in range(TOPICS)]
    with Load(wide, seed=1) as load:
        load.await_done(20)
        ids, due_s = asyncio.run(_open(wide, names))
        epoch = {node_id: wide.epoch(node_id) for node_id in wide.node_ids}
        if leader_is_killed:
            _await_first_abort(wide, ids)
            leader = wide.leader()
            wide.kill(leader)
            load.await_done(20)
            wide.start(leader)
        states = wait_for(
            "every transaction is aborted",
            lambda: _all(asyncio.run(_states(wide, ids)), "CompleteAbort"),
            DRAIN_SECONDS_MAX,
        )
        drained_s = time.monotonic() - due_s
        load.await_done(20)
    assert len(states) == PRODUCERS
    megabytes = PRODUCERS * sum(len(name) + 8 for name in names) / 1e6
    click.echo(
        f"{PRODUCERS} transactions on {TOPICS} partitions each: {megabytes:.1f} MB of rows and "
        f"{PRODUCERS * TOPICS} markers drained {drained_s:.1f} s after they were due"
    )
    if not leader_is_killed:
        ended = max(wide.epoch(node_id) for node_id in wide.node_ids)
        assert ended <= max(epoch.values()) + ELECTIONS_MAX, "each leader was lost to what is due"
    check_run(wide, load, 0)


def _await_first_abort(wide: Nodes, ids: list[str]) -> None:
    wait_for(
        "the first is aborted",
        lambda: {"PrepareAbort", "CompleteAbort"} & set(asyncio.run(_states(wide, ids)).values()),
    )


def _all(states: dict[str, str], state: str) -> dict[str, str] | None:
    return states if set(states.values()) == {state} else None


def _client(wide: Nodes) -> ControllerClient:
    addresses = [wide.address(node_id, "controller") for node_id in wide.node_ids]
    return ControllerClient(addresses, rng=random.Random(1), attempt_timeout_s=CALL_SECONDS_MAX)


async def _open(wide: Nodes, names: list[str]) -> tuple[list[str], float]:
    """Open the transactions. Returns their ids, and when they are due, by the monotonic clock."""
    client = _client(wide)
    try:
        topics = tuple(NewTopic(name, 1, 1) for name in names)
        created = await client.call(CREATE_TOPICS, CreateTopics(topics), timeout_s=CALL_SECONDS_MAX)
        assert {each.error_code for each in created.topics} == {0}
        for seconds in DUE_SECONDS:
            ids = [f"wide-{index:03}-{seconds:.0f}" for index in range(PRODUCERS)]
            due_s = time.monotonic() + seconds
            opened = await asyncio.gather(*(_open_one(client, names, each, due_s) for each in ids))
            if all(opened) and time.monotonic() < due_s:
                return ids, due_s
        raise AssertionError(f"not all are open at once within {DUE_SECONDS[-1]:.0f} s")
    finally:
        await client.close()


async def _open_one(client: ControllerClient, names: list[str], transactional_id: str, due_s: float) -> bool:
    """False: it was too late."""
    timeout_ms = int((due_s - time.monotonic()) * 1000)
    if timeout_ms <= 0:
        return False
    init = InitProducerId(transactional_id, timeout_ms)
    given = await client.call(INIT_PRODUCER_ID, init, timeout_s=CALL_SECONDS_MAX)
    parts = tuple(TopicPartitions(name, (0,)) for name in names)
    adding = AddPartitions(transactional_id, given.producer_id, given.producer_epoch, parts)
    added = await client.call(
        ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn((adding,)), timeout_s=CALL_SECONDS_MAX
    )
    ((_, answer),) = added.results
    assert not isinstance(answer, int)
    codes = {code for _, codes in answer.errors for _, code in codes}
    assert codes == {0} or time.monotonic() > due_s, codes
    return codes == {0}


async def _states(wide: Nodes, ids: list[str]) -> dict[str, str]:
    client = _client(wide)
    try:
        answer = await client.call(
            DESCRIBE_TRANSACTIONS, DescribeTransactions(tuple(ids)), timeout_s=CALL_SECONDS_MAX
        )
    except ApiError:
        return {}
    finally:
        await client.close()
    return {each.transactional_id: each.state for each in answer.transactions}
