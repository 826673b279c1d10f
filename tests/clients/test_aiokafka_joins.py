"""aiokafka gives a JoinGroup up that is parked for long, joins again, and is fenced while it is parked.

Trap 1   it drops the connection after ``request_timeout_ms`` (40 s) and joins again. What it left behind must
         not be a member beside it: a ghost is assigned partitions that no process reads.
Trap 2   it knows no FENCED_INSTANCE_ID (82): its coordination stops until the application calls it. So 82 is
         for the process that was replaced and for no other, and the others do not wait for that one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from tests.harness.nodes import Nodes, running

pytestmark = pytest.mark.slow

TOPIC = "joined"
PARTITIONS = 4
SECONDS_MAX = 40.0
STOP_SECONDS_MAX = 5.0
GIVES_UP_MS = 2_000
TIMES = 2  # a JoinGroup is given up


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("joins") / "cluster", count=1) as started:
        started.run("topics", "create", "--topic", TOPIC, "--partitions", PARTITIONS)
        yield started


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """What a member was assigned, one rebalance after the other. It may hold its next rebalance up."""

    def __init__(self) -> None:
        self.assigned: list[int] = []  # how many partitions
        self.revoking = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self.revoking.set()
            await self.goes_on.wait()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned.append(len(assigned))


class Members:
    """The consumers of one group, in this process."""

    def __init__(self, cluster: Nodes, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._made: list[tuple[AIOKafkaConsumer, Listener]] = []

    def member(self, **settings: Any) -> tuple[AIOKafkaConsumer, Listener]:
        """Not started yet."""
        listener = Listener()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap,
            group_id=self._group,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
            rebalance_timeout_ms=60_000,
            **settings,
        )
        consumer.subscribe([TOPIC], listener=listener)
        self._made.append((consumer, listener))
        return consumer, listener

    async def slow(self) -> tuple[AIOKafkaConsumer, Listener]:
        """A member that is alone, and will hold the next rebalance up."""
        consumer, listener = self.member()
        await consumer.start()
        assert len(consumer.assignment()) == PARTITIONS
        listener.goes_on.clear()
        return consumer, listener

    async def stop(self) -> None:
        for consumer, listener in self._made:
            listener.goes_on.set()
            with suppress(asyncio.CancelledError, KafkaError, TimeoutError):  # it waits for a parked join
                await asyncio.wait_for(consumer.stop(), STOP_SECONDS_MAX)


def play(cluster: Nodes, group: str, story: Callable[[Members], Awaitable[None]]) -> None:
    async def whole() -> None:
        members = Members(cluster, group)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await story(members)
        finally:
            await members.stop()

    asyncio.run(whole())


async def until(look: Callable[[], bool]) -> None:
    while not look():
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("instance_id", [None, "bob"], ids=["dynamic", "static"])
def test_a_join_that_aiokafka_gave_up_leaves_no_ghost(
    cluster: Nodes, caplog: pytest.LogCaptureFixture, instance_id: str | None
) -> None:
    """The first assignments after the rebalance are of two members: with a ghost both would have fewer."""
    caplog.set_level(logging.ERROR, "aiokafka.consumer.group_coordinator")

    def given_up() -> bool:
        return sum("Error sending JoinGroupRequest" in each for each in caplog.messages) >= TIMES

    async def story(members: Members) -> None:
        _, slow = await members.slow()
        bob, listener = members.member(request_timeout_ms=GIVES_UP_MS, group_instance_id=instance_id)
        joining = asyncio.create_task(bob.start())
        await until(given_up)
        slow.goes_on.set()
        await joining
        await until(lambda: len(slow.assigned) > 1)
        assert (slow.assigned[1], listener.assigned[0]) == (2, 2)

    play(cluster, f"given-up-{instance_id}", story)


def test_aiokafka_is_fenced_where_it_was_replaced_and_nowhere_else(
    cluster: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka.conn")  # its error does not say which code it was

    def fenced() -> int:
        return sum("error_code=82" in each for each in caplog.messages)

    async def story(members: Members) -> None:
        _, slow = await members.slow()
        replaced, _ = members.member(group_instance_id="bob")
        waiting = asyncio.create_task(replaced.start())
        await slow.revoking.wait()  # so its join is parked
        heir, listener = members.member(group_instance_id="bob")
        joining = asyncio.create_task(heir.start())
        with pytest.raises(KafkaError, match="UnknownError"):
            await waiting
        assert fenced() == 1
        slow.goes_on.set()
        await joining
        await until(lambda: len(slow.assigned) > 1)
        assert (slow.assigned[1], listener.assigned[0]) == (2, 2)
        before = heir.assignment()
        await heir.stop()  # a static member does not leave
        again, _ = members.member(group_instance_id="bob")
        await again.start()
        assert again.assignment() == before
        assert len(slow.assigned) == 2, "the others rebalanced"
        assert fenced() == 1

    play(cluster, "fenced", story)
