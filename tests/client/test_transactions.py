"""A transactional producer, against a coordinator that loses and refuses what a test says."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.client import (
    AbortableError,
    CommitFailed,
    FatalError,
    GroupMetadata,
    IllegalState,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionTimedOut,
)
from fencepost.wire.requests import ErrorCode
from tests import skipping_loop
from tests.client.coordinator_model import CoordinatedCluster
from tests.client.scripted import Fault, Lost, Refuse

T0 = TopicPartition("t", 0)
ADD, ADD_OFFSETS, END, OFFSETS, INIT, PRODUCE = 24, 25, 26, 28, 22, 0
GROUP = GroupMetadata("g", 1, "m")
Story = Callable[[CoordinatedCluster, Producer], Coroutine[Any, Any, None]]


def run(version: int, story: Story, **settings: Any) -> CoordinatedCluster:
    cluster = CoordinatedCluster(transaction_version=version)

    async def play() -> None:
        async with cluster.serving() as bootstrap, asyncio.timeout(20):
            options = {"max_block_ms": 5_000, "request_timeout_ms": 200} | settings
            async with Producer(bootstrap, transactional_id="x", **options) as producer:
                await story(cluster, producer)

    skipping_loop.run(play())
    return cluster


async def write(producer: Producer, value: bytes) -> None:
    async with producer.transaction():
        await producer.send("t", value)


both = pytest.mark.parametrize("version", [0, 2], ids=["v1", "v2"])


@both
def test_transactions_follow_each_other(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        for number in range(4):
            await write(producer, b"%d" % number)

    cluster = run(version, story)
    assert cluster.outcomes == [True] * 4
    assert cluster.logs[T0].values == [b"0", b"1", b"2", b"3"]
    assert bool(cluster.seen[ADD]) == (version == 0)


@both
@pytest.mark.parametrize("key", [INIT, END, PRODUCE, ADD])
@pytest.mark.parametrize(
    "fault",
    [
        Lost(done=True),
        Lost(done=False),
        Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        Refuse(ErrorCode.NOT_COORDINATOR),
        Refuse(ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
    ids=str,
)
def test_what_is_lost_or_refused_for_now_is_repeated(version: int, key: int, fault: Fault) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await write(producer, b"0")
        cluster.faults[key] += [fault, fault]
        await write(producer, b"1")
        producer.begin_transaction()
        await producer.send_and_wait("t", b"2")
        await producer.abort_transaction()
        await write(producer, b"3")

    cluster = run(version, story)
    assert cluster.outcomes == [True, True, False, True]
    assert cluster.logs[T0].values == [b"0", b"1", b"2", b"3"]


@both
@pytest.mark.row("588.6")
def test_a_commit_after_the_timeout_is_no_fence_and_the_next_transaction_commits(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.send_and_wait("t", b"late")
        cluster.time_out("x")
        with pytest.raises(TransactionTimedOut):
            await producer.commit_transaction()
        with pytest.raises(TransactionTimedOut):
            await producer.send("t", b"refused")
        await producer.abort_transaction()
        await write(producer, b"next")

    assert run(version, story).outcomes == [False, True]


def test_apache_kafka_says_of_a_v2_transaction_that_timed_out_that_none_is_open() -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.send_and_wait("t", b"late")
        cluster.time_out("x")
        cluster.faults[END] += [Refuse(ErrorCode.INVALID_TXN_STATE)]
        with pytest.raises(TransactionTimedOut):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await write(producer, b"next")

    assert run(2, story).outcomes == [False, True]


@both
def test_init_transactions_recovers_as_well(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.send_and_wait("t", b"late")
        cluster.time_out("x")
        with pytest.raises(TransactionTimedOut):
            await producer.commit_transaction()
        await producer.init_transactions()
        await producer.init_transactions()
        await write(producer, b"next")

    assert run(version, story).outcomes == [False, True]


@both
def test_an_abort_that_first_notices_the_timeout_is_safe(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.send_and_wait("t", b"late")
        cluster.time_out("x")
        await producer.abort_transaction()
        await write(producer, b"next")

    assert run(version, story).outcomes == [False, True]


@both
def test_a_fenced_producer_is_over(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await write(producer, b"0")
        cluster.fence("x")
        producer.begin_transaction()
        if version == 0:
            await producer.send("t", b"zombie")
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
        else:
            await producer.send_and_wait("t", b"zombie")
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
        for call in (producer.abort_transaction, producer.commit_transaction, producer.init_transactions):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            producer.begin_transaction()

    run(version, story)


@both
@pytest.mark.parametrize("code", [47, 48, 120, 10, 49, 59])
def test_a_refused_record_aborts_and_the_next_transaction_begins_a_new_epoch(version: int, code: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await write(producer, b"0")
        cluster.faults[PRODUCE] += [Refuse(code)]
        producer.begin_transaction()
        future = await producer.send("t", b"refused")
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        with pytest.raises(AbortableError):
            await future
        await producer.abort_transaction()
        await write(producer, b"1")

    assert run(version, story).logs[T0].values == [b"0", b"1"]


@both
def test_a_record_that_may_be_written_never_commits_when_its_time_is_over(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await write(producer, b"0")
        cluster.faults[PRODUCE] += [Lost(done=True), *[Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 500]
        producer.begin_transaction()
        await producer.send("t", b"unknown")
        with pytest.raises(AbortableError):
            await producer.commit_transaction()
        cluster.faults[PRODUCE].clear()
        await producer.abort_transaction()
        await write(producer, b"1")

    cluster = run(version, story, delivery_timeout_ms=150)
    assert cluster.outcomes == [True, False, True]
    assert cluster.logs[T0].values == [b"0", b"unknown", b"1"]


@both
def test_a_commit_of_unknown_outcome_can_only_be_called_again(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.send_and_wait("t", b"0")
        cluster.faults[END] += [Lost(done=True), *[Refuse(ErrorCode.NOT_COORDINATOR)] * 500]
        with pytest.raises(Exception, match="no answer in"):
            await producer.commit_transaction()
        with pytest.raises(IllegalState):
            await producer.abort_transaction()
        with pytest.raises(IllegalState):
            producer.begin_transaction()
        cluster.faults[END].clear()
        await producer.commit_transaction()
        await write(producer, b"1")

    assert run(version, story, max_block_ms=300).outcomes == [True, True]


@both
def test_offsets_are_committed_with_the_transaction(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: 5}, GROUP)

    cluster = run(version, story)
    (request,) = cluster.seen[OFFSETS]
    assert (request.identity.member_id, request.identity.generation) == ("m", 1)
    assert cluster.outcomes == [True]
    assert len(cluster.seen[ADD_OFFSETS]) == (1 if version == 0 else 0)


@both
@pytest.mark.parametrize(
    ("code", "error"),
    [(22, CommitFailed), (25, CommitFailed), (82, CommitFailed), (47, AbortableError), (120, AbortableError),
     (59, TransactionTimedOut), (53, FatalError)],
)  # fmt: skip
def test_refused_offsets(version: int, code: int, error: type[Exception]) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        cluster.faults[OFFSETS] += [Refuse(code)]
        producer.begin_transaction()
        with pytest.raises(error):
            await producer.send_offsets_to_transaction({T0: 5}, GROUP)
        if issubclass(error, AbortableError):
            await producer.abort_transaction()
            await write(producer, b"next")

    assert run(version, story).outcomes[-1:] in ([], [True])


@both
@pytest.mark.parametrize("key", [ADD, ADD_OFFSETS])
def test_an_abort_of_what_was_never_added_is_safe(version: int, key: int) -> None:
    async def in_a_transaction(producer: Producer) -> None:
        async with producer.transaction():
            if key == ADD:
                await producer.send("t", b"refused")
            else:
                await producer.send_offsets_to_transaction({T0: 5}, GROUP)

    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        for _ in range(2):
            refused = key if version == 0 else {ADD: PRODUCE, ADD_OFFSETS: OFFSETS}[key]
            cluster.faults[refused] += [Refuse(ErrorCode.TRANSACTION_ABORTABLE)]
            with pytest.raises(AbortableError):
                await in_a_transaction(producer)
            await write(producer, b"next")

    cluster = run(version, story)
    assert cluster.outcomes[-1]
    assert cluster.logs[T0].values == [b"next", b"next"]


@both
def test_a_transaction_without_records_asks_the_coordinator_nothing(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        producer.begin_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.abort_transaction()

    assert not run(version, story).seen[END]


@both
def test_calls_that_the_state_does_not_allow(version: int) -> None:
    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        with pytest.raises(IllegalState):
            await producer.send("t", b"x")
        with pytest.raises(IllegalState):
            await producer.commit_transaction()
        with pytest.raises(IllegalState):
            await producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(IllegalState):
            producer.begin_transaction()
        with pytest.raises(IllegalState):
            await producer.init_transactions()

    run(version, story)


def test_the_protocol_is_chosen_for_each_transaction() -> None:
    """V2 with an epoch that no transaction of V1 had: a partition may have that one open, its marker late."""

    async def story(cluster: CoordinatedCluster, producer: Producer) -> None:
        await write(producer, b"v1")
        producer._network._transaction_version = 2
        await write(producer, b"v1, and a new epoch")
        await write(producer, b"v2")
        producer._network._transaction_version = 0
        await write(producer, b"v1 again")

    cluster = run(0, story)
    assert [each.bumps_epoch for each in cluster.seen[END]] == [False, True, True, False]
    assert [each.producer_epoch for each in cluster.seen[END]] == [0, 0, 1, 2]
    assert len(cluster.seen[ADD]) == 3
    assert cluster.outcomes == [True] * 4
