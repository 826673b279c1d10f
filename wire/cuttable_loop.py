"""An event loop that a test cuts off from addresses: the network between nodes, cut."""

import errno
from typing import Any

import uvloop


class CuttableLoop(uvloop.Loop):
    """It knows which addresses it has dialed, and those that it dials no more."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: frozenset[tuple[str, int]] = frozenset()
        self._dialed: list[tuple[Any, tuple[str, int]]] = []  # no weak references: TLS transports have none

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        """As any loop's. Raises ConnectionRefusedError for an address that it is cut from."""
        self._require_uncut(host, port)
        made: Any = await super().create_connection(protocol_factory, host, port, **more)
        transport = made[0]
        still_open = [each for each in self._dialed if not each[0].is_closing()]
        self._dialed = [*still_open, (transport, (host, port))]
        if (host, port) in self._cut:
            transport.abort()
        return made

    def cut_from(self, addresses: frozenset[tuple[str, int]]) -> None:
        """From now on exactly from these."""
        self._cut = addresses
        for transport, address in self._dialed:
            if address in addresses:
                transport.abort()

    def _require_uncut(self, host: Any, port: Any) -> None:
        if (host, port) in self._cut:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"cut off from {host}:{port} by a test")
