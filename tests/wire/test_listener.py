"""One connection of a listener, driven by hand: order, muting, bounds, and who is closed for what."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from fencepost.controller.errors import InvalidRequest, NotController
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context, Endpoint, Reply, Service
from fencepost.wire.frame import raw_frame
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.listener import Listener
from fencepost.wire.server_connection import LINGER_S, READ_AHEAD_BYTES_MAX, ServerConnection
from fencepost.wire.stalls import Stalls
from tests.together import table
from tests.wire.stage import Blocks, allocate, capturing_log, framed


class Clock:
    """An event loop as far as a connection needs one: it notes timers, the test fires them."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None], Clock.Timer]] = []
        self.soon: list[Callable[[], None]] = []

    class Timer:
        cancelled = False

        def cancel(self) -> None:
            self.cancelled = True

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def time(self) -> float:
        return 0.0

    def run_soon(self) -> int:
        """Another turn of the loop; how much was to be done in it."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        return len(soon)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "Clock.Timer":
        timer = self.Timer()
        self.timers.append((delay_s, callback, timer))
        return timer

    def fire(self) -> float:
        """The latest timer goes off; its delay in seconds."""
        delay_s, callback, timer = self.timers.pop()
        assert not timer.cancelled
        callback()
        return delay_s


class Wire:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unread = 0

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("127.0.0.1", 5000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, raw: bytes) -> None:
        self.written.append(raw)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    @property
    def correlation_ids(self) -> list[int]:
        return [int.from_bytes(raw[4:8], "big") for raw in self.written]


NOTHING: Service = {}


class Stage:
    """A listener with one connection."""

    def __init__(
        self, endpoint: Endpoint[Any, Any] | None = None, also: Service = NOTHING, **options: Any
    ) -> None:
        log, self.events = capturing_log()
        self.endpoint = endpoint or Blocks()
        service = {67: (ALLOCATE_PRODUCER_IDS, self.endpoint), **also}
        self.listener = Listener(service, name="CONTROLLER", log=log, **options)
        self.clock = Clock()
        self.connection, self.wire = self.connect()

    def connect(self) -> tuple[ServerConnection, Wire]:
        connection, wire = (
            ServerConnection(self.listener, cast(asyncio.AbstractEventLoop, self.clock)),
            Wire(),
        )
        connection.connection_made(cast(asyncio.Transport, wire))
        return connection, wire

    def receive(self, *frames: bytes) -> None:
        self.connection.data_received(b"".join(frames))
        while self.clock.run_soon():
            pass


class Later:
    """An endpoint that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Reply[Any]] = []
        self.contexts: list[Context] = []

    def __call__(self, request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        self.waiting.append(reply)
        self.contexts.append(context)


BLOCK = ProducerIdBlock(ProducerId(0), 10)


def test_pipelined_requests_are_answered_in_order() -> None:
    stage = Stage()
    stage.receive(*(allocate(number) for number in range(100)))
    assert stage.wire.correlation_ids == list(range(100))


def test_one_request_is_in_process_and_the_rest_wait() -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate(1), allocate(2), allocate(3))
    assert len(later.waiting) == 1
    later.waiting[0](BLOCK, 0)
    assert stage.wire.correlation_ids == [1]
    assert len(later.waiting) == 2
    later.waiting[1](NotController("ask node 2"))
    later.waiting[2](BLOCK)
    assert stage.wire.correlation_ids == [1, 2, 3]


