"""A connection that is closed is freed at once: it is in no cycle, so that no collection has to find it."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from fencepost.wire import listener as listeners
from fencepost.wire.listener import Listener
from fencepost.wire.server_connection import ServerConnection
from tests.wire.stage import capturing_log


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\0\0\x10\0", id="a part of a frame"),
        pytest.param(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", id="a request"),
        pytest.param(b"\xff\xff\xff\xff", id="what is no frame"),
    ],
)
@pytest.mark.usefixtures("no_collections")
def test_a_closed_connection_is_freed_without_a_collection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[weakref.ref[ServerConnection]] = []

    class Seen(ServerConnection):
        def __init__(self, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(listener, loop)
            alive.append(weakref.ref(self))

    async def story() -> None:
        listener = Listener({}, name="PLAINTEXT", log=capturing_log()[0])
        await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(sent)
        await writer.drain()
        if sent.startswith(b"\xff"):
            await reader.read()
        elif len(sent) > 5:
            await reader.readexactly(4)
        writer.close()
        await listener.stop()

    monkeypatch.setattr(listeners, "ServerConnection", Seen)
    asyncio.run(story())
    assert [each() for each in alive] == [None]
