"""Clients that allocate producer-id blocks without pause, and remember everything they were told.

Each client is a broker of its own that speaks real Kafka frames to whichever node leads. Its history has one
``Attempt`` per request, with one of three outcomes: *done*, *refused* (definitely not done) or *unknown*.
After an unknown one the client registers anew: a pair (broker id, broker epoch) thus has at most one unknown
attempt, its last, so the archive can be held against the history request by request (``checks``).

A watcher reads every node's metrics besides: who leads in which epoch, and how far the log is committed.
"""

import asyncio
import contextlib
import itertools
import threading
import time
import uuid
from random import Random
from typing import Literal, NamedTuple

import uvloop

from fencepost.controller.brokers import Endpoint, RegisterBroker
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.client import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.harness.nodes import Nodes, parse_metrics, wait_for

BROKER_ID_FIRST = 1000  # far from the nodes' own
OPEN_SECONDS = 0.5  # a stopped node accepts and says nothing
ATTEMPT_SECONDS = 1.0
ENDING_SECONDS_MAX = 60.0
AGAIN_SECONDS = 0.02
WATCH_SECONDS = 0.1
UNKNOWN_CODES = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR}

Outcome = Literal["done", "refused", "unknown"]

_next_broker_id = itertools.count(BROKER_ID_FIRST)


class Attempt(NamedTuple):
    """One request for a block, and what its client learned."""

    broker_id: int
    broker_epoch: int
    node_id: int
    sent_ns: int
    received_ns: int
    outcome: Outcome
    said: str  # the error, if there was one
    first: int = -1
    end: int = -1


class Sight(NamedTuple):
    """A node's metrics at one moment."""

    node_id: int
    pid: int
    epoch: int
    leads: bool
    high_watermark: int


