"""The marker sender's connections: one to each broker that leads partitions, opened when it is needed.

Apart     each broker is asked on a task of its own, so one that does not answer keeps nobody else waiting.
Address   a broker that has registered at another one is reached there: the old connection is closed.
Failures  a lost connection, silence, a refusal as a whole: the sender is told, and sends again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller.errors import ApiError
from records.types import BrokerId
from wire.connection import Connection, ConnectionLost, RequestTimeout
from wire.dispatch import Api
from wire.k27_write_txn_markers import WRITE_TXN_MARKERS

CONNECT_TIMEOUT_S: Final = 2.0
MARKERS_TIMEOUT_S: Final = 10.0  # the partition leader flushes its logs before it answers
CLIENT_ID: Final = "fencepost-coordinator"
FAILURES: Final = (ApiError, ConnectionLost, RequestTimeout)


@dataclass(slots=True)
class _Link:
    """One broker's connection."""

    address: tuple[str, int]
    connection: Connection | None = None


class MarkerLinks:
    """``send`` is what the marker sender is given, or the announcer. All calls on the event loop."""

    def __init__(self, sasl: tuple[str, str] | None, api: Api[Any, Any] = WRITE_TXN_MARKERS) -> None:
        self._sasl = sasl
        self._api = api
        self._links: dict[BrokerId, _Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(
        self, broker_id: BrokerId, host: str, port: int, request: Any, done: Callable[[Any], None]
    ) -> None:
        """Send on the broker's connection, and tell ``done`` the answer or why there is none."""
        link = self._links.get(broker_id)
        if link is None or link.address != (host, port):
            if link is not None and link.connection is not None:
                link.connection.close()
            link = self._links[broker_id] = _Link((host, port))
        task = asyncio.get_running_loop().create_task(self._call(link, request, done))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # a bug of ours goes to the event loop's exception handler

    async def _call(self, link: _Link, request: Any, done: Callable[[Any], None]) -> None:
        outcome: Any
        try:
            if link.connection is None or not link.connection.is_open:
                link.connection = await Connection.open(
                    *link.address, sasl=self._sasl, timeout_s=CONNECT_TIMEOUT_S, client_id=CLIENT_ID
                )
            outcome = await link.connection.call(self._api, request, timeout_s=MARKERS_TIMEOUT_S)
        except FAILURES as error:
            if link.connection is not None:
                link.connection.close()
            outcome = error
        done(outcome)

    async def stop(self) -> None:
        """Close every connection; nobody is told of what is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()
        self._links.clear()
