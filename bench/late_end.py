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
from typing import Any, Final, TypeVar

from fencepost.client.backoff import Backoff
from fencepost.client.network import LOST, Channel, Network, NetworkSettings, addresses
from fencepost.client.read_back import READ_COMMITTED, read_topic
from fencepost.cluster.console import Failed, table
from fencepost.records.batch import encode_batch
from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.errors import UnlistedError, raise_for
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, Coordinator, FindCoordinator
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.requests import (
    AddPartitions,
    AddPartitionsToTxn,
    ApiError,
    CreateTopics,
    EndTxn,
    ErrorCode,
    InitProducerId,
    NewTopic,
    TopicPartitions,
)

V1, V2 = "v1", "v2"
PROTOCOLS: Final = (V1, V2)
FIRST, SECOND = b"first", b"second"
TIMEOUT_MS: Final = 60_000
SECONDS_MAX: Final = 30.0  # for what the cluster is asked for, each
DELAY_SECONDS: Final = 0.3  # that the sender of the delayed request waits before it sends it again
V2_LEVEL: Final = 2  # of transaction.version
RETRIED: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
)
RELAYED_BYTES_MAX: Final = 64 * 1024

T = TypeVar("T")
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

    def __init__(self, network: Network, protocol: str, topic: str) -> None:
        self._network = network
        self._protocol = protocol
        self._id = f"{topic}-{protocol}"
        self._topic = topic
        self._pair = (ProducerId(-1), -1)
        self._sequence = 0

    async def begin(self) -> None:
        """InitProducerId."""
        answer = await self._at_coordinator(INIT_PRODUCER_ID, InitProducerId(self._id, TIMEOUT_MS))
        self._pair = (ProducerId(answer.producer_id), answer.producer_epoch)

    async def write(self, value: bytes) -> None:
        """Begin a transaction with one record in it."""
        pid, epoch = self._pair
        if self._protocol == V1:
            await self._retrying(self._added)
        records = encode_batch(
            [(None, value, ())],
            timestamp_ms=int(time.time() * 1000),
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        rows = (PartitionData(self._topic, 0, records),)
        request = Produce(self._id, -1, 30_000, rows, adds_partitions=self._protocol == V2)

        async def produced() -> None:
            leader = await _leader(self._network, self._topic)
            (row,) = (await self._network.call(leader, Channel.DATA, PRODUCE, request)).partitions
            raise_for(row.error_code)

        await self._retrying(produced)
        self._sequence += 1

    async def late(self) -> tuple[_Relay, Connection, EndTxn]:
        """A connection to the coordinator whose bytes can be held, and the request that goes through it."""
        relay = _Relay(*await self._retrying(self._coordinator_address))
        connection = await Connection.open(*await relay.start())
        return relay, connection, self._ending(commit=True)

    async def commit(self) -> None:
        """EndTxn, until it is answered. With V2 the answer has the next pair."""
        answer = await self._at_coordinator(END_TXN, self._ending(commit=True))
        if answer is not None:
            self._pair = (ProducerId(answer.producer_id), answer.producer_epoch)
            self._sequence = 0

    async def abort(self) -> str:
        """EndTxn. Returns what it was answered."""
        try:
            await self._at_coordinator(END_TXN, self._ending(commit=False))
        except ApiError as error:
            return _name_of(error)
        return ErrorCode.NONE.name

    def _ending(self, *, commit: bool) -> EndTxn:
        return EndTxn(self._id, *self._pair, commit, bumps_epoch=self._protocol == V2)

    async def _added(self) -> None:
        wanted = AddPartitions(self._id, *self._pair, (TopicPartitions(self._topic, (0,)),))
        request = AddPartitionsToTxn((wanted,), batched=False)
        ((_, result),) = (await self._coordinated(ADD_PARTITIONS_TO_TXN, request)).results
        code = result if isinstance(result, ErrorCode) else result.errors[0][1][0][1]
        raise_for(code)

    async def _at_coordinator(self, api: Api[Q, R], request: Q) -> R:
        return await self._retrying(lambda: self._coordinated(api, request))

    async def _coordinated(self, api: Api[Q, R], request: Q) -> R:
        found = await self._coordinator()
        return await self._network.call(found.node_id, Channel.COORDINATION, api, request)

    async def _coordinator_address(self) -> tuple[str, int]:
        found = await self._coordinator()
        return found.host, found.port

    async def _coordinator(self) -> Coordinator:
        answer = await self._network.call_any(FIND_COORDINATOR, FindCoordinator(TRANSACTION, (self._id,)))
        (found,) = answer.coordinators
        raise_for(found.error_code)
        self._network.learn_one(found.node_id, found.host, found.port)
        return found

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await _retrying(self._network, attempt)


async def tell(bootstrap: str, protocol: str, show: Show) -> Story:
    """Play the story once, on a topic of its own. Raises Failed: it could not be played to its end."""
    network = Network(NetworkSettings(bootstrap=addresses(bootstrap)), random.Random())
    topic = f"late-endtxn-{secrets.token_hex(3)}"
    try:
        await _retrying(network, lambda: _created(network, topic))
        if protocol == V2 and network.transaction_version < V2_LEVEL:
            raise Failed(
                f"{bootstrap}: transaction.version is {network.transaction_version}; V2 needs {V2_LEVEL} "
                "('fencepost features upgrade', or --protocol v1)"
            )
        return await _played(network, protocol, topic, show, bootstrap)
    except (*LOST, ApiError) as error:
        raise Failed(f"{bootstrap}, {protocol}: {error}") from error
    finally:
        await network.close()


async def _played(network: Network, protocol: str, topic: str, show: Show, bootstrap: str) -> Story:
    teller = _Teller(network, protocol, topic)
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


async def _answer(late: "asyncio.Task[Any]") -> str:
    try:
        await late
    except ApiError as error:
        return _name_of(error)
    return ErrorCode.NONE.name


def _name_of(error: ApiError) -> str:
    return str(error.number) if isinstance(error, UnlistedError) else error.code.name


async def _created(network: Network, topic: str) -> None:
    request = CreateTopics((NewTopic(topic, 1, 1),), timeout_ms=TIMEOUT_MS)
    try:
        (row,) = (await network.call_any(CREATE_TOPICS, request)).topics
        raise_for(row.error_code)
    except ApiError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _leader(network: Network, topic: str) -> int:
    """Raises the ApiError of a partition without a leader."""
    answer = await network.call_any(METADATA, Metadata((TopicQuery(topic),), allow_auto_topic_creation=False))
    network.learn(answer.brokers)
    (found,) = answer.topics
    raise_for(found.error_code)
    raise_for(found.partitions[0].error_code)
    return found.partitions[0].leader_id


async def _retrying(network: Network, attempt: Callable[[], Awaitable[T]]) -> T:
    """The outcome of the first attempt that is not refused for now. Raises what the last one raised."""
    backoff = Backoff(SECONDS_MAX, network.rng)
    while True:
        try:
            return await attempt()
        except LOST:
            if not await backoff.pause():
                raise
        except ApiError as error:
            if error.code not in RETRIED or not await backoff.pause():
                raise


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
