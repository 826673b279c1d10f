"""Whose markers nodes believe, and what an operator sees and does where one is refused; from outside."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.controller.errors import ErrorCode
from fencepost.records.types import NodeId
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Api
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers
from tests.broker.batches import batch
from tests.harness.nodes import Nodes, running, wait_for
from tests.processes.raw_client import RawClient

pytestmark = pytest.mark.slow

SECONDS = 60.0
STRANGERS_EPOCH = 7
UNVERIFIED = "transaction.partition.verification.enable=false"


def ask(address: tuple[str, int], api: Api[Any, Any], request: Any) -> Any:
    """One request of a client that proves nothing."""

    async def once() -> Any:
        connection = await Connection.open(*address)
        try:
            return await connection.call(api, request)
        finally:
            connection.close()

    return asyncio.run(once())


def producer(nodes: Nodes, transactional_id: str) -> Producer:
    made = Producer(
        {"bootstrap.servers": nodes.cluster.bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    made.init_transactions(SECONDS)
    return made


def write(producer: Producer, topic: str, value: bytes, *partitions: int) -> None:
    for partition in partitions:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS) == 0


def committed(nodes: Nodes, topic: str) -> list[bytes]:
    """What a read_committed consumer sees; it must get to the end."""
    read = read_topic(nodes.cluster.bootstrap, topic, READ_COMMITTED, timeout_s=SECONDS)
    return sorted(each.value for each in read)


def partition_leaders(nodes: Nodes, topic: str) -> dict[int, NodeId]:
    """Node ids by partition, of those that are led."""
    (described,) = nodes.read("topics", "describe", "--topic", topic)
    rows = described["partitions"]
    return {each["partition"]: NodeId(each["leader"]) for each in rows if each["leader"] is not None}


def open_producers(address: tuple[str, int], topic: str, index: int) -> dict[int, int]:
    """Epoch by id of the producers that have a transaction open there."""
    (row,) = ask(address, DESCRIBE_PRODUCERS, DescribeProducers(((topic, (index,)),))).partitions
    return {
        each.producer_id: each.producer_epoch for each in row.producers if each.current_txn_start_offset >= 0
    }


def code_of(answer: Any) -> ErrorCode:
    ((_, ((_, ((_, code),)),)),) = answer.markers
    return ErrorCode(code)


def attack(producer_id: int, epoch: int, topic: str, image_version: int) -> bytes:
    """WriteTxnMarkers v1 as bytes, with one tag."""
    header = struct.pack(">hhi", 27, 1, 1) + b"\xff\xff" + b"\0"
    named = topic.encode()
    marker = (
        struct.pack(">qh?", producer_id, epoch, True)
        + b"\2" + bytes((len(named) + 1,)) + named + b"\2" + struct.pack(">i", 0) + b"\0"
        + struct.pack(">i", 0)
        + b"\1\xe8\x07\x08" + struct.pack(">q", image_version)
    )  # fmt: skip
    body = header + b"\2" + marker + b"\0"
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("image_version", [2**63 - 1, 2**53, 10**6, -1], ids="version{}".format)
def test_a_small_request_of_anybody_hides_no_later_commit(nodes: Nodes, image_version: int) -> None:
    topic = f"hidden{image_version % 997}"
    nodes.run("topics", "create", "--topic", topic)
    leader = wait_for("a leader", lambda: partition_leaders(nodes, topic).get(0))
    address = nodes.address(leader, "client")
    writing = producer(nodes, topic)
    writing.begin_transaction()
    write(writing, topic, b"first", 0)
    ((producer_id, epoch),) = wait_for("an open one", lambda: open_producers(address, topic, 0)).items()
    writing.commit_transaction(SECONDS)
    wait_for("its end", lambda: not open_producers(address, topic, 0))
    request = attack(producer_id, epoch, topic, image_version)
    with RawClient(address) as client:
        client.socket.sendall(request)
        (size,) = struct.unpack(">i", client._exactly(4))
        client._exactly(size)
    for value in (b"second", b"third"):
        writing.begin_transaction()
        write(writing, topic, value, 0)
        writing.commit_transaction(SECONDS)
    assert committed(nodes, topic) == [b"first", b"second", b"third"]
    assert nodes.complaints() == []


def test_by_hand_no_transaction_is_ended_that_the_coordinator_has_open(nodes: Nodes) -> None:
    topic = "by-hand"
    nodes.run("topics", "create", "--topic", topic)
    leader = wait_for("a leader", lambda: partition_leaders(nodes, topic).get(0))
    address = nodes.address(leader, "client")
    writing = producer(nodes, topic)
    writing.begin_transaction()
    write(writing, topic, b"kept", 0)
    ((producer_id, epoch),) = wait_for("an open one", lambda: open_producers(address, topic, 0)).items()
    for committing in (False, True):
        for ahead in (0, 3):
            marker = TxnMarker(producer_id, epoch + ahead, committing, ((topic, (0,)),), 2**31 - 1)
            assert code_of(ask(address, WRITE_TXN_MARKERS, WriteTxnMarkers((marker,)))) == (
                ErrorCode.INVALID_TXN_STATE
            )
    refused = nodes.run(
        "transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", status=1
    )
    assert refused == ""
    writing.commit_transaction(SECONDS)
    assert committed(nodes, topic) == [b"kept"]


def test_a_wedged_transaction_is_seen_survives_leaders_and_ends_as_it_was_decided(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", UNVERIFIED) as nodes:
        nodes.run("topics", "create", "--topic", "t", "--partitions", "3")
        leaders = wait_for("leaders", lambda: all_led(partition_leaders(nodes, "t")))
        quorum_leader = nodes.await_followed()
        wedged, free = (index for index, leader in sorted(leaders.items()) if leader != quorum_leader)
        address = nodes.address(leaders[wedged], "client")
        writing = producer(nodes, "victim")
        writing.begin_transaction()
        write(writing, "t", b"kept", wedged, free)
        ((producer_id, _),) = wait_for("an open one", lambda: open_producers(address, "t", wedged)).items()
        stray = batch(
            b"stray",
            producer_id=producer_id,
            producer_epoch=STRANGERS_EPOCH,
            base_sequence=0,
            transactional=True,
        )
        sent = Produce("stranger", -1, 5_000, (PartitionData("t", wedged, stray),))
        (row,) = ask(address, PRODUCE, sent).partitions
        assert row.error_code == ErrorCode.NONE, "without verification it is let in"
        writing.commit_transaction(SECONDS)

        assert_wedged(nodes, wedged, free)
        by_hand = ("abort", "--topic", "t", "--partition", str(wedged), "--start-offset", "0")
        nodes.run("transactions", *by_hand, status=1)
        nodes.kill(quorum_leader)
        assert_described(nodes, wedged)
        nodes.start(quorum_leader)
        nodes.await_followed()
        assert_wedged(nodes, wedged, free)
        done = nodes.read("transactions", "force-terminate", "--transactional-id", "victim")
        assert done["transaction_state"] == "PrepareCommit"
        assert nodes.read("transactions", "find-hanging") == {"hanging": [], "set_aside": []}
        assert nodes.read("health")["set_aside"] == 0
        assert committed(nodes, "t") == [b"kept", b"kept", b"stray"]


def all_led(leaders: dict[int, NodeId]) -> dict[int, NodeId] | None:
    return leaders if len(leaders) == 3 else None


def assert_described(nodes: Nodes, wedged: int) -> None:
    """``describe`` and ``health`` say so, of that partition alone."""

    def look() -> dict[str, Any] | None:
        described: dict[str, Any] = nodes.read("transactions", "describe", "--transactional-id", "victim")
        return described if described["set_aside"] else None

    described = wait_for("it is wedged", look)
    assert described["transaction_state"] == "PrepareCommit"
    wait_for(
        "the other partition has its marker",
        lambda: (
            nodes.read("transactions", "describe", "--transactional-id", "victim")["topic_partitions"]
            == [f"t-{wedged}"]
        ),
    )
    (row,) = described["set_aside"]
    assert (row["kind"], row["topic"], row["partition"], row["error_code"]) == ("wedged", "t", wedged, 47)
    assert row["since_ms"] > 0
    assert "INVALID_PRODUCER_EPOCH" in row["reason"]
    assert "being written" not in described["explanation"]
    assert f"t-{wedged} (error 47" in described["explanation"]
    assert "marker of victim on t-" in nodes.run("health")
    assert [each["partition"] for each in nodes.read("health")["set_aside_rows"]] == [wedged]


def assert_wedged(nodes: Nodes, wedged: int, free: int) -> None:
    """So do ``find-hanging`` and the metric."""
    assert_described(nodes, wedged)
    found = nodes.read("transactions", "find-hanging", status=1)["set_aside"]
    assert [(each["kind"], each["key"], each["partition"]) for each in found] == [
        ("wedged", "victim", wedged)
    ]
    leader = nodes.leader()
    metric = 'fencepost_set_aside{kind="wedged'
    wait_for("the leader's metric", lambda: nodes.metrics(leader)[metric] == 1)
    assert open_producers(nodes.address(partition_leaders(nodes, "t")[free], "client"), "t", free) == {}
