"""What a test may do to a node from inside: cut it off from others, and move its clock.

Loaded    only with ``fencepost.testing=true``, which is refused beside a listener that other hosts reach.
State     ``testing.json`` in the node's directory: the addresses that it is cut from, and how far its clock
          is advanced. It is read at the start, and whenever a test says so.
Socket    ``testing.sock`` beside it, mode 0600: a connection sends ``reload``, and gets what is in force.
Cut       a connection to such an address is closed, and none is made; those from there the other node closes.
Clock     wall and boot-time clock move together, so no jump is seen; so does a leadership's own clock.
          Elections, heartbeats and sessions go by the loop's clock, which does not move.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from fencepost.controller.clocks import Reading
from fencepost.settings.short_path import short_path
from fencepost.wire.cuttable_loop import CuttableLoop

STATE: Final = "testing.json"
SOCKET: Final = "testing.sock"
RELOAD: Final = b"reload\n"


class InForce(msgspec.Struct, frozen=True):
    """``testing.json``, and the answer to ``reload``."""

    cut: tuple[tuple[str, int], ...] = ()
    advanced_ms: int = 0


class FaultPort:
    """See the module. ``read``: the machine's clocks."""

    def __init__(self, directory: Path, loop: CuttableLoop, read: Callable[[], Reading]) -> None:
        """Raises OSError, ValueError: the state is there and cannot be read."""
        self._directory = directory
        self._loop = loop
        self._read = read
        self._in_force = InForce()
        self.moved: Sequence[Callable[[int], None]] = ()  # called with how many ms the clock moved on
        self._reload()

    def clocks(self) -> Reading:
        """The machine's, advanced."""
        now, by_ms = self._read(), self._in_force.advanced_ms
        return Reading(now.boot_id, now.boottime_ms + by_ms, now.wall_ms + by_ms)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Serve the socket meanwhile. Raises OSError."""
        path = self._directory / SOCKET
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with short_path(path) as name:
                server = await asyncio.start_unix_server(self._accepted, name)
        finally:
            os.umask(before)
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)

    def _reload(self) -> None:
        before_ms = self._in_force.advanced_ms
        with contextlib.suppress(FileNotFoundError):
            self._in_force = msgspec.json.decode((self._directory / STATE).read_bytes(), type=InForce)
        self._loop.cut_from(frozenset(self._in_force.cut))
        for moved in self.moved:
            moved(self._in_force.advanced_ms - before_ms)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            if await reader.readline() == RELOAD:
                self._reload()
            writer.write(msgspec.json.encode(self._in_force) + b"\n")
            await writer.drain()
