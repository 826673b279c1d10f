"""Authenticated sockets between voters: one connection each way, frames in order per connection.

Each node dials every other and sends only on the connection it dialled; so "their connection to us
closed" is the signal that they died. Frames are a u32 length and a msgpack message.

Handshake   quorum/handshake.py: each side proves that it knows the cluster's secret.
Refused     by name: another cluster id, a wrong secret, our own node id, a node that is no voter, and
            a second node with the id of one that is connected from another directory.
Bounds      a frame before authentication has at most HELLO_BYTES_MAX; after it FRAME_BYTES_MAX. A peer
            that does not read loses what comes past BACKLOG_BYTES_MAX: Raft repeats what it lacks.
Closing     a socket is cut off when its peer has not read the rest within LINGER_S; ``stop`` returns when
            every socket is closed.
"""

import asyncio
import contextlib
import secrets
import uuid
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from fencepost.quorum.handshake import (
    HELLO_BYTES_MAX,
    PROTOCOL,
    Hello,
    LinkConfig,
    Proof,
    Refusal,
    Refused,
    Welcome,
    check,
    decode_handshake,
    encode_handshake,
    is_proof,
    prove,
)
from fencepost.quorum.link_events import Events
from fencepost.quorum.messages import FRAME_BYTES_MAX, decode
from fencepost.quorum.refusal_log import RefusalLog
from fencepost.records.invariant import CorruptData
from fencepost.records.types import NodeId
from fencepost.settings.node_identity import id_text
from fencepost.wire.accepting import stop_accepting
from fencepost.wire.descriptors import sockets_end
from fencepost.wire.listening import TlsRefused, dial, listen
from fencepost.wire.tls_handshake import TlsServer

BACKLOG_BYTES_MAX: Final = 4 * 1024 * 1024
"""Small: a peer that was paused must not fill this node's memory, nor be drowned when it wakes."""
HANDSHAKE_S: Final = 2.0  # from the first packet to the last word of the handshake
LINGER_S: Final = 0.5
RETRY_S: Final = (0.02, 0.5)  # first and longest wait between attempts to connect
TURN_S: Final = 0.01  # of taking one peer's frames at a time
UNKNOWN_MAX: Final = 64  # connections that have not authenticated yet; then the oldest makes room


