"""Sockets between voters: who is let in, who is refused by name, and what strangers cannot disturb."""

import asyncio
import contextlib
import pickle
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import structlog
from structlog.testing import LogCapture

import fencepost.quorum.links
from fencepost.quorum.handshake import HELLO_BYTES_MAX, PROTOCOL, Hello, LinkConfig, Proof
from fencepost.quorum.link_events import Events
from fencepost.quorum.links import Links
from fencepost.quorum.messages import FRAME_BYTES_MAX, Message, TimeoutNow, encode
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import NodeId
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.tls import Tls
from tests.ports import free_port
from tests.together import table

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
SECRET = b"the secret of this cluster"
PATIENCE_S = 20


class Node:
    """Links with an owner that writes down which calls it gets."""

    def __init__(
        self,
        node_id: NodeId,
        ports: dict[NodeId, int],
        *,
        directory: int | None = None,
        secret: bytes = SECRET,
        second_secret: bytes | None = None,
        cluster_id: str = "cluster",
        reads: int = LEVEL_MAX,
        tls: Tls | None = None,
    ) -> None:
        self.reported: list[str] = []
        self.messages: list[tuple[NodeId, Message]] = []
        self.met: dict[NodeId, uuid.UUID] = {}
        self.levels: dict[NodeId, set[int]] = {}  # the highest that each peer's Hellos named
        self.log_level = 0
        capture = LogCapture()
        self.log = capture.entries
        self.port = ports[node_id]
        self.directory = uuid.UUID(int=directory or 0xD0 + node_id)
        config = LinkConfig(
            node_id=node_id,
            directory_id=self.directory,
            cluster_id=cluster_id,
            secret=secret,
            second_secret=second_secret,
            controller=("127.0.0.1", 1),
            addresses={node: ("127.0.0.1", port) for node, port in ports.items()},
            log_level_max=reads,
            tls=tls,
        )
        events = Events(
            bound=lambda: {ONE: uuid.UUID(int=0xD1)},
            log_level=lambda: self.log_level,
            met=self._met,
            connected=lambda peer: self.reported.append(f"connected {peer}"),
            disconnected=lambda peer: self.reported.append(f"disconnected {peer}"),
            lost=lambda peer: self.reported.append(f"lost {peer}"),
            received=lambda peer, message: self.messages.append((peer, message)),
        )
        log = structlog.wrap_logger(None, processors=[capture])
        self.links = Links(config, events, log, random.Random(1).random)

    def _met(
        self, peer: NodeId, directory: uuid.UUID, _bound: object, _controller: object, level: int
    ) -> None:
        self.met[peer] = directory
        self.levels.setdefault(peer, set()).add(level)

    @property
    def refusals(self) -> str:
        """Why peers were refused, as logged."""
        return " | ".join(str(event.get("reason")) for event in self.log)

    def has(self, *said: str) -> Callable[[], bool]:
        return lambda: all(one in self.reported for one in said)


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    for node in nodes:
        await node.links.start()
    try:
        yield
    finally:
        for node in nodes:
            await node.links.stop()
        for _ in range(5):
            await asyncio.sleep(0)


