"""A group-aware producer, against a coordinator that fences, loses and refuses what a test says (KIP-447)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.client import (
    CommitFailed,
    GroupAssignment,
    GroupMetadata,
    IllegalState,
    Producer,
    Refused,
    RequestTimedOut,
    TopicPartition,
)
from fencepost.wire.requests import ErrorCode, MemberAssignment, TopicPartitions
from tests import skipping_loop
from tests.client.coordinator_model import CoordinatedCluster
from tests.client.scripted import Lost, Refuse

T0 = TopicPartition("t", 0)
INIT, END = 22, 26
MEMBER = GroupMetadata("g", 7, "m", "i")
ASSIGNED = GroupAssignment(MEMBER, (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)))
SAID = MemberAssignment("g", 7, (TopicPartitions("a", (0, 2)), TopicPartitions("b", (1,))), "m", "i")
Story = Callable[[CoordinatedCluster, Producer], Coroutine[Any, Any, None]]


def run(
    version: int, story: Story, *, name: str | None = None, knows_groups: bool = True
) -> CoordinatedCluster:
    cluster = CoordinatedCluster(transaction_version=version)
    cluster.knows_groups = knows_groups

    async def play() -> None:
        async with cluster.serving() as bootstrap, asyncio.timeout(20):
            options: dict[str, Any] = {"max_block_ms": 3_000, "request_timeout_ms": 200}
            async with Producer(bootstrap, transactional_id=name, group_aware=True, **options) as producer:
                await story(cluster, producer)

    skipping_loop.run(play())
    return cluster


async def write(producer: Producer, value: bytes) -> None:
    async with producer.transaction():
        await producer.send("t", value)


both = pytest.mark.parametrize("version", [0, 2], ids=["v1", "v2"])
named = pytest.mark.parametrize("name", ["x", None], ids=["named", "unnamed"])


@both
@named
def test_each_assignment_gives_a_new_epoch_under_one_name(version: int, name: str | None) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        waits = [producer.needs_assignment]
        for number in range(3):
            await producer.init_transactions(group=ASSIGNED)
            waits.append(producer.needs_assignment)
            await write(producer, b"%d" % number)
        assert waits == [True, False, False, False]

    cluster = run(version, story, name=name)
    assert list(cluster.rows) == [name or "made"]
    assert cluster.members == [SAID] * 3
    assert cluster.outcomes == [True] * 3
    assert cluster.logs[T0].values == [b"0", b"1", b"2"]


@both
def test_one_that_was_fenced_goes_on_with_its_next_assignment(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await producer.init_transactions(group=ASSIGNED)
        await write(producer, b"0")
        cluster.fence("made")
        producer.begin_transaction()
        await producer.send("t", b"zombie")
        with pytest.raises(CommitFailed):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert producer.needs_assignment
        with pytest.raises(IllegalState):
            producer.begin_transaction()
        with pytest.raises(IllegalState, match="group_assignment"):
            await producer.init_transactions()
        await producer.init_transactions(group=ASSIGNED)
        await write(producer, b"1")

    cluster = run(version, story)
    assert [each for each in cluster.logs[T0].values if each != b"zombie"] == [b"0", b"1"]
    assert cluster.outcomes == [True, True]


@both
def test_an_open_transaction_is_given_up_for_the_next_assignment(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await producer.init_transactions(group=ASSIGNED)
        producer.begin_transaction()
        await producer.send_and_wait("t", b"open")
        await producer.init_transactions(group=ASSIGNED)
        await write(producer, b"1")

    assert run(version, story).rows["made"].epoch >= 1


@pytest.mark.parametrize("code", [22, 25, 27, 69, 82])
def test_a_member_that_is_none_any_more_waits_for_its_next_assignment(code: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        cluster.faults[INIT] += [Refuse(code)]
        with pytest.raises(CommitFailed):
            await producer.init_transactions(group=ASSIGNED)
        assert producer.needs_assignment
        await producer.init_transactions(group=ASSIGNED)
        await write(producer, b"0")

    assert run(2, story).outcomes == [True]


@pytest.mark.parametrize("code", [35, 42, 50, 53])
def test_what_is_wrong_for_ever_is_refused(code: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        cluster.faults[INIT] += [Refuse(code)]
        with pytest.raises(Refused):
            await producer.init_transactions(group=ASSIGNED)

    run(2, story)


@pytest.mark.parametrize("fault", [Lost(done=True), Lost(done=False), Refuse(51), Refuse(14), Refuse(16)])
def test_what_passes_is_repeated(fault: Any) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        cluster.faults[INIT] += [fault, fault]
        await producer.init_transactions(group=ASSIGNED)
        await write(producer, b"0")

    assert run(2, story).outcomes == [True]


@named
def test_brokers_that_know_no_groups_are_refused_for_they_fenced_no_producer(name: str | None) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        with pytest.raises(Refused, match="UNSUPPORTED_VERSION"):
            await producer.init_transactions(group=ASSIGNED)
        assert producer.needs_assignment
        with pytest.raises(IllegalState):
            producer.begin_transaction()

    run(2, story, name=name, knows_groups=False)


def test_an_unknown_commit_is_ended_before_the_next_assignment() -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await producer.init_transactions(group=ASSIGNED)
        producer.begin_transaction()
        await producer.send("t", b"0")
        cluster.faults[END] += [Lost(done=True), *[Refuse(ErrorCode.NOT_COORDINATOR)] * 500]
        with pytest.raises(RequestTimedOut):
            await producer.commit_transaction()
        cluster.faults[END].clear()
        with pytest.raises(IllegalState, match="commit_transaction again"):
            await producer.init_transactions(group=ASSIGNED)
        await producer.commit_transaction()
        await producer.init_transactions(group=ASSIGNED)

    assert run(2, story).outcomes == [True]
