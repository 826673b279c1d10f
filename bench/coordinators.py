"""Where coordinators are: one lookup for all clients of a load that have the same coordinator.

Shared    a thousand clients that lose their coordinator wait for one lookup, and for one connection that
          shows that it is there: their own attempts would be most of what the machine does.
Backoff   100 ms between attempts: the clients' ``retry.backoff.ms``.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.auth import Login
from fencepost.wire.connection import Connection, ConnectionLost, RequestTimeout
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, Coordinator, FindCoordinator
from fencepost.wire.tls import Tls

BACKOFF_S: Final = 0.1
OPEN_SECONDS: Final = 2.0
ASK_SECONDS: Final = 5.0

Address = tuple[str, int]


class NoCoordinator(Exception):
    """None was found in time."""


async def open_first(
    bootstrap: list[Address], sasl: Login | None = None, tls: Tls | None = None
) -> Connection:
    """A connection to the first address that accepts one. Raises NotConnected of the last one."""
    for host, port in bootstrap[:-1]:
        try:
            return await Connection.open(host, port, sasl=sasl, tls=tls, timeout_s=OPEN_SECONDS)
        except ConnectionLost:
            pass
    return await Connection.open(*bootstrap[-1], sasl=sasl, tls=tls, timeout_s=OPEN_SECONDS)


async def find_all(
    bootstrap: list[Address], key_type: int, keys: Sequence[str], timeout_s: float
) -> dict[str, Address]:
    """The coordinators of many keys, by one request. Raises NoCoordinator."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    last: object = "not looked for"
    while loop.time() < deadline:
        try:
            found = await _find(bootstrap, FindCoordinator(key_type, tuple(keys)))
        except (ConnectionLost, RequestTimeout, ApiError) as error:
            last = error
        else:
            errors = {each.error_code for each in found if each.error_code}
            if not errors:
                return {each.key: (each.host, each.port) for each in found}
            last = f"errors {sorted(errors)}"
        await asyncio.sleep(BACKOFF_S)
    raise NoCoordinator(f"no coordinator of each of {len(keys)} keys in {timeout_s:.0f} s: {last}")


async def _find(bootstrap: list[Address], query: FindCoordinator) -> tuple[Coordinator, ...]:
    connection = await open_first(bootstrap)
    try:
        return (await connection.call(FIND_COORDINATOR, query, timeout_s=ASK_SECONDS)).coordinators
    finally:
        connection.close()


class CoordinatorLookup:
    """The coordinator of one key; ``find`` may be called by any number of clients at a time."""

    def __init__(self, bootstrap: list[Address], key_type: int, key: str, timeout_s: float) -> None:
        self._bootstrap = bootstrap
        self._query = FindCoordinator(key_type, (key,))
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._found: Coordinator | None = None
        self._lookups = 0

    async def find(self) -> tuple[Coordinator, int]:
        """The coordinator, and the number of the lookup, for ``forget``. Raises NoCoordinator."""
        async with self._lock:
            if self._found is None:
                self._found = await self._look()
                self._lookups += 1
            return self._found, self._lookups

    def forget(self, lookup: int) -> None:
        """The coordinator of that lookup is none any more; a newer one stays."""
        if lookup == self._lookups:
            self._found = None

    async def _look(self) -> Coordinator:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        last: object = "not looked for"
        while loop.time() < deadline:
            try:
                found = await self._attempt()
            except (ConnectionLost, RequestTimeout, ApiError) as error:
                last = error
            else:
                if isinstance(found, Coordinator):
                    return found
                last = found
            await asyncio.sleep(BACKOFF_S)
        raise NoCoordinator(f"no coordinator of {self._query.keys[0]} in {self._timeout_s:.0f} s: {last}")

    async def _attempt(self) -> Coordinator | str:
        """The coordinator, if it accepts connections; else why there is none."""
        found = (await _find(self._bootstrap, self._query))[0]
        if found.error_code:
            return f"error {found.error_code}"
        probe = await Connection.open(found.host, found.port, timeout_s=OPEN_SECONDS)
        probe.close()
        return found
