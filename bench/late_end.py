"""``fencepost demo late-endtxn``: a delayed EndTxn of one transaction ends the next one, or cannot.

Hole      below EndTxn 5 a producer keeps its epoch from one transaction to the next, so a request that was
          sent for the one is a request for the other when it is late. With V2 each has an epoch of its own.
Delay     the first EndTxn goes through a relay that keeps it; its sender sends it again, and goes on.
Seen      by a read_committed consumer: the second transaction's record, although its application aborts it.
Requests  are this project's own, by the client's connections: no library lets one keep a request back.
Source    KIP-890, "Motivation"; Kafka TransactionCoordinator.endTransaction.
"""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from fencepost.client import Admin, ClientError, TopicPartition
from fencepost.client.backoff import Backoff
from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import name_of, number_of, refused
from fencepost.client.metadata import ClusterMetadata
from fencepost.client.network import LOST, Channel, Network, NetworkSettings, addresses
from fencepost.client.produce_errors import Verdict, verdict_of
from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.cluster.console import Failed, table
from fencepost.records.batch import encode_batch
from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k10_find_coordinator import TRANSACTION
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.requests import (
    AddPartitions,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    ApiError,
    EndTxn,
    ErrorCode,
    InitProducerId,
    TopicPartitions,
)

V1, V2 = "v1", "v2"
PROTOCOLS: Final = (V1, V2)
FIRST, SECOND = b"first", b"second"
TIMEOUT_MS: Final = 60_000
SECONDS_MAX: Final = 30.0  # for what the cluster is asked for, each
DELAY_SECONDS: Final = 0.3  # that the sender of the delayed request waits before it sends it again
V2_LEVEL: Final = 2  # of transaction.version
RELAYED_BYTES_MAX: Final = 64 * 1024

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened with one protocol. Answers are names of Kafka's error codes.

    ``late_answer``: to the delayed EndTxn. ``abort_answer``: to the application's abort of the second
    transaction. ``seen``: the values that a read_committed consumer reads.
    """

    protocol: str
    end_txn_version: int
    late_answer: str
    abort_answer: str
    seen: tuple[str, ...]

    @property
    def has_hole(self) -> bool:
        """The record of the transaction that was aborted is seen."""
        return SECOND.decode() in self.seen

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "protocol": self.protocol,
            "end_txn_version": self.end_txn_version,
            "late_answer": self.late_answer,
            "abort_answer": self.abort_answer,
            "seen": list(self.seen),
            "second_transaction": "committed" if self.has_hole else "aborted",
        }


class _Relay:
    """Passes one connection's bytes on; after ``hold`` those of its client wait for ``release``."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> tuple[str, int]:
        """Listen. Returns the address for the client."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def hold(self) -> None:
        """What the client sends from now on waits."""
        self._open.clear()

    def release(self) -> None:
        """What waits is delivered."""
        self._open.set()

    async def stop(self) -> None:
        """Close all."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._upstream)
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass_on(source, sink, is_held=source is reader))
            self._tasks.add(task)

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_held: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while found := await source.read(RELAYED_BYTES_MAX):
                if is_held:
                    await self._open.wait()
                sink.write(found)
                await sink.drain()
        sink.close()


