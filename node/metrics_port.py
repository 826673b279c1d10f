"""The metrics port: answers Prometheus' scrapes and probes on the node's own event loop.

HTTP        GET and HEAD, HTTP/1.0 and 1.1, no bodies; connections are kept. Anything else gets its status,
            and the connection is closed.
Paths       LIVE is 200 where the loop turns; READY is 503, with the reason, while clients are better sent
            elsewhere; any other path has the metrics.
Bounds      METRICS_CONNECTIONS_MAX, a head of HEAD_BYTES_MAX, which must come within the time that
            wire/admission.py gives to a part of a frame; ``connections.max.idle.ms`` between requests.
Cost        the numbers are rendered at most once in RENDERED_S: more frequent scrapes get the same again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from structlog.typing import FilteringBoundLogger

from fencepost.records.invariant import InvariantViolation
from fencepost.wire.accepting import stop_accepting
from fencepost.wire.admission import SWEEP_S, Admission
from fencepost.wire.limited_log import LimitedLog
from fencepost.wire.limits import DEFAULT_LIMITS, ListenerLimits
from fencepost.wire.listening import listen
from fencepost.wire.stalls import Stalls
from fencepost.wire.tls import Tls
from fencepost.wire.tls_handshake import TlsServer

METRICS_CONNECTIONS_MAX: Final = 100
HEAD_BYTES_MAX: Final = 8 * 1024
RENDERED_S: Final = 0.1
LINGER_S: Final = 5.0
WORK: Final = "metrics scrape"
LIVE, READY = "/livez", "/readyz"
"""Named as those of etcd and of Kubernetes' own servers."""

PLAIN_TEXT: Final = "text/plain; charset=utf-8"

_Rendered = tuple[float, str, bytes]  # when, content type, content


class MetricsPort:
    """One listening socket. Raises OSError in ``start`` if the port cannot be had."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        log: FilteringBoundLogger,
        limits: ListenerLimits = DEFAULT_LIMITS,
        stalls: Stalls | None = None,
        tls: Tls | None = None,
        why_not_ready: Callable[[], str] = str,
    ) -> None:
        """``why_not_ready``: what READY says; empty where the node is."""
        limits = replace(limits, connections_max=min(limits.connections_max, METRICS_CONNECTIONS_MAX))
        self.log = LimitedLog(log.bind(listener="METRICS"))
        self.admission: Admission[_Scraper] = Admission(limits, self.log)
        self._registry = registry
        self.why_not_ready = why_not_ready
        self._stalls = stalls or Stalls()
        client_auth = "none" if tls is None else tls.settings.client_auth
        self._handshakes = TlsServer.of(tls, client_auth, self._handshake_failed)
        self._rendered: dict[str, _Rendered] = {}  # by content type: there are two or three
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one."""
        loop = asyncio.get_running_loop()
        self._server = await listen(lambda: _Scraper(self, loop), host, port, tls=self._handshakes)
        self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop)

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is None:
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        await stop_accepting(self._server, self._handshakes)
        for scraper in self.admission.all():
            scraper.close()
        await self._server.wait_closed()
        self._server = None
        self.log.close()

    @property
    def port(self) -> int:
        """The port that is listened on. Only after ``start``."""
        if self._server is None:
            raise InvariantViolation("the metrics port is not started")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def render(self, accept: str, now_s: float) -> tuple[str, bytes]:
        """Content type and content for an Accept header."""
        encoder, content_type = choose_encoder(accept)
        known = self._rendered.get(content_type)
        if known is None or now_s - known[0] >= RENDERED_S:
            begun = self._stalls.begin()
            known = self._rendered[content_type] = (now_s, content_type, encoder(self._registry))
            self._stalls.end(WORK, begun)
        return known[1:]

    def _handshake_failed(self, reason: str, peer: str) -> None:
        self.log.warning("scrape_refused", peer=peer, reason=reason)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = loop.call_later(SWEEP_S, self._sweep, loop)
        self.admission.sweep()
        self.log.flush()


class _Scraper(asyncio.Protocol):
    """One connection of a scraper. See admission.Admitted."""

    def __init__(self, port: MetricsPort, loop: asyncio.AbstractEventLoop) -> None:
        self._port = port
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._write_paused = self._closing = False
        self.address = ""
        self.peer = "?"
        self.active_sweep = 0

    @property
    def may_make_room(self) -> bool:
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.address, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        socket = transport.get_extra_info("socket")
        descriptor = -1 if socket is None else socket.fileno()
        if not self._port.admission.admit(self, descriptor, authenticated=True):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._closing = True
        self._port.admission.forget(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._port.admission.recent(self)
        self._head += data
        if len(self._head) > HEAD_BYTES_MAX:
            self._refuse("431 Request Header Fields Too Large", f"a head above {HEAD_BYTES_MAX} bytes")
            return
        self._serve()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()
            self._serve()

    def received_bytes(self) -> int:
        return len(self._head)

    def close(self) -> None:
        if self._transport is not None and not self._closing:
            self._closing = True
            self._transport.close()
            self._loop.call_later(LINGER_S, self._transport.abort)

    def cut(self, reason: str) -> None:
        if self._transport is not None:
            self._closing = True
            self._port.log.warning("connection_closed", peer=self.peer, reason=reason)
            self._transport.abort()

    def _serve(self) -> None:
        """Answer the requests that are here, in order."""
        while not (self._write_paused or self._closing):
            head, found, rest = self._head.partition(b"\r\n\r\n")
            if not found:
                break
            self._head = rest
            self._port.admission.completed(self)
            self._answer(head)
        if self._head and not (self._write_paused or self._closing):
            self._port.admission.waits_for_frame(self)

    def _answer(self, head: bytes) -> None:
        line, *fields = head.decode("latin-1").split("\r\n")
        method, _, rest = line.partition(" ")
        target, _, version = rest.rpartition(" ")
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            self._refuse("400 Bad Request", f"expected GET PATH HTTP/1.1, got {line[:100]!r}")
            return
        if method not in ("GET", "HEAD"):
            self._refuse("405 Method Not Allowed", f"expected GET or HEAD, got {method[:20]!r}")
            return
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse("400 Bad Request", "a request with a body")
            return
        status, content_type, content = self._found(target.partition("?")[0], headers.get("accept", ""))
        connection = headers.get("connection", "close" if version == "HTTP/1.0" else "keep-alive").lower()
        keep = connection == "keep-alive"
        self._send(status, content_type, content, keep=keep, with_content=method == "GET")

    def _found(self, path: str, accept: str) -> tuple[str, str, bytes]:
        """Status, content type and content of a path."""
        if path not in (LIVE, READY):
            return "200 OK", *self._port.render(accept, self._loop.time())
        reason = self._port.why_not_ready() if path == READY else ""
        status = "503 Service Unavailable" if reason else "200 OK"
        return status, PLAIN_TEXT, f"{reason or 'ok'}\n".encode()

    def _refuse(self, status: str, reason: str) -> None:
        self._port.log.warning("scrape_refused", peer=self.peer, status=status, reason=reason)
        self._send(status, PLAIN_TEXT, f"{reason}\n".encode(), keep=False)

    def _send(
        self, status: str, content_type: str, content: bytes, *, keep: bool, with_content: bool = True
    ) -> None:
        if self._transport is None:
            return
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + (content if with_content else b""))
        if not keep:
            self.close()
