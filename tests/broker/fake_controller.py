"""A scripted controller that speaks real frames, for tests of what a broker does with each answer.

Without a script it is a good controller: it registers, unfences, and hands out blocks of ten. A script
gives the outcomes of the next requests of one API key: an ApiError or a response to answer with,
``SILENCE`` to never answer, or a callable ``(request, context) -> outcome``.
"""

import asyncio
import itertools
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import structlog
from msgspec import structs
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from fencepost.controller.broker_configs import digest_of_layers
from fencepost.controller.brokers import Heartbeat, HeartbeatStatus, RegisterBroker
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.topics import CreateTopicsAnswer, DeleteTopicsAnswer, TopicConfig, configs_digest
from fencepost.controller.transactions.add_partitions import (
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    same_for_all,
)
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.records.partition_report import PartitionReport
from fencepost.records.types import BrokerEpoch, NodeId, ProducerId
from fencepost.wire.auth import Logins
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply
from fencepost.wire.k03_metadata import (
    METADATA,
    Metadata,
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
    TopicQuery,
)
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigsDescribed,
    DescribeConfigs,
    DescribeConfigsAnswer,
)
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorumAnswer, QuorumPartition
from fencepost.wire.k60_describe_cluster import (
    CONTROLLERS,
    DESCRIBE_CLUSTER,
    ClusterNode,
    DescribeCluster,
    DescribeClusterAnswer,
)
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.listener import Listener
from tests import skipping_loop
from tests.secret import known_secret

HOST: Final = "127.0.0.1"
TIMEOUT_S: Final = 30.0  # of a whole test; never reached by one that passes
SILENCE: Final = object()
CLUSTER_ID: Final = "clusterclusterclusterg"


class NoReports:
    """A broker that has no partitions."""

    def next(self, _epoch: BrokerEpoch, *, leaving: bool = False) -> tuple[PartitionReport, ...]:
        del leaving
        return ()

    def answered(self) -> None: ...


UNFENCED: Final = HeartbeatStatus(is_caught_up=True, is_fenced=False, should_shut_down=False)
LET_GO: Final = HeartbeatStatus(is_caught_up=True, is_fenced=True, should_shut_down=True)

APIS: Final[tuple[Api[Any, Any], ...]] = (
    DESCRIBE_QUORUM,
    DESCRIBE_CLUSTER,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    ALLOCATE_PRODUCER_IDS,
    METADATA,
    ADD_PARTITIONS_TO_TXN,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    LIST_TRANSACTIONS,
    DESCRIBE_TRANSACTIONS,
    UNREGISTER_BROKER,
)


def captured_log() -> tuple[FilteringBoundLogger, LogCapture]:
    """A logger, and where what it says is kept."""
    capture = LogCapture()
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[capture],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return log, capture


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's story; one that hangs fails."""
    asyncio.run(_bounded(story))


