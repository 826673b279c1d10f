"""The admin client that applications import: topics, groups, transactions, features.

Repeated    what was lost or refused for now, for ``api_timeout_ms``. A request that was done and whose answer
            was lost is done again: a topic may then be refused because it exists.
Ours        ``explain_transaction``, ``fence_history`` and forced markers are of our cluster alone; another
            one answers UNSUPPORTED_VERSION (Refused).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from fencepost.client import group_offsets
from fencepost.client.backoff import Backoff
from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import IllegalState, NotReachable, Refused, RequestTimedOut, number_of, refused
from fencepost.client.explain import Explainer
from fencepost.client.metadata import ClusterMetadata, Topic
from fencepost.client.network import LOST, Channel, Network, NetworkSettings, Sasl, addresses
from fencepost.client.types import OffsetAndMetadata, TopicPartition
from fencepost.wire.connection import NotConnected
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.errors import error_for
from fencepost.wire.k10_find_coordinator import GROUP, TRANSACTION
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k32_describe_configs import (
    DESCRIBE_CONFIGS,
    TOPIC_RESOURCE,
    ConfigResource,
    DescribeConfigs,
)
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE
from fencepost.wire.k57_update_features import UPDATE_FEATURES
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForceMarkers
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    ExplainTransaction,
    Explanation,
    FenceExplained,
)
from fencepost.wire.requests import (
    ApiError,
    CreateTopics,
    DeleteGroups,
    DeleteOffsets,
    DeleteTopics,
    DescribedGroup,
    DescribedTransaction,
    DescribeGroups,
    DescribeTransactions,
    Direction,
    ErrorCode,
    FeatureUpdate,
    InitProducerId,
    ListedGroup,
    ListedTransaction,
    ListGroups,
    ListTransactions,
    ListTransactionsAnswer,
    NewTopic,
    TopicConfig,
    UpdateFeatures,
)
from fencepost.wire.tls import Tls

T = TypeVar("T")

TERMINATED_TIMEOUT_MS: Final = 60_000  # of an id whose transaction had no timeout (two-phase commit)
NO_TIMEOUT_MS: Final = 2**31 - 1
WEDGED: Final = "wedged"

_LATER: Final = frozenset(
    (
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
)

_MOVED: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
)
"""In a row of an answer: nothing was done, and the node that coordinates now does it."""


class Admin:
    """Looks at and changes a cluster. ``async with Admin("localhost:9092") as admin: ...``

    Each call raises Refused (with Kafka's code), NotReachable or RequestTimedOut.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "fencepost-admin",
        sasl: Sasl | None = None,
        tls: Tls | None = None,
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int = 60_000,
    ) -> None:
        settings = NetworkSettings(
            bootstrap=addresses(bootstrap_servers),
            client_id=client_id,
            sasl=sasl,
            tls=tls,
            request_timeout_s=request_timeout_ms / 1000,
        )
        self._network = Network(settings, random.Random())
        self._metadata = ClusterMetadata(self._network, creates_topics=False)
        self._timeout_s = api_timeout_ms / 1000
        self._closed = False

    async def __aenter__(self) -> Self:
        """Reach the cluster. Raises NotReachable."""
        try:
            await self._metadata.refresh(self._timeout_s)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close all connections. May be called again."""
        self._closed = True
        try:
            await self._metadata.close()
        finally:
            await self._network.close()

    # -- topics ---------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. -1: the cluster's default."""
        topic = NewTopic(name, partitions, replication_factor, (), tuple((configs or {}).items()))
        answer = await self._any(CREATE_TOPICS, CreateTopics((topic,)), f"topic {name!r}")
        for each in answer.topics:
            _require_done(each.error_code, f"topic {name!r}: {each.error_message}")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        answer = await self._any(DELETE_TOPICS, DeleteTopics((name,)), f"topic {name!r}")
        for each in answer.topics:
            _require_done(each.error_code, f"topic {name!r}: {each.error_message}")

    async def list_topics(self) -> dict[str, Topic]:
        """Every topic by name, with the leaders of its partitions."""
        self._metadata.want_all(True)
        await self._metadata.refresh(self._timeout_s)
        return dict(self._metadata.topics())

    async def describe_topic(self, name: str) -> Topic:
        """One topic. Raises UnknownTopic."""
        topics = await self.list_topics()
        if name not in topics:
            raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return topics[name]

    async def topic_configs(self, name: str) -> dict[str, TopicConfig]:
        """The settings in force of a topic, by their names."""
        request = DescribeConfigs((ConfigResource(TOPIC_RESOURCE, name),))
        answer = await self._any(DESCRIBE_CONFIGS, request, f"topic {name!r}")
        (described,) = answer.results
        _require_done(described.error_code, f"topic {name!r}: {described.error_message}")
        return {config.name: config for config in described.configs}

    # -- groups ---------------------------------------------------------------------------------------------

    async def list_groups(self) -> list[ListedGroup]:
        """Every group, by its id."""
        answers = await self._each(LIST_GROUPS, ListGroups(), "ListGroups")
        return sorted((each for answer in answers for each in answer.groups), key=lambda each: each.group_id)

    async def describe_group(self, group_id: str) -> DescribedGroup:
        """A group and its members."""
        answer = await self._group(
            group_id,
            DESCRIBE_GROUPS,
            DescribeGroups((group_id,)),
            lambda answer: [each.error_code for each in answer.groups],
        )
        (described,) = answer.groups
        _require_done(described.error_code, f"group {group_id!r}")
        return described

    async def delete_group(self, group_id: str) -> None:
        """Forget a group without members, and its offsets."""
        answer = await self._group(
            group_id,
            DELETE_GROUPS,
            DeleteGroups((group_id,)),
            lambda answer: [code for _, code in answer.results],
        )
        for _, code in answer.results:
            _require_done(code, f"group {group_id!r}")

    async def group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed of these partitions; those without an offset are left out."""
        coordinator = Coordinator(self._network, GROUP, group_id)
        return await group_offsets.committed(coordinator, group_id, partitions, timeout_s=self._timeout_s)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget what a group committed of partitions that none of its members reads."""
        request = DeleteOffsets(group_id, tuple((each.topic, each.partition) for each in sorted(partitions)))
        answer = await self._group(
            group_id, OFFSET_DELETE, request, lambda answer: [each.code for each in answer.rows]
        )
        for row in answer.rows:
            _require_done(row.code, f"group {group_id!r}, {row.topic}-{row.partition}")

    # -- transactions ---------------------------------------------------------------------------------------

    async def list_transactions(
        self, *, states: Sequence[str] = (), running_longer_than_ms: int = -1
    ) -> list[ListedTransaction]:
        """Transactional ids, by id: all, or those in some states, or open for longer than a time."""
        request = ListTransactions(tuple(states), (), running_longer_than_ms)
        found: list[ListedTransaction] = []
        for answer in await self._each(LIST_TRANSACTIONS, request, "ListTransactions"):
            if isinstance(answer, ListTransactionsAnswer):
                found += answer.transactions
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        """The state of one transactional id."""
        answer = await self._transaction(
            transactional_id,
            DESCRIBE_TRANSACTIONS,
            DescribeTransactions((transactional_id,)),
            lambda answer: [each.error_code for each in answer.transactions],
        )
        (described,) = answer.transactions
        _require_done(described.error_code, f"transactional id {transactional_id!r}")
        return described

    async def explain_transaction(self, transactional_id: str) -> Explanation:
        """Why a transaction is where it is, in a sentence, with its fences. Of our cluster alone."""
        request = ExplainTransaction(transactional_id)
        return await self._transaction(transactional_id, EXPLAIN_TRANSACTION, request)

    async def fence_history(self, transactional_id: str) -> tuple[FenceExplained, ...]:
        """Who fenced the id's producers, when and why, the oldest first. Of our cluster alone."""
        return (await self.explain_transaction(transactional_id)).fences

    async def force_terminate(self, transactional_id: str) -> None:
        """End the id's transaction and fence its producer (KIP-939). Where its outcome is decided, it stays.

        The id must be known. A prepared transaction of two-phase commit is aborted.
        """
        described = await self.describe_transaction(transactional_id)
        if await self._is_wedged(transactional_id):
            await self._transaction(transactional_id, FORCE_MARKERS, ForceMarkers(transactional_id))
        timeout_ms = described.transaction_timeout_ms
        request = InitProducerId(
            transactional_id, TERMINATED_TIMEOUT_MS if timeout_ms == NO_TIMEOUT_MS else timeout_ms
        )
        await self._transaction(transactional_id, INIT_PRODUCER_ID, request)

    async def _is_wedged(self, transactional_id: str) -> bool:
        try:
            explained = await self.explain_transaction(transactional_id)
        except Refused as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                return False
            raise
        return any(each.kind == WEDGED for each in explained.set_aside)

    @property
    def explain(self) -> Explainer:
        """Who holds the last stable offset of a partition, and what an id or a producer has open."""
        return Explainer(self._network, self._timeout_s)

    # -- features -------------------------------------------------------------------------------------------

    async def features(self) -> dict[str, int]:
        """The finalized level of each feature."""
        connection = await self._retried(self._network.any_connection, "ApiVersions")
        return {each.name: each.level for each in connection.features.finalized}

    async def update_feature(self, name: str, level: int, *, downgrade: bool = False) -> None:
        """Finalize another level of a feature; lower only with ``downgrade``."""
        direction = Direction.SAFE_DOWNGRADE if downgrade else Direction.UPGRADE
        request = UpdateFeatures((FeatureUpdate(name, level, direction),))
        await self._any(UPDATE_FEATURES, request, f"feature {name!r}")

    # -- requests -------------------------------------------------------------------------------------------

    async def _any(self, api: Api[Q, R], request: Q, what: str) -> R:
        return await self._retried(lambda: self._network.call_any(api, request), what)

    async def _each(self, api: Api[Q, R], request: Q, what: str) -> list[R]:
        """The answer of every broker; one that coordinates nothing is left out."""

        async def ask(node_id: int) -> R | None:
            try:
                return await self._network.call(node_id, Channel.COORDINATION, api, request)
            except ApiError as error:
                if number_of(error) == ErrorCode.NOT_COORDINATOR:
                    return None
                raise

        async def ask_all() -> list[R]:
            await self._metadata.refresh(self._timeout_s)
            found = await asyncio.gather(*map(ask, self._network.node_ids))
            answers = [answer for answer in found if answer is not None]
            if not answers:
                raise error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker coordinates now")
            return answers

        return await self._retried(ask_all, what)

    async def _group(
        self, group_id: str, api: Api[Q, R], request: Q, codes_of: Callable[[R], Iterable[int]]
    ) -> R:
        return await self._coordinated(GROUP, group_id, api, request, codes_of)

    async def _transaction(
        self,
        transactional_id: str,
        api: Api[Q, R],
        request: Q,
        codes_of: Callable[[R], Iterable[int]] = lambda _: (),
    ) -> R:
        return await self._coordinated(TRANSACTION, transactional_id, api, request, codes_of)

    async def _coordinated(
        self, key_type: int, key: str, api: Api[Q, R], request: Q, codes_of: Callable[[R], Iterable[int]]
    ) -> R:
        def moved(answer: R) -> int:
            return next((code for code in codes_of(answer) if code in _MOVED), ErrorCode.NONE)

        try:
            coordinator = Coordinator(self._network, key_type, key)
            return await coordinator.call(api, request, timeout_s=self._timeout_s, code_of=moved)
        except ApiError as error:
            raise refused(number_of(error), f"{api.name} of {key!r}: {error}") from error

    async def _retried(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        if self._closed:
            raise IllegalState("the admin client is closed")
        backoff = Backoff(self._timeout_s, self._network.rng)
        sent = False
        while True:
            try:
                return await call()
            except ApiError as error:
                obstacle: Exception = error
                if number_of(error) not in _LATER:
                    raise refused(number_of(error), f"{what}: {error}") from error
            except LOST as error:
                obstacle = error
                sent = sent or not isinstance(error, NotConnected)
            if not await backoff.pause():
                over = f"{what}: no answer in {self._timeout_s:.1f} s: {obstacle}"
                raise RequestTimedOut(over) if sent else NotReachable(over)


def _require_done(code: int, what: str) -> None:
    if code != ErrorCode.NONE:
        raise refused(code, what)
