"""A client's connection: calls go out in order, answers come back in order.

Outcome     ``NotConnected``: the request was never sent. ``ConnectionLost`` and ``RequestTimeout``: it may
            have been done; the outcome is unknown. An ApiError: the response of the other side.
Versions    ApiVersions is sent first; a call uses the newest version that both sides serve.
Speed       ``ask`` and ``send_nowait`` take no Task, Future or timer per request; ``call`` is for coroutines.
Steps       a large response is decoded in steps of the event loop, those behind it after it. What each takes
            is counted in the node's stalls as ``NAME response``, what a request takes as ``NAME request``.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, cast

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.records.invariant import CorruptData, invariant
from fencepost.wire import frame as framing
from fencepost.wire.auth import NONCE_BYTES, Login, plain_token
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshake
from fencepost.wire.k18_api_versions import (
    API_VERSIONS,
    NO_FEATURES,
    ApiVersions,
    ApiVersionsAnswer,
    Features,
)
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate
from fencepost.wire.listening import dial, host_port
from fencepost.wire.scram import SCRAM_MECHANISMS, ScramClient
from fencepost.wire.stalls import Stalls
from fencepost.wire.steps import Steps
from fencepost.wire.tls import Tls

CALLS_MAX: Final = 10_000  # in flight on one connection
CLIENT_ID: Final = "fencepost"
SOFTWARE: Final = ApiVersions("fencepost", "0.1.0")
TIMEOUT_S: Final = 5.0
RETIRED_AFTER_PERCENT: Final = 85  # of a login's time, and up to 10 more, as Kafka's clients log in again
UNSENT_BYTES_MAX: Final = 1024 * 1024  # that the other side did not take yet, and ``send_nowait`` adds to


class ConnectionLost(Exception):
    """The connection ended before the response came. The request may have been done."""


class NotConnected(ConnectionLost):
    """There was no connection to send on. The request was definitely not done."""


class RequestTimeout(Exception):
    """No response in time. The request may have been done, or may yet be."""


class _Call(NamedTuple):
    correlation_id: int
    api: Api[Any, Any]
    version: int
    on_reply: Callable[[Any], None]
    until_s: float  # by the loop's clock; ``inf``: its caller has a clock of its own


class Connection(asyncio.Protocol):
    """One connection to a listener. Make it with ``open``; calls may overlap."""

    def __init__(self, client_id: str, stalls: Stalls | None = None) -> None:
        self._client_id = client_id
        self._stalls = stalls or Stalls()
        self._transport: asyncio.Transport | None = None
        self._splitter = framing.Splitter()
        self._calls: deque[_Call] = deque()
        self._decoding: tuple[_Call, Steps[Any]] | None = None  # a response that takes several steps
        self._next_correlation_id = 0
        self._lost: str | None = None
        self._retired = False
        self._session: asyncio.TimerHandle | None = None  # ends before the login does, if that has an end
        self._watch: asyncio.TimerHandle | None = None  # over calls with a time; set from the first on
        self.peer = ("", 0)  # host and port, as given to ``open``
        self.versions: dict[int, range] = {}  # what the other side serves, by API key
        self.features: Features = NO_FEATURES  # as the other side said when the connection was made

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        sasl: Login | None = None,
        tls: Tls | None = None,
        timeout_s: float = TIMEOUT_S,
        client_id: str = CLIENT_ID,
        stalls: Stalls | None = None,
    ) -> "Connection":
        """Connect, by ``tls`` if given, learn the versions, and log in if ``sasl`` says as whom.

        ``stalls``: the node's. Raises NotConnected, and the ApiError of a refused authentication.
        """
        connection = cls(client_id, stalls)
        connection.peer = (host, port)
        try:
            async with asyncio.timeout(timeout_s):
                await dial(lambda: connection, host, port, tls)
                await connection._negotiate(timeout_s)
                if sasl is not None:
                    await connection._authenticate(sasl, timeout_s)
        except (OSError, TimeoutError, ConnectionLost, RequestTimeout) as error:
            connection.close()
            reason = str(error) or "timed out"
            raise NotConnected(f"no connection to {connection.address}: {reason}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def address(self) -> str:
        """The server's address as ``host:port``."""
        return host_port(*self.peer)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent on the connection."""
        return self._lost is None and not self._retired

    async def call(
        self, api: Api[Q, R], request: Q, *, version: int | None = None, timeout_s: float = TIMEOUT_S
    ) -> R:
        """The answer. Raises NotConnected, ConnectionLost, RequestTimeout, ApiError, UnsupportedVersion."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._begin(api, request, version, partial(_settle, answer), inf)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise RequestTimeout(f"{api.name} to {self.address}: no answer in {timeout_s:.3f} s") from error

    def ask(
        self,
        api: Api[Q, R],
        request: Q,
        on_reply: Callable[[R | Exception], None],
        *,
        timeout_s: float,
        version: int | None = None,
    ) -> None:
        """Send; ``on_reply`` is called once, later, with the response or with what ``call`` would raise.

        Silence ends the connection: each of its calls fails so. Raises NotConnected, UnsupportedVersion.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        self._begin(api, request, version, on_reply, until_s)
        if self._watch is None:
            self._watch = loop.call_at(until_s, self._look_for_silence)

    def send_nowait(self, api: Api[Q, None], request: Q) -> bool:
        """Send what is never answered. False: it was dropped, as the other side takes nothing.

        Raises NotConnected, UnsupportedVersion.
        """
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            return False
        self._write(api, request, None)
        return True

    def version_for(self, api: Api[Q, Any], request: Q | None = None) -> int:
        """The newest version that both sides serve, and that means what ``request`` does.

        Raises UnsupportedVersion.
        """
        theirs = self.versions.get(api.key)
        if theirs is None:
            raise UnsupportedVersion(f"{self.address} does not serve {api.name}")
        ours = api.versions[-1]
        if request is not None and api.newest_for is not None:
            ours = min(ours, api.newest_for(request))
        newest = min(theirs[-1], ours)
        if newest < theirs[0] or newest < api.versions[0]:
            raise UnsupportedVersion(
                f"{self.address} serves {api.name} {theirs[0]} to {theirs[-1]}, "
                f"we know {api.versions[0]} to {api.versions[-1]}"
            )
        return newest

    def close(self) -> None:
        """Close now. Calls in flight raise ConnectionLost."""
        self._fail("closed by us")

    def abandon(self) -> None:
        """Close now, without an outcome for the callers."""
        self._calls.clear()
        self._decoding = None
        self._fail("closed by us")

    def retire(self) -> None:
        """Send no more calls; close as soon as those in flight are answered."""
        self._retired = True
        self._close_if_over()

    # What the transport tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implements ``asyncio.Protocol.connection_made``."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        if self._lost is not None:  # closed while it was being made
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Implements ``asyncio.Protocol.data_received``."""
        self._splitter.feed(data)
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:
        """Implements ``asyncio.Protocol.connection_lost``."""
        self._fail(str(error) if error else "closed by the other side")

    def _advance(self) -> None:
        """Take the responses that are here, up to one that takes another step."""
        stalls = self._stalls
        try:
            while self._decoding is None:
                begun = stalls.begin()
                frame = self._splitter.next_frame()
                if frame is None:
                    break
                name = self._take(frame)
                stalls.end(f"{name} response", begun)
        except CorruptData as error:
            self._fail(f"unreadable answer: {error}")

    def _take(self, frame: bytes | bytearray) -> str:
        """Decode a response, or begin to. Returns the request's name."""
        if not self._calls:
            raise CorruptData("an answer to no request")
        call = self._calls[0]
        api = call.api
        tagged = api.has_tagged_response_header(call.version)
        correlation_id, start = framing.parse_response_header(frame, tagged=tagged)
        if correlation_id != call.correlation_id:
            raise CorruptData(f"correlation id {correlation_id}, expected {call.correlation_id}")
        body = memoryview(frame).toreadonly()[start:]
        if api.decode_steps is not None:
            self._decoding = call, api.decode_steps(call.version, body)
            self._decode(*self._decoding)
            return api.name
        outcome: Any
        try:
            outcome = api.decode_response(call.version, body)
        except ApiError as error:
            outcome = error
        self._reply(call, outcome)
        return api.name

    def _decode(self, call: _Call, steps: Steps[Any]) -> None:
        """Decode up to the next pause. Raises CorruptData."""
        outcome: Any
        try:
            next(steps)
        except StopIteration as ended:
            outcome = ended.value
        except ApiError as error:
            outcome = error
        else:
            asyncio.get_running_loop().call_soon(self._go_on)
            return
        self._decoding = None
        self._reply(call, outcome)

    def _go_on(self) -> None:
        if self._decoding is None:  # the connection ended meanwhile
            return
        call, steps = self._decoding
        begun = self._stalls.begin()
        try:
            self._decode(call, steps)
        except CorruptData as error:
            self._fail(f"unreadable answer: {error}")
        self._stalls.end(f"{call.api.name} response", begun)
        self._advance()

    def _reply(self, call: _Call, outcome: Any) -> None:
        self._calls.popleft()
        call.on_reply(outcome)
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._retired and not self._calls:
            self.close()

    def _fail(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        self._decoding = None
        transport, self._transport = self._transport, None
        if transport is not None:  # TLS says goodbye in its own time, which a loop that ends does not have
            (transport.close if transport.get_extra_info("sslcontext") is None else transport.abort)()
        if self._watch is not None:
            self._watch.cancel()
        while self._calls:
            call = self._calls.popleft()
            call.on_reply(ConnectionLost(f"{call.api.name} to {self.address}: {reason}"))

    def _begin(
        self, api: Api[Q, R], request: Q, version: int | None, on_reply: Callable[[Any], None], until_s: float
    ) -> None:
        invariant(len(self._calls) < CALLS_MAX, "too many calls in flight", address=self.address)
        version, correlation_id = self._write(api, request, version)
        self._calls.append(_Call(correlation_id, api, version, on_reply, until_s))

    def _write(self, api: Api[Q, R], request: Q, version: int | None) -> tuple[int, int]:
        """Send a request. Returns its version and correlation id."""
        if version is None:
            version = self.version_for(api, request)
        begun = self._stalls.begin()
        body = api.encode_request(version, request)
        self._stalls.end(f"{api.name} request", begun)
        transport = self._transport
        if self._lost is not None or transport is None:
            raise NotConnected(f"{self.address}: {self._lost or 'not connected'}")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        header = framing.RequestHeader(api.key, version, correlation_id, self._client_id)
        transport.write(framing.request_frame(header, body, flexible=version >= api.flexible_from))
        return version, correlation_id

    def _look_for_silence(self) -> None:
        """End the connection if its oldest call is too late: then so are those behind it."""
        self._watch = None
        if self._lost is not None or not self._calls:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        late = [call for call in self._calls if call.until_s <= now_s]
        if not late:
            until_s = min(call.until_s for call in self._calls)
            if until_s < inf:
                self._watch = loop.call_at(until_s, self._look_for_silence)
            return
        self._calls = deque(call for call in self._calls if call.until_s > now_s)
        self._fail("no answer in time")
        for call in late:
            call.on_reply(RequestTimeout(f"{call.api.name} to {self.address}: no answer in time"))

    async def _negotiate(self, timeout_s: float) -> None:
        version = API_VERSIONS.versions[-1]
        answer = await self.call(API_VERSIONS, SOFTWARE, version=version, timeout_s=timeout_s)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:  # it said which it serves: ask again
            self._learn(answer)
            version = self.version_for(API_VERSIONS)
            answer = await self.call(API_VERSIONS, SOFTWARE, version=version, timeout_s=timeout_s)
        self._learn(answer)

    def _learn(self, answer: ApiVersionsAnswer) -> None:
        self.features = answer.features
        self.versions = {
            api.api_key: range(api.min_version, api.max_version + 1)
            for api in answer.apis
            if api.min_version <= api.max_version
        }

    async def _authenticate(self, login: Login, timeout_s: float) -> None:
        async def said(token: bytes) -> bytes:
            answer = await self.call(SASL_AUTHENTICATE, SaslAuthenticate(token), timeout_s=timeout_s)
            if answer.lifetime_ms:
                self._retire_before(answer.lifetime_ms / 1000)
            return answer.token

        await self.call(SASL_HANDSHAKE, SaslHandshake(login.mechanism), version=1, timeout_s=timeout_s)
        if login.mechanism not in SCRAM_MECHANISMS:
            await said(plain_token(login.user, login.password))
            return
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        client = ScramClient(login.mechanism, login.user, login.password, nonce)
        client.require_proof(await said(client.final(await said(client.first()))))

    def _retire_before(self, lifetime_s: float) -> None:
        """A login counts for so long: another connection goes on before that, which logs in anew."""
        share = (RETIRED_AFTER_PERCENT + secrets.randbelow(11)) / 100
        self._session = asyncio.get_running_loop().call_later(share * lifetime_s, self.retire)


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():  # its caller gave up
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
