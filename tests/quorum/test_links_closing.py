"""No socket is left behind by links that stop, at whatever moment, and none by a peer that does not read."""

import asyncio
import contextlib
import gc
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

import fencepost.quorum.links
from fencepost.quorum.messages import TimeoutNow, encode
from tests.ports import free_port
from tests.quorum.test_links import ONE, PATIENCE_S, TWO, Node, framed, running, until

TURNS_MAX = 24  # of the event loop: two nodes have met by then
LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:  # that of the listing itself
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


async def stop_after(turns: int, turns_between: int) -> None:
    """Two nodes dial each other; both are stopped so many turns of the loop later."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    before = sockets()
    ports = {ONE: free_port(), TWO: free_port()}
    one, two = Node(ONE, ports), Node(TWO, ports)
    for node in (one, two):
        await node.links.start()
    for _ in range(turns):
        await asyncio.sleep(0)
    await one.links.stop()
    for _ in range(turns_between):
        await asyncio.sleep(0)
    await two.links.stop()
    assert sockets() <= before, f"after {turns} and {turns_between} turns"
    assert not one.links.open
    assert not two.links.open
    assert not unhandled


@pytest.mark.parametrize("new_loop", LOOPS)
def test_stopped_at_any_moment_no_socket_is_left(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    for turns in range(TURNS_MAX):
        for turns_between in (0, 1, 3):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(stop_after(turns, turns_between))
    gc.collect()  # a transport or a future that was forgotten speaks up now: warnings are errors


def test_links_whose_port_is_taken_can_be_stopped() -> None:
    async def story() -> None:
        ports = {ONE: free_port(), TWO: free_port()}
        taken, refused = Node(ONE, ports), Node(ONE, ports)
        await taken.links.start()
        with pytest.raises(OSError, match="in use"):
            await refused.links.start()
        await refused.links.stop()
        await taken.links.stop()

    asyncio.run(story())


async def dial_while_stopping(turns: int) -> None:
    """A stranger connects so many turns of the loop after the stop began."""
    before = sockets()
    one = Node(ONE, {ONE: free_port(), TWO: free_port()})
    await one.links.start()
    stopping = asyncio.create_task(one.links.stop())
    for _ in range(turns):
        await asyncio.sleep(0)
    with socket.socket() as stranger, contextlib.suppress(ConnectionError):
        stranger.connect(("127.0.0.1", one.port))  # the kernel answers: this does not block
        await stopping
    await stopping
    gc.collect()
    assert sockets() <= before, f"after {turns} turns"


@pytest.mark.parametrize("new_loop", LOOPS)
def test_dialled_while_it_stops_no_socket_is_left(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    for turns in range(8):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(dial_while_stopping(turns))


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_peer_that_reads_nothing_does_not_hold_a_stop(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent more than the kernel takes, so a close that waits for the rest would wait forever."""
    monkeypatch.setattr(fencepost.quorum.links, "LINGER_S", 0.05)

    async def story() -> None:
        before = sockets()
        ports = {ONE: free_port(), TWO: free_port()}
        one, two = Node(ONE, ports), Node(TWO, ports)
        async with running(one, two):
            await until(one.has("connected 2"))
            await until(two.has("connected 1"))
            for connection in two.links.open:
                if connection.transport is not None:
                    connection.transport.pause_reading()
            for _ in range(8):
                one.links.send(TWO, encode(TimeoutNow(1)) + bytes(1024 * 1024))
            assert any(
                each.transport is not None and each.transport.get_write_buffer_size()
                for each in one.links.open
            )
            async with asyncio.timeout(PATIENCE_S):
                await one.links.stop()
            assert not one.links.open
        assert sockets() <= before

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


def test_a_peer_that_accepts_and_says_nothing_is_left_and_dialled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencepost.quorum.links, "HANDSHAKE_S", 0.05)

    async def story() -> None:
        before = sockets()
        dialled: list[asyncio.StreamWriter] = []

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dialled.append(writer)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        one = Node(ONE, {ONE: free_port(), TWO: server.sockets[0].getsockname()[1]})
        async with running(one):
            await until(lambda: len(dialled) >= 3)
            await until(lambda: len(one.links.open) <= 1)
        server.close()
        await server.wait_closed()
        for writer in dialled:
            await writer.wait_closed()
        assert sockets() <= before

    asyncio.run(story())


def test_a_refused_stranger_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.links, "LINGER_S", 0.05)

    async def story() -> None:
        one = Node(ONE, {ONE: free_port(), TWO: free_port()})
        async with running(one):
            _, writer = await asyncio.open_connection("127.0.0.1", one.port)
            writer.write(framed(b"no handshake"))
            await until(lambda: bool(one.log) and not one.links.open)
            writer.close()
            await writer.wait_closed()

    asyncio.run(story())
