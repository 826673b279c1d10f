"""Work of one request in slices, the event loop free between them.

A failure costs the request's connection, as a failure in an endpoint does; it does not reach the event loop.
"""

import asyncio
from collections.abc import Iterator

from fencepost.wire.dispatch import Closing
from fencepost.wire.stalls import Stalls


class Slices:
    """Runs ``steps`` up to each ``yield`` in a turn of the loop of its own; the first one now."""

    __slots__ = ("_closing", "_stalls", "_steps", "_work")

    def __init__(self, work: str, steps: Iterator[None], closing: Closing, stalls: Stalls) -> None:
        self._work = work
        self._steps = steps
        self._closing = closing
        self._stalls = stalls

    def start(self) -> None:
        """Run the first slice, which is measured with the request. Raises what it raises."""
        if next(self._steps, self) is not self:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        begun = self._stalls.begin()
        try:
            is_over = next(self._steps, self) is self
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - around one request
            self._closing.close(f"{self._work} failed: {error!r}")
            return
        self._stalls.end(self._work, begun)
        if not is_over:
            asyncio.get_running_loop().call_soon(self._go_on)
