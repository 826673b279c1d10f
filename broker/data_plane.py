"""What of a broker has to do with records: partitions, and the endpoints that write, read and describe them.

Start   ``recover`` first, then the broker registers: a broker that is seen has its logs.
Stop    who waits is answered, then the logs are flushed and closed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from fencepost.broker.announcements import AnnouncementsEndpoint
from fencepost.broker.broker_settings import BrokerSettings
from fencepost.broker.checks import Checks
from fencepost.broker.controller_clients import ControllerClients
from fencepost.broker.delete_records import DeleteRecordsEndpoint
from fencepost.broker.describe_producers import DescribeProducersEndpoint
from fencepost.broker.fetch import FetchEndpoint
from fencepost.broker.flushing import Flusher
from fencepost.broker.foreign_markers import ForeignMarkers
from fencepost.broker.log_cleaning import CleanerGauges, LogCleaning
from fencepost.broker.log_directories import LogDirectories
from fencepost.broker.log_maintenance import LogMaintenance, OfflineGauges
from fencepost.broker.log_scrub import LogScrub
from fencepost.broker.log_settings import log_config
from fencepost.broker.markers import MarkersEndpoint
from fencepost.broker.offsets import OffsetsEndpoint
from fencepost.broker.partition_reports import PartitionReports
from fencepost.broker.partitions import Partitions
from fencepost.broker.placement_requests import PlacementRequests
from fencepost.broker.produce import ProduceEndpoint
from fencepost.broker.topics import TopicCache
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.broker.verification import Verifier
from fencepost.controller.authorization import Acls
from fencepost.records.types import BrokerId
from fencepost.settings.config import NodeConfig
from fencepost.settings.node_clock import NodeClock
from fencepost.settings.node_identity import Identity
from fencepost.wire.dispatch import Service, served
from fencepost.wire.k00_produce import PRODUCE
from fencepost.wire.k01_fetch import FETCH
from fencepost.wire.k02_list_offsets import LIST_OFFSETS
from fencepost.wire.k21_delete_records import DELETE_RECORDS
from fencepost.wire.k23_offset_for_leader_epoch import OFFSET_FOR_LEADER_EPOCH
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS
from fencepost.wire.k61_describe_producers import DESCRIBE_PRODUCERS
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls


class DataPlaneGauges(CleanerGauges, OfflineGauges, Protocol):
    """Where the numbers of the logs are shown."""


class DataPlane:
    """All of it. To be made on the event loop."""

    def __init__(
        self,
        config: NodeConfig,
        identity: Identity,
        acls: Acls,
        clients: ControllerClients,
        clock: NodeClock,
        *,
        is_unfenced: Callable[[], bool],
        on_change: Callable[[], None],
        rng: Random,
        log: FilteringBoundLogger,
        stalls: Stalls,
        memory: RequestMemory,
        gauges: DataPlaneGauges,
    ) -> None:
        self.acls = acls
        directories = LogDirectories(config.log_directories, config.directory, identity, log)
        self._partitions = Partitions(
            directories, BrokerId(config.node_id), log_config(config), clock_ms=clock.now_ms, log=log
        )
        self.reports = PartitionReports(self._partitions, clock_ms=lambda: time.monotonic_ns() // 1_000_000)
        self.own_settings = BrokerSettings(config, self._partitions, clients.reading, rng=rng, log=log)
        self.topics = TopicCache(clients.topics, self._partitions, is_unfenced=is_unfenced, rng=rng, log=log)
        self._unknown = UnknownPartitions(self._partitions, self.topics)
        self._verifier = Verifier(clients.coordinators, rng=rng, log=log)
        self._foreign = ForeignMarkers(clients.listing, clients.coordinators[-1], rng=rng, log=log)
        self._flusher = Flusher(self._partitions)
        self._maintenance, self._cleaning = self._maintained(config, directories, clock, gauges, log)
        self._scrub = LogScrub(self._partitions, log=log)
        self._checks = Checks(stalls)
        self._produce = ProduceEndpoint(
            self._partitions,
            self._unknown,
            self._verifier,
            self._checks,
            self._flusher,
            clock_ms=clock.now_ms,
        )
        self._fetch = FetchEndpoint(self._partitions, self._unknown, memory.reply_room, stalls=stalls)
        self._offsets = OffsetsEndpoint(self._partitions, self._unknown, stalls=stalls)
        self._deletions = DeleteRecordsEndpoint(self._partitions, self._unknown, self._flusher, self.acls)
        self._placement = PlacementRequests(self._partitions, directories, self.acls)
        self._markers = MarkersEndpoint(
            self._partitions,
            self._unknown,
            self._flusher,
            self._foreign,
            self.acls,
            stalls=stalls,
            clock_ms=clock.now_ms,
        )
        self.announcements = AnnouncementsEndpoint(self._partitions, self._verifier, self.acls, on_change)
        self._describe_producers = DescribeProducersEndpoint(self._partitions, self._unknown, stalls=stalls)

    def _maintained(
        self,
        config: NodeConfig,
        directories: LogDirectories,
        clock: NodeClock,
        gauges: DataPlaneGauges,
        log: FilteringBoundLogger,
    ) -> tuple[LogMaintenance, LogCleaning]:
        maintenance = LogMaintenance(
            self._partitions,
            directories,
            self._flusher,
            config.log_retention_check_ms,
            config.producer_id_expiration_check_ms,
            clock_ms=clock.now_ms,
            may_delete=clock.may_delete,
            gauges=gauges,
            log=log,
        )
        cleaning = LogCleaning(
            self._partitions,
            config.log_cleaner_backoff_ms,
            clock_ms=clock.now_ms,
            may_delete=clock.may_delete,
            gauges=gauges,
            log=log,
        )
        return maintenance, cleaning

    def service(self) -> Service:
        """The endpoints of the data plane, by API key."""
        own = dict(
            (
                served(PRODUCE, self._produce.produce),
                served(FETCH, self._fetch.fetch),
                served(LIST_OFFSETS, self._offsets.list_offsets),
                served(OFFSET_FOR_LEADER_EPOCH, self._offsets.offset_for_leader_epoch),
                served(DELETE_RECORDS, self._deletions.delete),
                served(WRITE_TXN_MARKERS, self._markers.write),
                served(ANNOUNCE_PARTITIONS, self.announcements.announce),
                served(DESCRIBE_PRODUCERS, self._describe_producers.describe),
            )
        )
        return {**own, **self._placement.service()}

    def lock(self) -> None:
        """Keep other processes from the logs. Raises OSError."""
        self._partitions.lock()

    async def recover(self) -> None:
        """Open the logs that are there. Before the broker registers."""
        await self._partitions.recover()
        self.topics.refresh_soon()

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What runs as long as the broker does."""
        return (
            self.topics.run(),
            self.own_settings.run(),
            self._verifier.run(),
            self._foreign.run(),
            self._maintenance.retain(),
            self._maintenance.expire_producers(),
            self._maintenance.flush(),
            self._cleaning.run(),
            self._scrub.run(),
        )

    async def stop(self) -> None:
        """Flush and close the logs. After the listener has stopped."""
        await self._unknown.stop()
        await self.topics.stop()
        self._checks.stop()
        await self._deletions.stop()
        await self._placement.stop()
        await self._flusher.stop()
        await self._partitions.close()

    def release(self) -> None:
        """Answer the fetches that wait, so that their connections can close."""
        self._fetch.stop()


async def after(first: Coroutine[Any, Any, None], then: Coroutine[Any, Any, None]) -> None:
    """One after the other; neither is left unawaited if the first is cancelled."""
    try:
        await first
    except asyncio.CancelledError:
        then.close()
        raise
    await then
