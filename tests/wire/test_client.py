"""Our clients: versions, order, what is known about a lost call, and the way to the active controller."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.brokers import UnregisterBroker
from controller.errors import (
    ClusterAuthorizationFailed,
    NotController,
    StaleBrokerEpoch,
    UnknownServerError,
    UnsupportedVersion,
)
from controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from records.types import BrokerEpoch, BrokerId, NodeId, ProducerId
from tests.wire.stage import ASK, Blocks, listening
from wire.client import Address, Connection, ConnectionLost, ControllerClient, NotConnected, RequestTimeout
from wire.dispatch import Context, Endpoint, Reply, Service
from wire.frame import Splitter, parse_request_header, response_frame
from wire.k18_api_versions import API_VERSIONS, ApiRange, ApiVersionsAnswer
from wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumAnswer,
    NodeListener,
    QuorumNode,
    QuorumPartition,
)
from wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, ClusterNode, DescribeClusterAnswer
from wire.k64_unregister_broker import UNREGISTER_BROKER
from wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from wire.listener import Listener

BLOCK = ProducerIdBlock(ProducerId(0), 10)


def asks(broker_id: int) -> AllocateProducerIds:
    return AllocateProducerIds(BrokerId(broker_id), BrokerEpoch(5))


class Later:
    """An endpoint that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[tuple[AllocateProducerIds, Reply]] = asyncio.Queue()

    def __call__(self, request: AllocateProducerIds, context: Context, reply: Reply) -> None:
        self.waiting.put_nowait((request, reply))


def allocating(endpoint: Endpoint) -> Service:
    return {67: (ALLOCATE_PRODUCER_IDS, endpoint)}


# One connection


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
    def refuse(request: AllocateProducerIds, context: Context, reply: Reply) -> None:
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


# The way to the controller


class Node:
    """A controller node of a pretended quorum."""

    def __init__(self, node_id: int, quorum: "Quorum") -> None:
        self.node_id = node_id
        self.quorum = quorum
        self.blocks = Blocks()
        self.silent = False
        self.listener: Listener | None = None

    def allocate(self, request: AllocateProducerIds, context: Context, reply: Reply) -> None:
        if self.silent:
            return
        if self.quorum.refusal is not None:
            raise self.quorum.refusal
        if self.quorum.leader_id != self.node_id:
            raise NotController(f"node {self.quorum.leader_id} leads")
        self.blocks(request, context, reply)

    def describe_cluster(self, request: Any, context: Context, reply: Reply) -> None:
        assert request.endpoint_type == CONTROLLERS
        if self.silent:
            return
        nodes = tuple(ClusterNode(each, *at) for each, at in self.quorum.addresses.items())
        reply(DescribeClusterAnswer(cluster_id="c", controller_id=NodeId(self.quorum.told), brokers=nodes))

    def describe_quorum(self, request: Any, context: Context, reply: Reply) -> None:
        nodes = tuple(
            QuorumNode(NodeId(each), (NodeListener("CONTROLLER", *at),))
            for each, at in self.quorum.addresses.items()
        )
        reply(DescribeQuorumAnswer.of(QuorumPartition(leader_id=NodeId(self.quorum.told)), nodes))

    @property
    def service(self) -> Service:
        served: dict[int, Any] = {67: (ALLOCATE_PRODUCER_IDS, self.allocate)}
        if "cluster" in self.quorum.serves:
            served[60] = (DESCRIBE_CLUSTER, self.describe_cluster)
        if "quorum" in self.quorum.serves:
            served[55] = (DESCRIBE_QUORUM, self.describe_quorum)
        return served


class Quorum:
    """Three nodes; ``leader_id`` leads, ``told`` is whom the nodes believe to lead."""

    def __init__(self, serves: str) -> None:
        self.serves = serves.split()
        self.leader_id = self.told = 2
        self.refusal: Exception | None = None
        self.addresses: dict[int, Address] = {}
        self.nodes = {node_id: Node(node_id, self) for node_id in (1, 2, 3)}

    def lead(self, node_id: int) -> None:
        self.leader_id = self.told = node_id


@asynccontextmanager
async def quorum(
    serves: str = "cluster quorum", **options: Any
) -> AsyncIterator[tuple[Quorum, ControllerClient]]:
    """Three live listeners and a client that knows only the first and the third."""
    them = Quorum(serves)
    contexts = [listening(node.service) for node in them.nodes.values()]
    try:
        for node, context in zip(them.nodes.values(), contexts, strict=True):
            node.listener, _ = await context.__aenter__()
            them.addresses[node.node_id] = ("127.0.0.1", node.listener.port)
        known = [them.addresses[1], them.addresses[3]] if serves else list(them.addresses.values())
        client = ControllerClient(known, rng=random.Random(1), **options)
        yield them, client
        await client.close()
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)


@pytest.mark.parametrize("serves", ["cluster quorum", "quorum", ""], ids=["cluster", "quorum", "neither"])
def test_the_leader_is_found_and_found_again(serves: str) -> None:
    async def story() -> None:
        async with quorum(serves) as (them, client):
            for leader_id in (2, 2, 3):
                them.lead(leader_id)
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
                assert client.active == f"127.0.0.1:{them.addresses[leader_id][1]}"
            assert [len(node.blocks.asked) for node in them.nodes.values()] == [0, 2, 1]

    asyncio.run(story())


def test_a_leader_that_dies_is_replaced() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            dead = them.nodes[2].listener
            assert dead is not None
            await dead.stop()  # and for a while everybody believes it leads
            calls = [
                asyncio.create_task(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)) for _ in range(8)
            ]
            await asyncio.sleep(0.05)
            them.lead(3)
            await asyncio.gather(*calls)
            assert len(them.nodes[3].blocks.asked) == 8

    asyncio.run(story())


def test_a_leader_that_falls_silent_is_left() -> None:
    async def story() -> None:
        async with quorum(attempt_timeout_s=0.05) as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            them.nodes[2].silent = True
            them.lead(1)
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            assert len(them.nodes[1].blocks.asked) == 1

    asyncio.run(story())


def test_calls_share_one_connection() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            await asyncio.gather(*(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10) for _ in range(50)))
            leader = them.nodes[2].listener
            assert leader is not None
            assert len(leader._connections) == 1

    asyncio.run(story())


def test_a_refused_principal_is_told_at_once() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            them.refusal = ClusterAuthorizationFailed(principal="User:eve", operation="CLUSTER_ACTION")
            with pytest.raises(ClusterAuthorizationFailed):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=3600)

    asyncio.run(story())


def test_without_a_leader_the_call_was_not_done() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            them.lead(-1)
            with pytest.raises((NotController, NotConnected)):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.2)
        alone = ControllerClient([("127.0.0.1", 1)], rng=random.Random(1))
        with pytest.raises(NotConnected):
            await alone.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.1)

    asyncio.run(story())


def test_an_attempt_that_may_have_been_done_is_never_forgotten() -> None:
    async def story() -> None:
        async with quorum(attempt_timeout_s=0.05) as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            them.nodes[2].silent = True
            call = asyncio.create_task(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.5))
            await asyncio.sleep(0.01)
            them.lead(-1)
            with pytest.raises(RequestTimeout):  # though the last word was "nobody leads"
                await call

    asyncio.run(story())


def test_a_closed_client_calls_no_more() -> None:
    async def story() -> None:
        async with quorum() as (_, client):
            await client.close()
            with pytest.raises(NotConnected):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)

    asyncio.run(story())
