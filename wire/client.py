"""The controller's client: finds the active controller, and finds it again when it moves.

Retried     what was refused with NOT_CONTROLLER or NOT_COORDINATOR (the coordinator is the active
            controller), and what was lost with its connection: every request
            of the controller listener may be sent twice (a second AllocateProducerIds wastes a block, and
            repeats none). With backoff and jitter, inside the caller's timeout.
Not retried authorization and every other refusal: raised at once.
Proved      with ``secret``, every connection proves that this node is one of the cluster's before it is used.
Silence     of ``attempt_timeout_s`` is a lost connection: the controller may be paused or cut off, and
            another one may lead by now.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from fencepost.controller.errors import ApiError, ErrorCode, NotController, NotCoordinator, UnsupportedVersion
from fencepost.wire.auth import Login
from fencepost.wire.connection import CLIENT_ID, Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, DescribeCluster
from fencepost.wire.secret_proof import BROKER, ClusterSecret, prove
from fencepost.wire.stalls import Stalls
from fencepost.wire.tls import Tls

__all__ = ["Address", "Connection", "ConnectionLost", "ControllerClient", "NotConnected", "RequestTimeout"]

Address: TypeAlias = tuple[str, int]

BACKOFF_S_MIN: Final = 0.020
BACKOFF_S_MAX: Final = 1.0
OPEN_TIMEOUT_S: Final = 1.0
FATAL: Final = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    )
)
MOVED: Final = (NotController, NotCoordinator, ConnectionLost, RequestTimeout)
"""What ``call`` tries again: another controller may be active."""
ADDRESSES_MAX: Final = 64  # bootstrap and learned; a quorum has a handful


class ControllerClient:
    """Calls to whichever node is the active controller. Calls may overlap; they share one connection."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        sasl: Login | None = None,
        tls: Tls | None = None,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
        client_id: str = CLIENT_ID,
        attempt_timeout_s: float = 1.0,
        backoff_s_max: float = BACKOFF_S_MAX,
        secret: ClusterSecret | None = None,
        stalls: Stalls | None = None,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._learned: tuple[Address, ...] = ()
        self._sasl = sasl
        self._tls = tls
        self._rng = rng
        self._clock = clock
        self._client_id = client_id
        self._attempt_timeout_s = attempt_timeout_s
        self._backoff_s_max = backoff_s_max
        self._secret = secret
        self._stalls = stalls
        self._connection: Connection | None = None
        self._suspect: Address | None = None  # the last one that failed: tried last
        self._finding = asyncio.Lock()
        self._obstacle: Exception | None = None  # the first failure of the search for the active controller
        self._closed = False

    @property
    def active(self) -> str | None:
        """``host:port`` of the controller that calls go to now, if one is known."""
        return self._connection.address if self._connection is not None and self._connection.is_open else None

    @property
    def active_serves(self) -> Mapping[int, range] | None:
        """The versions that the controller which calls go to serves, by API key; None: none is connected."""
        return None if self.active is None or self._connection is None else self._connection.versions

    async def call(self, api: Api[Q, R], request: Q, *, timeout_s: float) -> R:
        """The active controller's answer.

        Raises at once any ApiError but NotController and NotCoordinator; it concerns the last attempt only.
        After ``timeout_s`` raises what first stood in the way: these two and NotConnected if no attempt was
        done, RequestTimeout and ConnectionLost if one may have been.
        """
        deadline = self._clock() + timeout_s
        backoff_s = BACKOFF_S_MIN
        first: Exception | None = None
        unknown: Exception | None = None  # an attempt that may have been done: the truth about all of them
        while True:
            try:
                connection = await self._controller(deadline, timeout_s)
                attempt_s = min(deadline - self._clock(), self._attempt_timeout_s)
                if attempt_s > 0:  # or nothing is sent
                    return await self._attempt(connection, api, request, attempt_s)
            except (NotController, NotCoordinator, NotConnected) as error:
                first = first or error
            except (ConnectionLost, RequestTimeout) as error:
                unknown = unknown or error
            left_s = deadline - self._clock()
            if left_s <= 0 or self._closed:
                raise unknown or first or self._not_found(timeout_s)
            await asyncio.sleep(min(self._rng.uniform(backoff_s / 2, backoff_s), left_s))
            backoff_s = min(backoff_s * 2, self._backoff_s_max)

    def ask(self, api: Api[Q, R], request: Q, on_reply: Callable[[R | Exception], None]) -> bool:
        """One attempt on the connection that is open, without a task. False: none is, and nothing is sent.

        ``on_reply`` is called once, later, with the answer or with what ``call`` would raise; what of it is
        ``MOVED`` is the caller's to try again, by ``call``.
        """
        connection = self._connection
        if connection is None or not connection.is_open:
            return False
        try:
            on_outcome = partial(self._settled, connection, on_reply)
            connection.ask(api, request, on_outcome, timeout_s=self._attempt_timeout_s)
        except (ApiError, NotConnected):  # a call says it, or finds another controller
            return False
        return True

    def _settled(
        self, connection: Connection, on_reply: Callable[[R | Exception], None], outcome: R | Exception
    ) -> None:
        if isinstance(outcome, MOVED):
            self._leave(connection)
            if isinstance(outcome, ApiError):
                connection.retire()
            else:
                connection.close()
        on_reply(outcome)

    async def close(self) -> None:
        """Close the connection. Calls in flight raise ConnectionLost."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def _attempt(self, connection: Connection, api: Api[Q, R], request: Q, timeout_s: float) -> R:
        try:
            return await connection.call(api, request, timeout_s=timeout_s)
        except (NotController, NotCoordinator):
            self._leave(connection)
            connection.retire()
            raise
        except (ConnectionLost, RequestTimeout):
            self._leave(connection)
            connection.close()
            raise

    def _leave(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
            self._suspect = connection.peer

    async def _controller(self, deadline: float, timeout_s: float) -> Connection:
        """A connection to the active controller. Raises NotController, NotConnected, ApiError."""
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())), self._finding:
                self._require_open()
                if self._connection is None or not self._connection.is_open:
                    self._connection = None
                    connection = self._connection = await self._find()
                    try:
                        self._require_open()  # closed meanwhile
                    except NotConnected:
                        connection.close()
                        raise
                return self._connection
        except TimeoutError as error:
            raise self._not_found(timeout_s) from error

    def _require_open(self) -> None:
        if self._closed:
            raise NotConnected("the client is closed")

    def _not_found(self, timeout_s: float) -> Exception:
        """The time is over; the first address that failed meanwhile says why."""
        return self._obstacle or NotConnected(f"no active controller found in {max(0.0, timeout_s):.3f} s")

    async def _find(self) -> Connection:
        """Raises the first address's failure if no address leads to the active controller."""
        self._obstacle = None
        for address in self._candidates():
            try:
                connection = await self._follow(address)
                self._obstacle = None
                return connection
            except (NotController, NotConnected) as error:
                self._obstacle = self._obstacle or error
        raise self._obstacle or NotConnected("no bootstrap address is given")

    def _candidates(self) -> list[Address]:
        addresses = list(dict.fromkeys((*self._bootstrap, *self._learned)))[:ADDRESSES_MAX]
        self._rng.shuffle(addresses)
        addresses.sort(key=lambda address: address == self._suspect)
        return addresses

    async def _follow(self, address: Address) -> Connection:
        """Ask the node at ``address`` who leads, and connect to that one."""
        connection = await self._open(address)
        try:
            leader = await self._leader(connection)
        except (ConnectionLost, RequestTimeout) as error:
            connection.close()
            raise NotConnected(f"{connection.address} did not say who leads: {error}") from error
        except BaseException:
            connection.close()
            raise
        if leader is None or leader == address:
            return connection  # it leads, or cannot say: a request will tell
        connection.close()
        return await self._open(leader)

    async def _open(self, address: Address) -> Connection:
        host, port = address
        connection = await Connection.open(
            host,
            port,
            sasl=self._sasl,
            tls=self._tls,
            timeout_s=OPEN_TIMEOUT_S,
            client_id=self._client_id,
            stalls=self._stalls,
        )
        if self._secret is None:
            return connection
        try:
            await prove(connection, self._secret, BROKER, node_id=None, timeout_s=OPEN_TIMEOUT_S)
        except (ConnectionLost, RequestTimeout) as error:
            connection.close()
            raise NotConnected(f"{connection.address} did not prove the cluster's secret: {error}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _leader(self, connection: Connection) -> Address | None:
        """The leader's listener; None if this node cannot say. Raises NotController if there is no leader."""
        try:
            leader_id, nodes = await self._quorum(connection)
        except UnsupportedVersion:
            return None
        except ApiError as error:
            if error.code in FATAL:
                raise
            raise NotController(f"{connection.address} did not say who leads: {error}") from error
        if nodes:
            self._learned = tuple(nodes.values())
        if leader_id < 0:
            raise NotController(f"{connection.address} knows no leader")
        return nodes.get(leader_id)

    async def _quorum(self, connection: Connection) -> tuple[int, dict[int, Address]]:
        """(leader id or -1, the controllers' addresses). Raises UnsupportedVersion."""
        try:
            request = DescribeCluster(endpoint_type=CONTROLLERS)
            cluster = await connection.call(DESCRIBE_CLUSTER, request, timeout_s=OPEN_TIMEOUT_S)
            return cluster.controller_id, {each.broker_id: (each.host, each.port) for each in cluster.brokers}
        except UnsupportedVersion:
            pass
        quorum = await connection.call(DESCRIBE_QUORUM, DescribeQuorum(), timeout_s=OPEN_TIMEOUT_S)
        partition = quorum.partition
        nodes: dict[int, Address] = {}
        for node in quorum.nodes:
            if node.listeners:
                nodes[node.node_id] = (node.listeners[0].host, node.listeners[0].port)
        return (-1 if partition is None else partition.leader_id), nodes
