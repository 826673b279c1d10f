"""Produce where it differs from all other APIs: answers that are not sent, versions only advertised."""

import asyncio
import struct
from typing import Any, cast

import pytest

from fencepost.controller.errors import ErrorCode, NotController
from fencepost.wire.cursor import VIEW_BYTES_MIN
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k00_produce import PRODUCE, PartitionData, PartitionProduced, Produce, ProduceAnswer
from fencepost.wire.k18_api_versions import ApiRange
from fencepost.wire.listener import Listener
from fencepost.wire.server_connection import ServerConnection
from tests.together import table
from tests.wire.stage import capturing_log, framed
from tests.wire.test_listener import Clock, Wire


@pytest.mark.parametrize(("size", "is_copied"), [(VIEW_BYTES_MIN - 1, True), (VIEW_BYTES_MIN, False)])
def test_large_records_are_not_copied_out_of_their_frame(size: int, is_copied: bool) -> None:
    """They are checked in slices: a copy of 80 MB, all at once, would take 45 ms."""
    sent = Produce(None, 1, 0, (PartitionData("orders", 0, bytes(size - 1) + b"x"),))
    frame = bytearray(PRODUCE.encode_request(11, sent))
    body = memoryview(frame).toreadonly()
    records = PRODUCE.decode_request(11, body).partitions[0].records
    assert records == sent.partitions[0].records
    assert isinstance(records, bytes) is is_copied
    assert is_copied or (isinstance(records, memoryview) and records.obj is frame)


class Log:
    """An endpoint that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Produce] = []
        self.replies: list[Reply[Any]] = []

    def __call__(self, request: Produce, context: Context, reply: Reply[Any]) -> None:
        self.asked.append(request)
        self.replies.append(reply)


class Stage:
    """A listener that serves Produce, with one connection."""

    def __init__(self) -> None:
        log, self.events = capturing_log()
        self.log = Log()
        self.listener = Listener({0: (PRODUCE, self.log)}, name="PLAINTEXT", log=log)
        self.clock, self.wire = Clock(), Wire()
        self.connection = ServerConnection(self.listener, cast(asyncio.AbstractEventLoop, self.clock))
        self.connection.connection_made(cast(asyncio.Transport, self.wire))

    def produce(self, correlation_id: int, acks: int, version: int = 7) -> None:
        request = Produce(None, acks, 1000, (PartitionData("orders", 0, b"batch"),))
        body = PRODUCE.encode_request(version, request)
        frame = framed(0, version, body, correlation_id=correlation_id, flexible=version >= 9)
        self.connection.data_received(frame)


DONE = ProduceAnswer((PartitionProduced("orders", 0, base_offset=5),))
FAILED = ProduceAnswer((PartitionProduced("orders", 0), PartitionProduced("orders", 1, 6)))


@pytest.mark.parametrize("version", [7, 11])
def test_acks_0_is_answered_by_silence_and_the_next_request_is_served(version: int) -> None:
    stage = Stage()
    stage.produce(1, 0, version)
    stage.produce(2, 1, version)
    assert len(stage.log.asked) == 1
    stage.log.replies[0](DONE)
    assert stage.wire.written == []
    assert [request.acks for request in stage.log.asked] == [0, 1]
    stage.log.replies[1](DONE)
    assert stage.wire.correlation_ids == [2]


def test_a_throttle_mutes_without_an_answer_too() -> None:
    stage = Stage()
    stage.produce(1, 0)
    stage.produce(2, 0)
    stage.log.replies[0](DONE, 30)
    assert (stage.wire.reading, len(stage.log.asked)) == (False, 1)
    assert stage.clock.fire() == 0.030
    assert (stage.wire.reading, len(stage.log.asked)) == (True, 2)


@table(
    ("outcome", "reason"),
    [
        pytest.param(FAILED, "orders-1: error 6", id="one-partition"),
        pytest.param(NotController("ask node 2"), "ask node 2", id="the-whole"),
    ],
)
@table(("acks", "closes"), [(0, True), (1, False), (-1, False)])
def test_acks_0_that_failed_closes_the_connection(
    outcome: ProduceAnswer, reason: str, acks: int, closes: bool
) -> None:
    stage = Stage()
    stage.produce(1, acks)
    stage.log.replies[0](outcome)
    assert stage.wire.closed == closes
    assert stage.wire.correlation_ids == ([] if closes else [1])
    assert [event["reason"] for event in stage.events] == (
        [f"Produce without an answer failed: {reason}"] if closes else []
    )


def test_versions_from_0_on_are_advertised() -> None:
    assert Stage().listener.api_versions().apis[0] == ApiRange(0, 0, 12)


ROW = b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\1" + struct.pack(">ihq", 3, ErrorCode.UNSUPPORTED_VERSION, -1)


@table(
    ("version", "answer"),
    [
        pytest.param(0, ROW, id="v0"),
        pytest.param(1, ROW + bytes(4), id="v1-throttle"),
        pytest.param(2, ROW + b"\xff" * 8 + bytes(4), id="v2-log-append-time"),
    ],
)
@table("acks", [1, 0])
def test_versions_below_3_are_refused(version: int, answer: bytes, acks: int) -> None:
    """Kafka's layout of these, which kio no longer has: no transactional id before version 3."""
    stage = Stage()
    body = struct.pack(">hi", acks, 1000) + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\1"
    body += struct.pack(">ii", 3, 5) + b"batch"
    stage.connection.data_received(framed(0, version, body, flexible=False))
    assert stage.log.asked == []
    assert [written[8:] for written in stage.wire.written] == ([answer] if acks else [])
    assert stage.wire.closed == (acks == 0)
