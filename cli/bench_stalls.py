"""How long one piece of work holds a node's event loop, under the largest requests that are legal.

Load      a cluster with many topics and transactions, then of each API key the request that costs most within
          its limits, sent to the active controller's node; the others follow its log.
Figures   what the nodes measured themselves: ``fencepost_loop_stall_ms`` by request and other work, the CPU
          time of the loop's thread without flushes, so that a busy machine does not count.
"""

import asyncio
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import cramjam
from crc32c import crc32c

from cli.bench_cluster import OwnCluster
from cli.cluster_state import leader_id
from cli.output import Failed, table
from controller.errors import ApiError
from controller.topics import CreateTopics, DeleteTopics, NewTopic
from controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from controller.transactions.describe import DescribeTransactions, ListTransactions
from controller.transactions.end_txn import EndTxn
from controller.transactions.init_producer_id import InitProducerId, InitProducerIdAnswer
from records.batch import HEADER_BYTES, encode_batch
from records.compression import ZSTD
from records.transaction_log import TopicPartitions
from wire.connection import Connection, ConnectionLost, RequestTimeout
from wire.dispatch import Api
from wire.k00_produce import PRODUCE, PartitionData, Produce
from wire.k01_fetch import FETCH, READ_COMMITTED, Fetch, FetchPartition
from wire.k02_list_offsets import LATEST, LIST_OFFSETS, ListOffsets, OffsetQuery
from wire.k03_metadata import METADATA, Metadata, TopicQuery
from wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator
from wire.k19_create_topics import CREATE_TOPICS
from wire.k20_delete_topics import DELETE_TOPICS
from wire.k22_init_producer_id import INIT_PRODUCER_ID
from wire.k23_offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH, EpochQuery, OffsetForLeaderEpoch
from wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from wire.k26_end_txn import END_TXN
from wire.k27_write_txn_markers import WRITE_TXN_MARKERS, TxnMarker, WriteTxnMarkers
from wire.k32_describe_configs import DESCRIBE_CONFIGS, ConfigResource, DescribeConfigs
from wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducers
from wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from wire.k66_list_transactions import LIST_TRANSACTIONS
from wire.schema import LOOKED_UP_ELEMENTS_MAX

STALL_MS: Final = 50.0
"""What the bench fails at: a leader's heartbeat is due so often."""

METRIC: Final = "fencepost_loop_stall_ms{work="
TOPICS: Final = 500  # in one CreateTopics; of them TOPIC_REQUESTS
TOPIC_REQUESTS: Final = 2
PARTITIONS: Final = 4  # of each topic
WIDE: Final = "w" * 249
WIDE_PARTITIONS: Final = 2000
TARGET: Final = "target"
TARGET_PARTITIONS: Final = 8
IDS: Final = 5000
ELEMENTS: Final = 19_990  # just below what is read of one request
LOOKED_UP: Final = LOOKED_UP_ELEMENTS_MAX - 10  # likewise, of one that looks each element up
TOPIC_RESOURCE: Final = 2
REQUEST_SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 60.0
PIPELINED: Final = 500

_LENGTH_COUNTS_FROM: Final = 12
_CRC_END: Final = 21
_ATTRIBUTES_END: Final = 23

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stalled:
    """The figures, in the shape of the JSON, and which requests were refused, or not answered in time."""

    figures: dict[str, Any]
    refused: dict[str, str]

    @property
    def is_sound(self) -> bool:
        """Nothing held a loop for too long."""
        return all(max(row["leader_ms"], row["followers_ms"]) < STALL_MS for row in self.figures["rows"])


