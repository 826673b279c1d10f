"""What held the loop: by name, by CPU, without flushes, and not by guesses."""

import asyncio
from typing import Any, cast

import pytest
import structlog

from fencepost.controller.errors import InvalidRequest
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Context, Endpoint, Reply
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import Listener
from fencepost.wire.server_connection import ServerConnection
from fencepost.wire.stalls import LOG_INTERVAL_S, NAMES_MAX, STALL_S, Stalls
from tests.wire.stage import allocate, capturing_log
from tests.wire.test_listener import Clock, Wire


class Clocks:
    """A wall clock and a CPU clock that a test moves."""

    def __init__(self) -> None:
        self.wall_s = 100.0
        self.cpu_s = 5.0

    def work(self, cpu_s: float, *, waiting_s: float = 0.0) -> None:
        self.wall_s += cpu_s + waiting_s
        self.cpu_s += cpu_s


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def stalls(clocks: Clocks, log: Any = None) -> Stalls:
    return Stalls(log, clock=lambda: clocks.wall_s, cpu_clock=lambda: clocks.cpu_s)


def test_the_longest_of_each_name_is_kept(clocks: Clocks) -> None:
    held = stalls(clocks)
    for work, cpu_s in (("Produce", 0.02), ("Produce", 0.03), ("Produce", 0.01), ("Fetch", 0.005)):
        begun = held.begin()
        clocks.work(cpu_s)
        held.end(work, begun)
    assert held.longest_s == {"Produce": pytest.approx(0.03), "Fetch": pytest.approx(0.005)}


def test_waiting_for_a_processor_is_no_stall(clocks: Clocks) -> None:
    held = stalls(clocks)
    begun = held.begin()
    clocks.work(0.004, waiting_s=3.0)
    held.end("Produce", begun)
    assert held.longest_s == {"Produce": pytest.approx(0.004)}


def test_work_just_before_counts_for_at_most_a_reading_of_the_cpu_clock(clocks: Clocks) -> None:
    held = stalls(clocks)
    held.begin()
    clocks.work(1.0)  # other work, of whose end nothing is known
    begun = held.begin()
    clocks.work(0.06)
    held.end("Produce", begun)
    assert held.longest_s == {"Produce": pytest.approx(0.06)}


def test_a_flush_is_taken_out_and_has_its_own_maximum(clocks: Clocks) -> None:
    held = stalls(clocks)
    begun = held.begin()
    clocks.work(0.01)
    with held.flush:
        clocks.work(0.2, waiting_s=0.3)
    clocks.work(0.01)
    held.end("turn", begun)
    assert held.longest_s == {"turn": pytest.approx(0.02)}
    assert held.flush.longest_s == pytest.approx(0.5)


def test_work_inside_other_work_is_counted_for_both(clocks: Clocks) -> None:
    held = stalls(clocks)
    with held.watch("turn"):
        clocks.work(0.03)
        begun = held.begin()
        clocks.work(0.04)
        held.end("AddPartitionsToTxn", begun)
    assert held.longest_s == {"AddPartitionsToTxn": pytest.approx(0.04), "turn": pytest.approx(0.07)}


def test_work_that_fails_is_counted(clocks: Clocks) -> None:
    held = stalls(clocks)
    watch = held.watch("turn")
    watch.__enter__()
    clocks.work(0.07)
    error = ValueError("broken")
    watch.__exit__(ValueError, error, None)
    assert held.longest_s == {"turn": pytest.approx(0.07)}


def test_a_stall_is_logged_once_in_a_while_with_what_ran(clocks: Clocks) -> None:
    with structlog.testing.capture_logs() as logged:
        held = stalls(clocks, structlog.get_logger())
        for cpu_s in (STALL_S - 0.001, STALL_S + 0.001, 0.08, 0.09):
            with held.watch("Produce"):
                clocks.work(cpu_s)
        clocks.work(0, waiting_s=LOG_INTERVAL_S)
        with held.watch("Produce"):
            clocks.work(0.07)
    assert [(each["event"], each["work"], each["cpu_ms"], each["not_logged"]) for each in logged] == [
        ("loop_stalled", "Produce", 51, 0),
        ("loop_stalled", "Produce", 70, 2),
    ]


def served(clocks: Clocks, endpoint: Endpoint[Any, Any]) -> tuple[Stalls, ServerConnection]:
    held = stalls(clocks)
    log, _ = capturing_log()
    service = {ALLOCATE_PRODUCER_IDS.key: (ALLOCATE_PRODUCER_IDS, endpoint)}
    listener = Listener(service, name="CONTROLLER", log=log, stalls=held)
    connection = ServerConnection(listener, cast(asyncio.AbstractEventLoop, Clock()))
    connection.connection_made(cast(asyncio.Transport, Wire()))
    return held, connection


def test_a_request_counts_with_its_decoding_and_its_reply(clocks: Clocks) -> None:
    def endpoint(request: object, context: Context, reply: Reply[Any]) -> None:
        clocks.work(0.06)
        reply(ProducerIdBlock(ProducerId(0), 10))

    held, connection = served(clocks, endpoint)
    connection.data_received(allocate())
    assert held.longest_s == {"AllocateProducerIds": pytest.approx(0.06)}


def test_a_refusal_counts(clocks: Clocks) -> None:
    def endpoint(request: object, context: Context, reply: Reply[Any]) -> None:
        clocks.work(0.06)
        raise InvalidRequest("no such broker")

    held, connection = served(clocks, endpoint)
    connection.data_received(allocate())
    assert held.longest_s == {"AllocateProducerIds": pytest.approx(0.06)}


def test_a_reply_that_comes_later_counts(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[Reply[Any]] = []
    held, connection = served(clocks, lambda request, context, reply: replies.append(reply))
    connection.data_received(allocate())
    assert held.longest_s == {}
    monkeypatch.setattr(connection, "answer", lambda framed, throttle_ms: clocks.work(0.07))
    replies[0](ProducerIdBlock(ProducerId(0), 10))
    assert held.longest_s == {"AllocateProducerIds": pytest.approx(0.07)}


def test_names_are_bounded(clocks: Clocks) -> None:
    held = stalls(clocks)
    for number in range(NAMES_MAX + 1):
        with held.watch(f"name {number}"):
            clocks.work(0.002)
    assert len(held.longest_s) == NAMES_MAX