class Load:
    """Use as a context manager: the clients run on a thread of their own until it ends."""

    def __init__(
        self,
        nodes: Nodes,
        *,
        seed: int,
        clients: int = 8,
        pause_s: float = 0.003,
        patience_s: float = ATTEMPT_SECONDS,
    ) -> None:
        self.history: list[Attempt] = []
        self.sights: list[Sight] = []
        self._nodes = nodes
        self._client_count = clients
        self._pause_s = pause_s
        self._patience_s = patience_s
        self._rng = Random(seed)
        self._stopping = False
        self._leader_hint: int | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join(ENDING_SECONDS_MAX)
        assert not self._thread.is_alive(), "the clients do not end"
        assert self._failure is None, f"the clients failed: {self._failure!r}"

    def done(self) -> list[Attempt]:
        return [attempt for attempt in self.history if attempt.outcome == "done"]

    def await_done(self, count: int = 1, since_ns: int | None = None) -> None:
        """So many successes of requests that were sent after the moment (now, if none is given)."""
        after = time.time_ns() if since_ns is None else since_ns
        start = max(0, len(self.history) - 1000)

        def look() -> bool:
            assert self._failure is None, f"the clients failed: {self._failure!r}"
            recent = self.history[start:]
            return sum(a.outcome == "done" and a.sent_ns > after for a in recent) >= count

        wait_for(f"{count} blocks are allocated", look)

    # -- on the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._all())
        except BaseException as error:  # noqa: BLE001 - told to the test
            self._failure = error

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._client_count):
                group.create_task(self._client(BrokerId(next(_next_broker_id)), Random(self._rng.random())))
            for node_id in self._nodes.node_ids:
                group.create_task(self._watch(node_id))

    async def _client(self, broker_id: BrokerId, rng: Random) -> None:
        directory_id = uuid.UUID(int=rng.getrandbits(128))
        registration: RegisterBroker | None = None
        epoch: BrokerEpoch | None = None
        while not self._stopping:
            node_id, connection = await self._connect(rng)
            if connection is None:
                await asyncio.sleep(rng.uniform(0, AGAIN_SECONDS))
                continue
            with contextlib.closing(connection):
                if epoch is None:
                    registration = registration or self._registration(broker_id, directory_id, rng)
                    epoch = await _register(connection, registration)
                if epoch is not None and not await self._allocate(node_id, connection, broker_id, epoch):
                    registration = epoch = None
            self._leader_hint = None

    def _registration(self, broker_id: BrokerId, directory_id: uuid.UUID, rng: Random) -> RegisterBroker:
        return RegisterBroker(
            broker_id=broker_id,
            cluster_id=self._nodes.cluster.cluster_id,
            incarnation_id=uuid.UUID(int=rng.getrandbits(128)),
            directory_id=directory_id,
            endpoints=(Endpoint("NONE", "127.0.0.1", 1),),
        )

    async def _connect(self, rng: Random) -> tuple[int, Connection | None]:
        """A connection to the node that seems to lead."""
        node_id = self._leader_hint or rng.choice(self._nodes.node_ids)
        address = self._nodes.address(node_id, "controller")
        connection = None
        try:
            connection = await Connection.open(*address, timeout_s=OPEN_SECONDS)
            known = await connection.call(
                DESCRIBE_CLUSTER, DescribeCluster(endpoint_type=CONTROLLERS), timeout_s=OPEN_SECONDS
            )
        except (ApiError, ConnectionLost, RequestTimeout):
            known = None
        leader_id = known.controller_id if known is not None and known.controller_id > 0 else None
        self._leader_hint = leader_id
        if leader_id == node_id:
            return node_id, connection
        if connection is not None:
            connection.close()
        return node_id, None

    async def _allocate(
        self, node_id: int, connection: Connection, broker_id: BrokerId, epoch: BrokerEpoch
    ) -> bool:
        """Ask until something goes wrong. False if the broker has to register again."""
        while not self._stopping:
            sent_ns = time.time_ns()
            outcome: Outcome = "done"
            said, first, end = "", -1, -1
            try:
                request = AllocateProducerIds(broker_id, epoch)
                block = await connection.call(ALLOCATE_PRODUCER_IDS, request, timeout_s=self._patience_s)
                first, end = block.first, block.first + block.length
            except ApiError as error:
                outcome, said = "unknown" if error.code in UNKNOWN_CODES else "refused", error.code.name
            except NotConnected:
                return True  # nothing was sent
            except (ConnectionLost, RequestTimeout) as error:
                outcome, said = "unknown", type(error).__name__
            self.history.append(
                Attempt(broker_id, epoch, node_id, sent_ns, time.time_ns(), outcome, said, first, end)
            )
            if outcome != "done":
                return outcome == "refused" and said != ErrorCode.STALE_BROKER_EPOCH.name
            await asyncio.sleep(self._pause_s)
        return True

    async def _watch(self, node_id: int) -> None:
        while not self._stopping:
            pid = self._nodes.node(node_id).pid()
            with contextlib.suppress(OSError, TimeoutError, ValueError, KeyError):
                async with asyncio.timeout(1):
                    found = parse_metrics(await _get_metrics(*self._nodes.address(node_id, "metrics")))
                if pid is not None and pid == self._nodes.node(node_id).pid():
                    self.sights.append(
                        Sight(
                            node_id,
                            pid,
                            int(found["fencepost_raft_epoch"]),
                            found["role.leader"] == 1,
                            int(found["fencepost_raft_high_watermark"]),
                        )
                    )
            await asyncio.sleep(WATCH_SECONDS)


async def _register(connection: Connection, request: RegisterBroker) -> BrokerEpoch | None:
    """The broker's epoch; None if nobody knows. Asked again, the same incarnation gets the same one."""
    try:
        return await connection.call(BROKER_REGISTRATION, request, timeout_s=ATTEMPT_SECONDS)
    except (ApiError, ConnectionLost, RequestTimeout):
        return None


async def _get_metrics(host: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = await reader.read()
    finally:
        writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()
