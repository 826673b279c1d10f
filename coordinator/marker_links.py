"""The coordinator's connections to brokers: one to each that leads partitions, opened when it is needed.

Apart     a broker that does not answer delays no other broker. Markers and announcements have connections
          of their own: an announcement must not wait behind a marker's flush.
Address   a broker that has registered at another one is reached there: the old connection is closed.
Failures  of markers: a lost connection, silence, a refusal as a whole: the sender learns it, and sends again.
          An announcement is sent if a connection is open, and lost if not. One that opens begins with an
          announcement without partitions: the cluster may have changed meanwhile.
Speed     a request is one write. Only opening a connection takes a task.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.records.types import BrokerId
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection, ConnectionLost, NotConnected, RequestTimeout
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS, AnnouncePartitions
from fencepost.wire.secret_proof import COORDINATOR, ClusterSecret, prove
from fencepost.wire.stalls import Stalls
from fencepost.wire.tls import Tls

CONNECT_TIMEOUT_S: Final = 2.0
MARKERS_TIMEOUT_S: Final = 10.0  # the partition leader flushes its logs before it answers
REOPEN_S: Final = 1.0  # from a failure to open a connection for announcements to the next try
CLIENT_ID: Final = "fencepost-coordinator"

Done = Callable[[WriteTxnMarkersAnswer | Exception], None]


class _Link:
    """One broker's connection, and what waits for it to be open."""

    __slots__ = ("address", "connection", "is_opening", "reopen_s", "waiting")

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.is_opening = False
        self.reopen_s = 0.0
        self.waiting: list[tuple[WriteTxnMarkers, Done]] = []


class _Links:
    """What both kinds have in common. All calls on the event loop."""

    def __init__(
        self, sasl: Login | None, secret: ClusterSecret, stalls: Stalls, tls: Tls | None = None
    ) -> None:
        self._sasl = sasl
        self._tls = tls
        self._secret = secret
        self._stalls = stalls
        self._links: dict[BrokerId, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def _link(self, broker_id: BrokerId, host: str, port: int) -> _Link:
        link = self._links.get(broker_id)
        if link is None or link.address != (host, port):
            if link is not None and link.connection is not None:
                asyncio.get_running_loop().call_soon(link.connection.close)
            link = self._links[broker_id] = _Link((host, port))
        return link

    def _open(self, broker_id: BrokerId, link: _Link) -> None:
        if link.is_opening:
            return
        link.is_opening = True
        task = asyncio.get_running_loop().create_task(self._opening(broker_id, link))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _opening(self, broker_id: BrokerId, link: _Link) -> None:
        opened: Connection | Exception
        try:
            opened = link.connection = await self._proved(broker_id, link.address)
        except (ApiError, ConnectionLost, RequestTimeout) as error:
            opened = error
            link.reopen_s = asyncio.get_running_loop().time() + REOPEN_S
        link.is_opening = False
        self._opened(link)
        waiting, link.waiting = link.waiting, []
        for request, done in waiting:
            if isinstance(opened, Exception):
                done(opened)
            else:
                _ask(opened, request, done)

    def _opened(self, link: _Link) -> None:
        """A connection is open, or could not be opened."""

    async def _proved(self, broker_id: BrokerId, address: tuple[str, int]) -> Connection:
        """A connection on which the broker believes us. Raises ApiError, ConnectionLost, RequestTimeout."""
        connection = await Connection.open(
            *address,
            sasl=self._sasl,
            tls=self._tls,
            timeout_s=CONNECT_TIMEOUT_S,
            client_id=CLIENT_ID,
            stalls=self._stalls,
        )
        try:
            await prove(connection, self._secret, COORDINATOR, node_id=broker_id, timeout_s=CONNECT_TIMEOUT_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # a bug of ours goes to the event loop's exception handler

    async def stop(self) -> None:
        """Close every connection, without an outcome for what is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._links.values():
            if link.connection is not None:
                link.connection.abandon()
        self._links.clear()


class MarkerLinks(_Links):
    """``send`` is what the marker sender is given."""

    def send(self, broker_id: BrokerId, host: str, port: int, request: WriteTxnMarkers, done: Done) -> None:
        """Send on the broker's connection, and tell ``done``, later, the answer or why there is none."""
        link = self._link(broker_id, host, port)
        if link.connection is not None and link.connection.is_open:
            _ask(link.connection, request, done)
        else:
            link.waiting.append((request, done))
            self._open(broker_id, link)


class AnnouncementLinks(_Links):
    """``send_nowait`` is what the announcer is given."""

    def send_nowait(self, broker_id: BrokerId, host: str, port: int, request: AnnouncePartitions) -> None:
        """Send at once if the broker's connection is open; else open it for those that come later."""
        link = self._link(broker_id, host, port)
        if link.connection is not None and link.connection.is_open:
            _announce(link.connection, request)
        elif asyncio.get_running_loop().time() >= link.reopen_s:
            link.reopen_s = asyncio.get_running_loop().time() + REOPEN_S
            self._open(broker_id, link)

    def _opened(self, link: _Link) -> None:
        if link.connection is not None and link.connection.is_open:
            _announce(link.connection, AnnouncePartitions(()))


def _announce(connection: Connection, request: AnnouncePartitions) -> None:
    try:
        connection.send_nowait(ANNOUNCE_PARTITIONS, request)
    except ApiError:  # the broker does not serve it: it verifies
        return


def _ask(connection: Connection, request: WriteTxnMarkers, done: Done) -> None:
    try:
        connection.ask(WRITE_TXN_MARKERS, request, done, timeout_s=MARKERS_TIMEOUT_S)
    except (ApiError, NotConnected) as error:
        asyncio.get_running_loop().call_soon(done, error)
