"""A client's close that is cancelled, however far it has come, leaves nothing; nor does one that fails."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

import fencepost.client
from fencepost.client import Admin, Consumer, IllegalState, Producer, RebalanceListener, TopicPartition
from fencepost.client.assignors import encode_assignment
from fencepost.controller.groups.leaving import LeaveGroupAnswer
from fencepost.controller.groups.offset_messages import FetchedGroup, FetchedOffset, FetchOffsetsAnswer
from fencepost.controller.groups.syncing import SyncGroupAnswer
from fencepost.wire.k00_produce import PRODUCE
from fencepost.wire.k01_fetch import FETCH
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.requests import JoinGroupAnswer
from tests import skipping_loop
from tests.client.opened import Opened
from tests.client.scripted import ScriptedCluster, Silent

STEPS = 40
"""More turns of the loop than a close takes."""


Made: TypeAlias = Callable[[str], Awaitable[Consumer | Producer | Admin]]


class GroupCluster(ScriptedCluster):
    """Every member follows another one, and is assigned partition 0, of which no fetch is answered."""

    def __init__(self) -> None:
        super().__init__()
        assignment = encode_assignment([TopicPartition("t", 0)])
        read = FetchedGroup("g", (FetchedOffset("t", 0, offset=5),))
        self.rules |= {
            JOIN_GROUP: lambda request, node: JoinGroupAnswer(1, "consumer", "range", "leader", "m"),
            SYNC_GROUP: lambda request, node: SyncGroupAnswer("consumer", "range", assignment),
            OFFSET_FETCH: lambda request, node: FetchOffsetsAnswer((read,)),
            FETCH: lambda request, node: asyncio.get_running_loop().create_future(),
            HEARTBEAT: lambda request, node: None,
            LEAVE_GROUP: lambda request, node: LeaveGroupAnswer(()),
        }


class Broken:
    """A listener that fails when its partitions are given up."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        raise ValueError("of the application")


async def working_consumer(bootstrap: str, listener: RebalanceListener | None = None) -> Consumer:
    consumer = Consumer(bootstrap, group_id="g", heartbeat_interval_ms=200)
    await consumer.start()
    consumer.subscribe(["t"], listener)
    await consumer.poll(timeout_ms=1_000)
    assert await consumer.position(TopicPartition("t", 0)) == 5
    return consumer


async def joining_consumer(bootstrap: str) -> Consumer:
    consumer = Consumer(bootstrap, group_id="g")
    await consumer.start()
    consumer.subscribe(["t"])
    await consumer.poll(timeout_ms=0)
    return consumer


async def working_producer(bootstrap: str) -> Producer:
    producer = Producer(bootstrap)
    await producer.start()
    await producer.send("t", b"written")
    return producer


async def working_admin(bootstrap: str) -> Admin:
    admin = Admin(bootstrap)
    await admin.list_topics()
    admin._metadata.refresh_soon()
    return admin


async def require_gone(opened: Opened) -> None:
    """Nothing of the clients is left."""
    assert opened.still_open == 0
    for _ in range(STEPS):  # what was cancelled has ended by then
        await asyncio.sleep(0)
    running = [task.get_coro() for task in asyncio.all_tasks()]
    files = [Path(each.cr_code.co_filename) for each in running if inspect.iscoroutine(each)]
    assert [each for each in files if each.parent == Path(fencepost.client.__file__).parent] == []


@pytest.mark.parametrize("made", [working_consumer, joining_consumer, working_producer, working_admin])
@pytest.mark.parametrize("silent", [False, True], ids=["answered", "unanswered"])
def test_a_close_that_is_cancelled_after_any_step(opened: Opened, made: Made, silent: bool) -> None:
    ends: set[bool] = set()

    async def story(steps: int) -> None:
        cluster = GroupCluster()
        async with cluster.serving() as bootstrap:
            if silent:  # the last request of each client that has one
                for key in (LEAVE_GROUP.key, PRODUCE.key):
                    cluster.faults[key].append(Silent())
            client = await made(bootstrap)
            closing = asyncio.create_task(client.close())
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            ends.add(closing.cancelled())
            await require_gone(opened)
            await client.close()  # again: nothing more

    for steps in range(1, STEPS):
        skipping_loop.run(story(steps))
    assert True in ends, "cancelled while it was under way"


def test_a_listener_that_fails_when_the_consumer_closes(opened: Opened) -> None:
    async def story() -> None:
        async with GroupCluster().serving() as bootstrap:
            consumer = await working_consumer(bootstrap, Broken())
            with pytest.raises(ValueError, match="of the application"):
                await consumer.close()
            await require_gone(opened)

    skipping_loop.run(story())


def test_what_waits_in_a_producer_whose_close_is_cancelled(opened: Opened) -> None:
    async def story() -> None:
        cluster = GroupCluster()
        cluster.faults[PRODUCE.key].append(Silent())
        async with cluster.serving() as bootstrap:
            producer = Producer(bootstrap)
            await producer.start()
            written = await producer.send("t", b"unanswered")
            closing = asyncio.create_task(producer.close())
            await cluster.await_seen(PRODUCE.key, 1)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            with pytest.raises(IllegalState, match="before the record was written"):
                await written
            await require_gone(opened)

    skipping_loop.run(story())


@pytest.mark.parametrize("client_type", [Admin, Consumer, Producer])
def test_a_start_that_is_cancelled_after_any_step(
    opened: Opened, client_type: type[Admin | Consumer | Producer]
) -> None:
    async def story(steps: int) -> None:
        async with GroupCluster().serving() as bootstrap:
            client = client_type(bootstrap)
            starting = asyncio.create_task(client.__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if not starting.cancelled():
                await client.close()
            await require_gone(opened)

    for steps in range(1, STEPS):
        skipping_loop.run(story(steps))
