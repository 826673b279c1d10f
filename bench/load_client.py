"""One client of the bench: a request, its answer, the next request, in Kafka's own frames over TCP.

Closed loop   at most one request is under way; the next one leaves as soon as the answer has come.
Moves on      refused (not the controller), lost or silent for ``timeout_s``: the next node, at once after a
              first request that was not answered, else after a pause that doubles with each failure in a row,
              up to ``pause_s_max``. A client that found a node silent or gone uses the others for a while
              instead of waiting for it again and again.
Verified      each answer's length, correlation id, tags and block; one that is wrong ends the load.
Lean          frames are built once, an answer is read with one struct: the load must cost less than what it
              measures.
"""

import asyncio
import random
import struct
import time
from dataclasses import dataclass, field
from typing import Final, cast

from fencepost.bench.history import OK, REFUSED, UNKNOWN, Attempt
from fencepost.controller.errors import ErrorCode
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import PRODUCER_ID_MAX
from fencepost.wire.frame import RequestHeader, request_frame
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS

CLIENT_ID: Final = "fencepost-bench"
PAUSE_S: Final = (
    0.005,
    0.015,
)  # between failures: sixteen clients then find a new leader within a millisecond
PAUSE_S_MAX: Final = 0.25  # where no leader is found: a thousand clients must not keep the others busy
DOUBLINGS_MAX: Final = 8
SUSPECT_S: Final = (0.3, 1.5)  # drawn anew each time, or all clients would wait for a silent node together
CORRELATION_ID_BYTES: Final = slice(8, 12)  # of a framed request
CORRELATION_ID_MAX: Final = 2**31 - 1

_CORRELATION_ID: Final = struct.Struct(">i")
_ANSWER: Final = struct.Struct(
    ">iiBihqiB"
)  # length | correlation id | tags | throttle ms | error | start | len | tags
_ANSWER_LENGTH: Final = _ANSWER.size - 4


@dataclass(slots=True)
class Course:
    """What the clients of a load share."""

    nodes: dict[int, tuple[str, int]]  # controller listeners by node id
    timeout_s: float
    rng: random.Random
    pause_s_max: float = PAUSE_S_MAX
    attempts: list[Attempt] = field(default_factory=list)
    stopping: bool = False
    failure: str | None = None  # the first wrong answer

    def fail(self, message: str) -> None:
        """Stop the load: what was measured is worth nothing."""
        self.failure = self.failure or message
        self.stopping = True


class _Connection(asyncio.Protocol):
    """One client's connection to one node."""

    __slots__ = (
        "_client",
        "_correlation_id",
        "_course",
        "_partial",
        "_transport",
        "ended",
        "node",
        "sent_ns",
    )

    def __init__(self, client: "Client", node: int) -> None:
        self._client = client
        self._course = client.course
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._partial = b""
        self.node = node
        self.sent_ns = 0  # 0: nothing is under way
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what waits for the connection. See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        """The request. Only if none is under way."""
        client, transport = self._client, self._transport
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MAX
        frame = client.before + _CORRELATION_ID.pack(self._correlation_id) + client.after
        self.sent_ns = time.monotonic_ns()
        if transport is not None:
            transport.write(frame)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. An answer almost always comes whole and alone."""
        received_ns = time.monotonic_ns()
        if self.ended:
            return
        if self._partial:
            data = self._partial + data
            self._partial = b""
        sent_ns = self.sent_ns
        if len(data) != _ANSWER.size or sent_ns == 0:
            if len(data) < _ANSWER.size and sent_ns:
                self._partial = data
            else:
                self._course.fail(f"node {self.node} sent {data.hex()}, expected one answer to one request")
            return
        length, correlation_id, tags, _, code, start, count, end_tags = _ANSWER.unpack(data)
        if (length, correlation_id, tags, end_tags) != (_ANSWER_LENGTH, self._correlation_id, 0, 0):
            self._course.fail(f"node {self.node} sent {data.hex()} to correlation id {self._correlation_id}")
            return
        self.sent_ns = 0
        if code == 0:
            if not (count > 0 and 0 <= start <= PRODUCER_ID_MAX - count):
                self._course.fail(f"node {self.node} granted a block that is none: {start}, length {count}")
                return
            if not self._course.stopping:
                self.send()
        self._client.answered(self, sent_ns, received_ns, code, start, count)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what is under way. See asyncio.Protocol."""
        self.ended = True
        self._client.lost(self)

    def abort(self) -> None:
        """Close now. What is under way is dropped."""
        self.ended = True
        self.sent_ns = 0
        if self._transport is not None:
            self._transport.abort()


