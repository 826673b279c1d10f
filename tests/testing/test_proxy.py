"""The proxy before a node that is scripted here: what passes, what is refused, lost, late; in which order."""

import asyncio
import math
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from fencepost.testing.armory import facts
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import Faults
from fencepost.testing.journal import Answer
from fencepost.testing.proxy_process import Process
from fencepost.wire.connection import ConnectionLost
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.registry import APIS
from fencepost.wire.requests import ApiError, ErrorCode
from tests.ports import free_port
from tests.testing import conversation
from tests.testing.conversation import COMMIT
from tests.testing.here import ProxyHere, asked_here
from tests.testing.scripted_node import ScriptedNode


class FetchedTopic(NamedTuple):
    """As requests of new versions name a topic."""

    topic_id: uuid.UUID


class Bench:
    """A node, the proxy before it, and the faults of the test."""

    def __init__(self) -> None:
        self.node = ScriptedNode()
        self.proxy = ProxyHere(self.node.port, free_port())
        self.faults = self.proxy.faults

    def close(self) -> None:
        self.proxy.close()
        self.node.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def ask(bench: Bench, *, client: str = "c") -> object:
    return conversation.ask(bench.proxy.port, client=client)


def test_without_a_fault_all_passes(bench: Bench) -> None:
    ask(bench)
    assert bench.node.seen.count(END_TXN.key) == 1


def test_a_refusal_is_the_tests_and_the_node_never_sees_the_request(bench: Bench) -> None:
    fault = bench.faults.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", times=1)
    with pytest.raises(ApiError) as caught:
        ask(bench)
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert END_TXN.key not in bench.node.seen
    fault.wait_fired(timeout_s=0)
    ask(bench)
    assert bench.node.seen.count(END_TXN.key) == 1
    assert not bench.faults.clear()


def test_an_answer_that_is_dropped_was_done(bench: Bench) -> None:
    with bench.faults.drop_answer("EndTxn") as fault:
        with pytest.raises(ConnectionLost):
            ask(bench)
        assert bench.node.seen.count(END_TXN.key) == 1
        assert fault.fired == 1
    ask(bench)


def test_a_connection_that_is_closed_did_nothing(bench: Bench) -> None:
    with bench.faults.disconnect("EndTxn"), pytest.raises(ConnectionLost):
        ask(bench)
    assert END_TXN.key not in bench.node.seen


def test_a_delay_is_waited_for(bench: Bench) -> None:
    with bench.faults.delay("EndTxn", 200):
        begun_s = time.monotonic()
        ask(bench)
    assert time.monotonic() - begun_s >= 0.2


def test_only_what_fits_is_hit(bench: Bench) -> None:
    faults = bench.faults
    faults.disconnect("Heartbeat")
    faults.disconnect("EndTxn", match={"transactional_id": "other"})
    faults.disconnect("EndTxn", match={"transactional_id": "app", "client_id": "another"})
    ask(bench)
    faults.disconnect("EndTxn", match={"transactional_id": "app", "client_id": "c"})
    with pytest.raises(ConnectionLost):
        ask(bench)
    left = faults.clear()
    assert [str(each) for each in left] == [
        "disconnect(Heartbeat), fired 0 times",
        "disconnect(EndTxn, transactional_id='other'), fired 0 times",
        "disconnect(EndTxn, transactional_id='app', client_id='another'), fired 0 times",
        "disconnect(EndTxn, transactional_id='app', client_id='c'), fired 1 times",
    ]
    ask(bench)


def test_answers_keep_the_order_of_requests(bench: Bench) -> None:
    """Java's client ends a connection whose answers come in another order."""

    async def pipelined() -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port)
        bench.node.hold = True
        version_0 = [
            (API_VERSIONS.key, b""),
            (END_TXN.key, END_TXN.encode_request(0, COMMIT)),
            (API_VERSIONS.key, b""),
        ]
        for correlation_id, (key, body) in enumerate(version_0, start=1):
            head = struct.pack(">hhih", key, 0, correlation_id, -1)
            writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        await asyncio.to_thread(fault.wait_fired)
        bench.node.release()
        found = []
        for _ in range(3):
            size, correlation_id = struct.unpack(">ii", await reader.readexactly(8))
            await reader.readexactly(size - 4)
            found.append(correlation_id)
        writer.close()
        return found

    with bench.faults.fail("EndTxn", 51) as fault:
        assert asyncio.run(pipelined()) == [1, 2, 3]