def play_at_once(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """As ``play``, for a story of clients and listeners that has no thread: its pauses take no time."""
    skipping_loop.run(_bounded(story))


async def _bounded(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await story()


class FakeController:
    """Use it as an asynchronous context manager. ``asked[key]`` holds the requests, in order."""

    def __init__(self, node_id: int = 1, *, credentials: dict[str, str] | None = None) -> None:
        self.node_id = NodeId(node_id)
        self.leader_id = NodeId(node_id)
        self.brokers: tuple[ClusterNode, ...] = ()
        self.topics: dict[str, TopicMetadata] = {}
        self.settings: dict[str, str] = {}  # of every topic
        self.broker_settings: tuple[TopicConfig, ...] | None = None  # set while it runs; None: not kept
        self.transactions: list[DescribedTransaction] = []
        self.verdict = ErrorCode.NONE  # of every partition of every transaction
        self.asked: dict[int, list[Any]] = defaultdict(list)
        self.contexts: dict[int, list[Context]] = defaultdict(list)
        self.scripts: dict[int, deque[Any]] = defaultdict(deque)
        self.epochs = itertools.count(5)
        self.topic_numbers = itertools.count()
        self.next_id = 0
        self.throttle_ms = 0
        self.proves = True  # False: of a version without ProveSecret
        self.log, self.logged = captured_log()
        self._news = asyncio.Event()
        self._credentials = credentials

    async def __aenter__(self) -> "FakeController":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listen; after ``stop`` at the same port, this is a restart."""
        self._listener = Listener(
            {api.key: (api, self._endpoint(api)) for api in APIS},
            name="CONTROLLER",
            log=self.log,
            security_protocol="PLAINTEXT" if self._credentials is None else "SASL_PLAINTEXT",
            logins=None if self._credentials is None else Logins(self._credentials),
            secret=known_secret(self.node_id, CLUSTER_ID) if self.proves else None,
        )
        await self._listener.start(HOST, port)
        self.port = self._listener.port

    async def stop(self) -> None:
        """Close every connection."""
        await self._listener.stop()

    def hang_up(self) -> None:
        """Cut every connection; go on listening."""
        for connection in tuple(self._listener._connections):
            connection.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return HOST, self.port

    def script(self, api: Api[Any, Any], *outcomes: Any) -> None:
        """What the next requests of ``api`` are answered with."""
        self.scripts[api.key].extend(outcomes)

    async def count(self, api: Api[Any, Any], count: int) -> list[Any]:
        """Wait for that many requests of ``api``; all that came."""
        while len(self.asked[api.key]) < count:
            self._news.clear()
            await self._news.wait()
        return self.asked[api.key]

    def _endpoint(self, api: Api[Any, Any]) -> Endpoint[Any, Any]:
        defaults: dict[int, Callable[[Any], Any]] = {
            55: lambda request: DescribeQuorumAnswer.of(QuorumPartition(leader_id=self.leader_id)),
            60: self._describe,
            62: self._register,
            63: self._heartbeat,
            67: self._allocate,
            METADATA.key: self._metadata,
            DESCRIBE_CONFIGS.key: self._describe_configs,
            ADD_PARTITIONS_TO_TXN.key: self._verify,
            CREATE_TOPICS.key: lambda request: CreateTopicsAnswer(()),
            DELETE_TOPICS.key: lambda request: DeleteTopicsAnswer(()),
            LIST_TRANSACTIONS.key: self._list,
            DESCRIBE_TRANSACTIONS.key: self._describe_transactions,
        }

        def endpoint(request: Any, context: Context, reply: Reply[Any]) -> None:
            self.asked[api.key].append(request)
            self.contexts[api.key].append(context)
            self._news.set()
            script = self.scripts[api.key]
            outcome = script.popleft() if script else defaults[api.key](request)
            if callable(outcome):
                outcome = outcome(request, context)
            if outcome is not SILENCE:
                reply(outcome, self.throttle_ms if api.key == ALLOCATE_PRODUCER_IDS.key else 0)

        return endpoint

    def _describe(self, request: DescribeCluster) -> DescribeClusterAnswer | ApiError:
        if request.endpoint_type == CONTROLLERS:
            nodes: tuple[ClusterNode, ...] = (ClusterNode(self.node_id, HOST, self.port),)
        else:
            nodes = self.brokers
        return DescribeClusterAnswer(
            cluster_id=CLUSTER_ID,
            controller_id=self.leader_id,
            brokers=nodes,
            endpoint_type=request.endpoint_type,
        )

    def _metadata(self, request: Metadata) -> MetadataAnswer:
        if request.topics is None:
            return MetadataAnswer(cluster_id=CLUSTER_ID, topics=tuple(map(self._shown, self.topics.values())))
        return MetadataAnswer(cluster_id=CLUSTER_ID, topics=tuple(map(self._topic, request.topics)))

    def _topic(self, query: TopicQuery) -> TopicMetadata:
        for topic in self.topics.values():
            if query.name == topic.name or (query.name is None and query.topic_id == topic.topic_id):
                return self._shown(topic)
        code = ErrorCode.UNKNOWN_TOPIC_ID if query.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return TopicMetadata(name=query.name, topic_id=query.topic_id, error_code=code)

    def _shown(self, topic: TopicMetadata) -> TopicMetadata:
        return structs.replace(topic, configs_digest=configs_digest(tuple(sorted(self.settings.items()))))

    def _describe_configs(self, request: DescribeConfigs) -> DescribeConfigsAnswer:
        settings = tuple(TopicConfig(name, value, 1) for name, value in self.settings.items())
        return DescribeConfigsAnswer(
            tuple(
                ConfigsDescribed(
                    each.resource_type,
                    each.name,
                    self.broker_settings or () if each.resource_type == BROKER_RESOURCE else settings,
                )
                for each in request.resources
            )
        )

    def _list(self, request: ListTransactions) -> ListTransactionsAnswer:
        found = (
            ListedTransaction(each.transactional_id, each.producer_id, each.state)
            for each in self.transactions
            if each.producer_id in request.producer_id_filters and each.state in request.state_filters
        )
        return ListTransactionsAnswer((), tuple(found))

    def _describe_transactions(self, request: DescribeTransactions) -> DescribeTransactionsAnswer:
        known = {each.transactional_id: each for each in self.transactions}
        return DescribeTransactionsAnswer(
            tuple(
                known.get(each, DescribedTransaction(each, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
                for each in request.transactional_ids
            )
        )

    def _verify(self, request: AddPartitionsToTxn) -> AddPartitionsToTxnAnswer:
        return AddPartitionsToTxnAnswer(
            tuple((each.transactional_id, same_for_all(each, self.verdict)) for each in request.transactions)
        )

    def add_topic(self, name: str, *leaders: int) -> TopicMetadata:
        """A topic, with a partition for each of these brokers. Its id is the same in every run of a test."""
        self.topics[name] = TopicMetadata(
            name=name,
            topic_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {next(self.topic_numbers)}"),
            partitions=tuple(
                PartitionMetadata(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=0,
                    replica_nodes=(leader,),
                    isr_nodes=(leader,),
                )
                for index, leader in enumerate(leaders)
            ),
        )
        return self.topics[name]

    def _register(self, request: RegisterBroker) -> BrokerEpoch:
        return BrokerEpoch(next(self.epochs))

    def _heartbeat(self, request: Heartbeat) -> HeartbeatStatus:
        answer = LET_GO if request.want_shut_down else UNFENCED
        if self.broker_settings is None:
            return answer
        layers = tuple((each.name, each.synonyms) for each in self.broker_settings)
        return replace(answer, settings_digest=digest_of_layers(layers))

    def _allocate(self, request: AllocateProducerIds) -> ProducerIdBlock:
        first = self.next_id
        self.next_id += 10
        return ProducerIdBlock(ProducerId(first), 10)