class Client:
    """One client, which sends as a registered broker. When ``course.stopping`` it becomes idle by itself."""

    def __init__(self, course: Course, number: int, asker: AllocateProducerIds) -> None:
        header = RequestHeader(ALLOCATE_PRODUCER_IDS.key, 0, 0, CLIENT_ID)
        frame = request_frame(header, ALLOCATE_PRODUCER_IDS.encode_request(0, asker), flexible=True)
        self.before = frame[: CORRELATION_ID_BYTES.start]
        self.after = frame[CORRELATION_ID_BYTES.stop :]
        self.course = course
        self.number = number
        self.idle = False
        self._connections: dict[int, _Connection] = {}
        self._awaited: _Connection | None = None
        self._suspect_until_s: dict[int, float] = {}  # by node
        self._node = min(course.nodes)
        self._opening: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._failures = 0  # in a row

    def start(self, node: int) -> None:
        """Send the first request to ``node``."""
        self._node = node
        self._ask()

    def close(self) -> None:
        """Give up whatever is under way."""
        if self._opening is not None:
            self._opening.cancel()
        if self._pause is not None:
            self._pause.cancel()
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.abort()

    def expire(self, now_ns: int) -> None:
        """Called every few milliseconds: a request that is not answered in time is given up."""
        awaited = self._awaited
        if awaited is not None and 0 < awaited.sent_ns < now_ns - self.course.timeout_s * 1e9:
            sent_ns = awaited.sent_ns
            del self._connections[awaited.node]
            awaited.abort()
            self._unanswered(awaited.node, sent_ns)

    # What the connections tell

    def answered(
        self, connection: _Connection, sent_ns: int, received_ns: int, code: int, start: int, length: int
    ) -> None:
        """A verified answer; after a success the next request has left already."""
        if code == 0:
            self._failures = 0
            attempt = Attempt(self.number, connection.node, sent_ns, received_ns, OK, start, length)
            self.course.attempts.append(attempt)
            self.idle = connection.sent_ns == 0
            return
        outcome = UNKNOWN if code == ErrorCode.REQUEST_TIMED_OUT else f"{REFUSED}{code}"
        self.course.attempts.append(Attempt(self.number, connection.node, sent_ns, received_ns, outcome))
        self._pause_and_ask()

    def lost(self, connection: _Connection) -> None:
        """A connection ended, perhaps one without a waiting request."""
        if self._connections.get(connection.node) is not connection:
            return
        del self._connections[connection.node]
        sent_ns, connection.sent_ns = connection.sent_ns, 0
        if sent_ns:
            self._unanswered(connection.node, sent_ns)

    # Asking

    def _unanswered(self, node: int, sent_ns: int) -> None:
        now_ns = time.monotonic_ns()
        self.course.attempts.append(Attempt(self.number, node, sent_ns, now_ns, UNKNOWN))
        self._suspect(node)
        if self._failures > 0:
            self._pause_and_ask()
            return
        self._failures = 1
        self._move()
        self._ask()

    def _suspect(self, node: int) -> None:
        self._suspect_until_s[node] = time.monotonic() + self.course.rng.uniform(*SUSPECT_S)

    def _move(self) -> None:
        """The next node in turn that is not suspect; if all are, the next."""
        nodes = sorted(self.course.nodes)
        position = nodes.index(self._node) + 1
        turn = nodes[position:] + nodes[:position]
        now_s = time.monotonic()
        suspect_until_s = self._suspect_until_s
        self._node = next((node for node in turn if suspect_until_s.get(node, 0.0) <= now_s), turn[0])

    def _pause_and_ask(self) -> None:
        self._move()
        delay_s = self.course.rng.uniform(*PAUSE_S) * 2**self._failures
        delay_s = min(delay_s, self.course.pause_s_max * self.course.rng.uniform(0.5, 1.0))
        self._failures = min(self._failures + 1, DOUBLINGS_MAX)
        self._pause = asyncio.get_running_loop().call_later(delay_s, self._ask)

    def _ask(self) -> None:
        if self.course.stopping:
            self._awaited = None
            self.idle = True
            return
        connection = self._connections.get(self._node)
        if connection is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(self._node))
            return
        self._awaited = connection
        connection.send()

    async def _open(self, node: int) -> None:
        connection = _Connection(self, node)
        try:
            async with asyncio.timeout(self.course.timeout_s):
                host, port = self.course.nodes[node]
                await asyncio.get_running_loop().create_connection(lambda: connection, host, port)
            if connection.ended:
                raise ConnectionError("closed at once")
        except (OSError, TimeoutError):
            self._suspect(node)
            self._pause_and_ask()
            return
        self._connections[node] = connection
        self._ask()
