"""The log cleaner of a broker: compacted logs are cleaned in a thread, one at a time, the dirtiest first.

Due         every ``log.cleaner.backoff.ms`` each compacted log is looked at (broker/log/cleanable.py says
            when it is due); as long as one is due there is no pause.
Thread      one. It works SLICE_S at a time, then sleeps: four times as long while the process is busy with
            other work, else a quarter of it. The interpreter runs one thread at a time: what the cleaner
            takes, requests lack.
Owner       the loop swaps segments between two calls of the thread: a few files are closed, four renamed.
Checkpoint  ``cleaner-offset-checkpoint`` of each log directory says where the next pass of a log begins.
Failures    a log whose bytes are damaged, or cannot be read, is left alone until the next start, as in Kafka.
            For want of space or of file descriptors it is tried again.
Clock       while it has jumped (controller/clocks.py) nothing is cleaned: horizons are times.
Source      Kafka LogCleaner, LogCleanerManager.
"""

import asyncio
import errno
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from fencepost.broker.log.cleanable import Dirt
from fencepost.broker.log.cleaner import Cleaned, CleanerPass
from fencepost.broker.log.offset_checkpoint import CLEANER_FILE, load_offsets, save_offsets
from fencepost.broker.off_loop import off_loop
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.wire.descriptors import is_exhausted

SLICE_S: Final = 0.001  # of the thread's own work
OTHERS_SHARE: Final = 0.15
"""Of the thread's own CPU time: what other threads use above it shows that they need the interpreter. By the
time on the wall, a process to which the machine gives little would look idle. In the shortest pause a loop
that has work uses more than that; a node without clients uses less even beside a slow cleaner."""

PAUSE_BUSY: Final = 4.0  # times the slice
PAUSE_IDLE: Final = 0.25
PARTITIONS_AT_ONCE_MAX: Final = 100  # looked at in one turn of the loop: some 10 us each

T = TypeVar("T")


class CleaningStopped(Exception):
    """The pass ends without more being done."""


class CleaningCounts(NamedTuple):
    """What the cleaner did and what it has to do, for metrics."""

    passes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    pass_s: float = 0.0  # of the last pass
    recopied_percent: float = 0.0  # bytes written of those read by the last pass
    dirty_percent_max: int = 0  # of the dirtiest log
    overdue_s_max: float = 0.0  # since max.compaction.lag.ms of a dirty record
    uncleanable: int = 0


class CleanerGauges(Protocol):
    """Where the counts are shown."""

    def log_cleaner(self, counts: CleaningCounts) -> None:
        """Show them. Counts only grow."""


class Pace:
    """How fast the cleaner's thread goes. It is called after each batch, in that thread."""

    def __init__(self, may_go_on: Callable[[], bool]) -> None:
        self._may_go_on = may_go_on
        self._slice_began = time.thread_time()
        self._seen = (time.process_time(), time.thread_time())

    def __call__(self) -> None:
        """Sleep if the slice is over. Raises CleaningStopped."""
        used = time.thread_time() - self._slice_began
        if used < SLICE_S:
            return
        if not self._may_go_on():
            raise CleaningStopped
        time.sleep(used * (PAUSE_BUSY if self._is_busy() else PAUSE_IDLE))
        self._slice_began = time.thread_time()

    def _is_busy(self) -> bool:
        """Other threads have used much CPU since the last call."""
        process, own = self._seen
        self._seen = (time.process_time(), time.thread_time())
        used = self._seen[1] - own
        return self._seen[0] - process - used > OTHERS_SHARE * used


