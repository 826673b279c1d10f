"""One connection of a listener: cuts requests out of bytes, and sends replies back in order.

Order       one request of a connection is in process at a time; the rest of its bytes wait, and past
            READ_AHEAD_BYTES_MAX they wait in the client's kernel. So replies leave in the order of requests.
Muting      a reply with a throttle leaves at once; then the connection is not read for that long.
Isolation   bytes that are not what they claim close their own connection, with one log line, and reach
            nothing else.
Speed       no Task, Future or copy per request; one write per reply.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from structlog.typing import FilteringBoundLogger

from controller.authorization import ANONYMOUS
from controller.errors import ApiError, ErrorCode, UnsupportedVersion
from records.invariant import CorruptData, InvariantViolation
from wire import frame as framing
from wire.auth import UNAUTHENTICATED_FRAME_BYTES_MAX, Expects, PlainServer
from wire.dispatch import API_VERSIONS_KEY, Api, Context, Proof, Service
from wire.errors import IllegalSaslState
from wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslMechanisms
from wire.k18_api_versions import ApiVersionsAnswer
from wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticated
from wire.stalls import Stalls

READ_AHEAD_BYTES_MAX: Final = 64 * 1024
LINGER_S: Final = 5.0
"""How long a closing connection may take to read what was written to it."""

_UNREAD: Final = "unread frame"


class Acceptor(Protocol):
    """The listener, as far as its connections need one."""

    apis: Service
    name: str
    log: FilteringBoundLogger
    credentials: Mapping[str, str] | None
    frame_bytes_max: int
    stalls: Stalls

    def admit(self, connection: "ServerConnection") -> bool:
        """Take a new connection in, or refuse it."""

    def forget(self, connection: "ServerConnection") -> None:
        """A connection is gone."""

    def api_versions(self) -> ApiVersionsAnswer:
        """What is served."""


class _Reply:
    """The one answer to one request. ``request`` is None until it is read."""

    __slots__ = ("_api", "_connection", "_correlation_id", "request", "version")

    def __init__(
        self, connection: "ServerConnection", api: Api[Any, Any], version: int, correlation_id: int
    ) -> None:
        self._connection: ServerConnection | None = connection
        self._api = api
        self._correlation_id = correlation_id
        self.version = version
        self.request: Any = None

    def __call__(self, outcome: Any, throttle_ms: int = 0, /) -> None:
        connection = self._connection
        if connection is None:
            raise InvariantViolation(f"{self._api.name} was answered twice: {outcome!r}")
        self._connection = None
        if connection.is_advancing:  # what serves the request is measured with its reply
            self._send(connection, outcome, throttle_ms)
            return
        begun = connection.stalls.begin()
        self._send(connection, outcome, throttle_ms)
        connection.stalls.end(self._api.name, begun)

    def _send(self, connection: "ServerConnection", outcome: Any, throttle_ms: int) -> None:
        api, version = self._api, self.version
        if api.unanswered is not None and self.request is not None:
            silence = api.unanswered(self.request, outcome)
            if silence is not None:
                connection.stay_silent(api.name, silence.failure, throttle_ms)
                return
        if api.frame_response is not None and not isinstance(outcome, ApiError):
            framed = api.frame_response(version, self._correlation_id, outcome, throttle_ms)
            connection.answer(framed, throttle_ms)
            return
        if isinstance(outcome, ApiError):
            body = api.refusal(version, self.request, outcome, throttle_ms)
        else:
            body = api.encode_response(version, outcome, throttle_ms)
        tagged = api.has_tagged_response_header(version)
        connection.answer(framing.response_frame(self._correlation_id, body, tagged=tagged), throttle_ms)


class ServerConnection(asyncio.Protocol):
    """One client. The next request waits while the connection is busy, muted, write-paused or closing."""

    def __init__(self, listener: Acceptor, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = listener
        self._loop = loop
        self._apis = listener.apis
        self._transport: asyncio.Transport | None = None
        self._sasl: PlainServer | None = None
        bound = listener.frame_bytes_max
        if listener.credentials is not None:
            self._sasl = PlainServer(listener.credentials)
            bound = min(bound, UNAUTHENTICATED_FRAME_BYTES_MAX)
        self._splitter = framing.Splitter(bound)
        self._raw_client_id = b"\xff"  # no client id is these bytes: they are not UTF-8
        self._busy = self._muted = self._write_paused = self._closing = False
        self.is_advancing = self._reading_paused = False
        self.stalls = listener.stalls
        self._work = _UNREAD  # what is served, by name
        self._timer: asyncio.TimerHandle | None = None
        self.peer = "?"
        self._proof = Proof()
        self._context = Context(ANONYMOUS, listener.name, None, self.peer, self._proof)

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket was accepted."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._context = Context(ANONYMOUS, self._listener.name, None, self.peer, self._proof)
        if not self._listener.admit(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed, by either side."""
        if self._splitter.buffered and not self._closing and not self._busy:
            self._listener.log.warning("connection_closed", peer=self.peer, reason="it ended inside a frame")
        self._closing = True
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._listener.forget(self)

    def data_received(self, data: bytes) -> None:
        """Cut what arrived into requests."""
        if self._closing:
            return
        self._splitter.feed(data)
        self._advance()

    def pause_writing(self) -> None:
        """The client does not read its replies: serve nothing more."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The client reads again."""
        self._write_paused = False
        self._advance()

    # Called by the listener and by replies

    def close(self) -> None:
        """Send what was written, then close; a client that does not read it is cut off."""
        transport = self._transport
        if self._closing or transport is None:
            return
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        transport.close()
        self._timer = self._loop.call_later(LINGER_S, transport.abort)

    def answer(self, framed: bytes, throttle_ms: int) -> None:
        """Send the answer to the request in process and go on to the next."""
        self._busy = False
        transport = self._transport
        if self._closing or transport is None:
            return
        transport.write(framed)
        self._go_on(throttle_ms)

    def stay_silent(self, api_name: str, failure: str | None, throttle_ms: int) -> None:
        """Go on to the next request without an answer to this one; or close, for this reason."""
        self._busy = False
        if self._closing or self._transport is None:
            return
        if failure is not None:
            self._close_because(f"{api_name} without an answer failed: {failure}")
            return
        self._go_on(throttle_ms)

    def _go_on(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._muted = True
            self._timer = self._loop.call_later(throttle_ms / 1000, self._unmute)
        self._advance()

    def _unmute(self) -> None:
        self._timer = None
        self._muted = False
        self._advance()

    def _advance(self) -> None:
        """Serve the frames that are here until one must wait. Never entered twice, however soon a reply."""
        if self.is_advancing:
            return
        self.is_advancing = True
        stalls = self.stalls
        try:
            while not (self._busy or self._muted or self._write_paused or self._closing):
                begun = stalls.begin()
                frame = self._splitter.next_frame()
                if frame is None:
                    break
                self._work = _UNREAD
                self._serve(frame)
                stalls.end(self._work, begun)
        except CorruptData as error:
            self._close_because(str(error))
        finally:
            self.is_advancing = False
        if not self._closing:
            self._regulate_reading()

    def _regulate_reading(self) -> None:
        waits = self._busy and self._splitter.buffered > READ_AHEAD_BYTES_MAX
        pause = waits or self._muted or self._write_paused
        if pause is self._reading_paused or self._transport is None:
            return
        self._reading_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _close_because(self, reason: str) -> None:
        self._listener.log.warning("connection_closed", peer=self.peer, reason=reason)
        self.close()

    def _serve(self, frame: bytes) -> None:
        if self._sasl is not None and self._sasl.expects is Expects.BARE_TOKEN:
            self._take_bare_token(self._sasl, frame)
            return
        key, version, correlation_id = framing.parse_request_prefix(frame)
        served = self._apis.get(key)
        if served is None:
            self._close_because(f"API key {key} is not served")
            return
        api, endpoint = served
        self._work = api.name
        if version not in api.versions:
            self._refuse_version(api, version, correlation_id)
            return
        end = framing.client_id_end(frame)
        if frame[8:end] != self._raw_client_id:
            self._learn_client_id(frame, end)
        if version >= api.flexible_from:
            end = framing.skip_tagged_fields(frame, end)
        reply = _Reply(self, api, version, correlation_id)
        self._busy = True
        if self._sasl is not None and key != API_VERSIONS_KEY:
            self._serve_unauthenticated(self._sasl, key, memoryview(frame)[end:], reply)
            return
        try:
            request = api.decode_request(version, memoryview(frame)[end:])
            reply.request = request
            if version < api.served_from:
                raise UnsupportedVersion(f"{api.name} is served from version {api.served_from} on")
            endpoint(request, self._context, reply)
        except ApiError as error:
            reply(error)

    def _learn_client_id(self, frame: bytes, end: int) -> None:
        client_id = framing.parse_client_id(frame[10:end], is_null=frame[8] >= 0x80)
        self._raw_client_id = frame[8:end]
        principal = self._context.principal
        self._context = Context(principal, self._listener.name, client_id, self.peer, self._proof)

    def _refuse_version(self, api: Api[Any, Any], version: int, correlation_id: int) -> None:
        if api.key != API_VERSIONS_KEY:
            served = f"{api.versions[0]} to {api.versions[-1]}"
            self._close_because(f"{api.name} version {version} is not served, only {served}")
            return
        # KIP-511: the layout of version 0, which any client reads, with all ranges; then it asks again.
        ranges = self._listener.api_versions().apis
        answer = ApiVersionsAnswer(ranges, error_code=ErrorCode.UNSUPPORTED_VERSION)
        body = api.encode_response(0, answer, 0)
        self.answer(framing.response_frame(correlation_id, body, tagged=False), 0)

    # Until the principal is known

    def _serve_unauthenticated(self, sasl: PlainServer, key: int, body: memoryview, reply: "_Reply") -> None:
        outcome: SaslMechanisms | SaslAuthenticated
        try:
            if key == SASL_HANDSHAKE.key:
                outcome = sasl.handshake(SASL_HANDSHAKE.decode_request(reply.version, body))
            elif key == SASL_AUTHENTICATE.key:
                sasl.authenticate(SASL_AUTHENTICATE.decode_request(reply.version, body).token)
                outcome = SaslAuthenticated()
            else:
                raise IllegalSaslState("authenticate first: this listener wants SASL")
        except ApiError as error:
            reply(error)
            self._close_because(f"SASL: {error}")
            return
        self._adopt_principal(sasl)
        reply(outcome)

    def _take_bare_token(self, sasl: PlainServer, token: bytes) -> None:
        try:
            sasl.authenticate(token)
        except ApiError as error:
            self._close_because(f"SASL: {error}")
            return
        self._adopt_principal(sasl)
        self.answer(framing.raw_frame(b""), 0)

    def _adopt_principal(self, sasl: PlainServer) -> None:
        if sasl.expects is not Expects.NOTHING:
            return
        self._sasl = None
        self._splitter.limit(self._listener.frame_bytes_max)
        before = self._context
        self._context = Context(sasl.principal, before.listener, before.client_id, self.peer, self._proof)