class _Teller:
    """One transactional id with one partition: each step of the story is one of its methods."""

    def __init__(self, network: Network, metadata: ClusterMetadata, protocol: str, topic: str) -> None:
        self._network = network
        self._metadata = metadata
        self._protocol = protocol
        self._id = f"{topic}-{protocol}"
        self._topic = topic
        self._pair = (ProducerId(-1), -1)
        self._sequence = 0
        self._coordinator = Coordinator(network, TRANSACTION, self._id)

    async def begin(self) -> None:
        """InitProducerId."""
        answer = await self._call(INIT_PRODUCER_ID, InitProducerId(self._id, TIMEOUT_MS))
        self._pair = (ProducerId(answer.producer_id), answer.producer_epoch)

    async def write(self, value: bytes) -> None:
        """Begin a transaction with one record in it."""
        pid, epoch = self._pair
        if self._protocol == V1:
            wanted = AddPartitions(self._id, pid, epoch, (TopicPartitions(self._topic, (0,)),))
            await self._call(
                ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn((wanted,), batched=False), code_of=_code_of_added
            )
        records = encode_batch(
            [(None, value, ())],
            timestamp_ms=int(time.time() * 1000),
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        rows = (PartitionData(self._topic, 0, records),)
        await self._produce(Produce(self._id, -1, 30_000, rows, adds_partitions=self._protocol == V2))
        self._sequence += 1

    async def late(self) -> tuple[_Relay, Connection, EndTxn]:
        """A connection to the coordinator whose bytes can be held, and the request that goes through it."""
        node_id = self._coordinator.node_id
        if node_id is None:
            raise Failed(f"{self._id}: its coordinator moved meanwhile; try again")
        direct = await self._network.connection(node_id, Channel.COORDINATION)
        relay = _Relay(*direct.peer)
        return relay, await Connection.open(*await relay.start()), self._ending(commit=True)

    async def commit(self) -> None:
        """EndTxn, until it is answered. With V2 the answer has the next pair."""
        answer = await self._call(END_TXN, self._ending(commit=True))
        if answer is not None:
            self._pair = (ProducerId(answer.producer_id), answer.producer_epoch)
            self._sequence = 0

    async def abort(self) -> str:
        """EndTxn. Returns what it was answered."""
        ending = self._call(END_TXN, self._ending(commit=False))
        return await _answer(ending)

    def _ending(self, *, commit: bool) -> EndTxn:
        return EndTxn(self._id, *self._pair, commit, bumps_epoch=self._protocol == V2)

    async def _call(self, api: Api[Q, R], request: Q, *, code_of: Callable[[R], int] | None = None) -> R:
        return await self._coordinator.call(api, request, timeout_s=SECONDS_MAX, code_of=code_of)

    async def _produce(self, request: Produce) -> None:
        """Until the record is written. Raises ClientError."""
        backoff = Backoff(SECONDS_MAX, self._network.rng)
        partition = TopicPartition(self._topic, 0)
        while True:
            leader = self._metadata.leader(partition)
            code: int = ErrorCode.LEADER_NOT_AVAILABLE
            with contextlib.suppress(*LOST):
                if leader is not None:
                    answer = await self._network.call(leader.node_id, Channel.DATA, PRODUCE, request)
                    code = answer.partitions[0].error_code
            verdict = verdict_of(code)
            if verdict is Verdict.WRITTEN:
                return
            if verdict is Verdict.REFUSED or not await backoff.pause():
                raise refused(code, str(partition))
            await self._metadata.refresh(SECONDS_MAX)


def _code_of_added(answer: AddPartitionsToTxnAnswer) -> int:
    ((_, result),) = answer.results
    return result if isinstance(result, ErrorCode) else result.errors[0][1][0][1]


async def tell(bootstrap: str, protocol: str, show: Show) -> Story:
    """Play the story once, on a topic of its own. Raises Failed: it could not be played to its end."""
    topic = f"late-endtxn-{secrets.token_hex(3)}"
    network = Network(NetworkSettings(bootstrap=addresses(bootstrap)), random.Random())
    metadata = ClusterMetadata(network, creates_topics=False)
    try:
        async with Admin(bootstrap) as admin:
            await admin.create_topic(topic, partitions=1, replication_factor=1)
        await metadata.await_topic(topic, SECONDS_MAX)
        if protocol == V2 and network.transaction_version < V2_LEVEL:
            raise Failed(
                f"{bootstrap}: transaction.version is {network.transaction_version}; V2 needs {V2_LEVEL} "
                "('fencepost features upgrade', or --protocol v1)"
            )
        return await _played(_Teller(network, metadata, protocol, topic), protocol, topic, show, bootstrap)
    except (*LOST, ApiError, ClientError) as error:
        raise Failed(f"{bootstrap}, {protocol}: {error}") from error
    finally:
        await metadata.close()
        await network.close()


async def _played(teller: _Teller, protocol: str, topic: str, show: Show, bootstrap: str) -> Story:
    await teller.begin()
    await teller.write(FIRST)
    relay, delayed, request = await teller.late()
    try:
        version = delayed.version_for(END_TXN, request)
        relay.hold()
        late = asyncio.create_task(
            delayed.call(END_TXN, request, version=version, timeout_s=TIMEOUT_MS / 1000)
        )
        show(f"transaction 1: {FIRST.decode()!r} is written; EndTxn {version} (commit) is sent, and delayed")
        await asyncio.sleep(DELAY_SECONDS)
        await teller.commit()
        show("transaction 1: no answer, so EndTxn (commit) is sent again: committed")
        await teller.write(SECOND)
        show(f"transaction 2: {SECOND.decode()!r} is written")
        relay.release()
        late_answer = await _answer(late)
        show(f"transaction 2: the delayed EndTxn (commit) of transaction 1 arrives: {late_answer}")
        abort_answer = await teller.abort()
        show(f"transaction 2: its application aborts it: {abort_answer}")
    finally:
        delayed.close()
        await relay.stop()
    seen = await asyncio.to_thread(
        lambda: [each.value.decode() for each in read_topic(bootstrap, topic, READ_COMMITTED, timeout_s=60.0)]
    )
    show(f"a read_committed consumer sees {', '.join(seen) or 'nothing'}")
    return Story(
        protocol=protocol,
        end_txn_version=version,
        late_answer=late_answer,
        abort_answer=abort_answer,
        seen=tuple(seen),
    )


async def _answer(call: Awaitable[object]) -> str:
    """The name of the error code that a request is answered with."""
    try:
        await call
    except ApiError as error:
        return name_of(number_of(error))
    return name_of(ErrorCode.NONE)


def lines(stories: list[Story]) -> str:
    """The stories as a table."""
    rows = [
        (
            story.protocol,
            story.end_txn_version,
            story.late_answer,
            story.abort_answer,
            ", ".join(story.seen),
            "COMMITTED, though aborted" if story.has_hole else "aborted",
        )
        for story in stories
    ]
    columns = ("PROTOCOL", "ENDTXN", "LATE ENDTXN ANSWERED", "ABORT ANSWERED", "SEEN", "TRANSACTION 2 IS")
    return table(columns, rows)
