"""The way to the active controller: found, lost, found again, and never a wrong word about a lost call."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fencepost.controller.errors import (
    ClusterAuthorizationFailed,
    NotController,
)
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import NodeId
from fencepost.wire.accepting import stop_accepting
from fencepost.wire.client import (
    BACKOFF_S_MAX,
    BACKOFF_S_MIN,
    Address,
    ControllerClient,
    NotConnected,
    RequestTimeout,
)
from fencepost.wire.dispatch import Context, Reply, Service
from fencepost.wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorumAnswer,
    NodeListener,
    QuorumNode,
    QuorumPartition,
)
from fencepost.wire.k60_describe_cluster import (
    CONTROLLERS,
    DESCRIBE_CLUSTER,
    ClusterNode,
    DescribeClusterAnswer,
)
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import Listener
from tests import skipping_loop
from tests.together import table
from tests.wire.stage import ASK, Blocks, listening


class Node:
    """A controller node of a pretended quorum."""

    def __init__(self, node_id: int, quorum: "Quorum") -> None:
        self.node_id = node_id
        self.quorum = quorum
        self.blocks = Blocks()
        self.silent = False
        self.listener: Listener | None = None

    def allocate(self, request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        if self.silent:
            return
        if self.quorum.refusal is not None:
            raise self.quorum.refusal
        if self.quorum.leader_id != self.node_id:
            raise NotController(f"node {self.quorum.leader_id} leads")
        self.blocks(request, context, reply)

    def describe_cluster(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        assert request.endpoint_type == CONTROLLERS
        if self.silent:
            return
        if self.quorum.refuses_to_tell is not None:
            raise self.quorum.refuses_to_tell
        nodes = tuple(ClusterNode(each, *at) for each, at in self.quorum.addresses.items())
        reply(DescribeClusterAnswer(cluster_id="c", controller_id=NodeId(self.quorum.told), brokers=nodes))

    def describe_quorum(self, request: Any, context: Context, reply: Reply[Any]) -> None:
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
        self.refuses_to_tell: Exception | None = None
        self.addresses: dict[int, Address] = {}
        self.nodes = {node_id: Node(node_id, self) for node_id in (1, 2, 3)}

    def lead(self, node_id: int) -> None:
        self.leader_id = self.told = node_id


def client_of(known: list[Address], seed: int = 1, **options: Any) -> ControllerClient:
    """A client with the loop's clock."""
    clock = asyncio.get_running_loop().time
    return ControllerClient(known, rng=random.Random(seed), clock=clock, **options)


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
        client = client_of(known, **options)
        yield them, client
        await client.close()
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)


@table("serves", ["cluster quorum", "quorum", ""], ids=["cluster", "quorum", "neither"])
def test_the_leader_is_found_and_found_again(serves: str) -> None:
    async def story() -> None:
        async with quorum(serves) as (them, client):
            for leader_id in (2, 2, 3):
                them.lead(leader_id)
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
                assert client.active == f"127.0.0.1:{them.addresses[leader_id][1]}"
                listeners = [node.listener for node in them.nodes.values() if node.listener is not None]
                async with asyncio.timeout(10):  # connections to nodes that do not lead are closed
                    while sum(len(listener._connections) for listener in listeners) > 1:
                        await asyncio.sleep(0.001)
            assert [len(node.blocks.asked) for node in them.nodes.values()] == [0, 2, 1]

    skipping_loop.run(story())


def test_a_leader_that_dies_is_replaced() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            dead = them.nodes[2].listener
            assert dead is not None
            await dead.stop()  # and for a while every node believes it leads
            calls = [
                asyncio.create_task(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)) for _ in range(8)
            ]
            await asyncio.sleep(0.05)
            them.lead(3)
            await asyncio.gather(*calls)
            assert len(them.nodes[3].blocks.asked) == 8

    skipping_loop.run(story())


def test_a_leader_that_falls_silent_is_left() -> None:
    async def story() -> None:
        async with quorum(attempt_timeout_s=0.05) as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            them.nodes[2].silent = True
            them.lead(1)
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            assert len(them.nodes[1].blocks.asked) == 1

    skipping_loop.run(story())


def test_a_question_is_one_attempt_and_leaves_what_is_active_no_more() -> None:
    async def story() -> None:
        async with quorum(attempt_timeout_s=0.05) as (them, client):
            answers: asyncio.Queue[Any] = asyncio.Queue()
            assert not client.ask(ALLOCATE_PRODUCER_IDS, ASK, answers.put_nowait), "nothing is connected"
            for is_moved, expected in ((True, NotController), (False, RequestTimeout)):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
                assert client.ask(ALLOCATE_PRODUCER_IDS, ASK, answers.put_nowait)
                assert not isinstance(await answers.get(), Exception)
                leader_id = them.leader_id
                them.nodes[leader_id].silent = not is_moved
                them.lead(3 if is_moved else 1)
                assert client.ask(ALLOCATE_PRODUCER_IDS, ASK, answers.put_nowait)
                assert isinstance(await answers.get(), expected)
                assert client.active is None
            assert answers.empty()

    skipping_loop.run(story())


