"""An event loop that does not wait: where it would sleep until its next timer, its clock goes there at once.

For clients and listeners that are both in the test's process. What waits for another process, a thread or a
clock of its own has to be waited for: ``run_in_executor`` is, the rest is not what this loop is for.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

GRACE_S: Final = 0.001
"""What was sent over the loopback interface is there at once, if the machine is not busy."""


class _Skipping(selectors.BaseSelector):
    """``skipped_s``: what the clock is ahead of the machine's."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.skipped_s = 0.0
        self.awaited_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= GRACE_S or self.awaited_threads:
            return self._real.select(timeout)
        ready = self._real.select(GRACE_S)
        if not ready:
            self.skipped_s += timeout - GRACE_S
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return super().time() + self._skipping.skipped_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], T], *args: *Arguments
    ) -> asyncio.Future[T]:
        self._skipping.awaited_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._skipping.awaited_threads -= 1


def run(story: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(story)
