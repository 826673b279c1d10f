"""A group of two members and its producers, by requests of our own to a cluster of processes."""

import asyncio
import struct
from contextlib import suppress
from typing import Any, Final

from fencepost.controller.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    ProducerFenced,
)
from fencepost.controller.group_errors import IllegalGeneration, MemberIdRequired, RebalanceInProgress
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.joining import JoinGroup, JoinGroupAnswer
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection, ConnectionLost
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from tests.harness.nodes import Nodes
from tests.processes.test_transactions_v2 import connected
from tests.processes.txn_client import Client

SESSION_MS: Final = 45_000
TIMEOUT_MS: Final = 60_000
_MOVED: Final = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress, ConnectionLost)
Pair = tuple[int, int]
Assigned = dict[str, tuple[int, ...]]


class Loop:
    """The group ``name`` reads ``input``; what a producer writes goes to ``output``."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes, self.group_id = nodes, f"g-{name}"
        self.input, self.output = f"in-{name}", f"out-{name}"
        self.ids: dict[str, str] = {}
        self.generation = -1
        nodes.run("topics", "create", "--topic", self.input, "--partitions", 4)
        nodes.run("topics", "create", "--topic", self.output, "--partitions", 4)

    def producer(self, transactional_id: str) -> Client:
        """Requests of one transactional id."""
        return Client(self.nodes, transactional_id, self.output)

    def rebalance(self, assigned: Assigned) -> None:
        """All of these members join together, and are assigned these partitions."""
        asyncio.run(self._rebalance(assigned))

    def init(
        self, who: str, *partitions: int, of: str | None, generation: int | None = None, **said: Any
    ) -> InitProducerIdAnswer:
        """A group-aware InitProducerId; a refusal is raised."""
        member = MemberAssignment(
            **{
                "group_id": self.group_id,
                "generation": self.generation if generation is None else generation,
                "partitions": (TopicPartitions(self.input, partitions),) if partitions else (),
                "member_id": self.ids.get(who, ""),
                **said,
            }
        )
        request = InitProducerId(of, TIMEOUT_MS, init_version=6, member=member)
        asked = self.producer("any")._coordinator(INIT_PRODUCER_ID, request)
        answer: InitProducerIdAnswer = asyncio.run(asked)
        return answer

    def commit(
        self, name: str, pair: Pair, who: str, partition: int, offset: int, *, generation: int | None = None
    ) -> int:
        """AddOffsetsToTxn, if that is let in, and TxnOffsetCommit: the code of the latter, in version 3."""
        given = (ProducerId(pair[0]), pair[1])
        at = self.generation if generation is None else generation
        commit = CommitTransactionOffsets(
            name,
            self.group_id,
            *given,
            (OffsetToCommit(self.input, partition, offset),),
            Identity(self.ids[who], None, at),
        )
        client = self.producer(name)
        with suppress(ProducerFenced):
            asyncio.run(client._coordinator(ADD_OFFSETS_TO_TXN, AddOffsets(name, *given, self.group_id)))
        (row,) = asyncio.run(client._coordinator(TXN_OFFSET_COMMIT, commit)).rows
        return int(row.code)

    def offset(self, partition: int) -> tuple[int, int]:
        """What is committed, and the code: 88 while an offset is pending."""
        query = FetchOffsets(
            (GroupQuery(self.group_id, ((self.input, partition),)),), require_stable=True, waits=True
        )
        answer = asyncio.run(self.producer("any")._coordinator(OFFSET_FETCH, query))
        (row,) = answer.groups[0].offsets
        return row.offset, row.code

    async def _rebalance(self, assigned: Assigned) -> None:
        async with asyncio.timeout(60):
            moved: list[Any] = [None]
            while moved:
                address = await self.producer("any")._address()
                each_s = (self._member(address, each, assigned) for each in assigned)
                ends = await asyncio.gather(*each_s, return_exceptions=True)
                moved = [each for each in ends if isinstance(each, _MOVED)]
        (self.generation,) = {_of(each) for each in ends}

    async def _member(self, address: tuple[str, int], who: str, assigned: Assigned) -> int:
        """Join and sync until all are in one generation, which is returned."""
        async with connected(address) as own:
            while True:
                joined = await self._join(own, who)
                leads = joined.leader == joined.member_id
                if leads and len(joined.members) < len(assigned):
                    continue
                given = {
                    self.ids[each]: consumers_assignment(self.input, of) for each, of in assigned.items()
                }
                request = SyncGroup(
                    self.group_id,
                    joined.generation,
                    joined.member_id,
                    assignments=tuple(given.items()) if leads else (),
                )
                with suppress(RebalanceInProgress, IllegalGeneration):
                    await own.call(SYNC_GROUP, request, timeout_s=30.0)
                    return joined.generation

    async def _join(self, connection: Connection, who: str) -> JoinGroupAnswer:
        subscription = struct.pack(">hih", 0, 1, len(self.input)) + self.input.encode() + bytes(4)
        protocols = (("range", subscription),)
        while True:
            request = JoinGroup(
                self.group_id, SESSION_MS, 10_000, self.ids.get(who, ""), "consumer", protocols
            )
            try:
                answer: JoinGroupAnswer = await connection.call(JOIN_GROUP, request, timeout_s=30.0)
            except MemberIdRequired as required:
                self.ids[who] = required.member_id
            else:
                return answer


def _of(ended: int | BaseException) -> int:
    if isinstance(ended, BaseException):
        raise ended
    return ended


def consumers_assignment(topic: str, partitions: tuple[int, ...]) -> bytes:
    """Kafka's ConsumerProtocolAssignment, version 0."""
    name = topic.encode()
    head = struct.pack(">hih", 0, 1, len(name)) + name
    return head + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)
