"""An authority that is removed from the file: the connections that it vouched for are closed, no others."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from fencepost.wire.connection import Connection, ConnectionLost, NotConnected
from fencepost.wire.k60_describe_cluster import DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.tls import Tls, TlsSettings
from tests.certificates import Authority
from tests.secret_files import write_secret
from tests.together import table
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
        self.made: list[Tls] = []
        self.trusted = folder / "trusted.pem"
        self.trust(self.old, self.new)
        self.node = self.tls("server", self.old, client_auth="required")
        self.clients = [self.tls("old", self.old), self.tls("new", self.new)]

    def tls(self, name: str, signer: Authority, **changes: Any) -> Tls:
        key_file = signer.sign(name).write(self.world.folder / f"{name}.pem")
        settings = TlsSettings(key_file=key_file, trusted_file=self.trusted, **changes)
        made = Tls(settings, clock=lambda: self.now_s)
        self.made.append(made)
        return made

    def trust(self, *authorities: Authority) -> None:
        texts = [each.write(self.world.folder / "one.pem").read_text("ascii") for each in authorities]
        self.write("".join(texts))

    def write(self, text: str) -> None:
        """It is whole, and the next look reads it: the one before that found it the same."""
        self.trusted.write_text(text, "ascii")
        self.now_s += 1.0
        for each in self.made:
            each.look()
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


def test_a_session_is_resumed_until_its_certificate_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL verifies nothing again, and each resumed session gives the ticket of the next one."""
    trust = Trust(tmp_path)
    context = trust.clients[0].client()
    now_s = time.time()

    def answer_to(port: int, session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None]:
        made = socket.create_connection(("127.0.0.1", port), 10)
        with context.wrap_socket(made, server_hostname="127.0.0.1", session=session) as found:
            found.sendall(VERSIONS)
            try:
                answer = found.recv(65536)
            except OSError:
                answer = b""
            assert found.session_reused is (session is not None)
            return answer, found.session

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            session = None
            for days, is_served in ((0.0, True), (0.9, True), (1.1, False)):
                clock = SimpleNamespace(time=partial(float, now_s + days * 86_400))
                monkeypatch.setattr("fencepost.wire.tls_handshake.time", clock)
                answer, given = await asyncio.to_thread(answer_to, listener.port, session)
                assert bool(answer) is is_served, days
                session = given or session

    asyncio.run(asyncio.wait_for(story(), 30))
    assert trust.world.reasons() == ["its certificate is refused: certificate has expired"]


def test_a_file_is_read_when_it_is_no_longer_written(tmp_path: Path) -> None:
    """Cut between two certificates it is sound, and would say that the second authority is gone."""
    trust = Trust(tmp_path)
    whole = trust.trusted.read_text("ascii")
    second = whole.index("-----BEGIN", 1)

    async def story() -> None:
        async with trust.world.listening(trust.node) as listener:
            opened = await Connection.open("127.0.0.1", listener.port, tls=trust.clients[1], timeout_s=5)
            for text in (whole[:second], whole, "", whole[: second + 99], whole):
                trust.trusted.write_text(text, "ascii")
                trust.now_s += 1.0
                listener.sweep(0.0)
                assert await works(opened), text
            trust.write(whole[: second + 12])
            listener.sweep(0.0)
            assert await works(opened), "it is broken, so the one before stays in use"
            trust.write(whole[:second])
            listener.sweep(0.0)
            assert not await works(opened), "it stays so"

    asyncio.run(asyncio.wait_for(story(), 30))


@table(
    ("trusted", "shown", "is_served"),
    [
        pytest.param("root", "leaf middle", True, id="a-chain-to-the-root"),
        pytest.param("root", "leaf", False, id="the-chain-lacks-a-link"),
        pytest.param("middle", "leaf", True, id="an-intermediate-is-trusted-by-itself"),
        pytest.param("middle root", "leaf", True, id="a-bundle-of-both"),
        pytest.param("another root", "leaf middle", True, id="a-bundle-of-two-roots"),
        pytest.param("another", "leaf middle", False, id="another-root"),
        pytest.param("leaf", "leaf", True, id="a-certificate-is-trusted-itself"),
        pytest.param("leaf", "sibling", False, id="and-no-other-of-its-authority"),
    ],
)
def test_chains(tmp_path: Path, trusted: str, shown: str, is_served: bool) -> None:
    """As in Java, whose anchors are what the trust store has."""
    root, middle, another = Authority("root"), Authority("middle"), Authority("another")
    leaf, sibling = middle.sign("leaf"), middle.sign("sibling")
    texts = {
        "root": root.certificate,
        "middle": root.vouch(middle),
        "another": another.certificate,
        "leaf": leaf.certificate,
        "sibling": sibling.certificate,
    }
    world = World(tmp_path)
    (tmp_path / "trusted.pem").write_text("".join(texts[each] for each in trusted.split()), "ascii")
    key = (sibling if shown == "sibling" else leaf).key
    write_secret(tmp_path / "own.pem", key + "".join(texts[each] for each in shown.split()))
    node = world.tls(trusted_file=tmp_path / "trusted.pem", client_auth="required")
    client = world.tls(key_file=tmp_path / "own.pem")

    async def story() -> None:
        async with world.listening(node) as listener:
            if is_served:
                await asked(listener.port, client)
            else:
                with pytest.raises((NotConnected, ConnectionLost)):
                    await asked(listener.port, client)

    asyncio.run(asyncio.wait_for(story(), 30))
    assert len(world.reasons()) == (not is_served)