def test_calls_share_one_connection() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            await asyncio.gather(*(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10) for _ in range(50)))
            leader = them.nodes[2].listener
            assert leader is not None
            assert len(leader._connections) == 1

    skipping_loop.run(story())


@pytest.mark.parametrize("where", ["refusal", "refuses_to_tell"])
def test_a_refused_principal_is_told_at_once(where: str) -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            refusal = ClusterAuthorizationFailed(principal="User:eve", operation="CLUSTER_ACTION")
            setattr(them, where, refusal)
            with pytest.raises(ClusterAuthorizationFailed):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=20)

    skipping_loop.run(story())


def test_without_a_leader_the_call_was_not_done() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            them.lead(-1)
            with pytest.raises((NotController, NotConnected)):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.2)
        alone = client_of([("127.0.0.1", 1)])
        with pytest.raises(NotConnected):
            await alone.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.1)

    skipping_loop.run(story())


def test_an_attempt_that_may_have_been_done_is_never_forgotten() -> None:
    async def story() -> None:
        async with quorum(attempt_timeout_s=0.05) as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            them.nodes[2].silent = True
            call = asyncio.create_task(client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.2))
            await asyncio.sleep(0.01)
            them.lead(-1)
            with pytest.raises(RequestTimeout):  # though the last word was that no node leads
                await call

    skipping_loop.run(story())


LONG_ENOUGH_S = 1.0  # for a first attempt to be refused, on a machine that does much else


def test_what_first_stood_in_the_way_is_what_the_caller_hears() -> None:
    """Not that time ran out, and never that a negative time did."""

    async def call(seed: int, timeout_s: float) -> None:
        alone = client_of([("127.0.0.1", 1)], seed)
        with pytest.raises(NotConnected) as caught:
            await alone.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=timeout_s)
        assert " -" not in str(caught.value)
        if timeout_s >= LONG_ENOUGH_S:
            assert "no connection to 127.0.0.1:1: " in str(caught.value)
            assert "refused" in str(caught.value).lower() or "111" in str(caught.value)

    async def story() -> None:
        for timeout_s in (-1.0, 0.0, 0.001, 0.02, LONG_ENOUGH_S):
            await asyncio.gather(*(call(seed, timeout_s) for seed in range(20)))

    skipping_loop.run(story())


def test_a_search_that_is_cut_off_says_what_its_first_address_said() -> None:
    """One node is gone, another one accepts and says nothing: the first is why, whatever the order."""

    async def call(seed: int, silent: tuple[str, int]) -> None:
        client = client_of([("127.0.0.1", 1), silent], seed)
        calls = [client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=0.1) for _ in range(3)]
        for failure in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(failure, NotConnected)
            assert "no connection to 127.0.0.1:1: " in str(failure) or "found in 0.100 s" in str(failure)
        await client.close()

    async def story() -> None:
        async with foreign_silence() as silent:
            await asyncio.gather(*(call(seed, silent) for seed in range(8)))

    skipping_loop.run(story())


class Clock:
    """Time that passes only where the client sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        assert len(self.pauses_s) < 100, "time does not pass"
        self.pauses_s.append(seconds)
        self.now_s += seconds


def test_attempts_are_apart_by_a_pause_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    async def story() -> None:
        client = ControllerClient([("127.0.0.1", 1)], rng=random.Random(1), clock=lambda: clock.now_s)
        monkeypatch.setattr("fencepost.wire.client.asyncio.sleep", clock.sleep)
        with pytest.raises(NotConnected, match=r"no connection to 127\.0\.0\.1:1"):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)

    skipping_loop.run(story())
    assert sum(clock.pauses_s) == pytest.approx(10)
    for number, pause_s in enumerate(clock.pauses_s[:-1]):
        most_s = min(BACKOFF_S_MIN * 2**number, BACKOFF_S_MAX)
        assert most_s / 2 <= pause_s <= most_s
    assert len(set(clock.pauses_s)) == len(clock.pauses_s)  # jitter


def test_nothing_is_sent_when_the_time_is_over() -> None:
    async def story() -> None:
        async with quorum() as (them, client):
            await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)
            with pytest.raises(NotConnected, match=r"in 0\.000 s"):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=-0.5)
            assert len(them.nodes[2].blocks.asked) == 1

    skipping_loop.run(story())


@asynccontextmanager
async def foreign_silence() -> AsyncIterator[Address]:
    """A server that accepts and says nothing."""
    writers: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read()
        await asyncio.sleep(0)

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        await stop_accepting(server)
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def test_a_closed_client_calls_no_more() -> None:
    async def story() -> None:
        async with quorum() as (_, client):
            await client.close()
            with pytest.raises(NotConnected):
                await client.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=10)

    skipping_loop.run(story())
