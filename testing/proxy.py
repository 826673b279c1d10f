"""A proxy before each node: it passes frames on, and carries out faults. See proxy_process.py.

Passed     a frame is passed on as it came, once it is whole; responses in the order of their requests. What
           is no frame of Kafka's passes as bytes from there on.
Decoded    requests of an API for which a fault is armed, in the versions that wire/ knows; one of a newer
           version passes.
Kept       what was requested of transactions, and what became of it, in ``journal``.
Addresses  clients are given the proxy's, by the node itself: it advertises them (testing/cluster.py).
"""

import asyncio
import contextlib
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.cluster.local_cluster import HOST
from fencepost.records.invariant import CorruptData
from fencepost.testing.armory import Armory, Rule
from fencepost.testing.journal import Answer, Journal, Request, answered
from fencepost.wire.dispatch import Api
from fencepost.wire.errors import error_for
from fencepost.wire.frame import (
    FRAME_BYTES_MAX,
    REQUEST_PREFIX_BYTES,
    RequestHeader,
    parse_request_header,
    response_frame,
)
from fencepost.wire.registry import APIS
from fencepost.wire.requests import ApiError
from fencepost.wire.tls import Tls

_LENGTH: Final = struct.Struct(">i")
_PRODUCE: Final = 0
CHUNK: Final = 64 * 1024
_CLIENT_ID: Final = slice(8, 10)  # of a request: its length, and then the text


@dataclass(slots=True)
class _Pending:
    """A request whose answer the client waits for. ``answer``: there already, and waits for its turn."""

    correlation_id: int
    dropped_by: Rule | None = None
    answer: bytes | None = None
    kept: Request | None = None  # in the journal
    version: int = 0
    key: int = 0
    came_s: float = field(default_factory=time.monotonic)


class Upstream(NamedTuple):
    """A node, and the proxy's end of TLS towards it and its clients, if it speaks that."""

    node: int
    address: tuple[str, int]
    tls: Tls | None


class Waiting(NamedTuple):
    """A request that has no answer yet."""

    client_id: str
    node: int
    key: int
    for_s: float


class Proxy:
    """One listening port for each upstream."""

    def __init__(self) -> None:
        self.armory = Armory()
        self.journal = Journal()
        self._connections: dict[_Connection, asyncio.Task[None] | None] = {}
        self._servers: list[asyncio.Server] = []

    async def listen(self, upstreams: Sequence[Upstream], ports: Sequence[int]) -> None:
        """Accept connections at these ports. Raises OSError."""
        for upstream, port in zip(upstreams, ports, strict=True):

            async def accept(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                upstream: Upstream = upstream,
            ) -> None:
                await self._accepted(reader, writer, upstream)

            shown = None if upstream.tls is None else upstream.tls.server("none")
            self._servers.append(await asyncio.start_server(accept, HOST, port, limit=CHUNK, ssl=shown))

    async def _accepted(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: Upstream,
    ) -> None:
        connection = _Connection(self, reader, writer, upstream.node)
        self._connections[connection] = asyncio.current_task()
        try:
            await connection.serve(upstream)
        finally:
            del self._connections[connection]

    async def end(self) -> None:
        """Close every connection and listener."""
        for server in self._servers:
            server.close()
        tasks = [each for each in self._connections.values() if each is not None]
        for connection in list(self._connections):
            connection.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def waiting(self) -> list[Waiting]:
        """Requests that have no answer yet, the oldest first."""
        found = [each for connection in self._connections for each in connection.waiting()]
        return sorted(found, key=lambda each: -each.for_s)

    def fault_for(self, frame: bytes) -> tuple[Rule | None, Api[Any, Any] | None, Any]:
        """The first armed fault that fits a request, with what is needed to answer it; it has fired."""
        api = APIS.get(int.from_bytes(frame[:2], "big"))
        armed = [] if api is None else self.armory.of_key(api.key)
        if api is None or not armed:
            return None, None, None
        try:
            header, request = _decoded(api, frame)
        except (CorruptData, ApiError):
            return None, None, None
        for rule in armed:
            if rule.fits(header.client_id, request):
                self.armory.fire(rule)
                return rule, api, request
        return None, None, None


