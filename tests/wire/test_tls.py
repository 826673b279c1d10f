"""TLS between a listener and our client: who is served, who is refused in which words; changed files."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop
from structlog.testing import LogCapture

from fencepost.wire import tls_handshake
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k60_describe_cluster import (
    DESCRIBE_CLUSTER,
    DescribeCluster,
    DescribeClusterAnswer,
)
from fencepost.wire.listener import Listener
from fencepost.wire.principals import parse_rules
from fencepost.wire.tls import ClientAuth, Tls, TlsSettings
from tests.certificates import Authority, Signed
from tests.together import table

SEEN: list[str] = []  # principals of the requests that were served


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story(), 30))


def service(size: int = 0) -> Service:
    def endpoint(request: DescribeCluster, context: Context, reply: Reply[DescribeClusterAnswer]) -> None:
        SEEN.append(context.principal)
        reply(DescribeClusterAnswer(cluster_id="x" * (size or 1)))

    return dict((served(DESCRIBE_CLUSTER, endpoint),))


class World:
    """An authority, and what it signed for both sides."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.trusted = self.authority.write(folder / "ca.pem")
        self.server = self.authority.sign("server").write(folder / "server.pem")
        self.log = LogCapture()

    def tls(self, **changes: Any) -> Tls:
        settings: dict[str, Any] = {"key_file": self.server, "trusted_file": self.trusted, **changes}
        log = structlog.wrap_logger(None, processors=[self.log])
        return Tls(TlsSettings(**settings), log, clock=lambda: 0.0)

    @contextlib.asynccontextmanager
    async def listening(
        self, tls: Tls, protocol: Any = "SSL", size: int = 0, **options: Any
    ) -> AsyncIterator[Listener]:
        log = structlog.wrap_logger(None, processors=[self.log])
        listener = Listener(service(size), name="L", log=log, security_protocol=protocol, tls=tls, **options)
        await listener.start("127.0.0.1", 0)
        try:
            yield listener
        finally:
            await listener.stop()

    def reasons(self) -> list[str]:
        return [str(each.get("reason")) for each in self.log.entries if each["log_level"] == "warning"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    SEEN.clear()
    return World(tmp_path)


async def asked(port: int, tls: Tls | None, host: str = "127.0.0.1") -> None:
    """One request, with its answer."""
    connection = await Connection.open(host, port, tls=tls, timeout_s=5)
    try:
        await connection.call(DESCRIBE_CLUSTER, DescribeCluster())
    finally:
        connection.close()


def test_a_client_that_trusts_the_authority_is_served(world: World) -> None:
    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            await asked(listener.port, world.tls(key_file=None))
            await asked(listener.port, world.tls(key_file=None), "localhost")

    play(story)
    assert SEEN == ["User:ANONYMOUS"] * 2


SERVERS = [
    pytest.param({"left": timedelta(days=-1)}, "certificate has expired", id="expired"),
    pytest.param({"hosts": ("10.0.0.1",)}, "IP address mismatch", id="another-address"),
    pytest.param({"hosts": ("kafka.example.com",)}, "IP address mismatch", id="another-host"),
]


@table(("signed", "reason"), SERVERS)
def test_a_server_with_a_wrong_certificate_is_refused_by_name(
    tmp_path: Path, signed: dict[str, Any], reason: str
) -> None:
    world = World(tmp_path)
    key_file = world.authority.sign("server", **signed).write(tmp_path / "wrong.pem")

    async def story() -> None:
        async with world.listening(world.tls(key_file=key_file)) as listener:
            with pytest.raises(NotConnected, match=f"its certificate is refused: .*{reason}"):
                await asked(listener.port, world.tls(key_file=None))

    play(story)


def test_a_server_of_another_authority_is_refused(world: World) -> None:
    other = Authority("another").write(world.folder / "other.pem")

    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            with pytest.raises(
                NotConnected, match=r"its certificate is refused: (unable to get local issuer|self-signed)"
            ):
                await asked(listener.port, world.tls(key_file=None, trusted_file=other))

    play(story)
    assert world.reasons() == ["closed during the TLS handshake"]


def test_a_host_that_is_not_verified_may_have_any_name(world: World) -> None:
    key_file = world.authority.sign("server", hosts=("elsewhere",)).write(world.folder / "elsewhere.pem")

    async def story() -> None:
        async with world.listening(world.tls(key_file=key_file)) as listener:
            await asked(listener.port, world.tls(key_file=None, verifies_host=False))

    play(story)


CLIENTS: list[Any] = [
    pytest.param("required", "client", "User:CN=client,OU=Apps,O=Fencepost\\, Inc.", id="known"),
    pytest.param("requested", None, "User:ANONYMOUS", id="none-is-required"),
    pytest.param("none", "client", "User:ANONYMOUS", id="not-looked-at"),
    pytest.param("required", None, "it shows no certificate", id="none"),
    pytest.param("required", "expired", "certificate has expired", id="expired"),
    pytest.param("required", "other", "unable to get local issuer", id="another-authority"),
    pytest.param("requested", "other", "unable to get local issuer", id="requested-of-another-authority"),
]


@table(("client_auth", "who", "outcome"), CLIENTS)
def test_who_a_client_is(tmp_path: Path, client_auth: ClientAuth, who: str | None, outcome: str) -> None:
    SEEN.clear()
    world = World(tmp_path)
    signed: dict[str, Signed] = {
        "client": world.authority.sign("client", unit="Apps"),
        "expired": world.authority.sign("client", left=timedelta(days=-1)),
        "other": Authority("another").sign("client"),
    }
    key_file = None if who is None else signed[who].write(tmp_path / "client.pem")

    async def story() -> None:
        async with world.listening(world.tls(client_auth=client_auth)) as listener:
            if outcome.startswith("User:"):
                await asked(listener.port, world.tls(key_file=key_file))
                return
            with pytest.raises((NotConnected, ConnectionLost)):
                await asked(listener.port, world.tls(key_file=key_file))

    play(story)
    if outcome.startswith("User:"):
        assert [outcome] == SEEN
    else:
        assert SEEN == []
        assert any(outcome in reason for reason in world.reasons()), world.reasons()


def test_a_certificate_that_no_rule_matches_is_refused(world: World) -> None:
    key_file = world.authority.sign("client").write(world.folder / "client.pem")
    rules = parse_rules("RULE:^CN=broker-(.*?),.*$/$1/")

    async def story() -> None:
        async with world.listening(world.tls(client_auth="required", rules=rules)) as listener:
            with pytest.raises((NotConnected, ConnectionLost)):
                await asked(listener.port, world.tls(key_file=key_file))

    play(story)
    assert SEEN == []
    assert any("no rule of ssl.principal.mapping.rules matches" in reason for reason in world.reasons())


def test_what_is_no_tls_is_refused_and_costs_no_admission(world: World) -> None:
    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            with pytest.raises(NotConnected):
                await asked(listener.port, None)
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(os.urandom(1000))
            await reader.read()
            writer.close()
            assert len(listener.admission) == 0

    play(story)
    assert any("it does not speak TLS" in reason for reason in world.reasons())


def test_the_oldest_of_too_many_handshakes_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_handshake, "HANDSHAKES_MAX", 3)

    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(10)]
            await asked(listener.port, world.tls(key_file=None))
            assert listener._handshakes is not None
            assert len(listener._handshakes.under_way) == 2
            for reader, _writer in silent[:8]:
                assert await reader.read() == b""
            for _reader, writer in silent:
                writer.close()

    play(story)
    assert any("the oldest of 3 handshakes" in reason for reason in world.reasons())


