"""Group-aware producers on a real cluster: zombies, made ids, and KIP-447's sample loop under rebalances."""

import asyncio
import os
import subprocess
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from fencepost.client import (
    AbortableError,
    Admin,
    CommitFailed,
    Consumer,
    GroupAssignment,
    GroupMetadata,
    IllegalState,
    Producer,
    TopicPartition,
)
from tests.client.test_cluster import fresh, read, run
from tests.client.test_examples import ended, started

pytestmark = pytest.mark.slow

REBALANCES_S = float(os.environ.get("GROUP_AWARE_SECONDS", "20"))
"""How long a group rebalances every second. The proposal's loop is to survive minutes of it."""
RECORDS_EACH_S = 200
PARTITIONS = 4


async def filled(bootstrap: str, topic: str, count: int, every_s: float = 0.0) -> None:
    async with Producer(bootstrap, batch_size=2_000) as producer:
        for number in range(count):
            await producer.send(topic, b"r%d" % number, partition=number % PARTITIONS)
            if every_s and number % 20 == 19:
                await asyncio.sleep(20 * every_s)


def made(bootstrap: str, topic: str, partitions: int) -> None:
    async def story() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=partitions)

    run(story())


async def assigned(consumer: Consumer, *others: Consumer) -> None:
    """Poll all of them until the first has partitions, in a generation that all are in."""
    members = (consumer, *others)
    while True:
        for each in members:
            await each.poll(timeout_ms=100)
        generations = {each.group_metadata().generation for each in members}
        if len(generations) == 1 and -1 not in generations and all(each.assignment() for each in members):
            return


def member(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        bootstrap,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
    )


async def refused(call: Coroutine[Any, Any, None]) -> None:
    with pytest.raises(AbortableError):
        await call


@pytest.mark.row("447.7")
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("offsets", [True, False], ids=["with-offsets", "with-outputs-alone"])
def test_a_zombie_is_fenced_by_the_next_owner_and_goes_on_with_its_next_assignment(
    ours: str, named: bool, offsets: bool
) -> None:
    source, target, group = fresh("in"), fresh("out"), fresh("group")
    made(ours, source, 2)
    names = (fresh("one"), fresh("two")) if named else (None, None)

    async def story() -> None:
        async with (
            member(ours, group) as first,
            member(ours, group) as second,
            Producer(ours, transactional_id=names[0], group_aware=True) as zombie,
            Producer(ours, transactional_id=names[1], group_aware=True) as owner,
        ):
            first.subscribe([source])
            await assigned(first)
            old = first.group_assignment()
            assert len(old.partitions) == 2
            await zombie.init_transactions(group=old)
            zombie.begin_transaction()
            await zombie.send_and_wait(target, b"zombie")
            if offsets:
                await zombie.send_offsets_to_transaction(dict.fromkeys(old.partitions, 5), old.member)

            second.subscribe([source])
            await assigned(second, first)
            with pytest.raises(CommitFailed):
                await owner.init_transactions(group=old)
            await owner.init_transactions(group=second.group_assignment())
            moved = second.group_assignment().partitions[0]
            assert await second.committed([moved]) == {}, "it is not pending any more"

            if offsets:
                await refused(zombie.send_offsets_to_transaction({moved: 9}, old.member))
            else:
                await refused(zombie.commit_transaction())
            await zombie.abort_transaction()
            assert zombie.needs_assignment
            with pytest.raises(IllegalState):
                zombie.begin_transaction()

            owner.begin_transaction()
            await owner.send(target, b"owner")
            await owner.send_offsets_to_transaction({moved: 5}, second.group_metadata())
            await owner.commit_transaction()
            await zombie.init_transactions(group=first.group_assignment())
            zombie.begin_transaction()
            await zombie.send(target, b"again")
            await zombie.commit_transaction()
            assert (await second.committed([moved]))[moved].offset == 5
        seen = await read(ours, target, 2)
        assert sorted(each.value or b"" for each in seen) == [b"again", b"owner"]

    run(story())


def test_what_a_producer_that_knows_groups_is_to_be_given(ours: str) -> None:
    async def story() -> None:
        group = GroupAssignment(GroupMetadata(fresh("nothing"), 1, "m"), (TopicPartition("t", 0),))
        async with Producer(ours, group_aware=True) as producer:
            with pytest.raises(IllegalState, match="group_assignment"):
                await producer.init_transactions()
            with pytest.raises(CommitFailed, match="GROUP_ID_NOT_FOUND"):
                await producer.init_transactions(group=group)
            assert producer.needs_assignment
        async with Producer(ours, transactional_id=fresh("plain")) as producer:
            with pytest.raises(IllegalState, match="group_aware"):
                await producer.init_transactions(group=group)

    run(story())


@pytest.mark.row("447.6")
@pytest.mark.row("447.7")
def test_the_sample_loop_loses_and_repeats_nothing_under_rebalances(ours: str, tmp_path: Path) -> None:
    source, target, group = fresh("in"), fresh("out"), fresh("group")
    made(ours, source, PARTITIONS)
    made(ours, target, PARTITIONS)
    count = int(REBALANCES_S * RECORDS_EACH_S)
    where = (ours, source, target, group, count)
    copies = [started("group_aware_loop.py", tmp_path, *where) for _ in range(2)]
    generations: set[int] = set()

    async def rebalance() -> None:
        """A member that joins and leaves, once a second."""
        while True:
            async with member(ours, group) as visitor:
                visitor.subscribe([source])
                await assigned(visitor)
                generations.add(visitor.group_metadata().generation)
                await asyncio.sleep(0.5)
            await asyncio.sleep(0.5)

    async def story() -> None:
        rebalancing = asyncio.create_task(rebalance())
        await filled(ours, source, count, 1 / RECORDS_EACH_S)
        rebalancing.cancel()
        await asyncio.gather(rebalancing, return_exceptions=True)

    try:
        asyncio.run(story())
        for copy in copies:
            ended(copy)
    finally:
        end(copies)
    seen = asyncio.run(read(ours, target, count))
    assert sorted(each.value or b"" for each in seen) == sorted(b"R%d" % each for each in range(count))
    assert max(generations) >= REBALANCES_S / 2, "the group rebalanced all the time"


def end(processes: list[subprocess.Popen[str]]) -> None:
    for each in processes:
        each.kill()
        each.wait()