async def until(holds: Callable[[], bool], what: str = "it") -> None:
    """Wait for a condition, as long as need be."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.005)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a socket of the test's own, and see it closed: the other side may have reset it."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


# -- meeting -----------------------------------------------------------------------------------------------


def test_two_nodes_meet_and_frames_arrive_in_order() -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports)
        async with running(one, two):
            await until(lambda: one.has("connected 2")() and two.has("connected 1")())
            assert (one.met[TWO], two.met[ONE]) == (two.directory, one.directory)
            for term in range(1, 101):
                one.links.send(TWO, encode(TimeoutNow(term)))
            await until(lambda: len(two.messages) == 100)
            assert two.messages == [(ONE, TimeoutNow(term)) for term in range(1, 101)]

    run(story)


def test_a_peer_that_goes_is_told_on_both_sides_and_comes_back() -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports)
        async with running(one):
            async with running(two):
                await until(one.has("connected 2"))
                await until(two.has("connected 1"))
            await until(one.has("disconnected 2", "lost 2"))
            again = Node(TWO, ports)
            one.reported.clear()
            async with running(again):
                await until(one.has("connected 2"))
                await until(again.has("connected 1"))

    run(story)


def test_a_frame_to_nobody_is_lost() -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one = Node(ONE, ports)
        async with running(one):
            one.links.send(TWO, encode(TimeoutNow(1)))

    run(story)


# -- refused by name -----------------------------------------------------------------------------------------

STRANGERS = [
    pytest.param({"secret": b"another"}, "does not know the cluster's secret", id="another-secret"),
    pytest.param({"cluster_id": "other"}, "belongs to cluster", id="another-cluster"),
]


@pytest.mark.parametrize(("other", "reason"), STRANGERS)
def test_a_stranger_is_refused_and_both_sides_say_why(other: dict[str, object], reason: str) -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports, **other)  # type: ignore[arg-type]
        async with running(one, two):
            await until(lambda: reason in one.refusals and reason in two.refusals)
            assert one.reported == two.reported == []

    run(story)


def test_a_node_with_our_own_id_is_refused() -> None:
    async def story() -> None:
        first, second = free_port(), free_port()
        one = Node(ONE, {ONE: first, TWO: second})
        double = Node(ONE, {ONE: second, TWO: first}, directory=0xBEEF)
        async with running(one, double):
            await until(lambda: "node id 1 is taken" in one.refusals)
            assert one.reported == []

    run(story)


def test_a_node_that_is_no_voter_is_refused() -> None:
    async def story() -> None:
        first, second, third = free_port(), free_port(), free_port()
        one = Node(ONE, {ONE: first, TWO: second})
        outsider = Node(THREE, {ONE: first, THREE: third})
        async with running(one, outsider):
            await until(lambda: "node 3 is not a voter" in one.refusals)
            await until(lambda: "node 3 is not a voter" in outsider.refusals)

    run(story)


def test_a_second_node_of_one_id_is_refused_while_the_first_is_there() -> None:
    async def story() -> None:
        first, second, elsewhere = free_port(), free_port(), free_port()
        ports = {ONE: first, TWO: second}
        one, two = Node(ONE, ports), Node(TWO, ports)
        double = Node(TWO, {ONE: first, TWO: elsewhere}, directory=0xBEEF)
        async with running(one, two):
            await until(one.has("connected 2"))
            await until(two.has("connected 1"))
            async with running(double):
                await until(lambda: "node id 2 is taken" in one.refusals)
                await until(lambda: "node id 2 is taken" in double.refusals)
                assert one.met == {TWO: two.directory}
                assert "lost 2" not in one.reported

    run(story)


def test_the_process_at_a_peers_address_ends_what_an_earlier_directory_still_says() -> None:
    """Wiped and restarted while its old connection was not yet seen to close: an ack that is still on it
    would count for a directory that is empty.
    """

    async def story() -> None:
        first, second, elsewhere = free_port(), free_port(), free_port()
        one = Node(ONE, {ONE: first, TWO: second})
        old = Node(TWO, {ONE: first, TWO: elsewhere}, directory=0xAAA)  # no node finds it, it finds us
        new = Node(TWO, {ONE: first, TWO: second}, directory=0xBBB)
        async with running(one, old):
            await until(old.has("connected 1"))
            async with running(new):
                await until(lambda: one.met.get(TWO) == new.directory)
                assert one.has("lost 2")()
                await until(new.has("connected 1"))
                one.messages.clear()
                old.links.send(ONE, encode(TimeoutNow(1)))
                new.links.send(ONE, encode(TimeoutNow(2)))
                await until(lambda: bool(one.messages))
                assert one.messages == [(TWO, TimeoutNow(2))]

    run(story)


# -- bytes of strangers --------------------------------------------------------------------------------------


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


HELLO = msgspec.msgpack.encode(
    Hello(PROTOCOL, "cluster", 2, uuid.UUID(int=2), b"n" * 16, {}, ("127.0.0.1", 1))
)
GARBAGE = [
    pytest.param(framed(pickle.dumps({"type": "append_entries"})), id="a-pickle"),
    pytest.param((2**31).to_bytes(4, "big"), id="a-frame-of-2-GiB"),
    pytest.param(framed(b"x" * (HELLO_BYTES_MAX + 1)), id="a-long-hello"),
    pytest.param(framed(msgspec.msgpack.encode(Proof(b"?" * 32))), id="a-proof-before-a-hello"),
    pytest.param(framed(HELLO) + framed(msgspec.msgpack.encode(Proof(b"?" * 32))), id="a-wrong-proof"),
    pytest.param(framed(HELLO) + framed(HELLO), id="hello-twice"),
    pytest.param(framed(encode(TimeoutNow(5))), id="a-message-before-a-handshake"),
    pytest.param(framed(b""), id="an-empty-frame"),
    pytest.param(framed(b"\x91" * 3000), id="deep-nesting"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
]


@table("garbage", GARBAGE)
def test_garbage_closes_its_own_connection_and_disturbs_nobody(garbage: bytes) -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports)
        bugs: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: bugs.append(context))
        async with running(one, two):
            await until(two.has("connected 1"))
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
            writer.write(garbage)
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(1000):  # until it is closed
                    pass
            await close(writer)
            two.links.send(ONE, encode(TimeoutNow(7)))
            await until(lambda: one.messages == [(TWO, TimeoutNow(7))])
            assert (len(one.log), bugs) == (1, []), "said once, and no bug met"
            assert "no handshake within" not in str(one.log), "it is closed at once"

    run(story)


def test_random_bytes_ten_thousand_times() -> None:
    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports)
        rng = random.Random(20261120)
        async with running(one, two):
            await until(two.has("connected 1"))
            for _ in range(100):
                _, writer = await asyncio.open_connection("127.0.0.1", one.port)
                for _ in range(100):
                    writer.write(framed(rng.randbytes(rng.randrange(1, 60))))
                await close(writer)
            two.links.send(ONE, encode(TimeoutNow(7)))
            await until(lambda: one.messages == [(TWO, TimeoutNow(7))])
            await until(lambda: not one.links.unknown)

    run(story)


def test_a_peers_garbage_costs_it_its_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An authenticated peer, too, is believed nothing but well-formed messages."""

    async def story() -> None:
        ports = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one, two = Node(ONE, ports), Node(TWO, ports)
        async with running(one, two):
            for bad in (pickle.dumps(1), b"x" * (FRAME_BYTES_MAX + 1)):
                await until(two.has("connected 1"))
                two.reported.clear()
                two.links.send(ONE, bad)
                await until(two.has("disconnected 1"))
            await until(two.has("connected 1"))
            assert one.messages == []

    run(story)


