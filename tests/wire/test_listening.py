"""Who cannot listen says on which address, in one sentence."""

import asyncio
import errno
import re
import socket
from collections.abc import Iterator

import pytest

from fencepost.wire.listening import listen


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another one listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield int(other.getsockname()[1])


def failure(host: str, port: int) -> OSError:
    async def story() -> None:
        server = await listen(asyncio.Protocol, host, port)
        server.close()

    with pytest.raises(OSError, match=re.escape(f"cannot listen on {host}:{port}: ")) as failed:
        asyncio.run(story())
    return failed.value


def test_a_port_in_use_is_named(taken: int) -> None:
    error = failure("127.0.0.1", taken)
    assert error.errno == errno.EADDRINUSE
    assert str(error) == f"cannot listen on 127.0.0.1:{taken}: address already in use"


def test_an_address_of_another_machine_is_named() -> None:
    assert failure("192.0.2.1", 9092).errno == errno.EADDRNOTAVAIL


def test_a_free_port_is_listened_on() -> None:
    async def story() -> None:
        server = await listen(asyncio.Protocol, "127.0.0.1", 0)
        assert server.sockets[0].getsockname()[1] > 0
        server.close()

    asyncio.run(story())
