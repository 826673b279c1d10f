"""A coordinator stands still while another takes over: what clients had sent to it is answered, all of it."""

import asyncio
import contextlib
import signal
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
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.types import ProducerId
from fencepost.wire.client import Connection, ConnectionLost
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
from tests.harness.nodes import Nodes, wait_for

pytestmark = pytest.mark.slow

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
    others = [each for each in nodes.node_ids if each != leader]

    def is_followed() -> bool:
        return any(nodes.metrics(each)["role.leader"] == 1 for each in others)

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
            await asyncio.to_thread(wait_for, "another node leads", is_followed)
        finally:
            nodes.send(leader, signal.SIGCONT)
        names = [api.name for api, _ in REQUESTS]
        return {"parked": await parked, **dict(zip(names, await answers, strict=True))}


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