class Links:
    """All connections of one node."""

    def __init__(
        self, config: LinkConfig, events: Events, log: FilteringBoundLogger, jitter: Callable[[], float]
    ) -> None:
        self.config = config
        self.events = events
        self.log = log
        self._jitter = jitter
        self._server: asyncio.Server | None = None
        self._diallers: list[asyncio.Task[None]] = []
        self._seen = {peer: asyncio.Event() for peer in config.addresses}  # it connected: dial it now
        self._out: dict[NodeId, _Dialled] = {}
        self._in: dict[NodeId, _Accepted] = {}
        self.unknown: dict[_Accepted, None] = {}  # not authenticated yet, by age
        self.open: set[_Framed] = set()  # every connection that has a socket
        self.refusals = RefusalLog(log)
        self._handshakes = TlsServer.of(config.tls, "required", partial(self.refusals.add, is_peer=False))

    async def start(self) -> None:
        """Listen and dial. Raises OSError if the address cannot be had."""
        config, made = self.config, partial(_Accepted, self)
        self._server = await listen(made, *config.addresses[config.node_id], tls=self._handshakes)
        for peer in self.config.addresses:
            if peer != self.config.node_id:
                self._diallers.append(asyncio.create_task(self._dial(peer), name=f"dial-{peer}"))

    async def stop(self) -> None:
        """Close every socket, those that are being accepted or dialled included."""
        self.refusals.close()
        for dialler in self._diallers:
            dialler.cancel()
        await asyncio.gather(*self._diallers, return_exceptions=True)
        if self._server is not None:
            await stop_accepting(self._server, self._handshakes)
        for connection in tuple(self.open):
            connection.close()
        await asyncio.gather(*(connection.closed.wait() for connection in self.open))
        if self._server is not None:
            await self._server.wait_closed()

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Send a frame, or lose it: there may be no connection, and Raft repeats."""
        connection = self._out.get(peer)
        if connection is not None:
            connection.send(frame)

    def hello(self, nonce: bytes) -> Hello:
        """The Hello message of this node."""
        config = self.config
        bound = {int(node): directory for node, directory in self.events.bound().items()}
        own = (config.cluster_id, config.node_id, config.directory_id)
        return Hello(PROTOCOL, *own, nonce, bound, config.controller, log_level_max=config.log_level_max)

    def admit(self, peer: NodeId, connection: "_Accepted", hello: Hello) -> None:
        """Take an authenticated inbound connection. Raises Refusal for a second node of one id."""
        old = self._in.get(peer)
        if old is not None and old.directory_id is not None and old.directory_id != hello.directory_id:
            raise Refusal(
                f"node id {peer} is taken: it is connected from directory {id_text(old.directory_id)}, "
                f"so one with directory {id_text(hello.directory_id)} must stop or be given another id"
            )
        self._in[peer] = connection
        self._seen[peer].set()
        if old is not None:
            old.close()
        self.meet(peer, hello)

    def meet(self, peer: NodeId, hello: Hello) -> None:
        """Tell the owner who a peer is."""
        bound = {NodeId(node): directory for node, directory in hello.bound.items()}
        self.events.met(peer, hello.directory_id, bound, hello.controller, hello.log_level_max or 0)

    def meet_dialled(self, peer: NodeId, hello: Hello) -> None:
        """The process at a peer's own address answered: one that is connected from another directory is past.

        What it sent and is not read yet belongs to a log that is gone (an ack would readmit the new one).
        """
        old = self._in.get(peer)
        if old is not None and old.directory_id != hello.directory_id:
            del self._in[peer]
            old.close()
            self.events.lost(peer)
        self.meet(peer, hello)

    def require_level(self, log_level: int) -> None:
        """Close connections with nodes that cannot read ``log_level``: it was raised since they connected."""
        for connection in (*self._out.values(), *self._in.values()):
            connection.require_level(log_level)

    def forget(self, peer: NodeId, connection: "_Accepted") -> None:
        """Drop an inbound connection that has closed."""
        if self._in.get(peer) is connection:
            del self._in[peer]
            self.events.lost(peer)

    async def _dial(self, peer: NodeId) -> None:
        wait_s = RETRY_S[0]
        while True:
            self._seen[peer].clear()
            try:
                connection = _Dialled(self, peer)
                try:
                    async with asyncio.timeout(HANDSHAKE_S):
                        await dial(lambda: connection, *self.config.addresses[peer], self.config.tls)  # noqa: B023
                        failure = await connection.ready
                except (TimeoutError, asyncio.CancelledError):
                    connection.close()  # or a process that was stopped finds many of them when it goes on
                    if not connection.ready.done():
                        connection.connection_lost(None)  # uvloop does not, where a dial is cancelled
                    raise
                if failure is not None:
                    raise failure
                wait_s = RETRY_S[0]
                self._out[peer] = connection
                self.events.connected(peer)
                await connection.closed.wait()
                del self._out[peer]
                self.events.disconnected(peer)
            except (Refusal, TlsRefused) as refusal:
                self.refusals.add(str(refusal), self.config.addresses[peer])
            except (OSError, TimeoutError):
                pass  # not there, or not answering: the next attempt is the answer
            await self._pause(peer, wait_s * (0.5 + self._jitter()))
            wait_s = min(wait_s * 2, RETRY_S[1])

    async def _pause(self, peer: NodeId, seconds: float) -> None:
        """Wait before the next attempt, but no longer than until the peer shows that it is back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._seen[peer].wait()


