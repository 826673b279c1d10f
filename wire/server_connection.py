"""One connection of a listener: cuts requests out of bytes, and sends replies back in order.

Order       one request of a connection is in process at a time; the rest of its bytes wait, and past
            READ_AHEAD_BYTES_MAX they wait in the client's kernel. So replies leave in the order of requests.
Muting      a reply with a throttle leaves at once; then the connection is not read for that long.
Isolation   bytes that are not what they claim close their own connection, with one log line, and reach
            nothing else; a request that fails costs itself (wire/isolation.py).
Memory      what it holds is counted (wire/request_memory.py).
Speed       no Task, Future or copy per request; one write per reply.
"""

import asyncio
from typing import Any, Final, cast

from fencepost.controller.authorization import ANONYMOUS
from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.records.invariant import CorruptData
from fencepost.wire import frame as framing
from fencepost.wire.acceptor import Acceptor
from fencepost.wire.auth import UNAUTHENTICATED_FRAME_BYTES_MAX, Expects, SaslServer
from fencepost.wire.dispatch import API_VERSIONS_KEY, Api, Context, Proof
from fencepost.wire.login import login_step
from fencepost.wire.request_memory import PARKED_BYTES_MAX, UNCOUNTED_BYTES_MAX, Part, Share
from fencepost.wire.server_reply import ServerReply
from fencepost.wire.session import Session

READ_AHEAD_BYTES_MAX: Final = 64 * 1024
WRITE_BUFFER_BYTES: Final = 8 * 1024
"""More of unread replies is counted; so much, of each connection, is not."""

TURN_S: Final = 0.01  # one connection is served for so long; then it is the others' turn
LINGER_S: Final = 5.0
"""How long a closing connection may take to read what was written to it."""

_UNREAD: Final = "unread frame"
_NO_TAGS: Final = b"\0"


