"""Blocking work in a thread, awaited to its end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


async def off_loop(
    blocking: Callable[[], T],
    executor: Executor | None = None,
    *,
    on_cancelled: Callable[[], None] = lambda: None,
) -> T:
    """Run it in a thread, to its end even if the caller is cancelled meanwhile: no log is left half open.

    on_cancelled   may shorten the work.
    """
    running = asyncio.get_running_loop().run_in_executor(executor, blocking)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        on_cancelled()
        await asyncio.wait((running,))
        if not running.cancelled():
            running.exception()  # looked at: the caller is gone
        raise
