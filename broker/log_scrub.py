"""The scrub of a broker: every segment of every log is compared with its sums, again and again.

Rounds      one round over each log directory begins with the broker, and ROUND_PAUSE_S after the one before.
            A thread for each directory: a slow disk does not delay the others.
Pace        at most 32 MiB/s of a directory, and a fifth of a core (snapshots/scrub_pace.py). A file is open
            for one segment's time.
Found       what changed takes the partition offline by name, as at a start. Until the first round was
            there, batches from before the start are checked when they are read (log/unchecked.py).
Passed over segments that a cleaner works on, or that are gone: the next round finds what took their place.
Source      none: Apache Kafka does not look.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.log.scrub import Part
from fencepost.broker.log.segment import Segment
from fencepost.broker.off_loop import off_loop
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.records.invariant import CorruptData
from fencepost.snapshots.checksums import torn_sums
from fencepost.snapshots.scrub_pace import Pace, ScrubPace, ScrubStopped

ROUND_PAUSE_S: Final = 3600.0
RECOVERY_POLL_S: Final = 0.1  # while logs are opened at the start


def _without_sums(segment: Path) -> str | OSError | None:
    """Why a segment's file of sums says nothing, though it is there: it changed, or cannot be read."""
    try:
        return torn_sums((segment,))
    except OSError as error:  # it only adds to what is checked
        return error


@dataclass(slots=True)
class _Sound:
    """What a round found to be as it was written."""

    segments: int = 0
    bytes: int = 0


class LogScrub:
    """The loop. To be made on the event loop."""

    def __init__(self, partitions: Partitions, *, log: FilteringBoundLogger) -> None:
        self._partitions = partitions
        self._log = log
        self._is_stopping = False

    async def run(self) -> None:
        """Round after round, once the logs are open; forever."""
        while True:
            is_open = self._partitions.recovered
            if is_open:
                await self.scrub_once()
            await asyncio.sleep(ROUND_PAUSE_S if is_open else RECOVERY_POLL_S)

    async def scrub_once(self) -> None:
        """One round over all that is there now."""
        sound = _Sound()
        await self._partitions.scrub_directories()
        logs = sorted(self._partitions, key=lambda each: each.log.directory)
        async with asyncio.TaskGroup() as tasks:
            for _, found in groupby(logs, lambda each: each.log.directory.parent):
                tasks.create_task(self._directory(tuple(found), sound))
        self._log.info("logs_scrubbed", segments=sound.segments, bytes=sound.bytes)

    async def _directory(self, partitions: Sequence[Partition], sound: _Sound) -> None:
        """One after the other: these are in one log directory."""
        pace = ScrubPace(lambda: not self._is_stopping)
        thread = ThreadPoolExecutor(1, "log_scrub")
        try:
            for partition in partitions:
                for segment in partition.log.scrubbable.segments():
                    size = await self._segment(partition, segment, pace, thread)
                    sound.segments += size is not None
                    sound.bytes += size or 0
        finally:
            thread.shutdown(wait=False)

    async def _segment(
        self, partition: Partition, segment: Segment, pace: Pace, thread: ThreadPoolExecutor
    ) -> int | None:
        """How many bytes of it are sound; None: it is no part of the log now, or was found changed."""
        scrubbable = partition.log.scrubbable

        def part() -> Part | None:
            is_own = partition.is_open and not partition.cleaning
            return scrubbable.part(segment) if is_own else None

        def paced(size: int) -> None:
            if not partition.is_open:
                raise ScrubStopped
            pace(size)

        before = part()
        if before is None:
            return None
        try:
            fault = await off_loop(partial(_without_sums, segment.path), thread)
            if isinstance(fault, OSError):
                self._log.error("sums_not_read", partition=str(partition), reason=str(fault))
            elif fault is not None:
                self._log.warning("sums_changed", partition=str(partition), reason=fault)
                await off_loop(partial(scrubbable.sum_again, before), thread)
            found = await off_loop(partial(scrubbable.scrub, before, paced), thread, on_cancelled=self._stop)
        except ScrubStopped:
            return None
        except (OSError, CorruptData) as error:
            if part() is not None:  # else it is another file by now
                self._partitions.fail(partition, error, doing="scrub")
            return None
        scrubbable.scrubbed(before, found)
        return before.size

    def _stop(self) -> None:
        self._is_stopping = True