class LogCleaning:
    """The cleaner's loop. To be made on the event loop."""

    def __init__(
        self,
        partitions: Partitions,
        backoff_ms: int,
        *,
        clock_ms: Callable[[], int],
        may_delete: Callable[[], bool],
        gauges: CleanerGauges,
        log: FilteringBoundLogger,
    ) -> None:
        self._partitions = partitions
        self._backoff_s = backoff_ms / 1000
        self._clock_ms = clock_ms
        self._may_delete = may_delete
        self._gauges = gauges
        self._log = log
        self._checkpoints: dict[Path, dict[str, Offset]] = {}  # by log directory, then by folder
        self._uncleanable: set[Partition] = set()
        self._counts = CleaningCounts()
        self._is_stopping = False
        self._thread = ThreadPoolExecutor(1, "log_cleaner")

    async def run(self) -> None:
        """Clean what is due; forever."""
        try:
            while True:
                await asyncio.sleep(self._backoff_s)
                while self._may_delete() and await self.clean_once():
                    pass
        finally:
            self._thread.shutdown(wait=False)

    async def clean_once(self) -> bool:
        """One pass over the dirtiest log that is due. False: there is none, or it was not cleaned."""
        found: list[tuple[Dirt, Partition]] = []
        shown = CleaningCounts()
        self._uncleanable = {each for each in self._uncleanable if each.is_open}
        for count, partition in enumerate(self._partitions, 1):
            if count % PARTITIONS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)
            dirt = await self._dirt(partition)
            if dirt is None:
                continue
            shown = shown._replace(
                dirty_percent_max=max(shown.dirty_percent_max, int(100 * dirt.ratio)),
                overdue_s_max=max(shown.overdue_s_max, dirt.overdue_ms / 1000),
            )
            if dirt.is_due(partition.log.config):
                found.append((dirt, partition))
        self._show(
            dirty_percent_max=shown.dirty_percent_max,
            overdue_s_max=shown.overdue_s_max,
            uncleanable=len(self._uncleanable),
        )
        if not found:
            return False
        dirt, partition = max(found, key=lambda each: each[0].ratio)
        return await self._clean(partition, dirt)

    async def _dirt(self, partition: Partition) -> Dirt | None:
        """How dirty a log is; None: it is none to clean."""
        log = partition.log
        if not log.config.compact or partition in self._uncleanable:
            return None
        clean_end = (await self._offsets(partition)).get(log.directory.name, log.start)
        if not partition.is_open:
            return None
        now_ms = self._clock_ms()
        try:
            log.roll_overdue(now_ms)
            return log.cleanable.dirt(Offset(clean_end), log.last_stable_offset, log.config, now_ms)
        except (OSError, CorruptData) as error:
            self._partitions.fail(partition, error, doing="clean")
            return None

    async def _offsets(self, partition: Partition) -> dict[str, Offset]:
        root = partition.log.directory.parent
        known = self._checkpoints.get(root)
        if known is None:
            found = await self._in_thread(lambda: load_offsets(root / CLEANER_FILE))
            known = self._checkpoints[root] = found.by_folder
        return known

    async def _clean(self, partition: Partition, dirt: Dirt) -> bool:
        partition.cleaning = True
        began = time.monotonic()
        try:
            dirty = partition.log.cleanable.begin(dirt, partition.log.config)
            pace = Pace(lambda: partition.is_open and not self._is_stopping)
            work = CleanerPass(dirty, self._clock_ms(), pace)
            await self._in_thread(work.begin)
            while await self._clean_group(partition, work):
                pass
            await self._save(partition, work.cleaned.clean_end)
        except CleaningStopped:
            return False
        except (OSError, CorruptData) as error:
            return self._failed(partition, error)
        finally:
            partition.cleaning = False
            partition.flush_ended()
        self._cleaned(partition, work.cleaned, time.monotonic() - began)
        return work.cleaned.clean_end > dirt.first_dirty

    async def _clean_group(self, partition: Partition, work: CleanerPass) -> bool:
        """Clean a group and swap it in. False: the pass is over. Raises OSError, CorruptData."""
        group = await self._in_thread(work.next_group)
        if group is None:
            return False
        cleanable = partition.log.cleanable
        try:
            self._require_open(partition)  # else what is decided is done at the next start
            cleanable.swap_in(group)
            await self._in_thread(lambda: work.remove_old(group))
            self._require_open(partition)
            cleanable.settle(group)
            await self._in_thread(lambda: cleanable.settled(group))
        except OSError as error:
            self._partitions.fail(partition, error, doing="clean")
            raise CleaningStopped from error
        return True

    def _require_open(self, partition: Partition) -> None:
        if not partition.is_open:
            raise CleaningStopped

    async def _save(self, partition: Partition, clean_end: Offset) -> None:
        """The log is clean up to there. Raises OSError."""
        root = partition.log.directory.parent
        offsets = self._checkpoints[root]
        offsets[partition.log.directory.name] = clean_end
        logs = (each.log.directory for each in self._partitions)
        hosted = {directory.name for directory in logs if directory.parent == root}
        for name in offsets.keys() - hosted:
            del offsets[name]
        saved = dict(offsets)
        await self._in_thread(lambda: save_offsets(root / CLEANER_FILE, saved))

    def _failed(self, partition: Partition, error: OSError | CorruptData) -> bool:
        """Nothing was replaced by what failed."""
        if isinstance(error, OSError) and (is_exhausted(error) or error.errno == errno.ENOSPC):
            self._log.warning("log_not_cleaned", partition=str(partition), reason=str(error))
            return False
        self._uncleanable.add(partition)
        self._show(uncleanable=len(self._uncleanable))
        self._log.error("log_uncleanable", partition=str(partition), reason=str(error))
        return False

    def _cleaned(self, partition: Partition, done: Cleaned, seconds: float) -> None:
        self._show(
            passes=self._counts.passes + 1,
            bytes_read=self._counts.bytes_read + done.bytes_read,
            bytes_written=self._counts.bytes_written + done.bytes_written,
            pass_s=seconds,
            recopied_percent=100 * done.bytes_written / max(1, done.bytes_read),
        )
        self._log.info(
            "log_cleaned",
            partition=str(partition),
            clean_end=done.clean_end,
            bytes_before=done.bytes_read,
            bytes_after=done.bytes_written,
            records_before=done.records_read,
            records_after=done.records_written,
            keys=done.keys,
            seconds=round(seconds, 3),
        )

    def _show(self, **changed: float) -> None:
        self._counts = self._counts._replace(**changed)  # type: ignore[arg-type]
        self._gauges.log_cleaner(self._counts)

    async def _in_thread(self, blocking: Callable[[], T]) -> T:
        return await off_loop(blocking, self._thread, on_cancelled=self._stop)

    def _stop(self) -> None:
        self._is_stopping = True
