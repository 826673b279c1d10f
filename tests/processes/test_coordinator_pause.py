"""A coordinator stands still while another takes over: what clients had sent to it is answered, all of it.

What does not need it goes on: batches of open transactions, and plain ones, on the other nodes' partitions.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.types import NodeId, ProducerId
from fencepost.wire.client import Connection, ConnectionLost
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from tests.broker.batches import batch
from tests.harness.nodes import Nodes, wait_for
from tests.processes.test_markers import partition_leaders
from tests.processes.test_transactions_v2 import RETRIED, connected, until

pytestmark = pytest.mark.slow

TOPIC = "flowing"
BATCHES = 3  # that each producer has answered by the time another node leads: else none is
GROUP = "paused"
TRANSACTIONAL_ID = "paused"
MEMBER = "m"
PRODUCER = (ProducerId(1), 0)
OFFSETS = (OffsetToCommit("t", 0, 1),)
ANSWER_SECONDS_MAX = 20.0  # a request's own waits end after 3 s, or with the leadership
MOVED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
JOIN = JoinGroup(GROUP, 10_000, 10_000, "", "consumer", (("range", b""),), "static")
REQUESTS: list[tuple[Any, Any]] = [
    (JOIN_GROUP, JOIN),
    (SYNC_GROUP, SyncGroup(GROUP, 1, MEMBER)),
    (HEARTBEAT, HeartbeatGroup(GROUP, 1, MEMBER)),
    (LEAVE_GROUP, LeaveGroup(GROUP, (Leaver(MEMBER),))),
    (OFFSET_COMMIT, CommitOffsets(GROUP, OFFSETS, Identity(MEMBER, None, 1))),
    (OFFSET_FETCH, FetchOffsets((GroupQuery(GROUP),))),
    (INIT_PRODUCER_ID, InitProducerId(TRANSACTIONAL_ID, 10_000)),
    (ADD_OFFSETS_TO_TXN, AddOffsets(TRANSACTIONAL_ID, *PRODUCER, GROUP)),
    (TXN_OFFSET_COMMIT, CommitTransactionOffsets(TRANSACTIONAL_ID, GROUP, *PRODUCER, OFFSETS)),
    (END_TXN, EndTxn(TRANSACTIONAL_ID, *PRODUCER, committed=True)),
]


def test_a_coordinator_that_wakes_up_answers_all_that_waited_for_it(nodes: Nodes) -> None:
    """A client may wait without end for an answer on a connection that stands."""
    codes = asyncio.run(ask_while_paused(nodes, nodes.await_followed()))
    assert codes.pop(OFFSET_FETCH.name) == set()  # closed: see k09_offset_fetch.py
    assert codes.pop("parked") <= {*MOVED, ErrorCode.NONE}  # answered before the pause, or after it
    assert {name: each for name, each in codes.items() if not each or not each <= MOVED} == {}
    assert len(codes) == len(REQUESTS) - 1


async def ask_while_paused(nodes: Nodes, leader: int) -> dict[str, set[ErrorCode]]:
    """The codes of each answer of a leader that another one has followed by the time it goes on."""
    async with contextlib.AsyncExitStack() as stack:
        connections = [await Connection.open(*nodes.address(leader, "client")) for _ in (JOIN, *REQUESTS)]
        for each in connections:
            stack.callback(each.close)
        parked = asyncio.create_task(codes_of(connections.pop(), JOIN_GROUP, JOIN))
        await asyncio.sleep(0)  # it is written: parked for the initial delay, or waits with the others
        nodes.send(leader, signal.SIGSTOP)
        try:
            asked = [codes_of(each, *ask) for each, ask in zip(connections, REQUESTS, strict=True)]
            answers = asyncio.gather(*asked)
            await asyncio.sleep(0)  # they are written
            await asyncio.to_thread(wait_for, "another node leads", is_followed(nodes, leader))
        finally:
            nodes.send(leader, signal.SIGCONT)
        names = [api.name for api, _ in REQUESTS]
        return {"parked": await parked, **dict(zip(names, await answers, strict=True))}


def is_followed(nodes: Nodes, leader: int) -> Callable[[], bool]:
    others = [each for each in nodes.node_ids if each != leader]
    return lambda: any(nodes.metrics(each)["role.leader"] == 1 for each in others)


async def codes_of(connection: Connection, api: Any, request: Any) -> set[ErrorCode]:
    """Empty if the connection was closed. Raises RequestTimeout if it stands without an answer."""
    try:
        answer = await connection.call(api, request, timeout_s=ANSWER_SECONDS_MAX)
    except ApiError as error:
        return {error.code}
    except ConnectionLost:
        return set()
    has_rows = api in (OFFSET_COMMIT, TXN_OFFSET_COMMIT)
    return {each.code for each in answer.rows} if has_rows else {ErrorCode.NONE}


def test_open_transactions_and_plain_batches_go_on_while_it_is_stopped(nodes: Nodes) -> None:
    nodes.run("topics", "create", "--topic", TOPIC, "--partitions", 3)
    coordinator = nodes.await_followed()
    hosts = {index: host for index, host in partition_leaders(nodes, TOPIC).items() if host != coordinator}
    assert len(set(hosts.values())) == 2
    asyncio.run(write_while_stopped(nodes, coordinator, hosts))


async def write_while_stopped(nodes: Nodes, coordinator: int, hosts: dict[int, NodeId]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        writers = []
        for index, host in hosts.items():
            for transactional_id in (f"flowing-{index}", None):
                async with connected(nodes.address(coordinator, "client")) as connection:
                    pair = await connection.call(INIT_PRODUCER_ID, InitProducerId(transactional_id, 60_000))
                connection = await stack.enter_async_context(connected(nodes.address(host, "client")))
                writers.append(Writer(connection, transactional_id, pair, index))
        await asyncio.gather(*(each.write(1) for each in writers))  # the partitions are in their transactions
        nodes.send(coordinator, signal.SIGSTOP)
        try:
            led = asyncio.create_task(
                asyncio.to_thread(wait_for, "another leads", is_followed(nodes, coordinator))
            )
            answered = await asyncio.gather(*(each.write_until(led) for each in writers))
            await asyncio.gather(*(each.write(BATCHES) for each in writers))
        finally:
            nodes.send(coordinator, signal.SIGCONT)
    assert min(answered) >= BATCHES, answered


class Writer:
    """A producer on one partition, one batch at a time: the first answer that is an error fails."""

    def __init__(
        self, connection: Connection, transactional_id: str | None, pair: InitProducerIdAnswer, index: int
    ) -> None:
        self._connection = connection
        self._id = transactional_id
        self._pair = pair
        self._index = index
        self._sequence = 0

    async def write(self, count: int) -> None:
        for _ in range(count):
            await until(f"batch {self._sequence} of {self._id}", self._write_one)

    async def write_until(self, event: asyncio.Task[bool]) -> int:
        first = self._sequence
        while not event.done():
            await self.write(1)
        return self._sequence - first

    async def _write_one(self) -> bool:
        is_transactional = self._id is not None
        records = batch(
            b"value",
            producer_id=self._pair.producer_id,
            producer_epoch=self._pair.producer_epoch,
            base_sequence=self._sequence,
            transactional=is_transactional,
        )
        rows = (PartitionData(TOPIC, self._index, records),)
        request = Produce(self._id, -1, 30_000, rows, adds_partitions=is_transactional)
        (row,) = (await self._connection.call(PRODUCE, request, timeout_s=ANSWER_SECONDS_MAX)).partitions
        if self._sequence == 0 and row.error_code in RETRIED:
            return False
        assert row.error_code == ErrorCode.NONE
        self._sequence += 1
        return True
