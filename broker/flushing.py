"""Flushes partition logs off the event loop; who waits for one log's flush shares the next (group commit).

A flush that is under way may have begun before what a caller appended, so he waits for the one after.
Speed     no task and no future per flush, and one wake-up of the loop for all that ended meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final, NamedTuple, TypeAlias

from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions

THREADS: Final = 4
"""One device takes few flushes at a time; more threads would only queue there."""

Flushed: TypeAlias = Callable[[bool], None]
"""Called with False if the partition is offline now: the state of the disk is unknown."""


class _Round(NamedTuple):
    """One flush of one partition, and who waits for it."""

    partition: Partition
    waiting: list[Flushed]


class Flusher:
    """Flushes partition logs in threads. To be used on the event loop."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._waiting: dict[Partition, list[Flushed]] = {}  # those not yet covered by a flush
        self._under_way = 0  # rounds
        self._threads: list[Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rounds: SimpleQueue[_Round | None] = SimpleQueue()
        self._ended: deque[tuple[_Round, BaseException | None]] = deque()
        self._woken = False  # the loop will look at what ended
        self._idle: asyncio.Event | None = None  # set when no flush is under way

    def flush(self, partition: Partition, then: Flushed) -> None:
        """Call ``then``, later, when all that the partition holds now is on the disk."""
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append(then)
            return
        self._waiting[partition] = [then]
        if not partition.flushing:
            partition.flushing = True
            self._begin(partition)

    async def stop(self) -> None:
        """Wait for what is under way."""
        if self._under_way:
            self._idle = asyncio.Event()
            await self._idle.wait()
        for _ in self._threads:
            self._rounds.put(None)
        self._threads.clear()

    def _begin(self, partition: Partition) -> None:
        """A round for all who wait for the partition."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._under_way += 1
        if len(self._threads) < min(self._under_way, THREADS):
            thread = Thread(target=self._work, name=f"flush_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._rounds.put(_Round(partition, self._waiting.pop(partition)))

    def _work(self) -> None:
        """On a thread: one round after the other."""
        while (round_ := self._rounds.get()) is not None:
            failure: BaseException | None = None
            try:
                if round_.partition.is_open:
                    round_.partition.log.flush()
            except BaseException as error:  # noqa: BLE001 - raised again where it stops the node
                failure = error
            self._ended.append((round_, failure))
            if not self._woken:  # cleared before what ended is taken: none is forgotten
                self._woken = True
                if self._loop is None or self._loop.is_closed():
                    return
                self._loop.call_soon_threadsafe(self._take_ended)

    def _take_ended(self) -> None:
        self._woken = False
        while self._ended:
            round_, failure = self._ended.popleft()
            self._under_way -= 1
            try:
                self._end(round_, failure)
            finally:
                self._go_on(round_.partition)
        if self._idle is not None and not self._under_way:
            self._idle.set()

    def _end(self, round_: _Round, failure: BaseException | None) -> None:
        partition = round_.partition
        if isinstance(failure, OSError):
            self._partitions.fail(partition, failure, doing="flush")
        elif failure is not None:
            raise failure
        self._partitions.flushed(partition)
        is_safe = partition.is_open and failure is None
        for then in round_.waiting:
            then(is_safe)

    def _go_on(self, partition: Partition) -> None:
        """Those who came meanwhile have a round of their own."""
        if partition in self._waiting:
            self._begin(partition)
        else:
            partition.flushing = False
            partition.flush_ended()