class ServerConnection(asyncio.Protocol):
    """One client. The next request waits while the connection is busy, muted, write-paused or closing."""

    def __init__(self, listener: "Acceptor[ServerConnection]", loop: asyncio.AbstractEventLoop) -> None:
        self._listener, self.loop = listener, loop
        self._apis = listener.apis
        self._transport: asyncio.Transport | None = None
        self._session = Session.of(listener.logins, listener.limits.reauth_ms)
        self._sasl = None if self._session is None else self._session.under_way
        bound = listener.limits.frame_bytes_max
        if self._session is not None:
            bound = min(bound, UNAUTHENTICATED_FRAME_BYTES_MAX)
        self._splitter = framing.Splitter(bound, listener.key_limits)
        self._raw_client_id = b"\xff"  # no client id is these bytes: they are not UTF-8
        self._busy = self._muted = self._write_paused = self._closing = False
        self.is_advancing = self._reading_paused = False
        self.stalls, self.isolation = listener.stalls, listener.isolation
        self._work = _UNREAD  # what is served, by name
        self._memory, self._share = listener.memory, Share(self)
        self._parked_bytes = 0  # of the frame whose request is in process
        self._has_part = self._waits_for_memory = False
        self._admission = listener.admission
        self._became_active = listener.admission.by_activity.move_to_end
        self.active_sweep = 0
        self._timer: asyncio.TimerHandle | None = None
        self.address, self.peer = "", "?"
        self._proof = Proof()
        self._context = Context(ANONYMOUS, listener.name, None, self.peer, self._proof)

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport's call when the socket was accepted."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        if peer:
            self.address, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        principal = self._listener.principal(transport)
        self._context = Context(principal, self._listener.name, None, self.peer, self._proof)
        socket = transport.get_extra_info("socket")
        descriptor = -1 if socket is None else socket.fileno()
        if not self._listener.admit(self, descriptor, authenticated=self._sasl is None):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed, by either side."""
        if self._splitter.buffered and not self._closing and not self._busy:
            self._listener.log.warning("connection_closed", peer=self.peer, reason="it ended inside a frame")
        self._closing = True
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._let_go()
        self._listener.forget(self)

    def data_received(self, data: bytes) -> None:
        """Cut what arrived into requests."""
        if self._closing:
            return
        self.active_sweep = self._admission.sweeps
        self._became_active(self)
        self._splitter.feed(data)
        self._advance()

    def pause_writing(self) -> None:
        """The client does not read its replies: serve nothing more."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The transport's call when the client reads its replies again."""
        self._write_paused = False
        self._memory.hold_unread(self._share, 0)
        self._advance()

    # Called by the memory and the admission

    def go_on_reading(self) -> None:
        """Implements ``request_memory.Holder.go_on_reading``."""
        self._waits_for_memory = False
        self._count()
        self._regulate_reading()

    def unread_bytes(self) -> int:
        """Implements ``request_memory.Holder.unread_bytes``."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def received_bytes(self) -> int:
        """Implements ``admission.Admitted.received_bytes``."""
        return self._splitter.buffered

    def cut(self, reason: str) -> None:
        """Close at once, without what is not sent yet, and hold nothing."""
        if self._transport is None:
            return
        if not self._closing:
            self._closing = True
            self._listener.log.warning("connection_closed", peer=self.peer, reason=reason)
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        self._let_go()

    @property
    def may_make_room(self) -> bool:
        """Whether it may be closed for a new connection: nothing is in process, and it is no peer's."""
        return not (self._busy or self._context.proved)

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
        self._timer = self.loop.call_later(LINGER_S, transport.abort)
        self._let_go()

    def close_because(self, reason: str) -> None:
        """Say why in the log, and close."""
        self._listener.log.warning("connection_closed", peer=self.peer, reason=reason)
        self.close()

    def answer(self, framed: bytes, throttle_ms: int) -> None:
        """Send the answer to the request in process and go on to the next."""
        self._busy = False
        transport = self._transport
        if self._closing or transport is None:
            return
        if self._parked_bytes:
            self._unpark()
        if self.active_sweep != self._admission.sweeps:  # it waited, for longer than others were idle
            self._admission.recent(self)
        transport.write(framed)
        if self._write_paused:
            self._memory.hold_unread(self._share, transport.get_write_buffer_size())
        if throttle_ms or self._splitter.pending or self._reading_paused or self._share.is_counted:
            self._go_on(throttle_ms)  # else nothing waits, as after most requests

    def stay_silent(self, api_name: str, failure: str | None, throttle_ms: int) -> None:
        """Go on to the next request without an answer to this one; or close, for this reason."""
        self._busy = False
        if self._closing or self._transport is None:
            return
        if self._parked_bytes:
            self._unpark()
        if failure is not None:
            self.close_because(f"{api_name} without an answer failed: {failure}")
            return
        self._go_on(throttle_ms)

    def _go_on(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._muted = True
            self._timer = self.loop.call_later(throttle_ms / 1000, self._unmute)
        self._advance()

    def _unmute(self) -> None:
        self._timer, self._muted = None, False
        self._advance()

    def _advance(self) -> None:
        """Serve the frames that are here until one must wait. Never entered twice, however soon a reply."""
        if self.is_advancing:
            return
        self.is_advancing = True
        stalls, splitter = self.stalls, self._splitter
        end_s = 0.0
        try:
            while splitter.pending:
                if self._busy or self._muted or self._write_paused or self._closing:
                    break
                begun = stalls.begin()
                if not end_s:
                    end_s = begun[0] + TURN_S
                elif begun[0] > end_s:
                    self._muted = True
                    self.loop.call_soon(self._unmute)
                    break
                frame = splitter.next_frame()
                if frame is None:
                    break
                if self._has_part:
                    self._part_is_gone()
                self._work = _UNREAD
                self._serve(frame)
                stalls.end(self._work, begun)
        except CorruptData as error:
            self.close_because(str(error))
        except Exception as error:  # noqa: BLE001 - around one request: a decoder of ours failed
            self.close_because(str(self.isolation.failure(self._work, error)))
        finally:
            self.is_advancing = False
        if splitter.pending or self._share.is_counted:
            self._count()
        elif not (self._muted or self._write_paused or self._reading_paused):
            return
        self._regulate_reading()

    def _park(self, size: int) -> None:
        """The request waits for something; its frame counts as long."""
        if size > PARKED_BYTES_MAX and self._memory.small_is_full:
            self.cut("request memory is full of requests in process")
            return
        self._parked_bytes = size
        self._memory.park(size)

    def _unpark(self) -> None:
        self._memory.unpark(self._parked_bytes)
        self._parked_bytes = 0

    def _count(self) -> None:
        """Tell the memory what waits here, and the admission whether its client is to go on with it."""
        if self._closing:
            return
        part = Part.NOTHING
        buffered = self._splitter.buffered
        if buffered and not (self._busy or self._muted or self._write_paused):
            part = Part.of(self._splitter.announced)
        self._waits_for_memory = self._memory.hold(self._share, buffered, part)
        if part is Part.NOTHING or self._waits_for_memory or self._closing:
            self._part_is_gone()
        elif not self._has_part:
            self._has_part = True
            self._admission.waits_for_frame(self)

    def _part_is_gone(self) -> None:
        """No part of a frame waits for the client."""
        self._has_part = False
        self._admission.completed(self)

    def _let_go(self) -> None:
        """Hold nothing: the connection is closing."""
        self._splitter.clear()
        self._unpark()
        self._memory.release(self._share)
        self._part_is_gone()

    def _regulate_reading(self) -> None:
        ahead = 0 if self._memory.small_is_full else READ_AHEAD_BYTES_MAX
        waits = self._busy and self._splitter.buffered > ahead
        pause = waits or self._muted or self._write_paused or self._waits_for_memory
        if pause is self._reading_paused or self._closing or self._transport is None:
            return
        self._reading_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _serve(self, frame: bytes | bytearray) -> None:
        if self._session is not None and self._is_served(self._session, frame):
            return
        key, version, correlation_id, end = framing.parse_request_start(frame)
        served = self._apis.get(key)
        if served is None:
            self.close_because(f"API key {key} is not served")
            return
        api, endpoint = served
        self._work = api.name
        if version not in api.versions:
            self._refuse_version(api, version, correlation_id)
            return
        if frame[8:end] != self._raw_client_id:
            end = framing.client_id_end(frame)
            self._learn_client_id(frame, end)
        if version >= api.flexible_from:
            end = end + 1 if frame[end : end + 1] == _NO_TAGS else framing.skip_tagged_fields(frame, end)
        reply = ServerReply(self, api, version, correlation_id)
        self._busy = True
        body = memoryview(frame)[end:] if type(frame) is bytes else memoryview(frame).toreadonly()[end:]
        if self._sasl is not None and key != API_VERSIONS_KEY:
            self._serve_login(self._sasl, key, body, reply)
            return
        try:
            request = api.decode_request(version, body)
        except ApiError as error:
            reply(error)
            return
        reply.request = request
        try:
            if version < api.served_from:
                raise UnsupportedVersion(f"{api.name} is served from version {api.served_from} on")
            endpoint(request, self._context, reply)
        except ApiError as error:
            reply(error)
        except Exception as error:  # noqa: BLE001 - around one request
            reply.fail(self.isolation.failure(api.name, error))
        if self._busy and len(frame) > UNCOUNTED_BYTES_MAX:
            self._park(len(frame))

    def _learn_client_id(self, frame: bytes | bytearray, end: int) -> None:
        client_id = framing.parse_client_id(frame[10:end], is_null=frame[8] >= 0x80)
        self._raw_client_id = bytes(frame[8:end])
        before = self._context
        self._context = Context(before.principal, before.listener, client_id, self.peer, self._proof)

    def _refuse_version(self, api: Api[Any, Any], version: int, correlation_id: int) -> None:
        if api.key != API_VERSIONS_KEY:
            served = api.versions
            self.close_because(
                f"{api.name} version {version} is not served, only {served[0]} to {served[-1]}"
            )
            return
        self.answer(self._listener.versions_frame(api, correlation_id), 0)

    # Until the principal is known, and when it is to be known again

    def _is_served(self, session: Session, frame: bytes | bytearray) -> bool:
        """A token without a request is. Raises CorruptData: the login counts no more."""
        if self._sasl is not None and self._sasl.expects is Expects.BARE_TOKEN:
            try:
                answer = self._sasl.authenticate(bytes(frame))
            except ApiError as error:
                self._refuse_login(error, None)
                return True
            self._adopt_principal(self._sasl)
            self.answer(framing.raw_frame(answer), 0)
            return True
        if session.has_end:
            self._sasl = session.login_for(framing.parse_request_start(frame)[0], self.loop.time())
        return False

    def _serve_login(self, sasl: SaslServer, key: int, body: memoryview, reply: ServerReply) -> None:
        try:
            outcome = login_step(sasl, key, reply.version, body)
        except ApiError as error:
            self._refuse_login(error, reply)
            return
        self._adopt_principal(sasl)
        reply(outcome)

    def _refuse_login(self, error: ApiError, reply: ServerReply | None) -> None:
        """Reply and close after a while in which nothing is read or held: guessing takes time, not memory."""

        def refuse() -> None:
            self._splitter.clear()
            if reply is not None:
                reply(error)
            self.close_because(f"SASL: {error}")

        if (delay_ms := self._listener.limits.failed_authentication_delay_ms) <= 0:
            refuse()
            return
        self._splitter.clear()
        self._busy, self._muted = False, True  # it may be closed for another one meanwhile
        self._timer = self.loop.call_later(delay_ms / 1000, refuse)

    def _adopt_principal(self, sasl: SaslServer) -> None:
        if sasl.expects is not Expects.NOTHING:
            return
        self._sasl = None
        if self._session is not None:
            self._session.complete(self.loop.time())
        self._splitter.limit(self._listener.limits.frame_bytes_max)
        self._admission.authenticated(self)
        before = self._context
        self._context = Context(sasl.principal, before.listener, before.client_id, self.peer, self._proof)
