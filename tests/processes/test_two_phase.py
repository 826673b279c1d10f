"""Two-phase commit on three nodes, by requests of our own: the proposal's examples, step by step, with kills.

What is stored is read from the archived log of the node that leads: each step's record, every field of it.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.records.readers import read_batch

from fencepost.client.read_back import READ_COMMITTED, READ_UNCOMMITTED, read_topic
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.states import State
from fencepost.records.transaction_log import TransactionStateRecord, decode_transaction
from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k26_end_txn import END_TXN
from tests.broker.batches import batch
from tests.harness.nodes import NO_QUOTA, Nodes, running, wait_for
from tests.processes.test_transactions_v2 import RETRIED, connected, restart_leader, until

pytestmark = pytest.mark.slow

MAX: Final = 32767
TOGETHER: Final = 100  # connections that bump one epoch together: one entry holds all their requests
TIMEOUT_MS: Final = 60_000
READ_S: Final = 60.0
TWO_PHASE: Final = "transaction.two.phase.commit.enable=true"
Pair = tuple[int, int]
NONE: Final = (-1, -1)


class Stored(NamedTuple):
    """The fields of the proposal's "TC STATE"."""

    state: str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    next_producer_id: int
    next_producer_epoch: int


class Client:
    """One transactional id, and requests about it. It presents the pair that it is given."""

    def __init__(self, nodes: Nodes, transactional_id: str, topic: str) -> None:
        self.nodes, self.name, self.topic = nodes, transactional_id, topic

    def init(self, *, keep: bool = False, two_phase: bool = True, pair: Pair = NONE) -> tuple[Pair, Pair]:
        """InitProducerId: the pair, and the ongoing one."""
        answer = asyncio.run(self._coordinator(INIT_PRODUCER_ID, self._init(keep, two_phase, pair)))
        pair = (answer.producer_id, answer.producer_epoch)
        return pair, (answer.ongoing_producer_id, answer.ongoing_producer_epoch)

    def crash_until(self, epoch: int, *, keep: bool) -> None:
        """Instance after instance, until one has that epoch. None of them looks at its answer."""
        asyncio.run(self._crash_until(epoch, keep))

    def end(self, pair: Pair, *, committed: bool = True, v2: bool = True) -> Pair | None:
        """EndTxn; with V2 the next pair."""
        request = EndTxn(self.name, ProducerId(pair[0]), pair[1], committed, bumps_epoch=v2)
        answer = asyncio.run(self._coordinator(END_TXN, request))
        return None if answer is None else (answer.producer_id, answer.producer_epoch)

    def write(self, pair: Pair, value: bytes, partition: int = 0, sequence: int = 0) -> int:
        """Produce of V2, which adds the partition; the code."""
        return asyncio.run(self._write(pair, value, partition, sequence))

    def stored(self) -> Stored:
        """The id's last record."""
        record = self.records()[-1]
        return Stored(
            State(record.status).wire_name,
            record.producer_id,
            record.producer_epoch,
            record.previous_producer_id,
            record.next_producer_id,
            record.next_producer_epoch,
        )

    def records(self) -> list[TransactionStateRecord]:
        """All that the archive of the node that leads holds of the id."""
        folder = self.nodes.home(self.nodes.leader()) / "archive" / "__transaction_state-0"
        found = (decode_transaction(*each) for each in pairs_in(folder))
        return [
            each
            for each in found
            if isinstance(each, TransactionStateRecord) and each.transactional_id == self.name
        ]

    def completed(self, state: str) -> Stored:
        """The record after the markers."""
        wait_for(state, lambda: self.stored().state == state)
        return self.stored()

    def _init(self, keep: bool, two_phase: bool, pair: Pair = NONE) -> InitProducerId:
        return InitProducerId(
            self.name,
            TIMEOUT_MS,
            ProducerId(pair[0]),
            pair[1],
            enables_two_phase=two_phase,
            keeps_prepared=keep,
        )

    async def _crash_until(self, epoch: int, keep: bool) -> None:
        address = await self._address()
        connections = [await Connection.open(*address) for _ in range(TOGETHER)]
        reached, request = -1, self._init(keep, True)
        try:
            while reached < epoch:
                some = connections[: 1 if reached < 0 else epoch - reached]
                answers = await asyncio.gather(*(each.call(INIT_PRODUCER_ID, request) for each in some))
                reached = max(each.producer_epoch for each in answers)
        finally:
            for each in connections:
                each.close()
        assert reached == epoch

    async def _address(self) -> tuple[str, int]:
        found: list[tuple[str, int]] = []

        async def once() -> bool:
            for node_id in self.nodes.node_ids:
                async with connected(self.nodes.address(node_id, "client")) as connection:
                    request = FindCoordinator(TRANSACTION, (self.name,))
                    (where,) = (await connection.call(FIND_COORDINATOR, request)).coordinators
                if where.port > 0:
                    found.append((where.host, where.port))
                    return True
            return False

        await until("the coordinator is found", once)
        return found[-1]

    async def _coordinator(self, api: Any, request: Any) -> Any:
        answers: list[Any] = []

        async def once() -> bool:
            async with connected(await self._address()) as connection:
                answers.append(await connection.call(api, request))
            return True

        await until(api.name, once)
        return answers[-1]

    async def _write(self, pair: Pair, value: bytes, partition: int, sequence: int) -> int:
        codes: list[int] = []
        records = batch(
            value,
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        rows = (PartitionData(self.topic, partition, records),)
        request = Produce(self.name, -1, 30_000, rows, adds_partitions=True)

        async def once() -> bool:
            for node_id in self.nodes.node_ids:
                async with connected(self.nodes.address(node_id, "client")) as connection:
                    (row,) = (await connection.call(PRODUCE, request)).partitions
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    codes.append(row.error_code)
                    return row.error_code not in RETRIED
            return False

        await until(f"{value!r} is answered", once)
        return codes[-1]


def pairs_in(folder: Path) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of each record of a log's segments."""
    for segment in sorted(folder.glob("*.log")):
        content, position = segment.read_bytes(), 0
        while position + 12 < len(content):
            size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
            if size <= 12 or position + size > len(content):
                return  # its end is being written
            whole, _ = read_batch(content[position : position + size], 0)
            for record in whole.records:
                yield record.key, record.value
            position += size


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("two-phase") / "cluster", NO_QUOTA, TWO_PHASE) as nodes:
        yield nodes