def measure(own: OwnCluster, show: Show) -> Stalled:
    """Load the cluster and ask its nodes for what held them."""
    leader = leader_id(own.cluster)
    if leader is None:
        raise Failed("the cluster has no leader")
    load = _Load(own, int(leader), show)
    asyncio.run(load.run())
    found = {int(node.node_id): _stalls(node.config.metrics_port) for node in own.cluster.nodes}
    works = sorted({work for stalls in found.values() for work in stalls})
    rows = [
        {
            "work": work,
            "leader_ms": found[int(leader)].get(work, 0.0),
            "followers_ms": max(
                (found[node].get(work, 0.0) for node in found if node != leader), default=0.0
            ),
        }
        for work in works
    ]
    return Stalled({"leader": int(leader), "rows": rows}, load.refused)


def lines(stalled: Stalled) -> str:
    """The figures as a table, the longest first."""
    rows = sorted(stalled.figures["rows"], key=lambda row: -max(row["leader_ms"], row["followers_ms"]))
    shown = [(row["work"], f"{row['leader_ms']:.1f}", f"{row['followers_ms']:.1f}") for row in rows]
    return table(("WORK", "LEADER MS", "FOLLOWERS MS"), shown)


def _stalls(port: int | None) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        shown: list[str] = answer.read().decode().splitlines()
    found = {}
    for line in shown:
        if line.startswith(METRIC):
            name, value = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(value)
    return found


