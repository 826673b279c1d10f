"""Listening on an address, with an error that says which address it was: the event loop's own does not."""

import asyncio
import os
from collections.abc import Callable
from typing import Any


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
) -> asyncio.Server:
    """A server on ``host:port``; port 0 takes a free one. Raises OSError: one sentence, with the address."""
    try:
        return await asyncio.get_running_loop().create_server(protocol, host, port, **options)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
        named = OSError(f"cannot listen on {host}:{port}: {why}")
        named.errno = error.errno
        raise named from error
