"""How a listening socket ends: what it has accepted by then is connected first, and none is forgotten."""

import asyncio
from typing import Final

from fencepost.wire.tls_handshake import TlsServer

ACCEPT_TURNS: Final = 3
"""Turns of the event loop from a socket's accept to its ``connection_made``, and one more."""


async def stop_accepting(server: asyncio.Server, handshakes: TlsServer | None = None) -> None:
    """Close a server's sockets. Every socket that it accepted has its ``connection_made`` behind it.

    ``handshakes``: those under way are cut off; they have made no connection.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await _turns()  # asyncio forgets a socket whose server closes while it is accepted
    server.close()
    await _turns()  # uvloop accepts until the server is closed
    if handshakes is not None:
        handshakes.close()


async def _turns() -> None:
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)