def test_a_handshake_that_does_not_end_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_handshake, "HANDSHAKE_S", 0.05)

    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await reader.read() == b""
            writer.close()

    play(story)
    assert any("no TLS handshake within" in reason for reason in world.reasons())


def test_a_client_hello_in_pieces_is_read(world: World) -> None:
    """The first bytes reach the socket before TLS is there; the others after it."""

    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            relayed = asyncio.get_running_loop().create_future()

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, to = await asyncio.open_connection("127.0.0.1", listener.port)
                hello = await reader.read(1)
                to.write(hello)
                await asyncio.sleep(0.01)
                both = asyncio.gather(copied(reader, to), copied(there, writer))
                relayed.set_result(both)
                await both

            server = await asyncio.start_server(relay, "127.0.0.1", 0)
            await asked(server.sockets[0].getsockname()[1], world.tls(key_file=None))
            await relayed
            server.close()

    async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    play(story)


def test_a_client_that_reads_nothing_is_not_served_on_and_on(world: World) -> None:
    """Back-pressure passes through TLS: replies wait for the client, and requests for the replies."""

    async def story() -> None:
        async with world.listening(world.tls(), size=30_000) as listener:
            connection = await Connection.open("127.0.0.1", listener.port, tls=world.tls(key_file=None))
            transport = connection._transport
            assert transport is not None
            transport.pause_reading()
            calls = [
                asyncio.ensure_future(connection.call(DESCRIBE_CLUSTER, DescribeCluster(), timeout_s=25))
                for _ in range(2000)
            ]
            before = -1
            while before != len(SEEN):
                before = len(SEEN)
                await asyncio.sleep(0.1)
            assert before < 1500
            transport.resume_reading()
            await asyncio.gather(*calls)
            connection.close()

    play(story)
    assert len(SEEN) == 2000


