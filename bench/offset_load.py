"""``python -m fencepost.bench.offset_load``: clients that commit offsets, a process of its own.

Clients    each has a group of its own (without members, as ``assign()`` has it) and one partition of a topic,
           and commits the next offset as soon as the last one is committed: one request for a plain commit,
           AddOffsetsToTxn, TxnOffsetCommit and EndTxn for a transactional one.
Counted    commits that are sent and answered in the window.
Verified   an OffsetFetch at the end has each client's last acknowledged offset, or one that it sent later.
"""

import asyncio
import time
from array import array
from collections.abc import Callable
from typing import Any, Final

import msgspec
import uvloop

from fencepost.bench.coordinators import BACKOFF_S, Address, NoCoordinator, find_all
from fencepost.bench.process import serve_async
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
    PartitionCodes,
)
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.dispatch import Api
from fencepost.wire.errors import error_for
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k10_find_coordinator import GROUP, TRANSACTION
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT

CLIENT_ID: Final = "fencepost-bench"
LOOKUP_SECONDS: Final = 90.0
OPEN_SECONDS: Final = 10.0
ASK_SECONDS: Final = 30.0
BEGIN_SECONDS: Final = 60.0  # of one client: connections and producer ids of a thousand take a while
TRANSACTION_MS: Final = 60_000
AT_ONCE: Final = 32  # clients that connect: fewer than a listener's backlog
RETRY_S: Final = 0.02  # after CONCURRENT_TRANSACTIONS, as Kafka's clients before AddPartitionsToTxn
CAUGHT_UP_SECONDS: Final = 30.0

_LATER: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,  # while it begins; once it runs it follows
    )
)

Step = tuple[Connection, Api[Any, Any], Any]


class Load(msgspec.Struct, frozen=True, tag="load", kw_only=True):
    """Commit for ``warm_up_s`` and then ``seconds``. Answered with Loaded."""

    bootstrap: list[Address]
    prefix: str  # of the groups' and transactional ids
    topic: str
    partitions: int
    clients: int
    transactional: bool
    warm_up_s: float
    seconds: float


class Loaded(msgspec.Struct, frozen=True):
    """``latencies_ns``: of each commit in the window. ``fault``: what the read-back says, or empty."""

    latencies_ns: list[int]
    fault: str


class Failed(Exception):
    """The load is worth nothing; says why."""


