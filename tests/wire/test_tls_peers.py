"""An authority that is removed from the file: the connections that it vouched for are closed, no others."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fencepost.wire.connection import Connection, ConnectionLost, NotConnected
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.tls import Tls, TlsSettings
from tests.certificates import Authority
from tests.wire.test_tls import World, asked

LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # a request for them


class Trust:
    """Two authorities, the node that trusts both of them, and a client of each."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.old, self.new = self.world.authority, Authority("the next authority")
        self.now_s = 0.0
        self.trusted = folder / "trusted.pem"
        self.trust(self.old, self.new)
        self.node = self.tls("server", self.old, client_auth="required")
        self.clients = [self.tls("old", self.old), self.tls("new", self.new)]

    def tls(self, name: str, signer: Authority, **changes: Any) -> Tls:
        key_file = signer.sign(name).write(self.world.folder / f"{name}.pem")
        settings = TlsSettings(key_file=key_file, trusted_file=self.trusted, **changes)
        return Tls(settings, clock=lambda: self.now_s)

    def trust(self, *authorities: Authority) -> None:
        texts = [each.write(self.world.folder / "one.pem").read_text("ascii") for each in authorities]
        self.trusted.write_text("".join(texts), "ascii")
        self.now_s += 1.0


async def works(connection: Connection) -> bool:
    try:
        await connection.call(DESCRIBE_CLUSTER, DescribeCluster())
    except (NotConnected, ConnectionLost):
        return False
    return True


@pytest.mark.parametrize("loop", LOOPS)
def test_connections_of_an_authority_that_is_removed_are_closed(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    trust = Trust(tmp_path)

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            opened = [
                await Connection.open("127.0.0.1", listener.port, tls=each, timeout_s=5)
                for each in trust.clients
            ]
            assert [await works(each) for each in opened] == [True, True]
            trust.trust(trust.old, trust.new, Authority("a third"))
            listener.sweep(0.0)
            assert [await works(each) for each in opened] == [True, True], "none was removed"
            trust.trust(trust.new)
            listener.sweep(0.0)
            assert [await works(each) for each in opened] == [False, True]
            with pytest.raises((NotConnected, ConnectionLost)):
                await asked(listener.port, trust.clients[0])
            for each in opened:
                each.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize("loop", LOOPS)
def test_who_dialled_closes_too(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A server of an authority that this side trusts no more is left, whatever the server thinks."""
    trust = Trust(tmp_path)
    server = Tls(TlsSettings(key_file=trust.world.server, trusted_file=trust.world.trusted))

    async def story() -> None:
        async with trust.world.listening(server) as listener:
            opened = await Connection.open("127.0.0.1", listener.port, tls=trust.clients[1], timeout_s=5)
            assert await works(opened)
            trust.trust(trust.new)
            trust.clients[1].look()
            assert not await works(opened)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(story(), 30))


def test_what_is_closed_is_forgotten(tmp_path: Path) -> None:
    trust = Trust(tmp_path)

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            opened = await Connection.open("127.0.0.1", listener.port, tls=trust.clients[0], timeout_s=5)
            assert await works(opened)
            peers = (trust.node._peers, trust.clients[0]._peers)
            assert [len(each) for each in peers] == [1, 1]
            opened.close()
            while listener._connections:
                await asyncio.sleep(0)
            trust.now_s += 1.0
            trust.node.look()
            trust.clients[0].look()
            assert [len(each) for each in peers] == [0, 0]

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_handshake_that_began_before_its_authority_was_removed_ends_in_nothing(tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    context = trust.clients[0].client()

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            while listener._handshakes is None or not listener._handshakes.under_way:
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # it has its context
            trust.trust(trust.new)
            listener.sweep(0.0)
            await writer.start_tls(context, server_hostname="127.0.0.1")
            writer.write(VERSIONS)
            assert await reader.read() == b""
            writer.close()
            assert not listener._connections

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_session_that_is_resumed_goes_on_until_an_authority_is_removed(tmp_path: Path) -> None:
    """Its handshake has no chain. One more authority in the file takes nothing from it."""
    trust = Trust(tmp_path)
    context = trust.clients[0].client()

    def opened(port: int, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        made = socket.create_connection(("127.0.0.1", port), 10)
        found = context.wrap_socket(made, server_hostname="127.0.0.1", session=session)
        assert is_served(found)
        return found

    def is_served(client: ssl.SSLSocket) -> bool:
        try:
            client.sendall(VERSIONS)
            return client.recv(65536) != b""
        except OSError:
            return False

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            with await asyncio.to_thread(opened, listener.port) as first:
                again = await asyncio.to_thread(opened, listener.port, first.session)
            with again:
                assert again.session_reused
                trust.trust(trust.old, trust.new, Authority("a third"))
                listener.sweep(0.0)
                assert await asyncio.to_thread(is_served, again), "none was removed"
                trust.trust(trust.old, trust.new)
                listener.sweep(0.0)
                assert not await asyncio.to_thread(is_served, again)

    asyncio.run(asyncio.wait_for(story(), 30))