def test_a_silent_stranger_is_shown_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.links, "HANDSHAKE_S", 0.05)

    async def story() -> None:
        one = Node(ONE, dict(zip((ONE, TWO), (free_port(), free_port()), strict=True)))
        async with running(one):
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            await close(writer)

    run(story)


def test_so_many_strangers_and_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.links, "UNKNOWN_MAX", 2)
    monkeypatch.setattr(fencepost.quorum.links, "HANDSHAKE_S", 3600)

    async def story() -> None:
        one = Node(ONE, dict(zip((ONE, TWO), (free_port(), free_port()), strict=True)))
        async with running(one):
            strangers = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(2)]
            await until(lambda: len(one.links.unknown) == 2)
            newest = await asyncio.open_connection("127.0.0.1", one.port)
            async with asyncio.timeout(PATIENCE_S):
                assert await strangers[0][0].read() == b""
            assert len(one.links.unknown) == 2
            newest[1].write(b"\xff\xff\xff\xff")
            async with asyncio.timeout(PATIENCE_S):
                assert await newest[0].read() == b""
            assert len(one.links.unknown) == 1
            for _, other in (*strangers, newest):
                await close(other)

    run(story)


def test_bytes_of_strangers_fill_no_log_and_hide_no_peer() -> None:
    async def story() -> None:
        one = Node(ONE, dict(zip((ONE, TWO), (free_port(), free_port()), strict=True)))
        async with running(one):
            lines: list[str] = []
            one.links.refusals._log = LimitedLog(structlog.wrap_logger(None, processors=[_keep(lines)]))
            for number in range(1000):
                one.links.refusals.add(f"a frame of {number} bytes", ("192.0.2.1", 1), is_peer=False)
            one.links.refusals.add("node id 2 is taken", ("192.0.2.2", 2))
            assert len(lines) == 11
            assert lines[-1] == "node id 2 is taken"

    run(story)


def _keep(lines: list[str]) -> structlog.typing.Processor:
    def keep(_log: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        lines.append(str(event.get("reason")))
        raise structlog.DropEvent

    return keep
