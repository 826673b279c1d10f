"""Listening on an address and dialling one, by TLS or without, with errors that say what went wrong.

A name is looked up at each dial: a node that moved is found at its new address.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from fencepost.wire.tls import Tls, why_refused
from fencepost.wire.tls_handshake import TlsServer


def host_port(host: str, port: int) -> str:
    """An address as it is written: an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    *,
    tls: TlsServer | None = None,
    **options: Any,
) -> asyncio.Server:
    """A server on ``host:port``; port 0 takes a free one. Raises OSError: one sentence, with the address."""
    made = protocol if tls is None else partial(tls.accept, protocol)
    try:
        return await asyncio.get_running_loop().create_server(made, host, port, **options)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
        named = OSError(f"cannot listen on {host_port(host, port)}: {why}")
        named.errno = error.errno
        raise named from error


class TlsRefused(OSError):
    """A handshake failed. Says why, without the address."""


async def dial(protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, tls: Tls | None) -> None:
    """Connect. Raises OSError, TlsRefused among them; after it the protocol is connected, TLS included."""
    loop = asyncio.get_running_loop()
    if tls is None:
        await loop.create_connection(protocol, host, port)
        return
    try:
        transport, _ = await loop.create_connection(
            protocol, host, port, ssl=tls.client(), server_hostname=host
        )
        tls.keep(transport)
    except ssl.SSLError as error:
        raise TlsRefused(why_refused(error)) from error
