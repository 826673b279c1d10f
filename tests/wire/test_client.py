"""One connection of ours: versions, order, and what is known about a lost call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fencepost.controller.brokers import UnregisterBroker
from fencepost.controller.errors import (
    StaleBrokerEpoch,
    UnknownServerError,
    UnsupportedVersion,
)
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.client import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Context, Endpoint, Reply, Service
from fencepost.wire.frame import Splitter, parse_request_header, response_frame
from fencepost.wire.k18_api_versions import API_VERSIONS, ApiRange, ApiVersionsAnswer
from fencepost.wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
)
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.wire.stage import ASK, listening

BLOCK = ProducerIdBlock(ProducerId(0), 10)


def asks(broker_id: int) -> AllocateProducerIds:
    return AllocateProducerIds(BrokerId(broker_id), BrokerEpoch(5))


class Later:
    """An endpoint that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[tuple[AllocateProducerIds, Reply[Any]]] = asyncio.Queue()

    def __call__(self, request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        self.waiting.put_nowait((request, reply))


def allocating(endpoint: Endpoint[Any, Any]) -> Service:
    return {67: (ALLOCATE_PRODUCER_IDS, endpoint)}


def test_calls_overlap_and_each_gets_its_own_answer() -> None:
    async def story() -> None:
        async with listening(allocating(lambda q, c, reply: reply(ProducerIdBlock(q.broker_id, 1)))) as (
            listener,
            _,
        ):
            connection = await Connection.open("127.0.0.1", listener.port)
            blocks = await asyncio.gather(
                *(connection.call(ALLOCATE_PRODUCER_IDS, asks(number)) for number in range(200))
            )
            assert [block.first for block in blocks] == list(range(200))
            connection.close()

    asyncio.run(story())


def test_a_refusal_is_raised_as_the_error_it_is() -> None:
    def refuse(request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        raise StaleBrokerEpoch(broker_id=BrokerId(1), sent=BrokerEpoch(5), current=None)

    async def story() -> None:
        async with listening(allocating(refuse)) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port)
            with pytest.raises(StaleBrokerEpoch):
                await connection.call(ALLOCATE_PRODUCER_IDS, ASK)
            with pytest.raises(UnsupportedVersion, match="does not serve UnregisterBroker"):
                await connection.call(UNREGISTER_BROKER, UnregisterBroker(BrokerId(1)))
            connection.close()

    asyncio.run(story())


def test_an_answer_that_comes_after_its_caller_gave_up_is_dropped() -> None:
    async def story() -> None:
        later = Later()
        async with listening(allocating(later)) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port)
            with pytest.raises(RequestTimeout):
                await connection.call(ALLOCATE_PRODUCER_IDS, asks(1), timeout_s=0.01)
            second = asyncio.create_task(connection.call(ALLOCATE_PRODUCER_IDS, asks(2)))
            for expected in (1, 2):
                request, reply = await later.waiting.get()
                assert request.broker_id == expected
                reply(ProducerIdBlock(ProducerId(100 * expected), 10))
            assert (await second).first == 200
            connection.close()

    asyncio.run(story())


def test_a_lost_connection_says_that_nobody_knows() -> None:
    async def story() -> None:
        later = Later()
        async with listening(allocating(later)) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port)
            calls = [asyncio.create_task(connection.call(ALLOCATE_PRODUCER_IDS, ASK)) for _ in range(3)]
            await later.waiting.get()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert type(outcome) is ConnectionLost
        with pytest.raises(NotConnected):
            await connection.call(ALLOCATE_PRODUCER_IDS, ASK)

    asyncio.run(story())


def test_a_retired_connection_closes_when_its_calls_are_answered() -> None:
    async def story() -> None:
        later = Later()
        async with listening(allocating(later)) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port)
            call = asyncio.create_task(connection.call(ALLOCATE_PRODUCER_IDS, ASK))
            _, reply = await later.waiting.get()
            connection.retire()
            assert not connection.is_open
            reply(BLOCK)
            assert await call == BLOCK
            with pytest.raises(NotConnected):
                await connection.call(ALLOCATE_PRODUCER_IDS, ASK)

    asyncio.run(story())


@asynccontextmanager
async def foreign(answers: list[bytes]) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that answers each request with the next of ``answers``; gives port and versions asked in."""
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = Splitter()
        while chunk := await reader.read(4096):
            splitter.feed(chunk)
            while (frame := splitter.next_frame()) is not None:
                header, _ = parse_request_header(frame, flexible=False)
                asked.append(header.api_version)
                if answers:
                    writer.write(response_frame(header.correlation_id, answers.pop(0), tagged=False))
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], asked
        await ended.wait()  # every test here connects once
    finally:
        server.close()
        await server.wait_closed()


def test_versions_are_asked_again_when_the_first_is_refused() -> None:
    async def story() -> None:
        ranges = (ApiRange(18, 0, 2), ApiRange(67, 0, 9), ApiRange(60, 3, 7), ApiRange(55, 5, 1))
        refused = API_VERSIONS.encode_response(0, ApiVersionsAnswer(ranges, error_code=35), 0)
        accepted = API_VERSIONS.encode_response(2, ApiVersionsAnswer(ranges), 0)
        async with foreign([refused, accepted]) as (port, asked):
            connection = await Connection.open("127.0.0.1", port)
            assert asked == [4, 2]
            assert connection.version_for(ALLOCATE_PRODUCER_IDS) == 0
            with pytest.raises(UnsupportedVersion, match="DescribeCluster 3 to 7"):
                connection.version_for(DESCRIBE_CLUSTER)
            with pytest.raises(UnsupportedVersion):
                connection.version_for(DESCRIBE_QUORUM)
            connection.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([], id="silence"),
        pytest.param([b"\x00\x00\x7f\xff\xff\xff"], id="garbage"),
        pytest.param([b"\xff\xff" + bytes(8)], id="an-error"),
    ],
)
def test_a_server_that_is_none_is_not_connected_to(answers: list[bytes]) -> None:
    async def story() -> None:
        async with foreign(answers) as (port, _):
            with pytest.raises((NotConnected, UnknownServerError)):
                await Connection.open("127.0.0.1", port, timeout_s=0.2)

    asyncio.run(story())


def test_an_answer_to_another_request_ends_the_connection() -> None:
    async def story() -> None:
        versions = API_VERSIONS.encode_response(4, ApiVersionsAnswer((ApiRange(67, 0, 0),)), 0)
        async with foreign([versions]) as (port, _):
            connection = await Connection.open("127.0.0.1", port)
            call = asyncio.create_task(connection.call(ALLOCATE_PRODUCER_IDS, ASK))
            await asyncio.sleep(0)
            body = ALLOCATE_PRODUCER_IDS.encode_response(0, BLOCK, 0)
            connection.data_received(response_frame(99, body, tagged=True))
            with pytest.raises(ConnectionLost, match="correlation id 99, expected 1"):
                await call

    asyncio.run(story())
