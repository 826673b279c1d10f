"""The load of ``fencepost bench stalls``: of each API key the request that costs most within its limits.

Where     records go to the broker that has them, all others to the active controller's node: to the next one
          when leadership moves.
Wide      topics that lie on one broker, with as many partitions as one CreateTopics may have.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from fencepost.bench.stalls_batches import batch, records_cases
from fencepost.bench.stalls_keys import NEVER_ANSWERED, VERSIONS, worst
from fencepost.cluster.console import Failed
from fencepost.cluster.local_cluster import LocalCluster
from fencepost.cluster.state import find_leader
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions, ListTransactions
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.coordinator.transaction_server import ADDED_MAX
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.connection import SOFTWARE, Connection, ConnectionLost, RequestTimeout
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api, ListenerKind
from fencepost.wire.k00_produce import PRODUCE, PartitionData, Produce
from fencepost.wire.k01_fetch import FETCH, READ_COMMITTED, Fetch, FetchPartition
from fencepost.wire.k02_list_offsets import LATEST, LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import METADATA, Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    EpochQuery,
    OffsetForLeaderEpoch,
)
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from fencepost.wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.registry import APIS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX

TARGET: Final = "target"
TARGET_PARTITIONS: Final = 8
PARTITIONS: Final = 4  # of each of many topics
TOPIC_REQUESTS: Final = 2
ELEMENTS: Final = 9_990  # just below what is read of one Produce
LOOKED_UP: Final = LOOKED_UP_ELEMENTS_MAX - 10  # likewise, of one that looks each element up
MARKERS: Final = 4_990  # likewise, of WriteTxnMarkers
TOPIC_RESOURCE: Final = 2
REQUEST_SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 120.0
LEADER_SECONDS: Final = 60.0
TRIES_MAX: Final = 100  # of one request, while leadership moves or a transaction ends
PAUSE_SECONDS: Final = 0.1
PIPELINED: Final = 500
PARKED_MS: Final = 3_000
CONFIGS: Final = (("retention.ms", "1"), ("retention.bytes", "1000000"), ("max.message.bytes", "1000000"))

_MOVED: Final = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_CONTROLLER))
_LATER: Final = frozenset((ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it. The limits of one request are in FULL."""

    topics: int = 500  # in each of TOPIC_REQUESTS
    wide_topics: int = 3
    wide_partitions: int = 2000  # of each of them
    ids: int = 5000
    wide_transactions: int = 3


FULL: Final = Size()
SMALL: Final = Size(topics=5, wide_topics=1, wide_partitions=20, ids=20, wide_transactions=2)


