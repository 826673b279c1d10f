"""A listener: accepts connections, decides who is admitted, and says what is served.

Own APIs    ApiVersions, SASL where the listener wants it, and ProveSecret (20037) where it has the cluster's
            secret. ApiVersions says what is served, no more.
Isolation   an exception out of an endpoint, or while a reply is encoded, costs that request
            (wire/isolation.py); bytes that are not what they claim cost their connection.
Bounds      wire/limits.py names them; wire/admission.py counts connections, wire/request_memory.py bytes.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from structlog.typing import FilteringBoundLogger

from fencepost.controller.authorization import ANONYMOUS
from fencepost.controller.errors import ErrorCode
from fencepost.records.invariant import InvariantViolation, invariant
from fencepost.wire.accepting import stop_accepting
from fencepost.wire.admission import SWEEP_S, Admission
from fencepost.wire.auth import Logins
from fencepost.wire.dispatch import Api, Context, Reply, Service, served
from fencepost.wire.errors import IllegalSaslState
from fencepost.wire.frame import response_frame
from fencepost.wire.isolation import Isolation
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE
from fencepost.wire.k18_api_versions import (
    API_VERSIONS,
    NO_FEATURES,
    ApiVersions,
    ApiVersionsAnswer,
    Features,
    advertise,
)
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE
from fencepost.wire.k20037_prove_secret import PROVE_SECRET, ProveSecret, SecretProved
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.limits import DEFAULT_LIMITS, ListenerLimits
from fencepost.wire.listening import listen
from fencepost.wire.registry import require_registered
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.secret_proof import ClusterSecret, serve
from fencepost.wire.server_connection import ServerConnection
from fencepost.wire.stalls import Stalls
from fencepost.wire.tls import ClientAuth, Tls
from fencepost.wire.tls_handshake import TlsServer

ACCEPT_BACKLOG: Final = 1024
OWN_KEYS: Final = frozenset((SASL_HANDSHAKE.key, API_VERSIONS.key, SASL_AUTHENTICATE.key, PROVE_SECRET.key))
"""The API keys that a listener serves itself; a service must not have them."""

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class Listener:
    """One listening socket and what it serves.

    ``logins`` are wanted iff the protocol is a SASL one, ``tls`` iff one of SSL.
    By SSL a client is whom its certificate says, if it shows one; else each is User:ANONYMOUS.
    ``client_auth``: None is what ``tls`` says, and "none" by SASL_SSL, where no certificate names a client.
    ``features`` is called for each ApiVersions. With ``secret`` a client can prove that it
    is a node of this cluster. ``memory`` is the node's, shared by its listeners. ``halting`` and
    ``count_failed``: see Isolation. Raises InvariantViolation on a service with APIs that are its own.
    """

    def __init__(
        self,
        service: Service,
        *,
        name: str,
        log: FilteringBoundLogger,
        security_protocol: SecurityProtocol = "PLAINTEXT",
        logins: Logins | None = None,
        tls: Tls | None = None,
        client_auth: ClientAuth | None = None,
        limits: ListenerLimits = DEFAULT_LIMITS,
        memory: RequestMemory | None = None,
        features: Callable[[], Features] = lambda: NO_FEATURES,
        secret: ClusterSecret | None = None,
        stalls: Stalls | None = None,
        halting: tuple[type[Exception], ...] = (),
        count_failed: Callable[[str], None] = lambda _request: None,
    ) -> None:
        own = dict(
            (
                served(API_VERSIONS, self._serve_api_versions),
                served(SASL_HANDSHAKE, _refuse_sasl),
                served(SASL_AUTHENTICATE, _refuse_sasl),
            )
        )
        if secret is not None:
            own.update((served(PROVE_SECRET, partial(_prove, secret)),))
        invariant(
            OWN_KEYS.isdisjoint(service), f"the listener serves {sorted(OWN_KEYS)} itself", listener=name
        )
        wants_sasl = security_protocol.startswith("SASL_")
        invariant(wants_sasl == (logins is not None), "logins are for SASL, and SASL for them")
        self._handshakes: TlsServer | None = None
        if security_protocol.endswith("SSL"):
            invariant(tls is not None, "a listener of SSL without a key", listener=name)
            if client_auth is None:
                client_auth = "none" if wants_sasl or tls is None else tls.settings.client_auth
            self._handshakes = TlsServer.of(tls, client_auth, self._handshake_failed, is_named=not wants_sasl)
        self.apis: Service = {**service, **own}
        require_registered(api for api, _ in self.apis.values())
        self.key_limits: Mapping[int, int] = {
            key: api.request_bytes_max for key, (api, _) in self.apis.items()
        }
        self.name = name
        self.log = LimitedLog(log.bind(listener=name))
        self.logins = logins
        self.limits = limits
        self.memory = memory or RequestMemory()
        self.admission: Admission[ServerConnection] = Admission(limits, self.log)
        self.stalls = stalls or Stalls()
        self.isolation = Isolation(self.log, halting, count_failed)
        self._features = features
        self._ranges = advertise(api for api, _ in self.apis.values())
        self._connections: set[ServerConnection] = set()  # with a socket; some of them are closing
        self._sweeping: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._emptied: asyncio.Event | None = None

    @property
    def port(self) -> int:
        """The port that is listened on. Only after ``start``."""
        if self._server is None:
            raise InvariantViolation("the listener is not started")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._stopping = False
        self._server = await listen(
            lambda: ServerConnection(self, loop), host, port, tls=self._handshakes, backlog=ACCEPT_BACKLOG
        )
        self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop)

    async def stop(self) -> None:
        """Stop listening and close every connection; what was answered before is still sent."""
        if self._server is None:
            return
        self._stopping = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        await stop_accepting(self._server, self._handshakes)
        for connection in tuple(self._connections):
            connection.close()
        if self._connections:
            self._emptied = asyncio.Event()
            await self._emptied.wait()  # at most LINGER_S: then the rest is cut off
        await self._server.wait_closed()
        self._server = None
        self.log.close()

    def principal(self, transport: asyncio.BaseTransport) -> str:
        """Of a client that has just connected: by its certificate, if it shows one."""
        return ANONYMOUS if self._handshakes is None else self._handshakes.principal(transport)

    def api_versions(self) -> ApiVersionsAnswer:
        """The answer to ApiVersions: the APIs of this listener."""
        return ApiVersionsAnswer(self._ranges, self._features())

    def versions_frame(self, api: Api[Any, Any], correlation_id: int) -> bytes:
        """The answer to a version of ApiVersions that is not served: version 0, which any client reads.

        It has all ranges; the client sends a new request (KIP-511).
        """
        answer = ApiVersionsAnswer(self._ranges, error_code=ErrorCode.UNSUPPORTED_VERSION)
        return response_frame(correlation_id, api.encode_response(0, answer, 0), tagged=False)

    def admit(self, connection: ServerConnection, descriptor: int, *, authenticated: bool) -> bool:
        """Take a new connection in, or refuse it: there are too many, or no more are wanted."""
        if self._stopping:  # it was being accepted when the socket was closed
            return False
        self._connections.add(connection)
        return self.admission.admit(connection, descriptor, authenticated=authenticated)

    def forget(self, connection: ServerConnection) -> None:
        """Drop a connection that has ended."""
        self._connections.discard(connection)
        self.admission.forget(connection)
        if self._emptied is not None and not self._connections:
            self._emptied.set()

    def sweep(self, now_s: float) -> None:
        """Close those whose time is over, and make room where some wait for it."""
        if self._handshakes is not None:
            self._handshakes.look()
        self.admission.sweep()
        self.memory.relieve(now_s)
        self.log.flush()

    def _handshake_failed(self, reason: str, peer: str) -> None:
        self.log.warning("connection_refused", peer=peer, reason=reason)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop)
        self.sweep(loop.time())

    def _serve_api_versions(
        self, request: ApiVersions, context: Context, reply: Reply[ApiVersionsAnswer]
    ) -> None:
        reply(self.api_versions())


def _refuse_sasl(request: Any, context: Context, reply: Reply[Any]) -> None:
    raise IllegalSaslState(f"{context.principal} needs no SASL now on listener {context.listener}")


def _prove(own: ClusterSecret, request: ProveSecret, context: Context, reply: Reply[SecretProved]) -> None:
    reply(serve(own, request, context.proof))
