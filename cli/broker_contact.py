"""How commands reach brokers: a partition's leader, a transactional id's coordinator, or each of them.

Patience    what may be asked again is asked again until the time is up: lost connections, and the codes by
            which Kafka says that somebody else has it now, or soon. So callers ask only what may be repeated.
Exit status as in cli.contact: nobody answered, or nobody knows the outcome 3; a refusal 1 or 4.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.cli.contact import TIMEOUT_SECONDS, hint_of, read_credentials, sentence_of, target_of
from fencepost.cli.local_cluster import LocalCluster, open_cluster
from fencepost.cli.output import Command, Failed, NotAuthorized, Unreadable, WrongUsage, dir_option
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.quorum.config import SASL_PLAINTEXT, Address, parse_address
from fencepost.wire.client import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.errors import error_for, raise_for
from fencepost.wire.k03_metadata import METADATA, Metadata, PartitionMetadata, TopicMetadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator

T = TypeVar("T")

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
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
)


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """The brokers to ask. ``cluster`` is None if only addresses are known."""

    bootstrap: tuple[Address, ...]
    sasl: tuple[str, str] | None = None
    cluster: LocalCluster | None = None

    @property
    def name(self) -> str:
        """``host:port[,..]``, also what a client takes as ``bootstrap.servers``."""
        return ",".join(str(address) for address in self.bootstrap)


def broker_options(command: Command) -> Command:
    """Add ``--bootstrap-server``, ``--command-config`` and ``--dir``; ``find_brokers`` reads them."""
    for option in (
        dir_option,
        click.option("--bootstrap-server", help="HOST:PORT[,..] of brokers, instead of --dir."),
        click.option(
            "--command-config",
            type=click.Path(path_type=Path),
            help="Properties file with sasl.username and sasl.password.file (a node's own file will do).",
        ),
    ):
        command = option(command)
    return command


def find_brokers(directory: Path, bootstrap_server: str | None, command_config: Path | None) -> BrokerTarget:
    """What the options of ``broker_options`` name. Raises WrongUsage or Unreadable."""
    sasl = None if command_config is None else read_credentials(command_config)
    if bootstrap_server is None:
        return brokers_of(open_cluster(directory), sasl)
    try:
        return BrokerTarget(tuple(parse_address(each.strip()) for each in bootstrap_server.split(",")), sasl)
    except ValueError:
        raise WrongUsage(
            f"--bootstrap-server: expected HOST:PORT[,..] on the loopback interface, got {bootstrap_server!r}"
        ) from None


def brokers_of(cluster: LocalCluster, sasl: tuple[str, str] | None = None) -> BrokerTarget:
    """The brokers of a local cluster; with the nodes' own credentials if they want any and none are given."""
    listeners = [(node.config, node.config.client_listener) for node in cluster.nodes]
    there = [(config, listener) for config, listener in listeners if listener is not None]
    wants_sasl = any(config.security_protocol(each.name) == SASL_PLAINTEXT for config, each in there)
    own = target_of(cluster).sasl if wants_sasl else None
    return BrokerTarget(tuple(each.address for _, each in there), sasl or own, cluster)


class Brokers:
    """Calls to the brokers of one cluster; for one event loop, and to be closed."""

    def __init__(self, target: BrokerTarget, *, timeout_s: float) -> None:
        self._target = target
        self._deadline = time.monotonic() + timeout_s
        self._connections: dict[Address, Connection] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()

    async def nodes(self) -> dict[int, Address]:
        """Where each broker listens, by id."""
        answer = await self.patiently(lambda: self._anyone(METADATA, Metadata(topics=())))
        return {each.node_id: Address(each.host, each.port) for each in answer.brokers}

    async def topics(self, *names: str) -> list[TopicMetadata]:
        """The topics of these names, all of them if none is given; they are not created."""
        queries = tuple(TopicQuery(name) for name in names) or None

        async def ask() -> list[TopicMetadata]:
            answer = await self._anyone(METADATA, Metadata(queries, allow_auto_topic_creation=False))
            for topic in answer.topics:
                raise_for(topic.error_code, f"{topic.name}: {_name(topic.error_code)}")
            return list(answer.topics)

        return await self.patiently(ask)

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
        found = await self._anyone(FIND_COORDINATOR, FindCoordinator(TRANSACTION, (transactional_id,)))
        coordinator = found.coordinators[0]
        raise_for(coordinator.error_code, coordinator.error_message)
        answer = await self._ask(Address(coordinator.host, coordinator.port), api, request)
        return coordinator.node_id, answer

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
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

    async def _anyone(self, api: Api[Q, R], request: Q) -> R:
        """The first broker that answers. Raises the last one's failure."""
        failure: Exception = NotConnected("no broker is known")
        for address in self._target.bootstrap:
            try:
                return await self._ask(address, api, request)
            except (ConnectionLost, RequestTimeout) as error:
                failure = error
        raise failure

    async def _ask(self, address: Address, api: Api[Q, R], request: Q) -> R:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = await Connection.open(
                *address, sasl=self._target.sasl, timeout_s=ATTEMPT_SECONDS, client_id="fencepost-cli"
            )
            self._connections[address] = connection
        try:
            return await connection.call(api, request, timeout_s=ATTEMPT_SECONDS)
        except RequestTimeout:
            connection.close()  # a late answer would only stand in the way
            raise


def run(target: BrokerTarget, conversation: Callable[[Brokers], Awaitable[T]]) -> T:
    """Hold a conversation with the brokers; its errors become exit statuses."""

    async def hold() -> T:
        brokers = Brokers(target, timeout_s=TIMEOUT_SECONDS)
        try:
            return await conversation(brokers)
        finally:
            brokers.close()

    with errors_explained(target):
        return asyncio.run(hold())


@contextmanager
def errors_explained(target: BrokerTarget) -> Iterator[None]:
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