class Load:
    """The requests, one kind after the other."""

    def __init__(self, cluster: LocalCluster, size: Size, show: Any) -> None:
        self._cluster = cluster
        self._size = size
        self._show = show
        self._clients: dict[int, Connection] = {}
        self._opening = asyncio.Lock()
        self._topics = [f"{number:04d}".ljust(249, "t") for number in range(size.topics * TOPIC_REQUESTS)]
        self._wide = [f"{number}".ljust(249, "w") for number in range(size.wide_topics)]
        self._ids = [f"id-{number}" for number in range(size.ids)]
        self._producers: dict[str, InitProducerIdAnswer] = {}
        self._home = self._leader = -1
        self.leaders: set[int] = set()
        """Node ids that have led."""
        self.sent: set[tuple[int, ListenerKind]] = set()
        """API keys with a listener that served them."""
        self.refused: dict[str, str] = {}
        """By the request: why it was refused, or not answered."""

    async def run(self) -> None:
        """All of them. Raises Failed if the cluster has no leader, or has it no more."""
        self._home = await self._find_leader()
        try:
            for step in (self._make_topics, self._produce, self._fetch, self._read, self._describe):
                await step()
            await self._begin_transactions()
            await self._end_transactions()
            await self._send_every_key()
            await self._ask(DELETE_TOPICS, DeleteTopics(names=tuple(self._topics)))
            await asyncio.sleep(2.0)  # the brokers follow
        finally:
            for client in self._clients.values():
                client.close()

    # -- asking -------------------------------------------------------------------------------------

    async def _find_leader(self) -> int:
        deadline = time.monotonic() + LEADER_SECONDS
        while time.monotonic() < deadline:
            leader = await find_leader(self._cluster)
            if leader is not None:
                self._leader = int(leader)
                self.leaders.add(self._leader)
                return self._leader
            await asyncio.sleep(PAUSE_SECONDS)
        raise Failed(f"the cluster had no leader for {LEADER_SECONDS:.0f} s: {self._cluster.directory}")

    async def _client(self, node_id: int) -> Connection:
        async with self._opening:
            client = self._clients.get(node_id)
            if client is None or not client.is_open:
                client = self._clients[node_id] = await self._connect(node_id)
            return client

    async def _connect(self, node_id: int) -> Connection:
        listener = self._cluster.node(node_id).config.client_listener
        if listener is None:
            raise Failed(f"node {node_id} has no client listener")
        return await Connection.open(listener.address.host, listener.address.port)

    async def _send_every_key(self) -> None:
        """The largest request of each key, to each listener that serves it, of a leader and a follower."""
        requests = worst(self._cluster.cluster_id)
        others = [int(each.node_id) for each in self._cluster.nodes if int(each.node_id) != self._leader]
        for node_id in (self._leader, *others[:1]):
            config = self._cluster.node(node_id).config
            for kind, listener in (
                (BROKER, config.client_listener),
                (CONTROLLER, config.controller_listener),
            ):
                for api in APIS.values():
                    if kind in api.listeners and listener is not None:
                        self._show(f"{api.name}, the largest, to {listener.name} of node {node_id}")
                        await self._send(listener.address, api, requests[api.key])
                        self.sent.add((api.key, kind))

    async def _send(self, address: tuple[str, int], api: Api[Any, Any], request: Any) -> None:
        """Whatever comes of it."""
        client = await Connection.open(*address)
        version = VERSIONS.get(api.key)
        try:
            if api.key in NEVER_ANSWERED:
                client.send_nowait(api, request)
                await client.call(API_VERSIONS, SOFTWARE, timeout_s=REQUEST_SECONDS)
            else:
                await client.call(api, request, version=version, timeout_s=REQUEST_SECONDS)
        except (ApiError, ConnectionLost, RequestTimeout) as error:
            self._show(f"{api.name}: {error}"[:200])
        finally:
            client.close()

    async def _ask(
        self, api: Api[Any, Any], request: Any, what: str = "", *, version: int | None = None, at: int = -1
    ) -> Any:
        """One answer of node ``at``, else of the leader; None if it was refused, which is noted."""
        name = f"{api.name} {what}".strip()
        self._show(name)
        for _ in range(TRIES_MAX):
            try:
                client = await self._client(at if at >= 0 else self._leader)
                answer = await client.call(api, request, version=version, timeout_s=REQUEST_SECONDS)
            except (ApiError, ConnectionLost, RequestTimeout) as error:
                self.refused[name] = str(error)
                if isinstance(error, ApiError) and error.code in _LATER:
                    await asyncio.sleep(PAUSE_SECONDS)
                elif at < 0 and isinstance(error, ApiError) and error.code in _MOVED:
                    await asyncio.sleep(PAUSE_SECONDS)
                    await self._find_leader()
                else:
                    return None
            else:
                self.refused.pop(name, None)
                return answer
        return None

    # -- topics and records -------------------------------------------------------------------------

    async def _make_topics(self) -> None:
        size = self._size
        here = (self._home,)
        target = NewTopic(TARGET, assignments=tuple((index, here) for index in range(TARGET_PARTITIONS)))
        await self._ask(CREATE_TOPICS, CreateTopics((target,)))
        for name in self._wide:
            rows = tuple((index, here) for index in range(size.wide_partitions))
            await self._ask(CREATE_TOPICS, CreateTopics((NewTopic(name, assignments=rows),)), "wide")
        for start in range(0, len(self._topics), size.topics):
            names = self._topics[start : start + size.topics]
            several = tuple(NewTopic(name, PARTITIONS, 1) for name in names)
            with_settings = tuple(NewTopic(f"s{name[1:]}", 1, 1, configs=CONFIGS) for name in names)
            await self._ask(CREATE_TOPICS, CreateTopics(with_settings, validate_only=True), "with settings")
            await self._ask(CREATE_TOPICS, CreateTopics(several), "many")
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:  # until the brokers host them
            answer = await self._ask(METADATA, Metadata(None))
            every = [self._produced(batch(1)), *self._wide_produces()]
            answers = [await self._ask(PRODUCE, each, at=self._home) for each in every]
            hosted = all(
                each is not None and not any(row.error_code for row in each.partitions) for each in answers
            )
            if answer is not None and len(answer.topics) > len(self._topics) and hosted:
                return
            await asyncio.sleep(1.0)
        raise Failed(f"the brokers do not host all topics after {SETTLE_SECONDS:.0f} s")

    def _wide_produces(self) -> list[Produce]:
        indexes = range(self._size.wide_partitions)
        return [
            Produce(None, -1, 60_000, tuple(PartitionData(name, index, batch(1)) for index in indexes))
            for name in self._wide
        ]

    def _produced(self, *batches: bytes) -> Produce:
        rows = tuple(PartitionData(TARGET, index, records) for index, records in enumerate(batches))
        return Produce(None, -1, 60_000, rows)

    async def _produce(self) -> None:
        for what, batches in records_cases(TARGET_PARTITIONS):
            await self._ask(PRODUCE, self._produced(*batches), what, at=self._home)
        for each in self._wide_produces():
            await self._ask(PRODUCE, each, "to 2,000 partitions", at=self._home)
        unknown = tuple(PartitionData(f"no-{index}", 0, batch(1)) for index in range(ELEMENTS // 2))
        request = Produce(None, -1, 60_000, unknown)
        await self._ask(PRODUCE, request, "to 4,995 unknown topics", at=self._home)

    def _every(self, most: int) -> list[tuple[str, int]]:
        """Partitions of wide topics, so many that they and their topics are ``most`` elements at most."""
        indexes = range(self._size.wide_partitions)
        return [(name, index) for name in self._wide for index in indexes][: most - len(self._wide)]

    async def _fetch(self) -> None:
        every = self._every(LOOKED_UP)
        rows = tuple(FetchPartition(name, None, index, -1, 0, -1, -1, 1 << 20) for name, index in every)
        at_end = tuple(FetchPartition(name, None, index, -1, 1 << 40, -1, -1, 1) for name, index in every)
        unknown = tuple(
            FetchPartition(f"no-{each}", None, 0, -1, 0, -1, -1, 1) for each in range(LOOKED_UP // 2)
        )
        for isolation in (0, READ_COMMITTED):
            for what, wanted in (("of many", rows), ("out of range", at_end), ("of unknown topics", unknown)):
                request = Fetch(-1, 0, 1, 1 << 30, isolation, 0, -1, wanted)
                await self._ask(FETCH, request, what, version=12, at=self._home)
        large = tuple(
            FetchPartition(TARGET, None, index, -1, 0, -1, -1, 1 << 30) for index in range(TARGET_PARTITIONS)
        )
        request = Fetch(-1, 0, 1, 1 << 30, 0, 0, -1, large)
        await self._ask(FETCH, request, "of all bytes", version=12, at=self._home)
        parked = Fetch(-1, PARKED_MS, 1 << 30, 1 << 30, 0, 0, -1, rows)
        self._show("Fetch that is parked")
        other = await self._connect(self._home)
        try:
            waiting = asyncio.ensure_future(other.call(FETCH, parked, version=12, timeout_s=REQUEST_SECONDS))
            await asyncio.sleep(PARKED_MS / 3000)
            for each in self._wide_produces():
                await self._ask(PRODUCE, each, "to a fetch that is parked", at=self._home)
            await waiting
        finally:
            other.close()

    async def _read(self) -> None:
        await self._ask(METADATA, Metadata(None))
        names = tuple(TopicQuery(name) for name in self._topics)
        await self._ask(METADATA, Metadata(names, allow_auto_topic_creation=False), "by name")
        no_topics = tuple(TopicQuery(f"no-{index}") for index in range(LOOKED_UP))
        await self._ask(METADATA, Metadata(no_topics, allow_auto_topic_creation=False), "of unknown topics")
        every = self._every(LOOKED_UP)
        for what, when in (("the latest", LATEST), ("a time", 1)):
            queries = tuple(OffsetQuery(name, index, when) for name, index in every)
            await self._ask(LIST_OFFSETS, ListOffsets(queries), what, at=self._home)
        late = int(time.time() * 1000) + 1
        queries = tuple(OffsetQuery(TARGET, index, late) for index in range(TARGET_PARTITIONS))
        await self._ask(LIST_OFFSETS, ListOffsets(queries), "the last record of 100,000", at=self._home)
        epochs = tuple(EpochQuery(name, index, 0) for name, index in every)
        await self._ask(OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpoch(epochs), at=self._home)

    async def _describe(self) -> None:
        resources = tuple(ConfigResource(TOPIC_RESOURCE, name) for name in self._topics)
        await self._ask(DESCRIBE_CONFIGS, DescribeConfigs(resources))
        keys = tuple(f"id-{number}" for number in range(LOOKED_UP))
        await self._ask(FIND_COORDINATOR, FindCoordinator(TRANSACTION, keys))

    # -- transactions -------------------------------------------------------------------------------

    async def _begin_transactions(self) -> None:
        await self._pipelined(self._init)
        wide = (
            *(TopicPartitions(name, tuple(range(self._size.wide_partitions))) for name in self._wide),
            *(TopicPartitions(name, tuple(range(PARTITIONS))) for name in self._topics),
        )
        for transactional_id in self._ids[: self._size.wide_transactions]:
            await self._add(transactional_id, wide)
            await self._ask(DESCRIBE_TRANSACTIONS, DescribeTransactions((transactional_id,)), "a wide one")
        target = (TopicPartitions(TARGET, (0,)),)
        several = tuple(
            AddPartitions(each, producer.producer_id, producer.producer_epoch, target)
            for each, producer in self._producers.items()
        )
        for start in range(0, len(several), ADDED_MAX):
            request = AddPartitionsToTxn(several[start : start + ADDED_MAX], batched=True)
            await self._ask(ADD_PARTITIONS_TO_TXN, request, "of many transactions")
        rows = tuple((name, tuple(range(self._size.wide_partitions))) for name in self._wide[:2])
        await self._ask(DESCRIBE_PRODUCERS, DescribeProducers(rows), at=self._home)

    async def _end_transactions(self) -> None:
        wide = self._ids[: self._size.wide_transactions]
        several = tuple(wide) * (len(self._ids) // len(wide))
        for what, described in (("all", tuple(self._ids)), ("wide ones", several)):
            await self._ask(DESCRIBE_TRANSACTIONS, DescribeTransactions(described), what)
        await self._ask(LIST_TRANSACTIONS, ListTransactions())
        await self._ask(LIST_TRANSACTIONS, ListTransactions(pattern="(a|b|.)*x"), "by pattern")
        await self._pipelined(self._end)
        rows = tuple((name, tuple(range(self._size.wide_partitions))) for name in self._wide[:2])
        one = WriteTxnMarkers((TxnMarker(1 << 40, 0, False, rows, 0),))
        await self._ask(WRITE_TXN_MARKERS, one, "one to many partitions", at=self._home)
        topic = ((TARGET, (0,)),)
        many = tuple(TxnMarker((1 << 40) + each, 0, False, topic, 0) for each in range(MARKERS))
        await self._ask(WRITE_TXN_MARKERS, WriteTxnMarkers(many), "many to one partition", at=self._home)

    async def _pipelined(self, call: Any) -> None:
        for start in range(0, len(self._ids), PIPELINED):
            await asyncio.gather(*map(call, self._ids[start : start + PIPELINED]))

    async def _init(self, transactional_id: str) -> None:
        answer = await self._ask(INIT_PRODUCER_ID, InitProducerId(transactional_id, 600_000))
        if answer is not None:
            self._producers[transactional_id] = answer

    async def _add(self, transactional_id: str, topics: tuple[TopicPartitions, ...]) -> None:
        producer = self._producers.get(transactional_id)
        if producer is not None:
            added = AddPartitions(transactional_id, producer.producer_id, producer.producer_epoch, topics)
            await self._ask(ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn((added,)), "wide", version=3)

    async def _end(self, transactional_id: str) -> None:
        producer = self._producers.get(transactional_id)
        if producer is not None:
            ends = EndTxn(transactional_id, producer.producer_id, producer.producer_epoch, committed=True)
            await self._ask(END_TXN, ends)
