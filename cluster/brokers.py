"""How commands reach brokers: a partition's leader, the coordinator of an id or a group, or each of them.

Retries     requests are sent again until the time is up: after lost connections, and after the codes by
            which Kafka says that another broker has the role now, or soon. So callers send only requests that
            may be repeated.
Exit status as in cluster/controllers.py: no response, or an unknown outcome 3; a refusal 1 or 4.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from fencepost.cluster.console import Failed, NotAuthorized, Unreadable, WrongUsage
from fencepost.cluster.target import TIMEOUT_SECONDS, Target, hint_of, sentence_of
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.settings.config import Address
from fencepost.wire.client import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.errors import error_for, raise_for
from fencepost.wire.k03_metadata import METADATA, Metadata, PartitionMetadata, TopicMetadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinator

T = TypeVar("T")

CONNECT_SECONDS: Final = 2.0  # of a request that is sent to one broker only
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 0.5
ATTEMPT_SECONDS: Final = 3.0
PASSING: Final = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
)
REFUSED: Final = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)


class Brokers:
    """Calls to the brokers of one cluster; for one event loop, and to be closed."""

    def __init__(self, target: Target, *, timeout_s: float) -> None:
        self._target = target
        self._deadline = time.monotonic() + timeout_s
        self._attempt_s = min(ATTEMPT_SECONDS, timeout_s)
        self._connections: dict[Address, Connection] = {}
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    def close(self) -> None:
        """Close the connections to all brokers."""
        for connection in self._connections.values():
            connection.close()

    async def nodes(self) -> dict[int, Address]:
        """Where each broker listens, by id."""
        answer = await self.with_retries(lambda: self._any_broker(METADATA, Metadata(topics=())))
        return {each.node_id: Address(each.host, each.port) for each in answer.brokers}

    async def topics(self, *names: str) -> list[TopicMetadata]:
        """The topics of these names, all of them if none is given; they are not created."""
        queries = tuple(TopicQuery(name) for name in names) or None

        async def ask() -> list[TopicMetadata]:
            answer = await self._any_broker(METADATA, Metadata(queries, allow_auto_topic_creation=False))
            for topic in answer.topics:
                raise_for(topic.error_code, f"{topic.name}: {_name(topic.error_code)}")
            return list(answer.topics)

        return await self.with_retries(ask)

    async def known_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Those of these topics that there are, by name."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        request = Metadata(tuple(TopicQuery(name) for name in wanted), allow_auto_topic_creation=False)
        answer = await self.with_retries(lambda: self._any_broker(METADATA, request))
        for topic in answer.topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise_for(topic.error_code, f"{topic.name}: {_name(topic.error_code)}")
        return {each.name: each for each in answer.topics if each.name and each.error_code == 0}

    async def partition(self, topic: str, index: int) -> PartitionMetadata:
        """Raises WrongUsage: the topic has no such partition."""
        (found,) = await self.topics(topic)
        for each in found.partitions:
            if each.partition_index == index:
                return each
        raise WrongUsage(
            f"{topic} has {len(found.partitions)} partitions, from 0 on, and no partition {index}"
        )

    async def ask_node(self, node_id: int, api: Api[Q, R], request: Q) -> R:
        """One answer of one broker. Raises what ``Connection.call`` does; without retries."""
        nodes = await self.nodes()
        if node_id not in nodes:
            raise NotConnected(f"broker {node_id} is not there, but {', '.join(map(str, sorted(nodes)))}")
        return await self._ask(nodes[node_id], api, request)

    async def ask_leader(self, topic: str, index: int, api: Api[Q, R], request: Q) -> R:
        """One answer of the partition's leader, without retries."""
        leader = (await self.partition(topic, index)).leader_id
        if leader < 0:
            raise error_for(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader: its broker is gone"
            )
        return await self.ask_node(leader, api, request)

    async def ask_coordinator(self, transactional_id: str, api: Api[Q, R], request: Q) -> tuple[int, R]:
        """The id's coordinator and its answer, without retries."""
        return await self._ask_coordinator(TRANSACTION, transactional_id, api, request)

    async def ask_group_coordinator(self, group_id: str, api: Api[Q, R], request: Q) -> tuple[int, R]:
        """The group's coordinator and its answer, without retries."""
        return await self._ask_coordinator(GROUP, group_id, api, request)

    async def _ask_coordinator(self, kind: int, key: str, api: Api[Q, R], request: Q) -> tuple[int, R]:
        found = await self._any_broker(FIND_COORDINATOR, FindCoordinator(kind, (key,)))
        coordinator = found.coordinators[0]
        raise_for(coordinator.error_code, coordinator.error_message)
        answer = await self._ask(Address(coordinator.host, coordinator.port), api, request)
        return coordinator.node_id, answer

    async def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat an attempt, while what it meets is passing and there is time."""
        backoff_s = BACKOFF_SECONDS_MIN
        while True:
            try:
                return await attempt()
            except (ConnectionLost, RequestTimeout):
                if time.monotonic() + backoff_s > self._deadline:
                    raise
            except ApiError as error:
                if error.code not in PASSING or time.monotonic() + backoff_s > self._deadline:
                    raise
            await asyncio.sleep(random.uniform(backoff_s / 2, backoff_s))
            backoff_s = min(backoff_s * 2, BACKOFF_SECONDS_MAX)

    async def _any_broker(self, api: Api[Q, R], request: Q) -> R:
        """The first broker that answers. Raises the last one's failure."""
        failure: Exception = NotConnected("no broker is known")
        for address in self._target.addresses:
            try:
                return await self._ask(address, api, request)
            except (ConnectionLost, RequestTimeout) as error:
                failure = error
        raise failure

    async def _ask(self, address: Address, api: Api[Q, R], request: Q) -> R:
        connection = await self._connection(address)
        try:
            return await connection.call(api, request, timeout_s=self._attempt_s)
        except RequestTimeout:
            connection.close()  # a late answer would only stand in the way
            raise

    async def _connection(self, address: Address) -> Connection:
        """The one that is open; calls that overlap open one together. Raises NotConnected."""
        async with self._opening[address]:
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await Connection.open(
                    *address,
                    sasl=self._target.sasl,
                    tls=self._target.tls,
                    timeout_s=self._attempt_s,
                    client_id="fencepost-cli",
                )
                self._connections[address] = connection
            return connection


