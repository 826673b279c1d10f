"""The idempotent producer, against listeners that lose, refuse and repeat: each record once, in order."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fencepost.client import (
    DeliveryTimedOut,
    FatalError,
    IllegalState,
    InvalidSetting,
    NotReachable,
    OutcomeUnknown,
    Producer,
    ProducerFenced,
    Refused,
    TopicPartition,
    UnknownTopic,
)
from fencepost.wire.requests import ErrorCode
from tests import skipping_loop
from tests.client.partition_model import records_of
from tests.client.scripted import Fault, Lost, Refuse, ScriptedCluster, Silent
from tests.ports import free_port
from tests.together import table

T0 = TopicPartition("t", 0)
Story = Callable[[ScriptedCluster, str], Coroutine[Any, Any, None]]


def run(cluster: ScriptedCluster, story: Story) -> None:
    async def play() -> None:
        async with cluster.serving() as bootstrap, asyncio.timeout(20):
            await story(cluster, bootstrap)

    skipping_loop.run(play())


def test_records_are_written_in_order_and_their_futures_have_the_place() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            futures = [await producer.send("t", b"%d" % number, key=b"k") for number in range(100)]
            places = [await future for future in futures]
        assert [place.offset for place in places] == list(range(100))
        assert cluster.logs[T0].records == [(b"k", b"%d" % number) for number in range(100)]

    run(ScriptedCluster(), story)


@table("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_is_readable(codec: str) -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap, compression=codec) as producer:
            for number in range(50):
                await producer.send("t", b"%d" % number * 1000)
            await producer.flush()
        assert cluster.logs[T0].values == [b"%d" % number * 1000 for number in range(50)]

    run(ScriptedCluster(), story)


FAULTS: list[Fault] = [
    Lost(done=False),
    Lost(done=True),
    Silent(),
    Silent(done=True),
    Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Refuse(ErrorCode.REQUEST_TIMED_OUT),
    Refuse(ErrorCode.REQUEST_TIMED_OUT, done=True),
    Refuse(ErrorCode.UNKNOWN_SERVER_ERROR, done=True),
    Refuse(ErrorCode.NOT_ENOUGH_REPLICAS),
    Refuse(20, done=True),
]
HAS_IT = Refuse(46, done=True)
"""Not among any faults: of a batch whose predecessor is missing it would be a lie."""


@pytest.mark.parametrize("fault", [*FAULTS, HAS_IT], ids=str)
def test_a_batch_is_sent_again_until_it_is_written_once(fault: Fault) -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [None, fault, fault]
        async with Producer(bootstrap, request_timeout_ms=150) as producer:
            for number in range(5):
                await (await producer.send("t", b"%d" % number))
        assert cluster.logs[T0].values == [b"%d" % number for number in range(5)]

    run(ScriptedCluster(), story)


@pytest.mark.parametrize("seed", range(8))
def test_any_faults_in_any_order_leave_each_record_once_in_order(seed: int) -> None:
    rng = random.Random(seed)

    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [rng.choice([*FAULTS, None, None, None, None]) for _ in range(24)]
        size = rng.choice([100, 1000])
        async with Producer(bootstrap, request_timeout_ms=100, batch_size=size) as producer:
            futures = []
            for number in range(200):
                futures.append(await producer.send("t", b"%d" % number, partition=number % 3))
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.003)
            await producer.flush()
            for number, future in enumerate(futures):
                place = future.result()
                log = cluster.logs[TopicPartition("t", place.partition)]
                assert place.offset < 0 or log.values[place.offset] == b"%d" % number
        for partition in range(3):
            wanted = [b"%d" % number for number in range(200) if number % 3 == partition]
            assert cluster.logs[TopicPartition("t", partition)].values == wanted

    run(ScriptedCluster(node_count=2, partition_count=3), story)


def test_one_batch_at_a_time_until_the_leader_knows_the_producer() -> None:
    """A leader that has nothing of a producer takes any sequence: the second batch for the first one."""

    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        async with Producer(bootstrap, batch_size=1) as producer:
            for number in range(5):
                await producer.send("t", b"%d" % number)
        assert cluster.logs[T0].values == [b"%d" % number for number in range(5)]

    run(ScriptedCluster(), story)


def test_a_leader_that_moves_is_followed() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            for number in range(20):
                cluster.leaders[T0] = number % 3
                await (await producer.send("t", b"%d" % number))
        assert cluster.logs[T0].values == [b"%d" % number for number in range(20)]

    run(ScriptedCluster(node_count=3), story)


def test_a_refused_record_fails_alone_and_the_next_are_written() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [None, Refuse(ErrorCode.INVALID_RECORD), None]
        async with Producer(bootstrap, batch_size=1) as producer:
            first = await producer.send_and_wait("t", b"first")
            futures = [await producer.send("t", value) for value in (b"bad", b"next", b"last")]
            with pytest.raises(Refused) as refused:
                await futures[0]
            assert refused.value.code == ErrorCode.INVALID_RECORD
            assert [(await future).offset for future in futures[1:]] == [first.offset + 1, first.offset + 2]
        assert cluster.logs[T0].values == [b"first", b"next", b"last"]

    run(ScriptedCluster(), story)


def test_the_producer_ends_if_a_record_behind_a_refused_one_may_be_written() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [None, Refuse(ErrorCode.INVALID_RECORD), Lost(done=True)]
        async with Producer(bootstrap, batch_size=1) as producer:
            await producer.send_and_wait("t", b"first")
            bad, behind = [await producer.send("t", value) for value in (b"bad", b"behind")]
            with pytest.raises(Refused):
                await bad
            with pytest.raises(OutcomeUnknown):
                await behind
            with pytest.raises(OutcomeUnknown):
                await producer.send("t", b"later")
        assert cluster.logs[T0].values == [b"first"]

    run(ScriptedCluster(), story)


def test_a_batch_that_may_be_written_is_not_skipped_when_its_time_is_over() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [Lost(done=True), *[Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1000]
        async with Producer(bootstrap, delivery_timeout_ms=200) as producer:
            future = await producer.send("t", b"once")
            with pytest.raises(OutcomeUnknown):
                await future
            with pytest.raises(FatalError):
                await producer.send("t", b"later")
        assert cluster.logs[T0].values == [b"once"]

    run(ScriptedCluster(), story)


def test_a_record_that_was_never_written_is_given_up_alone() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [None, *[Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1000]
        async with Producer(bootstrap, delivery_timeout_ms=200) as producer:
            await producer.send_and_wait("t", b"first")
            future = await producer.send("t", b"late")
            with pytest.raises(DeliveryTimedOut):
                await future
            cluster.faults[0].clear()
            await producer.send_and_wait("t", b"next")
        assert cluster.logs[T0].values == [b"first", b"next"]

    run(ScriptedCluster(), story)


def test_an_old_epoch_ends_the_producer() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0].append(Refuse(ErrorCode.INVALID_PRODUCER_EPOCH))
        async with Producer(bootstrap) as producer:
            with pytest.raises(ProducerFenced):
                await producer.send_and_wait("t", b"x")
            with pytest.raises(ProducerFenced):
                await producer.send("t", b"y")

    run(ScriptedCluster(), story)


def test_send_waits_for_room() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        cluster.faults[0] += [Silent()]
        async with Producer(
            bootstrap, buffer_memory=2000, max_block_ms=100, request_timeout_ms=400
        ) as producer:
            futures = [await producer.send("t", bytes(1000)) for _ in range(2)]
            with pytest.raises(DeliveryTimedOut):
                await producer.send("t", bytes(1000))
            await asyncio.wait(futures)
            await producer.send_and_wait("t", b"room")
        assert len(cluster.logs[T0].values) == 3

    run(ScriptedCluster(), story)


def test_a_batch_lingers_until_it_is_full_or_flushed() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap, linger_ms=60_000, batch_size=2000) as producer:
            for _ in range(30):
                await producer.send("t", bytes(100))
            await cluster.await_seen(0, 1)
            assert 0 < len(cluster.logs[T0].values) < 30
            await producer.flush()
            assert len(cluster.logs[T0].values) == 30
        assert len(cluster.logs[T0].batches) == 2

    run(ScriptedCluster(), story)


def test_what_has_no_key_stays_on_a_partition_until_its_batch_is_full() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap, batch_size=1000) as producer:
            futures = [await producer.send("t", bytes(90)) for _ in range(100)]
            await producer.flush()
        order = [future.result().partition for future in futures]
        changes = sum(order[each] != order[each - 1] for each in range(1, 100))
        assert 5 <= changes <= 12

    run(ScriptedCluster(partition_count=4), story)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda producer: producer.send("t", bytes(2_000_000)), Refused),
        (lambda producer: producer.send("t", b"", partition=9), UnknownTopic),
        (lambda producer: producer.send("none", b""), UnknownTopic),
        (lambda producer: producer.start(), IllegalState),
    ],
)
def test_what_can_never_be_sent_is_refused(
    call: Callable[[Producer], Awaitable[object]], error: type[Exception]
) -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap, max_block_ms=100) as producer:
            with pytest.raises(error):
                await call(producer)

    run(ScriptedCluster(), story)


@pytest.mark.parametrize(
    "settings",
    [{"compression": "lzma"}, {"batch_size": 0}, {"bootstrap_servers": "nowhere"}, {"bootstrap_servers": ""}],
    ids=str,
)
def test_a_setting_that_can_never_work_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Producer(**({"bootstrap_servers": "localhost:9092"} | settings))


def test_no_broker_is_said_to_be_reachable_in_time() -> None:
    async def play() -> None:
        with pytest.raises(NotReachable):
            await Producer(f"127.0.0.1:{free_port()}", max_block_ms=100).start()

    skipping_loop.run(play())


def test_closing_writes_what_waits_and_ends_what_comes_later() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        producer = Producer(bootstrap, linger_ms=60_000)
        await producer.start()
        future = await producer.send("t", b"x")
        await producer.close()
        await producer.close()
        assert future.result().offset == 0
        with pytest.raises(IllegalState):
            await producer.send("t", b"y")

    run(ScriptedCluster(), story)


def test_a_record_keeps_its_key_headers_and_time() -> None:
    async def story(cluster: ScriptedCluster, bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            await producer.send("t", None, key=b"gone", timestamp_ms=5)
            await producer.send("t", b"v" * 9000, headers=((b"h", None), (b"i", b"x")), timestamp_ms=3)
            await producer.flush()
        assert cluster.logs[T0].records == [(b"gone", None), (None, b"v" * 9000)]
        assert [records_of(raw) for raw in cluster.logs[T0].batches] == [cluster.logs[T0].records]

    run(ScriptedCluster(), story)
