"""A proxy before each node, on threads of the test run: it passes frames on, and carries out faults.

Passed     a frame is passed on as it came, once it is whole; responses in the order of their requests. What
           is no frame of Kafka's passes as bytes from there on.
Decoded    requests of an API for which a fault is armed, in the versions that wire/ knows; one of a newer
           version passes, and is counted in ``unread``.
Kept       what was requested of transactions, and what became of it, in ``journal``.
Addresses  clients are given the proxy's, by the node itself: it advertises them (testing/cluster.py).
"""

import asyncio
import contextlib
import struct
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fencepost.cluster.local_cluster import HOST
from fencepost.records.invariant import CorruptData
from fencepost.testing.faults import Fault, Faults
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
START_S_MAX: Final = 10.0


@dataclass(slots=True)
class _Pending:
    """A request whose answer the client waits for. ``answer``: there already, and waits for its turn."""

    correlation_id: int
    dropped_by: Fault | None = None
    answer: bytes | None = None
    kept: Request | None = None  # in the journal
    version: int = 0


class _Upstream(NamedTuple):
    """A node, and the proxy's end of TLS towards it and its clients, if it speaks that."""

    node: int
    address: tuple[str, int]
    tls: Tls | None


class Proxies:
    """One listening address for each upstream one, served by a thread. ``ports`` are in their order."""

    def __init__(self, upstreams: Sequence[tuple[str, int]], ends: Sequence[Tls] = ()) -> None:
        """``ends``: where the upstreams speak TLS, each one's end of it."""
        self.faults = Faults()
        self.journal = Journal()
        self._upstreams = upstreams
        self._ends: Sequence[Tls | None] = ends or (None,) * len(upstreams)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._connections: set[_Connection] = set()
        self._thread = threading.Thread(target=self._serve, name="fencepost-proxy", daemon=True)
        self.ports: list[int] = []
        self.unread = 0

    def start(self) -> None:
        """Listen; ``ports`` is there on return."""
        self._thread.start()
        if not self._ready.wait(START_S_MAX) or len(self.ports) != len(self._upstreams):
            raise OSError(f"the proxy could not listen on {HOST}")

    def close(self) -> None:
        """Close every connection and listener."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
            self._ready.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._ready.set()
            self._loop.close()

    async def _listen(self) -> None:
        self._servers = []
        each = zip(self._upstreams, self._ends, strict=True)
        for upstream in [_Upstream(node, *of) for node, of in enumerate(each, start=1)]:

            async def accept(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                upstream: _Upstream = upstream,
            ) -> None:
                await self._accepted(reader, writer, upstream)

            shown = None if upstream.tls is None else upstream.tls.server("none")
            server = await asyncio.start_server(accept, HOST, 0, limit=CHUNK, ssl=shown)
            self._servers.append(server)
            self.ports.append(int(server.sockets[0].getsockname()[1]))

    async def _accepted(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: _Upstream,
    ) -> None:
        connection = _Connection(self, reader, writer, upstream.node)
        self._connections.add(connection)
        try:
            await connection.serve(upstream)
        finally:
            self._connections.discard(connection)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def fault_for(self, frame: bytes) -> tuple[Fault | None, Api[Any, Any] | None, Any]:
        """The first armed fault that fits a request, with what is needed to answer it; it has fired."""
        api = APIS.get(int.from_bytes(frame[:2], "big"))
        armed = [] if api is None else self.faults.of_key(api.key)
        if api is None or not armed:
            return None, None, None
        try:
            header, request = _decoded(api, frame)
        except (CorruptData, ApiError):
            self.unread += 1
            return None, None, None
        for fault in armed:
            if fault.fits(header.client_id, request) and fault.fire():
                return fault, api, request
        return None, None, None


class _Connection:
    """A client's connection, and its own one to the node."""

    def __init__(
        self, proxies: Proxies, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int
    ) -> None:
        self._proxies = proxies
        self._node = node
        self._reader = reader
        self._writer = writer
        self._pending: deque[_Pending] = deque()
        self._raw = False
        self._upstream: asyncio.StreamWriter | None = None

    async def serve(self, upstream: _Upstream) -> None:
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

    async def _requests(self, upstream: asyncio.StreamWriter) -> None:
        while (frame := await self._frame(self._reader, upstream)) is not None:
            kept = self._proxies.journal.add(self._node, frame)
            fault, api, request = self._proxies.fault_for(frame)
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
                version = int.from_bytes(frame[2:4], "big")
                self._pending.append(_Pending(correlation_id, dropped, kept=kept, version=version))
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


def _fault_on(kept: Request, fault: Fault) -> None:
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


def _is_unanswered(frame: bytes) -> bool:
    """A Produce that asks for no acknowledgement."""
    if int.from_bytes(frame[:2], "big") != _PRODUCE:
        return False
    try:
        return bool(_decoded(APIS[_PRODUCE], frame)[1].acks == 0)
    except (CorruptData, ApiError):
        return False