def test_what_became_of_each_request_is_kept(bench: Bench) -> None:
    faults = bench.faults
    ask(bench)
    with faults.drop_answer("EndTxn"), pytest.raises(ConnectionLost):
        ask(bench)
    with faults.fail("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"), pytest.raises(ApiError):
        ask(bench)
    with faults.disconnect("EndTxn"), pytest.raises(ConnectionLost):
        ask(bench)
    with faults.delay("EndTxn", 1):
        ask(bench)
    kept = bench.proxy.requests()
    assert {(each.api, each.transactional_id, each.pair, each.client_id) for each in kept} == {
        ("EndTxn", "app", (7, 3), "c")
    }
    assert [(each.answer, each.code, each.delayed_ms) for each in kept] == [
        (Answer.GIVEN, 0, 0),
        (Answer.DROPPED, 0, 0),
        (Answer.REFUSED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (Answer.CLOSED, None, 0),
        (Answer.GIVEN, 0, 1),
    ]


def test_a_fault_is_waited_for_until_it_has_fired_so_often() -> None:
    async def story() -> None:
        process = Process()
        armed: dict[str, Any] = {"action": "delay", "text": "", "match": {}, "topic_id": None, "times": None}
        first = await process.answer("arm", {"key": 26, **armed, "ms": 0, "code": 0})
        second = await process.answer("arm", {"key": 0, **armed, "ms": 0, "code": 0})
        waiting = asyncio.ensure_future(
            process.answer("wait", {"number": first, "count": 1, "timeout_s": 60})
        )
        for number, is_over in ((second, False), (first, True)):
            await asyncio.sleep(0)
            armory = process.proxy.armory
            armory.fire(next(each for each in armory.armed() if each.number == number))
            for _ in range(3):
                await asyncio.sleep(0)
            assert waiting.done() == is_over
        assert await waiting == (first, 1, True)
        again = asyncio.ensure_future(process.answer("wait", {"number": first, "count": 2, "timeout_s": 60}))
        await asyncio.sleep(0)
        await process.answer("clear", {"number": first})
        for _ in range(3):
            await asyncio.sleep(0)
        assert again.done(), "it was cleared: it never will"
        assert await again == (first, 1, False)

    asyncio.run(story())


def test_a_request_whose_connection_ends_has_lost_its_answer(bench: Bench) -> None:
    """Also while a fault delays it."""

    async def leave() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port)
        body = END_TXN.encode_request(0, COMMIT)
        head = struct.pack(">hhih", END_TXN.key, 0, 1, -1)
        writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        await asyncio.to_thread(delayed.wait_fired)
        assert [each.answer for each in bench.proxy.requests()] == [Answer.WAITING]
        writer.close()

    with bench.faults.delay("EndTxn", 60_000) as delayed:
        asyncio.run(leave())
        bench.proxy.close()
    assert [each.answer for each in bench.proxy.requests()] == [Answer.LOST]


@pytest.mark.parametrize("text", [b"\x16\x03\x01 a handshake of TLS", b"\0\0\0\7abc"], ids=["tls", "short"])
@pytest.mark.parametrize("after_a_frame", [False, True])
def test_what_is_not_kafkas_passes_as_bytes(bench: Bench, after_a_frame: bool, text: bytes) -> None:
    async def raw() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.proxy.port)
        if after_a_frame:  # then the proxy waits for the node's next frame already
            head = struct.pack(">hhih", API_VERSIONS.key, 0, 1, -1)
            writer.write(struct.pack(">i", len(head)) + head)
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)
        writer.write(text)
        found = await asyncio.wait_for(reader.readexactly(len(text)), 10)
        writer.close()
        return found

    assert asyncio.run(raw()) == text