class _Load:
    """The requests, one kind after the other, over one connection to the leader's node."""

    def __init__(self, own: OwnCluster, leader: int, show: Show) -> None:
        listener = own.cluster.node(leader).config.client_listener
        if listener is None:
            raise Failed(f"node {leader} has no client listener")
        self._address = listener.address
        self._leader = leader
        self._show = show
        self._topics = [f"{number:04d}".ljust(249, "t") for number in range(TOPICS * TOPIC_REQUESTS)]
        self._producers: dict[str, InitProducerIdAnswer] = {}
        self.refused: dict[str, str] = {}

    async def run(self) -> None:
        """All of them."""
        self._client = await Connection.open(self._address.host, self._address.port)
        try:
            for step in (self._make_topics, self._produce, self._read, self._describe, self._transact):
                await step()
            await self._ask(DELETE_TOPICS, DeleteTopics(names=tuple(self._topics)))
            await asyncio.sleep(2.0)  # the brokers follow
        finally:
            self._client.close()

    async def _ask(self, api: Api[Any, Any], request: Any, what: str = "", version: int | None = None) -> Any:
        """One answer, None if there was none; which is kept under its name."""
        name = f"{api.name} {what}".strip()
        self._show(name)
        try:
            if not self._client.is_open:
                self._client = await Connection.open(self._address.host, self._address.port)
            return await self._client.call(api, request, version=version, timeout_s=REQUEST_SECONDS)
        except (ApiError, ConnectionLost, RequestTimeout) as error:
            self.refused[name] = str(error)
            return None

    async def _make_topics(self) -> None:
        here = tuple((index, (self._leader,)) for index in range(TARGET_PARTITIONS))
        await self._ask(CREATE_TOPICS, CreateTopics((NewTopic(TARGET, assignments=here),)))
        await self._ask(CREATE_TOPICS, CreateTopics((NewTopic(WIDE, WIDE_PARTITIONS, 1),)), "wide")
        for start in range(0, len(self._topics), TOPICS):
            several = tuple(NewTopic(name, PARTITIONS, 1) for name in self._topics[start : start + TOPICS])
            await self._ask(CREATE_TOPICS, CreateTopics(several), "many")
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:  # until the brokers host them
            answer = await self._ask(METADATA, Metadata(None))
            hosted = await self._ask(PRODUCE, _produce(_batch(1)))
            if answer is not None and len(answer.topics) > len(self._topics) and hosted is not None:
                return
            await asyncio.sleep(1.0)

    async def _produce(self) -> None:
        headers = _packed(_batch(3_900, headers=1024, value=None))
        for what, batches in (
            ("of 100,000 records, zstd", [_packed(_batch(100_000))]),
            ("of 20 such batches in one partition", [_packed(_batch(100_000)) * 20]),
            ("of 100,000 records in each partition", [_packed(_batch(100_000))] * TARGET_PARTITIONS),
            ("of 3,900 records of 1,024 headers", [headers]),
            ("of a bomb", [_packed(_batch(1)[:HEADER_BYTES] + bytes(64 * 1024 * 1024))]),
            ("of 80 MB", [_batch(1, value=bytes(1_000_000)) * 10] * TARGET_PARTITIONS),
            ("of 1 MB in records of 10 bytes", [_batch(60_000, value=b"0123456789")]),
        ):
            await self._ask(PRODUCE, _produce(*batches), what)
        rows = tuple(PartitionData(WIDE, index, _batch(1)) for index in range(WIDE_PARTITIONS))
        await self._ask(PRODUCE, Produce(None, -1, 60_000, rows, 11), "to 2,000 partitions")
        unknown = tuple(PartitionData(f"no-{index}", 0, _batch(1)) for index in range(ELEMENTS // 2))
        await self._ask(PRODUCE, Produce(None, -1, 60_000, unknown, 11), "to 9,995 unknown topics")

    async def _read(self) -> None:
        wide = [(WIDE, index) for index in range(WIDE_PARTITIONS)]
        every = wide + [(name, index) for name in self._topics for index in range(PARTITIONS)]
        answer = await self._ask(METADATA, Metadata(None))
        names = tuple(TopicQuery(name) for name in self._topics)
        await self._ask(METADATA, Metadata(names, allow_auto_topic_creation=False), "by name")
        no_topics = tuple(TopicQuery(f"no-{index}") for index in range(LOOKED_UP))
        await self._ask(METADATA, Metadata(no_topics, allow_auto_topic_creation=False), "of unknown topics")
        ids = {} if answer is None else {topic.name: topic.topic_id for topic in answer.topics}
        rows = tuple(
            FetchPartition(name, ids.get(name), index, -1, 0, -1, -1, 1 << 20) for name, index in every
        )
        for isolation in (0, READ_COMMITTED):
            await self._ask(FETCH, Fetch(-1, 0, 1, 1 << 30, isolation, 0, -1, rows, 12), version=12)
        large = tuple(
            FetchPartition(TARGET, None, index, -1, 0, -1, -1, 1 << 30) for index in range(TARGET_PARTITIONS)
        )
        await self._ask(FETCH, Fetch(-1, 0, 1, 1 << 30, 0, 0, -1, large, 12), "of all bytes", version=12)
        for what, when in (("the latest", LATEST), ("a time", 1)):
            queries = tuple(OffsetQuery(name, index, when) for name, index in every)
            await self._ask(LIST_OFFSETS, ListOffsets(queries), what)
        late = int(time.time() * 1000) + 1
        queries = tuple(OffsetQuery(TARGET, index, late) for index in range(TARGET_PARTITIONS))
        await self._ask(LIST_OFFSETS, ListOffsets(queries), "the last record of 100,000")
        epochs = tuple(EpochQuery(name, index, 0) for name, index in every)
        await self._ask(OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpoch(epochs))
        topics = ((WIDE, tuple(range(WIDE_PARTITIONS))),)
        await self._ask(DESCRIBE_PRODUCERS, DescribeProducers(topics))

    async def _describe(self) -> None:
        resources = tuple(ConfigResource(TOPIC_RESOURCE, name) for name in self._topics)
        await self._ask(DESCRIBE_CONFIGS, DescribeConfigs(resources))
        keys = tuple(f"id-{number}" for number in range(LOOKED_UP))
        await self._ask(FIND_COORDINATOR, FindCoordinator(TRANSACTION, keys))

    async def _transact(self) -> None:
        ids = [f"id-{number}" for number in range(IDS)]
        for start in range(0, IDS, PIPELINED):
            await asyncio.gather(*map(self._init, ids[start : start + PIPELINED]))
        every = (
            TopicPartitions(WIDE, tuple(range(WIDE_PARTITIONS))),
            *(TopicPartitions(name, tuple(range(PARTITIONS))) for name in self._topics),
        )
        target = (TopicPartitions(TARGET, (0,)),)
        for number, transactional_id in enumerate(ids[:20]):
            await self._add(transactional_id, every, "all partitions")
            await self._ask(DESCRIBE_TRANSACTIONS, DescribeTransactions((transactional_id,)), "a wide one")
            if number >= 10:
                await self._end(transactional_id, committed=bool(number % 2))
        batch = tuple(
            AddPartitions(each, producer.producer_id, producer.producer_epoch, target)
            for each, producer in self._producers.items()
        )
        await self._ask(
            ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn(batch, batched=True), "of 5,000 transactions"
        )
        for what, described in (("5,000", ids), ("5,000 wide", ids[:10] * (IDS // 10))):
            await self._ask(DESCRIBE_TRANSACTIONS, DescribeTransactions(tuple(described)), what)
        await self._ask(LIST_TRANSACTIONS, ListTransactions())
        await self._ask(LIST_TRANSACTIONS, ListTransactions(pattern="(a|b|.)*x"), "by pattern")
        for start in range(0, IDS, PIPELINED):
            await asyncio.gather(
                *(self._end(each, committed=True) for each in ids[start : start + PIPELINED])
            )
        topics = ((WIDE, tuple(range(WIDE_PARTITIONS))),)
        markers = WriteTxnMarkers((TxnMarker(1, 0, False, topics, 0), TxnMarker(2, 0, False, topics, 0)))
        await self._ask(WRITE_TXN_MARKERS, markers)

    async def _init(self, transactional_id: str) -> None:
        for _ in range(100):
            try:
                answer = await self._client.call(
                    INIT_PRODUCER_ID, InitProducerId(transactional_id, 600_000), timeout_s=REQUEST_SECONDS
                )
            except ApiError:
                await asyncio.sleep(0.05)
                continue
            self._producers[transactional_id] = answer
            return

    async def _add(self, transactional_id: str, topics: tuple[TopicPartitions, ...], what: str) -> None:
        producer = self._producers.get(transactional_id)
        if producer is not None:
            added = AddPartitions(transactional_id, producer.producer_id, producer.producer_epoch, topics)
            await self._ask(ADD_PARTITIONS_TO_TXN, AddPartitionsToTxn((added,)), what, version=3)

    async def _end(self, transactional_id: str, *, committed: bool) -> None:
        producer = self._producers.get(transactional_id)
        if producer is None:
            return
        end = EndTxn(transactional_id, producer.producer_id, producer.producer_epoch, committed)
        try:
            await self._client.call(END_TXN, end, timeout_s=REQUEST_SECONDS)
        except ApiError as error:
            self.refused.setdefault("EndTxn", str(error))


def _batch(count: int, *, headers: int = 0, value: bytes | None = b"") -> bytes:
    records = [(None, value, ((b"", None),) * headers)] * count
    return encode_batch(records, timestamp_ms=int(time.time() * 1000))


def _packed(raw: bytes) -> bytes:
    """The batch with its records compressed, its length and CRC made right."""
    attributes = (ZSTD).to_bytes(2, "big")
    checked = (
        attributes + raw[_ATTRIBUTES_END:HEADER_BYTES] + bytes(cramjam.zstd.compress(raw[HEADER_BYTES:]))
    )
    length = (_CRC_END + len(checked) - _LENGTH_COUNTS_FROM).to_bytes(4, "big")
    return raw[:8] + length + raw[12:17] + crc32c(checked).to_bytes(4, "big") + checked


def _produce(*batches: bytes) -> Produce:
    rows = tuple(PartitionData(TARGET, index, records) for index, records in enumerate(batches))
    return Produce(None, -1, 60_000, rows, 11)