def test_stopping_ends_handshakes_and_connections(world: World) -> None:
    async def story() -> None:
        async with world.listening(world.tls()) as listener:
            silent = await asyncio.open_connection("127.0.0.1", listener.port)
            open_one = await Connection.open("127.0.0.1", listener.port, tls=world.tls(key_file=None))
        assert await silent[0].read() == b""
        silent[1].close()
        open_one.close()

    play(story)


# -- files that change ------------------------------------------------------------------------------


def test_a_changed_file_counts_for_new_connections_and_a_broken_one_is_named(world: World) -> None:
    now_s = 0.0
    log = structlog.wrap_logger(None, processors=[world.log])
    tls = Tls(TlsSettings(key_file=world.server, trusted_file=world.trusted), log, clock=lambda: now_s)
    first = tls.server("none")
    assert tls.server("none") is first

    world.server.write_text("-----BEGIN PRIVATE KEY-----\nsecret bytes\n", "ascii")
    assert tls.server("none") is first, "a look each LOOK_S is enough"
    now_s += 1.0
    assert tls.server("none") is first
    assert not world.log.entries, "it may not be whole yet"
    now_s += 1.0
    assert tls.server("none") is first
    (refused,) = [each for each in world.log.entries if each["event"] == "tls_files_refused"]
    assert str(world.server) in refused["reason"]
    assert "secret bytes" not in str(refused)
    now_s += 1.0
    assert tls.server("none") is first
    assert len([each for each in world.log.entries if each["event"] == "tls_files_refused"]) == 1

    world.authority.sign("server").write(world.server)
    for expected in (True, False):
        now_s += 1.0
        assert (tls.server("none") is first) is expected
    assert any(each["event"] == "tls_files_read" for each in world.log.entries)


def test_an_authority_that_was_replaced_is_no_longer_trusted(world: World) -> None:
    now_s = 0.0
    key_file = world.authority.sign("client").write(world.folder / "client.pem")
    settings = TlsSettings(key_file=world.server, trusted_file=world.trusted, client_auth="required")
    tls = Tls(settings, clock=lambda: now_s)
    client = world.tls(key_file=key_file)

    async def story() -> None:
        nonlocal now_s
        async with world.listening(tls) as listener:
            await asked(listener.port, client)
            Authority("another").write(world.trusted)
            for _ in range(2):
                now_s += 1.0
                tls.look()
            with pytest.raises((NotConnected, ConnectionLost)):
                await asked(listener.port, client)

    play(story)
    assert len(SEEN) == 1