def test_others_have_their_turn_between_many_requests_of_one_connection() -> None:
    """Each takes a moment, and all of them came in one read."""
    now_s = 0.0

    def slow(request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        nonlocal now_s
        now_s += 0.004
        reply(BLOCK)

    stage = Stage(slow, stalls=Stalls(clock=lambda: now_s, cpu_clock=lambda: now_s))
    stage.connection.data_received(b"".join(allocate(number) for number in range(20)))
    turns = [len(stage.wire.written)]
    while stage.clock.run_soon():
        turns.append(len(stage.wire.written))
    assert turns == [3, 6, 9, 12, 15, 18, 20]
    assert stage.wire.correlation_ids == list(range(20))


def test_a_connection_that_is_lost_between_two_turns_is_not_served() -> None:
    now_s = 0.0

    def slow(request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        nonlocal now_s
        now_s += 1
        reply(BLOCK)

    stage = Stage(slow, stalls=Stalls(clock=lambda: now_s, cpu_clock=lambda: now_s))
    stage.connection.data_received(allocate(1) + allocate(2))
    stage.connection.connection_lost(None)
    assert stage.clock.run_soon() == 1
    assert stage.wire.correlation_ids == [1]


def test_a_request_in_pieces_is_served_when_it_is_whole() -> None:
    stage = Stage()
    for byte in allocate(9):
        assert stage.wire.written == []
        stage.receive(bytes((byte,)))
    assert stage.wire.correlation_ids == [9]


def test_a_second_answer_is_our_bug() -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate())
    later.waiting[0](BLOCK)
    with pytest.raises(InvariantViolation, match="answered twice"):
        later.waiting[0](BLOCK)


def test_a_throttled_connection_is_muted_and_then_heard_again() -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate(1), allocate(2))
    later.waiting[0](BLOCK, 1500)
    assert stage.wire.correlation_ids == [1]  # the answer itself is not held back
    assert stage.wire.written[0][9:13] == struct.pack(">i", 1500)
    assert (len(later.waiting), stage.wire.reading) == (1, False)
    assert stage.clock.fire() == 1.5
    assert (len(later.waiting), stage.wire.reading) == (2, True)


def test_a_muted_connection_may_be_lost() -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate(1))
    later.waiting[0](BLOCK, 1500)
    stage.connection.connection_lost(None)
    assert stage.clock.timers[0][2].cancelled
    assert stage.events == []


@pytest.mark.parametrize(
    ("extra", "reads"),
    [pytest.param(0, True, id="at-the-bound"), pytest.param(1, False, id="one-past-the-bound")],
)
def test_reading_ahead_is_bounded_while_a_request_is_in_process(extra: int, reads: bool) -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate(1), bytes(READ_AHEAD_BYTES_MAX + extra))
    assert stage.wire.reading is reads
    later.waiting[0](BLOCK)


def test_reading_goes_on_when_what_was_ahead_is_served() -> None:
    later = Later()
    stage = Stage(later)
    frames = READ_AHEAD_BYTES_MAX // len(allocate()) + 2
    stage.receive(*(allocate(number) for number in range(frames + 1)))
    readings = [stage.wire.reading]
    while later.waiting:
        later.waiting.pop(0)(BLOCK)
    readings.append(stage.wire.reading)
    assert readings == [False, True]
    assert stage.wire.correlation_ids == list(range(frames + 1))


def test_a_client_that_does_not_read_its_answers_is_not_served_more() -> None:
    blocks = Blocks()
    stage = Stage(blocks)
    stage.connection.pause_writing()
    stage.receive(allocate(1), allocate(2))
    assert (len(blocks.asked), stage.wire.reading) == (0, False)
    stage.connection.resume_writing()
    assert (len(blocks.asked), stage.wire.reading) == (2, True)


def test_an_answer_after_the_connection_is_lost_goes_nowhere() -> None:
    later = Later()
    stage = Stage(later)
    stage.receive(allocate(1), allocate(2))
    stage.connection.connection_lost(ConnectionResetError())
    later.waiting[0](BLOCK, 100)
    assert (stage.wire.written, len(later.waiting), stage.clock.timers) == ([], 1, [])


def test_an_endpoint_may_raise_its_refusal() -> None:
    def refuse(request: AllocateProducerIds, context: Context, reply: Reply[Any]) -> None:
        raise InvalidRequest("no")

    stage = Stage(refuse)
    stage.receive(allocate(1), allocate(2))
    assert stage.wire.correlation_ids == [1, 2]
    assert stage.wire.written[0][13:15] == struct.pack(">h", 42)


