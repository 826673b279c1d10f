"""Retention, expiry of producers and flushes, in slices that hold the loop only briefly.

Retention   segments past ``retention.ms`` or ``retention.bytes``, every ``log.retention.check.interval.ms``;
            not before the topic's settings are known, nor while its full segments are cleaned.
Producers   without a batch for ``producer.id.expiration.ms`` are forgotten, PRODUCERS_MAX at a time, every
            ``producer.id.expiration.check.interval.ms``.
Clock       while it has jumped (controller/clocks.py) nothing is too old.
Flush       of full segments and of producer snapshots, within FLUSH_S, off the loop.
Offline     log directories and partitions are counted at the same time, for metrics.
Source      Kafka LogManager, ProducerStateManager.removeExpiredProducers.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.broker.flushing import Flusher
from fencepost.broker.log_directories import LogDirectories
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions

FLUSH_S: Final = 2.0
BEFORE_ALL_MS: Final = 0  # by this time no record is too old
PRODUCERS_MAX: Final = 2_000  # looked at in one turn of the loop: about a millisecond


class OfflineGauges(Protocol):
    """Where is shown what cannot be used."""

    def offline(self, directories: int, partitions: int) -> None:
        """Show how many of either, now."""


class LogMaintenance:
    """Three loops over all partitions."""

    def __init__(
        self,
        partitions: Partitions,
        directories: LogDirectories,
        flusher: Flusher,
        retention_check_ms: int,
        expiration_check_ms: int,
        *,
        clock_ms: Callable[[], int],
        may_delete: Callable[[], bool],
        gauges: OfflineGauges,
        log: FilteringBoundLogger,
    ) -> None:
        self._partitions = partitions
        self._directories = directories
        self._flusher = flusher
        self._retention_check_s = retention_check_ms / 1000
        self._expiration_check_s = expiration_check_ms / 1000
        self._clock_ms = clock_ms
        self._may_delete = may_delete
        self._gauges = gauges
        self._log = log

    async def retain(self) -> None:
        """Delete what is too old or too much; forever."""
        while True:
            await asyncio.sleep(self._retention_check_s)
            for partition in self._partitions:
                self._retain(partition)
                await asyncio.sleep(0)

    async def expire_producers(self) -> None:
        """Forget producers that have not written for long; forever."""
        while True:
            await asyncio.sleep(self._expiration_check_s)
            await self.expire_once()

    async def expire_once(self) -> None:
        """Look at every producer of every partition."""
        for partition in self._partitions:
            has_more = self._may_delete()
            while has_more and partition.is_open:
                has_more = partition.log.expire_producers(self._clock_ms(), PRODUCERS_MAX)
                await asyncio.sleep(0)

    async def flush(self) -> None:
        """Flush what can wait for some seconds, but not for ever; forever."""
        while True:
            self._show_offline()
            await asyncio.sleep(FLUSH_S)
            for partition in self._partitions:
                if partition.is_open and partition.log.flush_wanted:
                    self._flusher.flush(partition, lambda is_safe: None)

    def _show_offline(self) -> None:
        directories = sum(not is_usable for _, is_usable in self._directories.states())
        self._gauges.offline(directories, len(self._partitions.offline()))

    def _retain(self, partition: Partition) -> None:
        if not partition.is_open or partition.cleaning or not partition.is_configured:
            return
        try:
            deleted = partition.log.retain(self._clock_ms() if self._may_delete() else BEFORE_ALL_MS)
        except OSError as error:
            self._partitions.fail(partition, error, doing="retain")
            return
        if deleted:
            self._log.info("segments_deleted", partition=str(partition), segments=deleted)
