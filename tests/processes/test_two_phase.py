"""Two-phase commit on three nodes, by requests of our own: the proposal's examples, step by step, with kills.

What is stored is read from the archived log of the node that leads: each step's record, every field of it.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import pytest

from fencepost.client.read_back import READ_UNCOMMITTED
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.states import State
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from tests.harness.nodes import NO_QUOTA, Nodes, running
from tests.processes.test_markers import partition_leaders
from tests.processes.test_transactions_v2 import restart_leader
from tests.processes.txn_client import (
    NONE,
    TWO_PHASE,
    Stored,
    client,
    read,
    refused,
    transitions,
)

pytestmark = pytest.mark.slow

MAX: Final = 32767


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("two-phase") / "cluster", NO_QUOTA, TWO_PHASE) as nodes:
        yield nodes


@pytest.mark.row("939.3")
@pytest.mark.row("939.5")
def test_the_proposals_first_example(nodes: Nodes) -> None:
    producer = client(nodes, "first")
    (first, _), _ = producer.init(two_phase=False)
    producer.crash_until(MAX - 2, keep=False)
    restart_leader(nodes)

    assert producer.init(two_phase=False) == ((first, MAX - 1), NONE)  # 1
    assert producer.stored() == ("Empty", first, MAX - 1, -1, -1, -1)
    assert producer.write((first, MAX - 1), b"one") == 0  # 2
    assert producer.stored() == ("Ongoing", first, MAX - 1, -1, -1, -1)
    following = producer.end((first, MAX - 1))  # 3
    assert following is not None
    assert following[0] != first
    assert following[1] == 0
    assert Stored("PrepareCommit", first, MAX, -1, *following) in transitions(producer)
    assert producer.completed("CompleteCommit") == ("CompleteCommit", *following, first, -1, -1)  # 4
    restart_leader(nodes)
    assert producer.end((first, MAX - 1)) == following, "a retry, of another coordinator"
    refused(ErrorCode.PRODUCER_FENCED, producer.end, (first, MAX - 2))
    assert producer.write(following, b"two") == 0
    assert producer.end(following) == (following[0], 1)
    assert read(producer) == [b"one", b"two"]


@pytest.mark.row("939.4")
@pytest.mark.row("939.1")
def test_the_proposals_second_example(nodes: Nodes) -> None:
    producer = client(nodes, "second")
    (first, _), _ = producer.init()
    producer.crash_until(MAX - 2, keep=False)

    assert producer.init() == ((first, MAX - 1), NONE)  # 1
    assert producer.stored() == ("Empty", first, MAX - 1, -1, -1, -1)
    begun = (first, MAX - 1)
    assert producer.write(begun, b"prepared") == 0  # 2
    assert producer.stored() == ("Ongoing", *begun, -1, -1, -1)
    # 3. the client prepares, and crashes
    (second, epoch), ongoing = producer.init(keep=True)  # 4
    assert (epoch, ongoing) == (0, begun)
    assert producer.stored() == ("Ongoing", *begun, -1, second, 0)
    restart_leader(nodes)  # 5. so does the coordinator
    assert producer.init(keep=True) == ((second, 1), begun)  # 6
    assert producer.stored() == ("Ongoing", *begun, -1, second, 1)
    producer.crash_until(MAX - 2, keep=True)  # 7
    assert producer.init(keep=True) == ((second, MAX - 1), begun)  # 8
    assert producer.stored() == ("Ongoing", *begun, -1, second, MAX - 1)

    for fenced in (begun, (first, MAX), (second, MAX - 2), (second, MAX)):
        refused(ErrorCode.PRODUCER_FENCED, producer.end, fenced)
        refused(ErrorCode.PRODUCER_FENCED, producer.end, fenced, committed=False, v2=False)
        refused(ErrorCode.PRODUCER_FENCED, producer.init, pair=fenced, two_phase=False)
    assert producer.write(begun, b"late", partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.write((second, MAX - 1), b"early", partition=1) == ErrorCode.INVALID_TXN_STATE
    assert producer.write((second, MAX - 1), b"early") == ErrorCode.INVALID_TXN_STATE
    refused(ErrorCode.INVALID_REQUEST, producer.init, keep=True, pair=(second, MAX - 1))

    (row,) = nodes.read("transactions", "list", "--two-phase")
    assert (row["transactional_id"], row["transaction_state"], row["is_kept"]) == (
        producer.name,
        "Ongoing",
        True,
    )
    assert row["two_phase_open_ms"] > 0
    with host_killed(nodes, producer.topic):
        third = producer.end((second, MAX - 1))  # 9
        assert third is not None
        assert third[1] == 0
        assert len({first, second, third[0]}) == 3
        require_described(nodes, producer.name, first, second, third[0])
    assert Stored("PrepareCommit", first, MAX, second, *third) in transitions(producer)
    assert producer.completed("CompleteCommit") == ("CompleteCommit", *third, second, -1, -1)  # 10
    restart_leader(nodes)
    assert producer.end((second, MAX - 1)) == third, "a retry, of another coordinator"
    assert producer.write(third, b"next") == 0
    assert producer.end(third, committed=False) == (third[0], 1)
    assert read(producer) == [b"prepared"]
    assert read(producer, READ_UNCOMMITTED) == [b"next", b"prepared"]


@contextlib.contextmanager
def host_killed(nodes: Nodes, topic: str) -> Iterator[None]:
    """No marker is written to the topic's partition 0: its host, which is no coordinator, is killed."""
    host = partition_leaders(nodes, topic)[0]
    while nodes.leader() == host:
        restart_leader(nodes)
    nodes.kill(host)
    try:
        yield
    finally:
        nodes.start(host)
        nodes.await_followed()


