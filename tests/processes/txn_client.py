"""A client of transactions by requests of the tests' own: one transactional id, any pair, V1 and V2.

Stored   what the coordinator wrote is read from the archived log of the node that leads, every field of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.records.readers import read_batch

from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.states import State
from fencepost.records.transaction_log import TopicPartitions, TransactionStateRecord, decode_transaction
from fencepost.records.types import ProducerId
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from tests.broker.batches import batch
from tests.harness.nodes import Nodes, wait_for
from tests.processes.leaps import leap
from tests.processes.test_transactions_v2 import AGAIN, RETRIED, connected, until

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

    def crash_until(self, epoch: int, *, keep: bool, two_phase: bool = True) -> None:
        """Instance after instance, until one has that epoch: all but the last one by a leap."""
        leap(self.nodes, epoch - 1, self.name)
        pair, _ = self.init(keep=keep, two_phase=two_phase)
        assert pair[1] == epoch

    def end(self, pair: Pair, *, committed: bool = True, v2: bool = True) -> Pair | None:
        """EndTxn; with V2 the next pair."""
        request = EndTxn(self.name, ProducerId(pair[0]), pair[1], committed, bumps_epoch=v2)
        answer = asyncio.run(self._coordinator(END_TXN, request))
        return None if answer is None else (answer.producer_id, answer.producer_epoch)

    def write(
        self, pair: Pair, value: bytes, partition: int = 0, sequence: int = 0, *, v2: bool = True
    ) -> int:
        """Produce, of V2 one that adds the partition; the code."""
        return asyncio.run(self._write(pair, value, partition, sequence, v2))

    def add(self, pair: Pair, *indexes: int) -> None:
        """AddPartitionsToTxn of V1. Fails unless all are added."""
        named = AddPartitions(
            self.name, ProducerId(pair[0]), pair[1], (TopicPartitions(self.topic, indexes),)
        )
        wait_for("the partitions are added", lambda: self._are_added(AddPartitionsToTxn((named,))))

    def _are_added(self, request: AddPartitionsToTxn) -> bool:
        ((_, answer),) = asyncio.run(self._coordinator(ADD_PARTITIONS_TO_TXN, request)).results
        codes = {code for _, rows in answer.errors for _, code in rows}
        assert codes <= {ErrorCode.NONE, *RETRIED}, answer
        return codes == {ErrorCode.NONE}

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
        return [each for each in records_in(folder) if each.transactional_id == self.name]

    def completed(self, state: str) -> Stored:
        """The record after the markers."""
        last: list[Stored] = []

        def look() -> bool:
            last[:] = [self.stored()]
            return last[0].state == state

        try:
            wait_for(state, look)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}; the last record is {last[0]}") from None
        return last[0]

    def _init(self, keep: bool, two_phase: bool, pair: Pair = NONE) -> InitProducerId:
        return InitProducerId(
            self.name,
            TIMEOUT_MS,
            ProducerId(pair[0]),
            pair[1],
            enables_two_phase=two_phase,
            keeps_prepared=keep,
        )

    async def _address(self) -> tuple[str, int]:
        found: list[tuple[str, int]] = []

        async def once() -> bool:
            request = FindCoordinator(TRANSACTION, (self.name,))
            async for answer in self._each(FIND_COORDINATOR, request):
                (where,) = answer.coordinators
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

    async def _each(self, api: Any, request: Any) -> AsyncIterator[Any]:
        """The answers of the nodes that are up, one node after the other."""
        for node_id in self.nodes.node_ids:
            with contextlib.suppress(*AGAIN):
                async with connected(self.nodes.address(node_id, "client")) as connection:
                    answer = await connection.call(api, request)
                yield answer

    async def _write(self, pair: Pair, value: bytes, partition: int, sequence: int, v2: bool) -> int:
        codes: list[int] = []
        records = batch(
            value,
            producer_id=pair[0],
            producer_epoch=pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        rows = (PartitionData(self.topic, partition, records),)
        request = Produce(self.name, -1, 30_000, rows, adds_partitions=v2)

        async def once() -> bool:
            async for answer in self._each(PRODUCE, request):
                (row,) = answer.partitions
                if row.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    codes.append(row.error_code)
                    return row.error_code not in RETRIED
            return False

        await until(f"{value!r} is answered", once)
        return codes[-1]


def records_in(folder: Path) -> Iterator[TransactionStateRecord]:
    """Each record of a log's segments but for tombstones."""
    for segment in sorted(folder.glob("*.log")):
        content, position = segment.read_bytes(), 0
        while position + 12 < len(content):
            size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
            if size <= 12 or position + size > len(content):
                return  # its end is being written
            yield from _records_of(content[position : position + size])
            position += size


def _records_of(batch: bytes) -> tuple[TransactionStateRecord, ...]:
    whole, _ = read_batch(batch, 0)
    found = (decode_transaction(record.key, record.value) for record in whole.records)
    return tuple(each for each in found if isinstance(each, TransactionStateRecord))


def client(nodes: Nodes, name: str, partitions: int = 2) -> Client:
    """With a topic of its own."""
    nodes.run("topics", "create", "--topic", f"t-{name}", "--partitions", partitions)
    return Client(nodes, name, f"t-{name}")


def read(which: Client, isolation: str = READ_COMMITTED) -> list[bytes]:
    """The values of its topic."""
    return sorted(
        each.value or b""
        for each in read_topic(which.nodes.bootstrap, which.topic, isolation, timeout_s=READ_S)
    )


def refused(code: ErrorCode, ask: Any, *arguments: Any, **named: Any) -> None:
    """The request is refused with that code."""
    with pytest.raises(ApiError) as raised:
        ask(*arguments, **named)
    assert raised.value.code == code


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
