"""How many bytes of records wait to be written, and the calls that wait for room among them.

Bound    ``bytes_max``, and one record more: a record is taken while there is room, whatever its size.
Order    who waits first goes on first; a call that comes later waits behind it.
"""

import asyncio
from collections import deque

from fencepost.client.errors import DeliveryTimedOut


class BufferMemory:
    """The memory of one producer's records."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.used = 0

    @property
    def is_full(self) -> bool:
        """A record has to wait: see ``reserve``."""
        return self.used >= self._bytes_max or bool(self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Some call waits for room."""
        return bool(self._waiting)

    async def reserve(self, timeout_s: float) -> None:
        """Wait until there is room. Raises DeliveryTimedOut, and what ``end`` was given."""
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(room)
        try:
            async with asyncio.timeout(timeout_s):
                await room
        except TimeoutError as error:
            full = f"{self.used} bytes wait to be written, and no room came in {timeout_s:.1f} s"
            raise DeliveryTimedOut(full) from error
        finally:
            if room in self._waiting:
                self._waiting.remove(room)
            self._admit()

    def release(self, size: int) -> None:
        """So many bytes have their outcome."""
        self.used -= size
        self._admit()

    def end(self, error: Exception) -> None:
        """There will be no room any more."""
        for room in self._waiting:
            if not room.done():
                room.set_exception(error)
        self._waiting.clear()

    def _admit(self) -> None:
        """Let the first go on; it lets the next one go on when it has taken its room."""
        if self._waiting and self.used < self._bytes_max:
            room = self._waiting[0]
            if not room.done():
                room.set_result(None)