def require_described(nodes: Nodes, name: str, first: int, second: int, third: int) -> None:
    """The operator sees all three producer ids of what is in PrepareCommit."""
    which = ("transactions", "describe", "--transactional-id", name)
    said = (
        f"markers of producer {first}, epoch {MAX} are being written to 1 partition; it was ended with "
        f"producer id {second}; its next transaction has producer id {third}, epoch 0."
    )
    document = nodes.read(*which)
    assert (document["transaction_state"], document["producer_id"], document["producer_epoch"]) == (
        "PrepareCommit",
        first,
        MAX,
    )
    assert document["topic_partitions"] == [f"t-{name}-0"]
    assert document["explanation"].endswith(said)
    assert any(line.endswith(said) for line in nodes.run(*which).splitlines())


@pytest.mark.row("939.6")
def test_what_is_prepared_outlives_timeouts_and_leaders_and_is_terminated_by_force(nodes: Nodes) -> None:
    producer, other = client(nodes, "third"), client(nodes, "fourth")
    pair, _ = producer.init()
    assert producer.write(pair, b"prepared") == 0
    late = asyncio.run(
        other._coordinator(INIT_PRODUCER_ID, InitProducerId(other.name, 500))  # of half a second
    )
    assert other.write((late.producer_id, late.producer_epoch), b"late") == 0
    other.completed("CompleteAbort")
    restart_leader(nodes)
    assert producer.stored().state == "Ongoing"
    kept, ongoing = producer.init(keep=True, two_phase=False)
    assert (kept, ongoing) == ((pair[0], pair[1] + 1), pair)
    assert producer.records()[-1].transaction_timeout_ms == 2**31 - 1, "it was begun without a timeout"

    nodes.run("transactions", "force-terminate", "--transactional-id", producer.name)
    aborted = producer.records()
    assert [each.producer_epoch for each in aborted if each.status == State.PREPARE_ABORT] == [pair[1] + 1]
    refused(ErrorCode.PRODUCER_FENCED, producer.end, kept)
    assert read(producer) == []


@pytest.mark.parametrize("v2", [True, False], ids=["v2", "v1"])
def test_the_feature_is_lowered_while_a_transaction_is_kept(nodes: Nodes, v2: bool) -> None:
    """Clients of either protocol end what is kept; a downgrade in between loses nothing."""
    producer = client(nodes, f"lowered-{v2}")
    pair, _ = producer.init()
    assert producer.write(pair, b"prepared") == 0
    kept, _ = producer.init(keep=True)
    nodes.run("features", "downgrade", "--feature", "transaction.version=0")
    restart_leader(nodes)
    again, ongoing = producer.init(keep=True)
    assert (again, ongoing) == ((kept[0], kept[1] + 1), pair)
    following = producer.end(again, v2=v2)
    assert following == ((again[0], again[1] + 1) if v2 else None)
    assert producer.completed("CompleteCommit")[1:3] == (following or again)
    assert producer.write(following or again, b"more") == 0
    producer.end(following or again, v2=v2)
    assert read(producer) == [b"more", b"prepared"]
    nodes.run("features", "upgrade", "--feature", "transaction.version=2")
