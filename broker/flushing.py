"""Flushes partition logs off the event loop; who waits for one log's flush shares the next (group commit).

A flush that is under way may have begun before what a caller appended, so he waits for the one after.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from broker.partitions import Partition, Partitions

THREADS: Final = 4
"""One device takes few flushes at a time; more threads would only queue there."""

Flushed: TypeAlias = Callable[[bool], None]
"""Called with False if the partition is offline now: nobody knows what is on the disk."""


class Flusher:
    """Asks threads to flush. To be used on the event loop."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="flush")
        self._waiting: dict[Partition, list[Flushed]] = {}  # those not yet covered by a flush
        self._under_way: set[asyncio.Task[None]] = set()

    def flush(self, partition: Partition, then: Flushed) -> None:
        """Call ``then`` when all that the partition holds now is on the disk."""
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append(then)
            return
        self._waiting[partition] = [then]
        if not partition.flushing:
            partition.flushing = True
            task = asyncio.get_running_loop().create_task(self._rounds(partition))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def stop(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._threads.shutdown(wait=False)

    async def _rounds(self, partition: Partition) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (waiting := self._waiting.pop(partition, None)) is not None:
                flushed = partition.is_open
                try:
                    if flushed:
                        await loop.run_in_executor(self._threads, partition.log.flush)
                except OSError as error:
                    self._partitions.fail(partition, error, doing="flush")
                    flushed = False
                for then in waiting:
                    then(flushed)
        finally:
            partition.flushing = False
            partition.flush_ended()
