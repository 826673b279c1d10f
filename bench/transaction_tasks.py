"""The producers of asyncio libraries that load a cluster: a task each, in one event loop (uvloop).

The libraries' settings are their defaults. An outcome that is not known ends the load: it has no figure.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import uvloop

from fencepost.bench.transaction_records import Load, LoadFailed, Written, values_of
from fencepost.client import AbortableError, ClientError, Producer

START_SECONDS_MAX: Final = 60.0


class TaskProducer(Protocol):
    """A transactional producer of some library. Each method raises LoadFailed."""

    async def start(self) -> None:
        """Get the producer id."""

    async def write(self, topic: str, values: Sequence[bytes], partition: int) -> bool:
        """One transaction. Whether it was committed: if not, it was aborted."""

    async def abort(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        """Write one transaction, and abort it once its records are written."""

    async def close(self) -> None:
        """Close its connections."""


class FencepostProducer:
    """Of ``fencepost.client``. See TaskProducer."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = Producer(bootstrap, transactional_id=transactional_id)

    async def start(self) -> None:
        """See TaskProducer."""
        try:
            await self._producer.start()
        except ClientError as error:
            raise LoadFailed(str(error)) from error

    async def write(self, topic: str, values: Sequence[bytes], partition: int) -> bool:
        """See TaskProducer."""
        producer = self._producer
        try:
            try:
                producer.begin_transaction()
                for value in values:
                    await producer.send(topic, value, partition=partition)
                await producer.commit_transaction()
            except AbortableError:
                await producer.abort_transaction()
                return False
        except ClientError as error:
            raise LoadFailed(str(error)) from error
        return True

    async def abort(self, topic: str, values: Sequence[bytes], partition: int) -> None:
        """See TaskProducer."""
        producer = self._producer
        try:
            producer.begin_transaction()
            for value in values:
                await producer.send(topic, value, partition=partition)
            await producer.flush()
            await producer.abort_transaction()
        except ClientError as error:
            raise LoadFailed(str(error)) from error

    async def close(self) -> None:
        """See TaskProducer."""
        await self._producer.close(timeout_s=0.0)


class Tasks:
    """See ``Writers``."""

    def __init__(self, load: Load, partitions: int, new: Callable[[str, str], TaskProducer]) -> None:
        self.pids: Sequence[int] = (os.getpid(),)
        self._load = load
        self._partitions = partitions
        self._producers = [new(load.bootstrap, f"{load.topic}-{each}") for each in range(load.producers)]
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def open(self) -> None:
        """See Writers."""
        self._runner.run(self._start())

    def write(self, begin_ns: int, end_ns: int) -> list[Written]:
        """See Writers."""
        return self._runner.run(self._write_all(begin_ns, end_ns))

    def close(self) -> None:
        """See Writers."""
        self._runner.run(self._close())
        self._runner.close()

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                await _all(each.start() for each in self._producers)
        except TimeoutError:
            raise LoadFailed(f"a producer did not start in {START_SECONDS_MAX:.0f} s") from None

    async def _write_all(self, begin_ns: int, end_ns: int) -> list[Written]:
        return await _all(self._write(number, begin_ns, end_ns) for number in range(self._load.producers))

    async def _write(self, number: int, begin_ns: int, end_ns: int) -> Written:
        load, producer, partition = self._load, self._producers[number], number % self._partitions
        written = Written([], [])
        transaction = 0
        now_ns = 0
        while now_ns < end_ns:
            values = values_of(load, number, transaction)
            sent_ns = time.monotonic_ns()
            is_committed = await producer.write(load.topic, values, partition)
            now_ns = time.monotonic_ns()
            if is_committed:
                written.committed.append(transaction)
                if begin_ns <= sent_ns and now_ns <= end_ns:
                    written.latencies_ns.append(now_ns - sent_ns)
            transaction += 1
        if load.hides_aborted:
            await producer.abort(load.topic, values_of(load, number, transaction), partition)
        return written

    async def _close(self) -> None:
        for each in self._producers:
            await each.close()


async def _all(calls: Any) -> list[Any]:
    """The results in order; the first failure as it is, not in a group."""
    return list(await asyncio.gather(*calls))
