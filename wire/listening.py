"""Listening on an address, with an error that says which address it was: the event loop's own does not."""

import asyncio
import os
from collections.abc import Callable
from typing import Any


def host_port(host: str, port: int) -> str:
    """An address as it is written: an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
) -> asyncio.Server:
    """A server on ``host:port``; port 0 takes a free one. Raises OSError: one sentence, with the address."""
    try:
        return await asyncio.get_running_loop().create_server(protocol, host, port, **options)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
        named = OSError(f"cannot listen on {host_port(host, port)}: {why}")
        named.errno = error.errno
        raise named from error
