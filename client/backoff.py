"""How long to wait before an attempt is made again: exponential, with jitter, inside a deadline."""

import asyncio
import random
from typing import Final

BACKOFF_S_MIN: Final = 0.010
BACKOFF_S_MAX: Final = 1.0


class Backoff:
    """The pauses of one call's attempts. ``timeout_s``: what the whole call may take, from now on."""

    __slots__ = ("_deadline_s", "_loop", "_next_s", "_rng")

    def __init__(self, timeout_s: float, rng: random.Random, first_s: float = BACKOFF_S_MIN) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = self._loop.time() + timeout_s
        self._next_s = first_s
        self._rng = rng

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; 0 past it."""
        return max(0.0, self._deadline_s - self._loop.time())

    async def pause(self) -> bool:
        """Wait before the next attempt. False: the time is over, and there is none."""
        left_s = self.left_s
        if left_s <= 0:
            return False
        await asyncio.sleep(min(self._rng.uniform(self._next_s / 2, self._next_s), left_s))
        self._next_s = min(self._next_s * 2, BACKOFF_S_MAX)
        return True
