"""A cluster of listeners in the test's own loop, which answer by rules, or by what a test puts in their way.

Faults   by API key, each for one request: ``Lost`` closes the connection, before or after the request was
         done; ``Refuse`` answers every row with a code; ``Silent`` never answers. They are taken in order.
"""

import asyncio
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from fencepost.client.types import TopicPartition
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.add_partitions import same_for_all
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply, Service
from fencepost.wire.errors import error_for
from fencepost.wire.k00_produce import PRODUCE, PartitionProduced, Produce, ProduceAnswer
from fencepost.wire.k03_metadata import (
    METADATA,
    BrokerNode,
    Metadata,
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
)
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)
from fencepost.wire.k18_api_versions import Features, FinalizedFeature
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.listener import Listener
from fencepost.wire.requests import (
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    InitProducerId,
    InitProducerIdAnswer,
)
from tests.client.partition_model import PartitionModel
from tests.wire.stage import capturing_log


@dataclass(frozen=True)
class Lost:
    """The connection is closed. ``done``: after the request took effect."""

    done: bool


@dataclass(frozen=True)
class Refuse:
    """Answered with this code. ``done``: although it took effect."""

    code: int
    done: bool = False


@dataclass(frozen=True)
class Silent:
    """Never answered. ``done``: although it took effect."""

    done: bool = False


Fault: TypeAlias = Lost | Refuse | Silent | None
Rule: TypeAlias = Callable[[Any, int], Any]
"""(request, node id) -> response, or ApiError."""


class ScriptedCluster:
    """``node_count`` listeners; partition p of each topic is led by node ``leaders[p]``, else p % nodes."""

    def __init__(self, node_count: int = 1, partition_count: int = 1) -> None:
        self.node_count = node_count
        self.partition_count = partition_count
        self.topics: dict[str, uuid.UUID] = {"t": uuid.UUID(int=7)}
        self.leaders: dict[TopicPartition, int] = {}
        self.logs: defaultdict[TopicPartition, PartitionModel] = defaultdict(PartitionModel)
        self.faults: defaultdict[int, deque[Fault]] = defaultdict(deque)
        self.seen: defaultdict[int, list[Any]] = defaultdict(list)
        self.coordinator = 0
        self.transaction_version = 0
        self.next_producer_id = 1000
        self.rules: dict[Api[Any, Any], Rule] = {
            METADATA: self._metadata,
            FIND_COORDINATOR: self._find_coordinator,
            INIT_PRODUCER_ID: self._init_producer_id,
            PRODUCE: self._produce,
        }
        self._listeners: list[Listener] = []
        self._service: Service = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{each.port}" for each in self._listeners)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Yields the bootstrap servers."""
        for node_id in range(self.node_count):
            service: Service = {
                api.key: (api, self._endpoint(api, rule, node_id)) for api, rule in self.rules.items()
            }
            listener = Listener(service, name="PLAINTEXT", log=capturing_log()[0], features=self._features)
            await listener.start("127.0.0.1", 0)
            self._listeners.append(listener)
        try:
            yield self.bootstrap
        finally:
            for listener in self._listeners:
                await listener.stop()

    async def await_seen(self, key: int, count: int) -> None:
        """Return when so many requests of the key have come."""
        while len(self.seen[key]) < count:
            await asyncio.sleep(0)

    def leader(self, partition: TopicPartition) -> int:
        return self.leaders.get(partition, partition.partition % self.node_count)

    def _features(self) -> Features:
        if not self.transaction_version:
            return Features()
        return Features((), (FinalizedFeature("transaction.version", self.transaction_version),), 1)

    def _endpoint(self, api: Api[Any, Any], rule: Rule, node_id: int) -> Endpoint[Any, Any]:
        def serve(request: Any, context: Context, reply: Reply[Any]) -> None:
            self.seen[api.key].append(request)
            queue = self.faults[api.key]
            fault = queue.popleft() if queue else None
            outcome = rule(request, node_id) if fault is None or fault.done else None
            match fault:
                case None:
                    if isinstance(outcome, asyncio.Future):
                        outcome.add_done_callback(lambda done: reply(done.result()))
                    else:
                        reply(outcome)
                case Lost():
                    reply.close("a fault of the test")
                case Refuse(code=code):
                    reply(_refusal(request, code))
                case Silent():
                    pass

        return serve

    # -- rules ----------------------------------------------------------------------------------------------

    def _metadata(self, request: Metadata, node_id: int) -> MetadataAnswer:
        names = list(self.topics) if request.topics is None else [each.name or "" for each in request.topics]
        brokers = tuple(
            BrokerNode(each, "127.0.0.1", listener.port) for each, listener in enumerate(self._listeners)
        )
        return MetadataAnswer(cluster_id="c", brokers=brokers, topics=tuple(map(self._topic, names)))

    def _topic(self, name: str) -> TopicMetadata:
        if name not in self.topics:
            return TopicMetadata(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = tuple(
            PartitionMetadata(partition_index=each, leader_id=self.leader(TopicPartition(name, each)))
            for each in range(self.partition_count)
        )
        return TopicMetadata(name=name, topic_id=self.topics[name], partitions=partitions)

    def _find_coordinator(self, request: FindCoordinator, node_id: int) -> FindCoordinatorAnswer:
        port = self._listeners[self.coordinator].port
        return FindCoordinatorAnswer(
            tuple(Coordinator(key, self.coordinator, "127.0.0.1", port) for key in request.keys)
        )

    def _init_producer_id(self, request: InitProducerId, node_id: int) -> InitProducerIdAnswer | ApiError:
        self.next_producer_id += 1
        return InitProducerIdAnswer(ProducerId(self.next_producer_id), 0)

    def _produce(self, request: Produce, node_id: int) -> ProduceAnswer:
        rows = []
        for each in request.partitions:
            partition = TopicPartition(each.topic, each.index)
            if self.leader(partition) != node_id:
                rows.append(PartitionProduced(*partition, ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            code, offset = self.logs[partition].append(bytes(each.records or b""))
            rows.append(PartitionProduced(*partition, code, offset))
        return ProduceAnswer(tuple(rows))


def _refusal(request: Any, code: int) -> Any:
    if isinstance(request, Produce):
        return ProduceAnswer(
            tuple(PartitionProduced(each.topic, each.index, code) for each in request.partitions)
        )
    error = error_for(code)
    if isinstance(request, AddPartitionsToTxn):
        (transaction,) = request.transactions
        answer = same_for_all(transaction, error.code)
        return AddPartitionsToTxnAnswer(((transaction.transactional_id, answer),))
    return error