def client(nodes: Nodes, name: str) -> Client:
    nodes.run("topics", "create", "--topic", f"t-{name}", "--partitions", 2)
    return Client(nodes, name, f"t-{name}")


def read(which: Client, isolation: str = READ_COMMITTED) -> list[bytes]:
    return sorted(
        each.value or b""
        for each in read_topic(which.nodes.bootstrap, which.topic, isolation, timeout_s=READ_S)
    )


def refused(code: ErrorCode, ask: Any, *arguments: Any, **named: Any) -> None:
    with pytest.raises(ApiError) as raised:
        ask(*arguments, **named)
    assert raised.value.code == code


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

    third = producer.end((second, MAX - 1))  # 9
    assert third is not None
    assert third[1] == 0
    assert len({first, second, third[0]}) == 3
    assert Stored("PrepareCommit", first, MAX, second, *third) in transitions(producer)
    assert producer.completed("CompleteCommit") == ("CompleteCommit", *third, second, -1, -1)  # 10
    restart_leader(nodes)
    assert producer.end((second, MAX - 1)) == third, "a retry, of another coordinator"
    assert producer.write(third, b"next") == 0
    assert producer.end(third, committed=False) == (third[0], 1)
    assert read(producer) == [b"prepared"]
    assert read(producer, READ_UNCOMMITTED) == [b"next", b"prepared"]


def transitions(producer: Client) -> list[Stored]:
    """Every record of the id, by the fields of the proposal."""
    return [
        Stored(
            State(each.status).wire_name,
            each.producer_id,
            each.producer_epoch,
            each.previous_producer_id,
            each.next_producer_id,
            each.next_producer_epoch,
        )
        for each in producer.records()
    ]


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
