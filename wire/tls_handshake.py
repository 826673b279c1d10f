"""The server's side of TLS handshakes: bounded in number and time, before a connection is admitted.

Order       a socket is accepted; the handshake; the client's principal; then the protocol that the listener
            makes has its ``connection_made``, with a transport that encrypts.
Bounds      HANDSHAKES_MAX at a time for each listening socket, one where descriptors are scarce: then the
            oldest makes room. Each ends within HANDSHAKE_S.
Context     is that of the moment, so that changed files count for the next connection.
Loop        ``start_tls`` of asyncio and uvloop; what a socket brought before it is given to it (``_inject``):
            uvloop reads as soon as ``connection_made`` returns.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, cast

from fencepost.controller.authorization import ANONYMOUS
from fencepost.records.invariant import InvariantViolation
from fencepost.wire.descriptors import sockets_end
from fencepost.wire.principals import NoPrincipal, principal_of
from fencepost.wire.tls import ClientAuth, Tls, why_refused

HANDSHAKES_MAX: Final = 256
HANDSHAKE_S: Final = 10.0
READ_BUFFER_BYTES: Final = 64 * 1024  # of a connection that is not read; one read of a socket comes on top

Refused = Callable[[str, str], None]
"""(reason, peer): a handshake failed."""


class TlsServer:
    """The handshakes of one listening socket. All calls on the event loop."""

    def __init__(self, tls: Tls, client_auth: ClientAuth, refused: Refused, *, is_named: bool = True) -> None:
        """``is_named``: a client is whom its certificate says; else a login will say it."""
        self._tls, self._is_named = tls, is_named
        self._client_auth = client_auth
        self.refused = refused
        self.under_way: dict[_Handshake, None] = {}  # the oldest first

    @classmethod
    def of(
        cls, tls: Tls | None, client_auth: ClientAuth, refused: Refused, *, is_named: bool = True
    ) -> "TlsServer | None":
        """None without ``tls``: the socket is in the clear."""
        return None if tls is None else cls(tls, client_auth, refused, is_named=is_named)

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._tls.server(self._client_auth)

    def accept(self, made: Callable[[], asyncio.BaseProtocol]) -> asyncio.Protocol:
        """What a listening socket is given in the place of ``made``."""
        return _Handshake(self, made)

    def principal(self, transport: asyncio.BaseTransport) -> str:
        """Of the client, by its certificate; User:ANONYMOUS without one. Raises NoPrincipal."""
        if not self._is_named:
            return ANONYMOUS
        return principal_of(transport.get_extra_info("peercert"), self._tls.settings.rules, ANONYMOUS)

    def require_current(self, transport: asyncio.BaseTransport) -> None:
        """Raises NoPrincipal: OpenSSL resumes a session whose certificate has expired meanwhile."""
        shaken = transport.get_extra_info("ssl_object")
        shown = shaken.getpeercert() if shaken.session_reused else None
        if shown and ssl.cert_time_to_seconds(shown["notAfter"]) < time.time():
            raise NoPrincipal("its certificate is refused: certificate has expired")

    def keep(self, transport: asyncio.BaseTransport) -> None:
        """After its handshake: closed when its authority is trusted no more."""
        self._tls.keep(transport)

    def look(self) -> None:
        """Look for changed files. To be called every second or so."""
        self._tls.look()

    def begin(self, handshake: "_Handshake", descriptor: int) -> None:
        """Count a handshake; the oldest make room for it."""
        self.under_way[handshake] = None
        most = 1 if descriptor >= sockets_end() else HANDSHAKES_MAX
        while len(self.under_way) > most:
            next(iter(self.under_way)).cut(f"the oldest of {most} handshakes under way")

    def close(self) -> None:
        """Cut off what is under way."""
        for handshake in tuple(self.under_way):
            handshake.cut("")


class _Handshake(asyncio.Protocol):
    """One accepted socket until its handshake is done."""

    def __init__(self, server: TlsServer, made: Callable[[], asyncio.BaseProtocol]) -> None:
        self._server = server
        self._made = made
        self._raw: asyncio.Transport | None = None
        self._early = b""  # what was read before TLS was there
        self._plain: list[bytes] = []  # what came with the last part of the handshake
        self._upgraded = self._lost = False
        self._task: asyncio.Task[None] | None = None
        self._peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self._peer = f"{peer[0]}:{peer[1]}"
        socket = transport.get_extra_info("socket")
        self._server.begin(self, -1 if socket is None else socket.fileno())
        if self in self._server.under_way:
            self._task = asyncio.get_running_loop().create_task(self._shake())

    def data_received(self, data: bytes) -> None:
        if self._upgraded:
            self._plain.append(data)
            return
        self._early += data
        if self._raw is not None:
            self._raw.pause_reading()  # so that it is one read, of the loop's size

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True

    def cut(self, reason: str) -> None:
        """Close at once."""
        self._server.under_way.pop(self, None)
        if reason:
            self._server.refused(reason, self._peer)
        if self._raw is not None:
            self._raw.abort()
        if self._task is not None:
            self._task.cancel()

    async def _shake(self) -> None:
        loop = asyncio.get_running_loop()
        raw, server = self._raw, self._server
        if raw is None:
            raise InvariantViolation("a handshake without a socket")
        try:
            starting = loop.create_task(
                loop.start_tls(raw, self, server.context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S)
            )
            # ``start_tls`` schedules its own connection_made, then to read on; ours in the same turn.
            loop.call_soon(loop.call_soon, self._inject)
            transport = await starting
            if transport is None or self._lost:
                raise ConnectionResetError("closed during the TLS handshake")
            server.principal(transport)
            server.require_current(transport)
        except (OSError, NoPrincipal) as error:
            self._failed(error)
            return
        server.under_way.pop(self, None)
        server.keep(transport)
        protocol = cast(asyncio.Protocol, self._made())
        transport.set_protocol(protocol)
        cast(Any, transport).set_read_buffer_limits(READ_BUFFER_BYTES)
        protocol.connection_made(transport)
        for data in self._plain:
            protocol.data_received(data)

    def _inject(self) -> None:
        """Give TLS what was read before it was there, in the place of the socket."""
        self._upgraded = True
        raw, early, self._early = self._raw, self._early, b""
        if raw is None or raw.is_closing():
            return
        protocol: Any = raw.get_protocol()
        while early:
            buffer = protocol.get_buffer(len(early))
            count = min(len(buffer), len(early))
            buffer[:count] = early[:count]
            protocol.buffer_updated(count)
            early = early[count:]

    def _failed(self, error: Exception) -> None:
        reason = str(error) or "closed during the TLS handshake"
        if isinstance(error, ssl.SSLError):
            reason = why_refused(error)
        elif isinstance(error, ConnectionAbortedError):
            reason = f"no TLS handshake within {HANDSHAKE_S:g} s"
        self._task = None
        self.cut(reason)