def run(
    target: Target, conversation: Callable[[Brokers], Awaitable[T]], *, timeout_s: float | None = None
) -> T:
    """Hold a conversation with the brokers; its errors become exit statuses. None: TIMEOUT_SECONDS."""

    async def hold() -> T:
        brokers = Brokers(target, timeout_s=TIMEOUT_SECONDS if timeout_s is None else timeout_s)
        try:
            return await conversation(brokers)
        finally:
            brokers.close()

    with errors_explained(target):
        return asyncio.run(hold())


def ask_a_broker(target: Target, api: Api[Q, R], request: Q, *, timeout_s: float) -> R:
    """The response of the first broker that can be reached; the request is sent to that one only.

    Raises NotConnected if none can, and what ``Connection.call`` raises.
    """

    async def hold() -> R:
        failure: Exception = NotConnected("no address is given")
        for host, port in target.addresses:
            try:
                connection = await Connection.open(
                    host,
                    port,
                    sasl=target.sasl,
                    tls=target.tls,
                    timeout_s=CONNECT_SECONDS,
                    client_id="fencepost-cli",
                )
            except NotConnected as error:
                failure = error
                continue
            try:
                return await connection.call(api, request, timeout_s=timeout_s)
            finally:
                connection.close()
        raise failure

    return asyncio.run(hold())


@contextmanager
def errors_explained(target: Target) -> Iterator[None]:
    """What a conversation may raise, as the exit status and sentence it deserves."""
    try:
        yield
    except NotConnected as error:
        raise Unreadable(f"no broker at {target.name}: {error}{hint_of(target.cluster)}") from error
    except (ConnectionLost, RequestTimeout) as error:
        text = f"the outcome is unknown, it may have been done: {error}{hint_of(target.cluster)}"
        raise Unreadable(text) from error
    except ApiError as error:
        if error.code in REFUSED:
            raise NotAuthorized(sentence_of(error)) from error
        if error.code in PASSING:
            raise Unreadable(f"{sentence_of(error)}{hint_of(target.cluster)}") from error
        raise Failed(sentence_of(error)) from error


def _name(code: int) -> str:
    known: Any = {int(each): each.name for each in ErrorCode}
    return str(known.get(code, f"error {code}"))
