"""Connections of one client to the brokers of a cluster, opened when needed: one per node and channel.

Channel     requests of one connection are answered in order, so what may wait for long has a connection of
            its own: DATA for records, COORDINATION for groups and transactions, CONTROL for all else.
Versions    each connection negotiates its own (ApiVersions is its first request).
Features    the finalized levels that the newest of these answers had (KIP-584): the epoch only rises.
Opening     one attempt at a time for each node and channel; who waits for it shares its outcome.
"""

import asyncio
import enum
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from fencepost.client.errors import InvalidSetting
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.k03_metadata import BrokerNode
from fencepost.wire.tls import Tls

Address: TypeAlias = tuple[str, int]
Sasl: TypeAlias = tuple[str, str] | tuple[str, str, str]
"""User, password, and the mechanism if it is not PLAIN."""

CONNECT_TIMEOUT_S: Final = 3.0
BOOTSTRAP_MAX: Final = 64  # addresses that are given
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTIONS_V2: Final = 2

LOST: Final = (ConnectionLost, RequestTimeout)
"""The answer is missing: the request may have been done, unless it is NotConnected."""


class Channel(enum.Enum):
    """What a connection is for."""

    CONTROL = enum.auto()
    COORDINATION = enum.auto()
    DATA = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """How brokers are reached. ``sasl``: a login. ``tls``: by TLS, with its keys."""

    bootstrap: tuple[Address, ...]
    client_id: str = "fencepost"
    sasl: Sasl | None = None
    tls: Tls | None = None
    request_timeout_s: float = 30.0


def addresses(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """``host:port`` of each server, of a sequence or divided by commas; IPv6 in brackets.

    Raises InvalidSetting.
    """
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    found = []
    for text in texts:
        host, colon, port = text.strip().rpartition(":")
        if not host or not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise InvalidSetting(f"bootstrap server {text.strip()!r}: expected host:port")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not found or len(found) > BOOTSTRAP_MAX:
        raise InvalidSetting(f"{len(found)} bootstrap servers; expected 1 to {BOOTSTRAP_MAX}")
    return tuple(found)


class Network:
    """All connections of one client."""

    def __init__(self, settings: NetworkSettings, rng: random.Random) -> None:
        self.settings = settings
        self.rng = rng
        self._nodes: dict[int, Address] = {}
        self._connections: dict[tuple[int, Channel], Connection] = {}
        self._opening: dict[tuple[int, Channel], asyncio.Task[Connection]] = {}
        self._control: Connection | None = None
        self._astray: Address | None = None
        self._finding = asyncio.Lock()
        self._features_epoch = -1
        self._transaction_version = 0
        self._closed = False

    @property
    def node_ids(self) -> list[int]:
        """The brokers that the last metadata named, in ascending order."""
        return sorted(self._nodes)

    @property
    def transaction_version(self) -> int:
        """The finalized level of ``transaction.version``; 0 if the cluster has none."""
        return self._transaction_version

    @property
    def uses_transactions_v2(self) -> bool:
        """A transaction that begins now may be of V2 (KIP-890)."""
        return self._transaction_version >= TRANSACTIONS_V2

    def learn(self, brokers: Iterable[BrokerNode]) -> None:
        """Take over the brokers and their addresses. A connection to an address that is gone ends itself."""
        self._nodes = {each.node_id: (each.host, each.port) for each in brokers}

    def learn_one(self, node_id: int, host: str, port: int) -> None:
        """Take over one broker's address: a coordinator's, which metadata may not have named yet."""
        self._nodes[node_id] = (host, port)

    def ready(self, node_id: int, channel: Channel) -> Connection | None:
        """The connection if it is open now."""
        connection = self._connections.get((node_id, channel))
        return connection if connection is not None and connection.is_open else None

    async def connection(self, node_id: int, channel: Channel) -> Connection:
        """An open connection. Raises NotConnected, and the ApiError of a refused authentication."""
        ready = self.ready(node_id, channel)
        if ready is not None:
            return ready
        key = (node_id, channel)
        task = self._opening.get(key)
        if task is None:
            address = self._nodes.get(node_id)
            if address is None or self._closed:
                raise NotConnected(f"no address of node {node_id} is known" if not self._closed else "closed")
            task = self._opening[key] = asyncio.create_task(self._open_kept(key, address))
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def call(
        self, node_id: int, channel: Channel, api: Api[Q, R], request: Q, *, timeout_s: float | None = None
    ) -> R:
        """One attempt on one node. Raises as ``Connection.call`` does."""
        connection = await self.connection(node_id, channel)
        return await self._attempt(connection, api, request, timeout_s)

    async def call_any(self, api: Api[Q, R], request: Q, *, timeout_s: float | None = None) -> R:
        """One attempt on the first node that a connection can be made to. Raises as ``call``."""
        return await self._attempt(await self.any_connection(), api, request, timeout_s)

    async def any_connection(self) -> Connection:
        """A connection for requests that every node answers. Raises NotConnected: no node can be reached."""
        async with self._finding:
            if self._control is not None and self._control.is_open:
                return self._control
            candidates = list(dict.fromkeys((*self._nodes.values(), *self.settings.bootstrap)))
            self.rng.shuffle(candidates)
            candidates.sort(key=lambda address: address == self._astray)
            obstacle: NotConnected | None = None
            for address in candidates:
                try:
                    self._control = await self._open(address)
                    return self._control
                except NotConnected as error:
                    obstacle = error
            raise obstacle or NotConnected("no broker is known")

    def ask_another(self) -> None:
        """``call_any`` asks a node that leads astray: it may be cut off. Ask another one next."""
        if self._control is not None:
            self._astray = self._control.peer
            self._control.close()
            self._control = None

    async def close(self) -> None:
        """Close all connections. Calls in flight raise ConnectionLost."""
        self._closed = True
        for connection in (*self._connections.values(), *([self._control] if self._control else [])):
            connection.close()
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    async def _attempt(
        self, connection: Connection, api: Api[Q, R], request: Q, timeout_s: float | None
    ) -> R:
        if timeout_s is None:
            timeout_s = self.settings.request_timeout_s
        try:
            return await connection.call(api, request, timeout_s=timeout_s)
        except RequestTimeout:
            connection.close()  # what is behind it would wait as well
            raise

    async def _open_kept(self, key: tuple[int, Channel], address: Address) -> Connection:
        try:
            connection = self._connections[key] = await self._open(address)
            return connection
        finally:
            self._opening.pop(key, None)

    async def _open(self, address: Address) -> Connection:
        self._require_open()
        connection = await Connection.open(
            *address,
            sasl=None if self.settings.sasl is None else Login(*self.settings.sasl),
            tls=self.settings.tls,
            timeout_s=min(CONNECT_TIMEOUT_S, self.settings.request_timeout_s),
            client_id=self.settings.client_id,
        )
        try:
            self._require_open()  # closed meanwhile, without a word to who waits for it
        except NotConnected:
            connection.close()
            raise
        features = connection.features
        if features.epoch >= self._features_epoch:
            self._features_epoch = features.epoch
            levels = {each.name: each.level for each in features.finalized}
            self._transaction_version = levels.get(TRANSACTION_VERSION, 0)
        return connection

    def _require_open(self) -> None:
        if self._closed:
            raise NotConnected("the client is closed")


def _retrieve(task: "asyncio.Task[Connection]") -> None:
    """Who waited may be gone: the failure is not logged as never retrieved."""
    if not task.cancelled():
        task.exception()