def test_the_context_says_who_asks() -> None:
    later = Later()
    stage = Stage(later)
    header = struct.pack(">hhi", 67, 0, 7)
    body = b"\0" + ALLOCATE_PRODUCER_IDS.encode_request(0, AllocateProducerIds(1, 5))  # type: ignore[arg-type]
    for client_id in (b"\xff\xff", b"\0\0", b"\0\x02me", b"\0\x02me", b"\xff\xff"):
        stage.receive(raw_frame(header + client_id + body))
        later.waiting[-1](BLOCK)
    assert [each.client_id for each in later.contexts] == [None, "", "me", "me", None]
    assert later.contexts[2] is later.contexts[3]
    assert later.contexts[0] == Context("User:ANONYMOUS", "CONTROLLER", None, "127.0.0.1:5000")


ALLOCATE_HEADER = struct.pack(">hhih", 67, 0, 7, -1) + b"\0"


@table(
    ("raw", "reason"),
    [
        pytest.param(struct.pack(">i", 2**31 - 1), "claims 2147483647 bytes", id="2-gib"),
        pytest.param(struct.pack(">i", -1), "claims -1 bytes", id="negative"),
        pytest.param(struct.pack(">i", 1001), "expected 0 to 1000", id="one-past-the-bound"),
        pytest.param(raw_frame(b""), "0 bytes, expected at least 8", id="empty"),
        pytest.param(raw_frame(bytes(7)), "7 bytes, expected at least 8", id="shorter-than-a-header"),
        pytest.param(framed(68, 0, b""), "API key 68 is not served", id="unknown-key"),
        pytest.param(framed(-1, 0, b""), "API key -1 is not served", id="negative-key"),
        pytest.param(framed(67, 1, b""), "AllocateProducerIds version 1 is not served", id="unknown-version"),
        pytest.param(framed(67, -1, b""), "version -1 is not served", id="negative-version"),
        pytest.param(raw_frame(ALLOCATE_HEADER), "exhausted", id="no-body"),
        pytest.param(raw_frame(ALLOCATE_HEADER + bytes(12)), "exhausted", id="body-cut"),
        pytest.param(b"\x80\x04\x95" + bytes(50), "bytes, expected", id="a-pickle"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "bytes, expected", id="http"),
    ],
)
def test_bytes_that_lie_close_their_connection_with_one_line(raw: bytes, reason: str) -> None:
    blocks = Blocks()
    stage = Stage(blocks, limits=ListenerLimits(frame_bytes_max=1000))
    other, other_wire = stage.connect()
    stage.receive(allocate(1), raw, allocate(2))
    stage.receive(b"more")
    assert stage.wire.closed
    assert stage.wire.correlation_ids == [1]
    assert [each["event"] for each in stage.events] == ["connection_closed"]
    assert reason in stage.events[0]["reason"]
    assert stage.events[0]["peer"] == "127.0.0.1:5000"
    other.data_received(allocate(3))
    assert other_wire.correlation_ids == [3]


@pytest.mark.parametrize(
    ("raw", "logged"),
    [
        pytest.param(b"", False, id="between-frames"),
        pytest.param(allocate()[:3], True, id="inside-a-length"),
        pytest.param(allocate()[:-1], True, id="inside-a-frame"),
    ],
)
def test_an_end_inside_a_frame_is_logged(raw: bytes, logged: bool) -> None:
    stage = Stage()
    stage.receive(allocate(1), raw)
    stage.connection.connection_lost(None)
    assert [each["event"] for each in stage.events] == ["connection_closed"] * logged


def test_a_closing_client_that_does_not_read_is_cut_off() -> None:
    stage = Stage()
    stage.connection.close()
    assert (stage.wire.closed, stage.wire.aborted) == (True, False)
    assert stage.clock.fire() == LINGER_S
    assert stage.wire.aborted


def test_a_connection_that_was_being_accepted_at_the_stop_is_closed() -> None:
    stage = Stage()
    stage.connection.connection_lost(None)

    async def story() -> None:
        await stage.listener.start("127.0.0.1", 0)
        await stage.listener.stop()

    asyncio.run(story())
    _, wire = stage.connect()
    assert wire.closed
    assert stage.events == []
