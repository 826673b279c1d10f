"""A client of librdkafka reads a partition with 20,000 aborted transactions to its end, at read_committed."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.controller.errors import ErrorCode
from fencepost.records.batch import encode_batch
from fencepost.wire.connection import Connection
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC = "aborted"
ROUNDS = 20
AT_ONCE = 1_000  # transactions in one request
FIRST_ID = 1 << 40  # no coordinator's
SECONDS = 60.0
STALL_MS = 50.0
UNVERIFIED = "transaction.partition.verification.enable=false"
METRIC = 'fencepost_loop_stall_ms{work="'


def in_transaction(producer_id: int, now_ms: int) -> bytes:
    return encode_batch(
        [(None, b"aborted", ())],
        timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def committed(number: int) -> bytes:
    return b"committed %d" % number


async def write(address: tuple[str, int]) -> None:
    """ROUNDS times AT_ONCE transactions and a record that is in none; at the end all of them are aborted."""
    connection = await Connection.open(*address)
    ids = range(FIRST_ID, FIRST_ID + ROUNDS * AT_ONCE)
    try:
        for number in range(ROUNDS):
            now_ms = time.time_ns() // 1_000_000
            some = ids[number * AT_ONCE : (number + 1) * AT_ONCE]
            batches = [in_transaction(each, now_ms) for each in some]
            batches.append(encode_batch([(None, committed(number), ())], timestamp_ms=now_ms))
            rows = tuple(PartitionData(TOPIC, 0, each) for each in batches)
            produced = await connection.call(PRODUCE, Produce("id", -1, 30_000, rows), timeout_s=SECONDS)
            assert {each.error_code for each in produced.partitions} == {ErrorCode.NONE}
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            markers = tuple(TxnMarker(each, 0, False, ((TOPIC, (0,)),), 0) for each in some)
            ended = await connection.call(WRITE_TXN_MARKERS, WriteTxnMarkers(markers), timeout_s=SECONDS)
            codes = {code for _, topics in ended.markers for _, rows in topics for _, code in rows}
            assert codes == {ErrorCode.NONE}
    finally:
        connection.close()


def read_to_the_end(bootstrap: str, end: int) -> tuple[list[bytes], int]:
    """What a read_committed consumer sees, and how many bytes it received meanwhile."""
    received: list[int] = []

    def note(statistics: str) -> None:
        received.append(json.loads(statistics)["rx_bytes"])

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "message.max.bytes": 20_000,
        "fetch.max.bytes": 20_000,  # some hundred batches in each of some hundred fetches
        "max.partition.fetch.bytes": 20_000,
        "queued.min.messages": 1,
        "statistics.interval.ms": 100,
        "stats_cb": note,
        "log_level": 0,
    }
    consumer = Consumer(config)
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + SECONDS
        while True:
            assert time.monotonic() < deadline, f"it is at {consumer.position([TopicPartition(TOPIC, 0)])}"
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                values.append(value)
            elif len(values) == ROUNDS and received:
                assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), cached=True)[1] == end
                return values, max(received)
    finally:
        consumer.close()


def stalls(nodes: Nodes) -> dict[str, float]:
    return {name.removeprefix(METRIC): ms for name, ms in nodes.metrics(1).items() if name.startswith(METRIC)}


def test_20_000_aborted_transactions_are_read_to_the_end(tmp_path: Path) -> None:
    with running(tmp_path / "one", UNVERIFIED, count=1) as nodes:
        nodes.run("topics", "create", "--topic", TOPIC)
        address = nodes.address(1, "client")
        wait_for(
            "the partition", lambda: "leader" in nodes.run("topics", "describe", "--topic", TOPIC).lower()
        )
        asyncio.run(write(address))
        end = ROUNDS * (2 * AT_ONCE + 1)
        values, received = read_to_the_end(nodes.bootstrap, end)
        assert values == [committed(number) for number in range(ROUNDS)]
        (log,) = nodes.home(1).rglob(f"{TOPIC}-0/*.log")
        assert received < 2 * log.stat().st_size, (
            "each aborted transaction is named a few times, not in each fetch"
        )
        found = stalls(nodes)
        assert "WriteTxnMarkers" in found
        assert {work: ms for work, ms in found.items() if ms >= STALL_MS} == {}