class Course:
    """What the clients of a load share."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.latencies_ns: array[int] = array("q")
        self.begin_ns = self.end_ns = 0
        self.failure: str | None = None
        self.opening = asyncio.Semaphore(AT_ONCE)

    def fail(self, message: str) -> None:
        """End the load."""
        self.failure = self.failure or message
        self.end_ns = 0


class Client:
    """One client. ``prepare``, then ``start``; it becomes ``idle`` by itself after the end of the window."""

    def __init__(self, course: Course, number: int) -> None:
        load = course.load
        self.group_id = f"{load.prefix}-{number}"
        self.acknowledged = -1  # the last offset that is committed, certainly
        self.offset = -1  # the last one that was sent
        self.idle = asyncio.Event()
        self._course = course
        self._topic, self._partition = load.topic, number % load.partitions
        self._opened: dict[Address, Connection] = {}
        self._following: asyncio.Future[None] | None = None
        self._steps: list[Callable[[], Step]] = [self._commit]
        self._step = 0
        self._sent_ns = 0

    async def prepare(self, group: Address, transactions: Address | None) -> None:
        """Connect to the coordinators; with the one of transactions get a producer id."""
        self._group = await self._connect(group)
        if transactions is not None:
            self._transactions = await self._connect(transactions)
            init = InitProducerId(self.group_id, TRANSACTION_MS)
            self._producer: InitProducerIdAnswer = await self._with_retries(
                lambda: self._transactions.call(INIT_PRODUCER_ID, init, timeout_s=ASK_SECONDS)
            )
            self._steps = [self._add, self._commit_in_transaction, self._end]

    async def _connect(self, address: Address) -> Connection:
        if address not in self._opened:
            self._opened[address] = await Connection.open(
                *address, timeout_s=OPEN_SECONDS, client_id=CLIENT_ID
            )
        return self._opened[address]

    async def _with_retries(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                return await call()
            except ApiError as error:
                if error.code not in _LATER:
                    raise
            await asyncio.sleep(BACKOFF_S)

    def start(self) -> None:
        """Send the first request."""
        self._sent_ns = time.monotonic_ns()
        self.offset += 1
        self._send()

    def _send(self) -> None:
        connection, api, request = self._steps[self._step]()
        try:
            connection.ask(api, request, self._answered, timeout_s=ASK_SECONDS)
        except ConnectionLost as error:
            self._course.fail(f"{self.group_id}: {error}")
            self.idle.set()

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, PartitionCodes) and answer.rows[0].code:
            answer = error_for(answer.rows[0].code)
        if isinstance(answer, ApiError) and answer.code == ErrorCode.NOT_COORDINATOR:
            self._following = asyncio.ensure_future(self._follow())
            return
        if isinstance(answer, ApiError) and answer.code in _LATER:
            asyncio.get_running_loop().call_later(RETRY_S, self._send)
            return
        if isinstance(answer, Exception):
            self._course.fail(f"{self.group_id}, request {self._step}: {answer}")
            self.idle.set()
            return
        self._step = (self._step + 1) % len(self._steps)
        if self._step == 0 and not self._committed():
            self.idle.set()
            return
        self._send()

    def _committed(self) -> bool:
        """Count the commit. True: go on with the next one."""
        now_ns, course = time.monotonic_ns(), self._course
        self.acknowledged = self.offset
        if self._sent_ns >= course.begin_ns and now_ns <= course.end_ns:
            course.latencies_ns.append(now_ns - self._sent_ns)
        self._sent_ns = now_ns
        if now_ns > course.end_ns:
            return False
        self.offset += 1
        return True

    # The steps of a commit

    def _offsets(self) -> tuple[OffsetToCommit, ...]:
        return (OffsetToCommit(self._topic, self._partition, self.offset),)

    def _commit(self) -> Step:
        return self._group, OFFSET_COMMIT, CommitOffsets(self.group_id, self._offsets())

    def _add(self) -> Step:
        who = self._producer
        request = AddOffsets(self.group_id, who.producer_id, who.producer_epoch, self.group_id)
        return self._transactions, ADD_OFFSETS_TO_TXN, request

    def _commit_in_transaction(self) -> Step:
        who = self._producer
        request = CommitTransactionOffsets(
            self.group_id, self.group_id, who.producer_id, who.producer_epoch, self._offsets()
        )
        return self._group, TXN_OFFSET_COMMIT, request

    def _end(self) -> Step:
        who = self._producer
        return self._transactions, END_TXN, EndTxn(self.group_id, who.producer_id, who.producer_epoch, True)

    async def difference(self) -> str:
        """Between what is committed and what was acknowledged, in words; empty if there is none."""
        query = GroupQuery(self.group_id, ((self._topic, self._partition),))
        request = FetchOffsets((query,), require_stable=True)
        until_s = time.monotonic() + CAUGHT_UP_SECONDS
        moved = False
        while True:
            try:
                if moved:
                    await self._find_again()
                    moved = False
                answer = await self._group.call(OFFSET_FETCH, request, timeout_s=ASK_SECONDS)
                group = answer.groups[0]
                row = group.offsets[0] if group.offsets else None
                if row is not None and row.code == 0:
                    break
                found = f"answered with {group}"
            except ConnectionLost as error:  # where another node is the coordinator now, it has no answer
                found, moved = f"not answered: {error}", True
            if time.monotonic() > until_s:
                return f"{self.group_id}: OffsetFetch is {found}"
            await asyncio.sleep(BACKOFF_S)
        if self.acknowledged <= row.offset <= self.offset:
            return ""
        return (
            f"{self.group_id}: offset {row.offset} is committed; "
            f"{self.acknowledged} was acknowledged, {self.offset} sent last"
        )

    async def _follow(self) -> None:
        """A coordinator moved: send again to the one that is there now."""
        try:
            await asyncio.sleep(BACKOFF_S)
            await self._find_again()
        except (NoCoordinator, ConnectionLost) as error:
            self._course.fail(f"{self.group_id}: {error}")
            self.idle.set()
        else:
            self._send()

    async def _find_again(self) -> None:
        """Connect to the coordinators of now."""
        for connection in self._opened.values():
            connection.abandon()
        self._opened.clear()
        load = self._course.load
        groups = await find_all(load.bootstrap, GROUP, [self.group_id], LOOKUP_SECONDS)
        self._group = await self._connect(groups[self.group_id])
        if load.transactional:
            transactions = await find_all(load.bootstrap, TRANSACTION, [self.group_id], LOOKUP_SECONDS)
            self._transactions = await self._connect(transactions[self.group_id])

    def close(self) -> None:
        """Close its connections."""
        for connection in self._opened.values():
            connection.abandon()


async def load_cluster(load: Load) -> Loaded:
    """Run the clients, then read back. Raises Failed."""
    course = Course(load)
    clients = [Client(course, number) for number in range(load.clients)]
    try:
        await _prepare(course, clients)
        course.begin_ns = time.monotonic_ns() + round(load.warm_up_s * 1e9)
        course.end_ns = course.begin_ns + round(load.seconds * 1e9)
        for each in clients:
            each.start()
        for each in clients:
            await asyncio.wait_for(each.idle.wait(), load.warm_up_s + load.seconds + ASK_SECONDS)
        if course.failure is not None:
            raise Failed(course.failure)
        differences = [await each.difference() for each in clients]
    except TimeoutError as error:
        raise Failed(course.failure or f"{load.clients} clients do not come to rest") from error
    finally:
        for each in clients:
            each.close()
    return Loaded(course.latencies_ns.tolist(), next(filter(None, differences), ""))


async def _prepare(course: Course, clients: list[Client]) -> None:
    bootstrap, keys = course.load.bootstrap, [each.group_id for each in clients]
    groups = await find_all(bootstrap, GROUP, keys, LOOKUP_SECONDS)
    transactions: dict[str, Address] = {}
    if course.load.transactional:
        transactions = await find_all(bootstrap, TRANSACTION, keys, LOOKUP_SECONDS)

    async def prepare(client: Client) -> None:
        async with course.opening, asyncio.timeout(BEGIN_SECONDS):
            await client.prepare(groups[client.group_id], transactions.get(client.group_id))

    await asyncio.gather(*map(prepare, clients))


if __name__ == "__main__":
    uvloop.run(
        serve_async(Load, load_cluster, (Failed, NoCoordinator, ConnectionLost, RequestTimeout, ApiError))
    )
