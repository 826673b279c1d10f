"""The connections that clients in the test's own process open."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencepost.wire.connection import Connection


class Opened:
    """Every connection that was opened; ``then`` runs before its client gets the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connections: list[Connection] = []
        self.then: Callable[[], Awaitable[None]] | None = None
        opening = Connection.open

        async def opened(*address: Any, **options: Any) -> Connection:
            connection = await opening(*address, **options)
            self.connections.append(connection)
            if self.then is not None:
                await self.then()
            return connection

        monkeypatch.setattr(Connection, "open", opened)

    @property
    def still_open(self) -> int:
        return sum(each.is_open for each in self.connections)