def test_what_cannot_be_armed_says_what_can() -> None:
    faults = Faults(asked_here(Process()))
    with pytest.raises(ClusterFailed, match=r"no API is named 'Endtxn' \(is it EndTxn\?\); known are Pro"):
        faults.delay("Endtxn", 1)
    with pytest.raises(ClusterFailed, match="no error is named 'LOADING'"):
        faults.fail("EndTxn", "LOADING")
    with pytest.raises(ClusterFailed, match="match has no topics; it has client_id"):
        faults.drop_answer("Produce", match={"topics": "x"})
    with pytest.raises(ClusterFailed, match="times: expected 1 or more"):
        faults.disconnect("Produce", times=0)
    fault = faults.disconnect("Produce")
    with pytest.raises(ClusterFailed, match="not 1 times: disconnect"):
        fault.wait_fired(timeout_s=0)


def test_what_makes_no_sense_is_refused_and_nothing_is_armed() -> None:
    """Such as a code that Kafka does not have: the test means another fault."""
    process = Process()
    faults = Faults(asked_here(process))
    nonsense: Any = faults
    for code, said in (
        (9999, "they are -1, and 1 to 199"),
        (0, "no error of Kafka has the number 0"),
        ("NONE", "no error is named 'NONE'"),
        (-2, "the number -2"),
        (1.5, "no error is named 1.5"),
        (True, "no error is named True"),
        ("not_coordinator", r"is it NOT_COORDINATOR\?"),
    ):
        with pytest.raises(ClusterFailed, match=said):
            nonsense.fail("EndTxn", code)
    for ms in (-1, math.nan, math.inf, "1", None):
        with pytest.raises(ClusterFailed, match="ms: expected a number from 0 to 3600000, got"):
            nonsense.delay("Produce", ms)
    for times in ("1", 1.0, True, -1):
        with pytest.raises(ClusterFailed, match="times: expected 1 or more, or None, got"):
            nonsense.disconnect("Produce", times=times)
    for match, said in (
        ({"topic": 5}, "expected text for topic, got 5"),
        ("orders", "expected a mapping such as"),
    ):
        with pytest.raises(ClusterFailed, match=said):
            nonsense.disconnect("Produce", match=match)
    assert not process.proxy.armory.armed()
    for code in (16, "16", "NOT_COORDINATOR", ErrorCode.NOT_COORDINATOR):
        assert "fail(EndTxn, 16)" in str(faults.fail("EndTxn", code))
    assert "fail(EndTxn, 89)" in str(faults.fail("EndTxn", 89)), (
        "Kafka has it, and no node here answers with it"
    )


def test_who_waits_for_what_cannot_come_waits_not_at_all() -> None:
    faults = Faults(asked_here(Process()))
    once = faults.disconnect("Produce", times=1)
    with pytest.raises(ClusterFailed, match="times=1: it never fires 2 times"):
        once.wait_fired(2, timeout_s=3600)
    once.clear()
    with pytest.raises(ClusterFailed, match="cleared, it has fired not 1 times"):
        once.wait_fired(timeout_s=3600)
    for count, timeout_s in ((0, 1), (True, 1), (1, -1), (1, math.nan)):
        with pytest.raises(ClusterFailed, match="expected"):
            once.wait_fired(count, timeout_s=timeout_s)


def test_a_topic_is_matched_by_its_id_as_well() -> None:
    process, known = Process(), uuid.uuid4()
    armory, faults = process.proxy.armory, Faults(asked_here(process))
    faults.topic_id = lambda name: known if name == "orders" else None
    faults.disconnect("Fetch", match={"topic": "orders"})
    faults.disconnect("Fetch", match={"topic": "bills"})
    orders, bills = armory.of_key(1)
    for topic_id, fits in ((known, True), (uuid.uuid4(), False)):
        request = FetchedTopic(topic_id)
        assert (orders.fits("c", request), bills.fits("c", request)) == (fits, False)


def test_what_each_request_says_of_itself() -> None:
    assert facts(COMMIT) == {"transactional_id": {"app"}}
    assert {"Produce", "Fetch", "InitProducerId", "AddPartitionsToTxn"} <= {
        each.name for each in APIS.values()
    }