class _Connection:
    """A client's connection, and its own one to the node."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int
    ) -> None:
        self._proxy = proxy
        self._node = node
        self._client_id = ""
        self._reader = reader
        self._writer = writer
        self._pending: deque[_Pending] = deque()
        self._raw = False
        self._upstream: asyncio.StreamWriter | None = None

    async def serve(self, upstream: Upstream) -> None:
        """Until either side ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            answers, self._upstream = await asyncio.open_connection(
                *upstream.address,
                limit=CHUNK,
                ssl=None if upstream.tls is None else upstream.tls.client(),
                server_hostname=None if upstream.tls is None else HOST,
            )
            both = [
                asyncio.ensure_future(self._requests(self._upstream)),
                asyncio.ensure_future(self._answers(answers)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        self.close()

    def close(self) -> None:
        """Close both sides."""
        for writer in (self._writer, self._upstream):
            if writer is not None:
                writer.close()
        for pending in self._pending:
            if pending.kept is not None and pending.kept.answer is Answer.WAITING:
                pending.kept.answer = Answer.LOST

    def abort(self) -> None:
        """Close both sides now: TLS says goodbye in its own time, which a loop that ends does not have."""
        for writer in (self._writer, self._upstream):
            if writer is not None:
                writer.transport.abort()

    def waiting(self) -> list[Waiting]:
        """Requests of this connection that have no answer yet."""
        now_s = time.monotonic()
        return [Waiting(self._client_id, self._node, each.key, now_s - each.came_s) for each in self._pending]

    async def _requests(self, upstream: asyncio.StreamWriter) -> None:
        while (frame := await self._frame(self._reader, upstream)) is not None:
            self._client_id = self._client_id or _client_id(frame)
            kept = self._proxy.journal.add(self._node, frame)
            fault, api, request = self._proxy.fault_for(frame)
            if fault is not None and api is not None:
                if kept is not None:
                    _fault_on(kept, fault)
                if fault.action == "disconnect":
                    return
                if fault.action == "fail":
                    self._refuse(frame, api, request, fault.code)
                    continue
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            if not _is_unanswered(frame):
                dropped = fault if fault is not None and fault.action == "drop_answer" else None
                key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                self._pending.append(_Pending(correlation_id, dropped, None, kept, version, key))
            if fault is not None and fault.action == "delay":
                await asyncio.sleep(fault.ms / 1000)
            upstream.write(_LENGTH.pack(len(frame)) + frame)
            await upstream.drain()

    async def _answers(self, answers: asyncio.StreamReader) -> None:
        while (frame := await self._frame(answers, self._writer)) is not None:
            correlation_id = int.from_bytes(frame[:4], "big", signed=True)
            while self._pending:
                pending = self._pending.popleft()
                if pending.correlation_id == correlation_id:
                    if pending.kept is not None:
                        became = Answer.GIVEN if pending.dropped_by is None else Answer.DROPPED
                        answered(pending.kept, pending.version, frame, became)
                    if pending.dropped_by is not None:
                        return
                    break
                if pending.answer is not None:
                    self._writer.write(pending.answer)
            self._writer.write(_LENGTH.pack(len(frame)) + frame)
            self._write_ready()
            await self._writer.drain()

    def _refuse(self, frame: bytes, api: Api[Any, Any], request: Any, code: int) -> None:
        version = int.from_bytes(frame[2:4], "big")
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        body = api.refusal(version, request, error_for(code, "by a fault of the test"), 0)
        answer = response_frame(correlation_id, body, tagged=api.has_tagged_response_header(version))
        self._pending.append(_Pending(correlation_id, None, answer))
        self._write_ready()

    def _write_ready(self) -> None:
        while self._pending and (answer := self._pending[0].answer) is not None:
            self._pending.popleft()
            self._writer.write(answer)

    def _speaks_kafka(self) -> bool:
        return not self._raw

    async def _frame(self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter) -> bytes | None:
        """The next frame without its length; None when the sender ends, or sends none of Kafka's."""
        if self._speaks_kafka():
            try:
                head = await reader.readexactly(_LENGTH.size)
            except asyncio.IncompleteReadError:
                return None
            (size,) = _LENGTH.unpack(head)
            least = REQUEST_PREFIX_BYTES if reader is self._reader else 0
            if self._speaks_kafka() and least <= size <= FRAME_BYTES_MAX:  # or the other side is raw since
                return await reader.readexactly(size)
            self._raw = True
            onward.write(head)
        while chunk := await reader.read(CHUNK):
            onward.write(chunk)
            await onward.drain()
        return None


def _fault_on(kept: Request, fault: Rule) -> None:
    """What the client gets of a request that a fault hit, as far as that is known already."""
    if fault.action == "delay":
        kept.delayed_ms = fault.ms
    elif fault.action == "fail":
        kept.answer, kept.code = Answer.REFUSED, fault.code
    elif fault.action == "disconnect":
        kept.answer = Answer.CLOSED


def _decoded(api: Api[Any, Any], frame: bytes) -> tuple[RequestHeader, Any]:
    """A request and its header. Raises ApiError, CorruptData, also for a version that is not known."""
    version = int.from_bytes(frame[2:4], "big")
    if version not in api.versions:
        raise CorruptData(f"{api.name} of version {version}; known are {api.versions}")
    header, start = parse_request_header(frame, flexible=version >= api.flexible_from)
    return header, api.decode_request(version, memoryview(frame)[start:])


def _client_id(frame: bytes) -> str:
    """Of a request; empty if it has none."""
    length = int.from_bytes(frame[_CLIENT_ID], "big", signed=True)
    return frame[_CLIENT_ID.stop : _CLIENT_ID.stop + max(0, length)].decode("utf-8", "replace")


def _is_unanswered(frame: bytes) -> bool:
    """A Produce that asks for no acknowledgement."""
    if int.from_bytes(frame[:2], "big") != _PRODUCE:
        return False
    try:
        return bool(_decoded(APIS[_PRODUCE], frame)[1].acks == 0)
    except (CorruptData, ApiError):
        return False
