"""Questions to all brokers of a cluster at once; what is not answered is noted, and the rest goes on.

Repeated    what is refused for now (a coordinator that loads, a leader that moves), within the time of all
            questions together. A broker that cannot be reached is tried LOST_MAX times.
Noted       once for each broker, topic or coordinator: a cluster of many partitions has few reasons.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from fencepost.client.backoff import Backoff
from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import ClientError, name_of, number_of, refused
from fencepost.client.network import LOST, Channel, Network
from fencepost.records.open_transactions import DECIDED, ONGOING, Coordinated
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from fencepost.wire.errors import error_for
from fencepost.wire.k02_list_offsets import LATEST, LIST_OFFSETS, ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import METADATA, BrokerNode, Metadata, TopicMetadata, TopicQuery
from fencepost.wire.k10_find_coordinator import TRANSACTION
from fencepost.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
)
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION
from fencepost.wire.requests import (
    ApiError,
    DescribeTransactions,
    ErrorCode,
    ListTransactions,
    ListTransactionsAnswer,
)

T = TypeVar("T")
Place = tuple[str, int]
"""A topic and a partition."""

LOST_MAX: Final = 2
PARTITIONS_PER_REQUEST_MAX: Final = 1000
PRODUCER_IDS_PER_REQUEST_MAX: Final = 1000
DESCRIPTIONS_AT_ONCE_MAX: Final = 50
COORDINATOR_TOPIC: Final = "__transaction_state"
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

_LATER: Final = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
    )
)


class Unanswered(NamedTuple):
    """Something that the cluster did not say. ``code``: its error code, 0 if it did not answer at all."""

    of: str
    reason: str
    code: int = ErrorCode.NONE


class _Listed(NamedTuple):
    """The transactional ids of one broker. ``coordinates`` False: it says that it coordinates none."""

    ids: frozenset[str]
    coordinates: bool


class Inquiry:
    """The questions of one explanation. ``unanswered``: what it could not learn, by what it is of."""

    def __init__(self, network: Network, timeout_s: float) -> None:
        self._network = network
        self._backoff = Backoff(timeout_s, network.rng)
        self._brokers: dict[int, BrokerNode] = {}
        self.unanswered: dict[str, Unanswered] = {}

    def note(self, of: str, reason: str, code: int = ErrorCode.NONE) -> None:
        """Keep the first reason of each."""
        self.unanswered.setdefault(of, Unanswered(of, reason, code))

    def broker(self, node_id: int) -> str:
        """A broker by its number and address."""
        known = self._brokers.get(node_id)
        return f"broker {node_id}" + ("" if known is None else f" ({known.host}:{known.port})")

    # -- topics and partitions ------------------------------------------------------------------------------

    async def topics(self, names: Iterable[str] | None) -> dict[str, TopicMetadata]:
        """Topics by name, all for None; those that do not exist have an error code. Raises ClientError."""
        wanted = None if names is None else tuple(TopicQuery(name) for name in sorted(set(names)))
        request = Metadata(wanted, allow_auto_topic_creation=False)
        answer = await self._some_answer(lambda: self._network.call_any(METADATA, request), "Metadata")
        self._network.learn(answer.brokers)
        self._brokers = {each.node_id: each for each in answer.brokers}
        return {each.name: each for each in answer.topics if each.name is not None}

    def leaders(self, topics: Iterable[TopicMetadata], only: int | None = None) -> dict[Place, int]:
        """Who leads each partition (``only``: this one); one without a leader is noted and left out."""
        found: dict[Place, int] = {}
        for topic in topics:
            name = topic.name or ""
            if topic.error_code != ErrorCode.NONE:
                self.note(f"topic {name!r}", name_of(topic.error_code), topic.error_code)
                continue
            for each in topic.partitions:
                if only not in (None, each.partition_index):
                    continue
                if each.leader_id >= 0:
                    found[name, each.partition_index] = each.leader_id
                else:
                    replicas = ", ".join(map(str, each.replica_nodes)) or "none that is known"
                    self.note(
                        f"{name}-{each.partition_index}",
                        f"it has no leader; its replicas are on brokers {replicas}",
                        ErrorCode.LEADER_NOT_AVAILABLE,
                    )
        return found

    async def producers(self, leaders: dict[Place, int]) -> dict[Place, PartitionProducers]:
        """The producers that each partition's leader remembers; what is refused is noted and left out."""
        by_node: dict[int, list[Place]] = defaultdict(list)
        for place, node_id in sorted(leaders.items()):
            by_node[node_id].append(place)
        calls = [
            self._producers_on(node_id, places[first : first + PARTITIONS_PER_REQUEST_MAX])
            for node_id, places in by_node.items()
            for first in range(0, len(places), PARTITIONS_PER_REQUEST_MAX)
        ]
        found: dict[Place, PartitionProducers] = {}
        for rows in await asyncio.gather(*calls):
            for row in rows:
                if row.error_code == ErrorCode.NONE:
                    found[row.topic, row.index] = row
                elif row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self.note(f"topic {row.topic!r}", name_of(row.error_code), row.error_code)
                else:
                    self.note(f"{row.topic}-{row.index}", name_of(row.error_code), row.error_code)
        return found

    async def _producers_on(self, node_id: int, places: list[Place]) -> tuple[PartitionProducers, ...]:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, index in places:
            topics[topic].append(index)
        request = DescribeProducers(tuple((topic, tuple(indexes)) for topic, indexes in topics.items()))

        async def call() -> DescribeProducersAnswer:
            answer = await self._network.call(node_id, Channel.CONTROL, DESCRIBE_PRODUCERS, request)
            if not isinstance(answer, DescribeProducersAnswer):
                raise TypeError(f"producers came as {type(answer).__name__}, which only servers make")
            if len(places) == 1:
                _raise_if_later(answer.partitions[0].error_code)
            return answer

        answer = await self._of_broker(node_id, call)
        return () if answer is None else answer.partitions

    async def offset(self, place: Place, leader_id: int, isolation_level: int) -> int | None:
        """The end of a partition for readers of a level: the last stable offset, or the high watermark."""
        request = ListOffsets((OffsetQuery(*place, LATEST),), isolation_level=isolation_level)

        async def call() -> int:
            answer = await self._network.call(leader_id, Channel.CONTROL, LIST_OFFSETS, request)
            (found,) = answer.partitions
            if found.error_code != ErrorCode.NONE:
                raise error_for(found.error_code)
            return found.offset

        return await self._of_broker(leader_id, call, f"{place[0]}-{place[1]}")

    # -- coordinators ---------------------------------------------------------------------------------------

    async def owners(self, producer_ids: Collection[int]) -> tuple[dict[int, Coordinated], bool]:
        """The transactional ids of producer ids, by these; and whether every coordinator's answer is in."""
        if not producer_ids:
            return {}, True
        is_whole = await self._coordinators_are_led()
        ids: set[str] = set()
        ordered = sorted(producer_ids)
        for first in range(0, len(ordered), PRODUCER_IDS_PER_REQUEST_MAX):
            some = tuple(ordered[first : first + PRODUCER_IDS_PER_REQUEST_MAX])
            listed, is_answered = await self._listed(some)
            ids |= listed
            is_whole = is_whole and is_answered
        found: dict[int, Coordinated] = {}
        names = sorted(ids)
        for first in range(0, len(names), DESCRIPTIONS_AT_ONCE_MAX):
            calls = map(self._described, names[first : first + DESCRIPTIONS_AT_ONCE_MAX])
            for owner, is_answered in await asyncio.gather(*calls):
                is_whole = is_whole and is_answered
                if owner is not None:
                    found[owner.producer_id] = owner
        return found, is_whole

    async def _coordinators_are_led(self) -> bool:
        """Brokers list what they lead: of a partition without a leader no broker would say anything."""
        topic = (await self.topics((COORDINATOR_TOPIC,))).get(COORDINATOR_TOPIC)
        if topic is None or topic.error_code != ErrorCode.NONE:
            return True  # there are no transactions yet, or it may not be seen: the lists have to do
        return len(self.leaders((topic,))) == len(topic.partitions)

    async def _listed(self, producer_ids: tuple[int, ...]) -> tuple[set[str], bool]:
        request = ListTransactions(producer_id_filters=tuple(map(ProducerId, producer_ids)))
        answers = await asyncio.gather(*(self._listed_by(each, request) for each in self._network.node_ids))
        coordinators = [each for each in answers if each is not None and each.coordinates]
        found = {name for each in coordinators for name in each.ids}
        if any(each is not None and not each.coordinates for each in answers):
            # A cluster of ours, where one node coordinates every id.
            if not coordinators and None not in answers:
                self.note(
                    "the transaction coordinator",
                    "no broker coordinates transactions now",
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                )
            return found, bool(coordinators)
        return found, bool(answers) and None not in answers

    async def _listed_by(self, node_id: int, request: ListTransactions) -> _Listed | None:
        """None: it does not answer, which is noted."""

        async def call() -> _Listed:
            try:
                answer = await self._network.call(node_id, Channel.COORDINATION, LIST_TRANSACTIONS, request)
            except ApiError as error:
                if number_of(error) == ErrorCode.NOT_COORDINATOR:
                    return _Listed(frozenset(), coordinates=False)
                raise
            rows = answer.transactions if isinstance(answer, ListTransactionsAnswer) else ()
            return _Listed(frozenset(each.transactional_id for each in rows), coordinates=True)

        return await self._of_broker(node_id, call)

    async def _described(self, transactional_id: str) -> tuple[Coordinated | None, bool]:
        """The id, None if it is not known; and whether that was answered. What was not is noted."""
        try:
            return await self.transaction(transactional_id), True
        except ClientError as error:
            self.note(f"transactional id {transactional_id!r}", str(error), error.code)
            return None, False

    async def transaction(self, transactional_id: str) -> Coordinated | None:
        """The id; None if its coordinator does not know it. Raises ClientError."""
        if not await self._may_have_transactions():
            return None
        coordinator = Coordinator(self._network, TRANSACTION, transactional_id)
        request = DescribeTransactions((transactional_id,))
        try:
            answer = await coordinator.call(
                DESCRIBE_TRANSACTIONS,
                request,
                timeout_s=self._backoff.left_s,
                code_of=lambda answer: answer.transactions[0].error_code,
            )
        except ApiError as error:
            if number_of(error) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise refused(number_of(error), f"DescribeTransactions of {transactional_id!r}") from error
        (row,) = answer.transactions
        places = ((each.topic, index) for each in row.partitions for index in each.partition_ids)
        return Coordinated(
            transactional_id=row.transactional_id,
            state=row.state,
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            timeout_ms=row.transaction_timeout_ms,
            # Kafka keeps that of the last transaction.
            started_ms=row.started_ms if row.state in DECIDED | {ONGOING} else -1,
            partitions=frozenset(places),
            coordinator=-1 if coordinator.node_id is None else coordinator.node_id,
        )

    async def has(self, api: Api[Any, Any]) -> bool:
        """Whether a broker, whichever answers, serves an API."""
        connection = await self._some_answer(self._network.any_connection, "ApiVersions")
        return api.key in connection.versions

    async def _may_have_transactions(self) -> bool:
        """To look for a coordinator makes Apache Kafka create the topic of coordinators, if there is none."""
        if await self.has(EXPLAIN_TRANSACTION):
            return True  # a cluster of ours keeps transactions elsewhere
        topic = (await self.topics((COORDINATOR_TOPIC,))).get(COORDINATOR_TOPIC)
        return topic is None or topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- attempts -------------------------------------------------------------------------------------------

    async def _of_broker(self, node_id: int, call: Callable[[], Awaitable[T]], of: str = "") -> T | None:
        """What one broker answers; None if it does not, which is noted. ``of``: what a refusal is of."""
        name = self.broker(node_id)
        if name in self.unanswered:
            return None  # it did not answer before
        try:
            return await self._some_answer(call, name)
        except ClientError as error:
            reason = str(error).removeprefix(f"{name}: ")
            self.note(of or name if error.code != ErrorCode.NONE else name, reason, error.code)
            return None

    async def _some_answer(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Raises ClientError: refused, or no answer in time or LOST_MAX attempts."""
        lost = 0
        while True:
            try:
                return await call()
            except ApiError as error:
                code = number_of(error)
                if code not in _LATER or not await self._backoff.pause():
                    said = "" if str(error) in ("", name_of(code)) else f": {error}"
                    raise refused(code, f"{what}{said}") from error
            except LOST as error:
                lost += 1
                if lost >= LOST_MAX or not await self._backoff.pause():
                    raise ClientError(f"{what}: no answer: {error}") from error


def _raise_if_later(code: int) -> None:
    if code in _LATER:
        raise error_for(code)