class _Framed(asyncio.Protocol):
    """Cuts frames out of bytes. ``frame_bytes_max`` grows once the other side is known."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.transport: asyncio.Transport | None = None
        self.frame_bytes_max = HELLO_BYTES_MAX
        self._theirs: Hello | None = None
        self.closed = asyncio.Event()
        self._cut_off: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._is_behind = False  # frames are left for the next turn of the loop, and reading is paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.links.open.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_behind:
            self._take_frames()

    def _take_frames(self) -> None:
        """For TURN_S: each may cost a flush, and hundreds may be here. Then timers and others come first."""
        until_s, was_behind, self._is_behind = monotonic() + TURN_S, self._is_behind, False
        position = 0
        while len(self._buffer) - position >= 4 and self.transport is not None and not self._is_behind:
            size = int.from_bytes(self._buffer[position : position + 4], "big")
            if size > self.frame_bytes_max:
                self.refuse(f"a frame of {size} bytes, at most {self.frame_bytes_max}", is_peer=False)
                return
            if len(self._buffer) - position - 4 < size:
                break
            frame = bytes(memoryview(self._buffer)[position + 4 : position + 4 + size])
            position += 4 + size
            try:
                self.frame_received(frame)
            except (CorruptData, Refusal, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                self.refuse(str(error), is_peer=isinstance(error, Refusal))
                return
            self._is_behind = len(self._buffer) > position and monotonic() > until_s
        del self._buffer[:position]
        if self._is_behind:
            asyncio.get_running_loop().call_soon(self._take_frames)
        if self.transport is not None and self._is_behind is not was_behind:
            (self.transport.pause_reading if self._is_behind else self.transport.resume_reading)()

    def frame_received(self, frame: bytes) -> None:
        """One whole frame. Raises Refusal, CorruptData."""

    def require_level(self, log_level: int) -> None:
        """Close this connection if the other side, which is known, cannot read ``log_level``."""
        if self._theirs is not None:
            try:
                check(self.links.config, self._theirs, log_level)
            except Refusal as refusal:
                self.refuse(str(refusal))

    def refuse(self, reason: str, *, is_peer: bool = True) -> None:
        """Close this connection and say why, once."""
        if self.transport is not None:
            self.links.refusals.add(reason, self.transport.get_extra_info("peername"), is_peer=is_peer)
            self.close()

    def send(self, frame: bytes) -> None:
        if self.transport is None or self.transport.get_write_buffer_size() > BACKLOG_BYTES_MAX:
            return
        self.transport.write(len(frame).to_bytes(4, "big") + frame)

    def close(self) -> None:
        if self.transport is not None:
            transport, self.transport = self.transport, None
            transport.close()
            self._cut_off = asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.links.open.discard(self)
        self.closed.set()
        if self._cut_off is not None:
            self._cut_off.cancel()


class _Dialled(_Framed):
    """Our side of a connection that we dialled: Hello, check the proof, Proof, Welcome; then only send."""

    def __init__(self, links: Links, peer: NodeId) -> None:
        super().__init__(links)
        self.ready: asyncio.Future[Exception | None]  # why the handshake failed; None: it did not
        self.ready = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._hello = links.hello(secrets.token_bytes(16))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(encode_handshake(self._hello))

    def frame_received(self, frame: bytes) -> None:
        message = decode_handshake(frame)
        if isinstance(message, Refused):
            self._fail(Refusal(f"node {self._peer} refuses this node: {message.reason}"))
        elif isinstance(message, Hello) and self._theirs is None:
            try:
                self._check(message)
            except Refusal as refusal:
                self._fail(refusal)
        elif isinstance(message, Welcome) and self._theirs is not None and not self.ready.done():
            self.frame_bytes_max = HELLO_BYTES_MAX
            self.links.meet_dialled(self._peer, self._theirs)
            self.ready.set_result(None)

    def _check(self, hello: Hello) -> None:
        links = self.links
        if check(links.config, hello, links.events.log_level()) != self._peer:
            raise Refusal(f"node {hello.node_id} answers at the address of node {self._peer}")
        if not is_proof(links.config, hello.proof, b"accept", self._hello, hello):
            raise Refusal(f"node {hello.node_id} does not know the cluster's secret (quorum.secret.file)")
        self._theirs = hello
        self.send(encode_handshake(Proof(prove(links.config.secret, b"dial", self._hello, hello))))

    def _fail(self, refusal: Refusal) -> None:
        if not self.ready.done():
            self.ready.set_result(refusal)
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.ready.done():
            self.ready.set_result(ConnectionResetError("closed during the handshake"))


class _Accepted(_Framed):
    """Our side of a connection dialled to us: Hello with proof, check Proof, Welcome; then only read."""

    def __init__(self, links: Links) -> None:
        super().__init__(links)
        self.peer: NodeId | None = None
        self.directory_id: uuid.UUID | None = None
        self._hello: Hello | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.links.unknown[self] = None
        socket = transport.get_extra_info("socket")
        is_scarce = socket is not None and socket.fileno() >= sockets_end()
        while len(self.links.unknown) > (1 if is_scarce else UNKNOWN_MAX):  # a voter is through in a moment
            oldest = next(iter(self.links.unknown))
            oldest.refuse(f"the oldest of {UNKNOWN_MAX} unauthenticated connections", is_peer=False)
            oldest._known()
        loop = asyncio.get_running_loop()
        reason = f"no handshake within {HANDSHAKE_S} s"
        self._patience = loop.call_later(HANDSHAKE_S, partial(self.refuse, reason, is_peer=False))

    def frame_received(self, frame: bytes) -> None:
        if self.peer is not None:
            self.links.events.received(self.peer, decode(frame))
            return
        message = decode_handshake(frame)
        if isinstance(message, Hello) and self._theirs is None:
            self._greet(message)
        elif isinstance(message, Proof) and self._theirs is not None and self._hello is not None:
            if not is_proof(self.links.config, message.proof, b"dial", self._theirs, self._hello):
                raise Refusal(f"node {self._theirs.node_id} does not know the cluster's secret")
            self._welcome(self._theirs)
        else:
            raise Refusal(f"a handshake out of order: {type(message).__name__}")

    def _greet(self, theirs: Hello) -> None:
        try:
            check(self.links.config, theirs, self.links.events.log_level())
        except Refusal as refusal:
            self.send(encode_handshake(Refused(str(refusal))))
            raise
        ours = self.links.hello(secrets.token_bytes(16))
        proof = prove(self.links.config.secret, b"accept", theirs, ours)
        self._theirs, self._hello = theirs, msgspec.structs.replace(ours, proof=proof)
        self.send(encode_handshake(self._hello))

    def _welcome(self, theirs: Hello) -> None:
        peer = NodeId(theirs.node_id)
        self.directory_id = theirs.directory_id
        try:
            self.links.admit(peer, self, theirs)
        except Refusal as refusal:
            self.send(encode_handshake(Refused(str(refusal))))
            raise
        self.peer = peer
        self._known()
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.send(encode_handshake(Welcome()))

    def _known(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self.links.unknown.pop(self, None)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self.peer is None:
            self._known()
        else:
            self.links.forget(self.peer, self)
