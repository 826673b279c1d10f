"""Ensembles that ask who comes: SASL with DIGEST-MD5, and TLS.

TLS is terminated before a plain server, as the jars that we fetch cannot do it. The certificate of ``tls/``
is for 127.0.0.1, signs itself, and its key is known to everybody.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fencepost.bridge.access import Tls, Written, ZooKeeperRefused, ZooKeeperUnavailable
from tests.bridge.live import connected
from tests.zookeeper.servers import HOST, Ensemble, ensemble

pytestmark = pytest.mark.slow

CERTIFICATE = Path(__file__).parent / "tls" / "loopback-certificate.pem"
KEY = Path(__file__).parent / "tls" / "loopback-key.pem"
LOGIN = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_fence="post"; };\n'
SASL = {"mechanism": "DIGEST-MD5", "username": "fence", "password": "post"}


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Ensemble]:
    (tmp_path / "jaas.conf").write_text(LOGIN)
    settings = {
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "sessionRequireClientSASLAuth": "true",
    }
    properties = {"java.security.auth.login.config": str(tmp_path / "jaas.conf")}
    with ensemble(tmp_path, 1, properties=properties, settings=settings) as servers:
        yield servers


def test_a_login_with_sasl(asking: Ensemble) -> None:
    async def story() -> None:
        async with connected(asking.connect_string, sasl=SASL) as zookeeper:
            assert await zookeeper.create("/x", b"") == Written(0, None)

    asyncio.run(story())


def test_a_wrong_password_is_refused(asking: Ensemble) -> None:
    async def story() -> None:
        async with connected(asking.connect_string, sasl={**SASL, "password": "fence"}) as zookeeper:
            with pytest.raises(ZooKeeperRefused, match="the login was refused"):
                await zookeeper.create("/x", b"")

    asyncio.run(story())


def test_without_a_login_nothing_is_done(asking: Ensemble) -> None:
    async def story() -> None:
        async with connected(asking.connect_string) as zookeeper:
            with pytest.raises(ZooKeeperRefused, match="SessionClosedRequireSasl"):
                await zookeeper.create("/x", b"")
        async with connected(asking.connect_string, sasl=SASL) as zookeeper:
            assert await zookeeper.get("/x") is None

    asyncio.run(story())


@contextlib.asynccontextmanager
async def tls_before(server: int) -> AsyncIterator[str]:
    """Where TLS is spoken for the plain server at port ``server``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    tasks: set[asyncio.Task[None]] = set()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while content := await source.read(65_536):
                target.write(content)
                await target.drain()
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(HOST, server)
        for source, target in ((reader, behind_writer), (behind_reader, writer)):
            task = asyncio.ensure_future(copy(source, target))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(serve, HOST, 0, ssl=context)
    try:
        yield f"{HOST}:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await asyncio.gather(*tasks)


@pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket")  # kazoo, of a failed handshake
def test_a_connection_with_tls(tmp_path: Path) -> None:
    async def story(port: int) -> None:
        async with tls_before(port) as connect:
            async with connected(connect, tls=Tls(ca=CERTIFICATE)) as zookeeper:
                assert await zookeeper.create("/x", b"") == Written(0, None)
            async with connected(connect, tls=Tls(verify=False)) as zookeeper:
                assert await zookeeper.get("/x") is not None
            async with connected(connect, tls=Tls(), operation_timeout_s=1.0) as zookeeper:
                with pytest.raises(ZooKeeperUnavailable, match="certificate verify failed"):
                    await zookeeper.get("/x")
            async with connected(connect, operation_timeout_s=1.0) as zookeeper:
                with pytest.raises(ZooKeeperUnavailable):
                    await zookeeper.get("/x")

    with ensemble(tmp_path, 1) as servers:
        asyncio.run(story(servers.servers[0].port))
