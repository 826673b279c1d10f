"""The partitions that this broker hosts: their logs are opened, made and deleted as the metadata says.

Places      log_directories.py knows them, and which logs are lost.
Start       ``recover`` opens every log before the broker registers; until then nothing is hosted.
Deletion    only of what the active controller's full answer lacks, if requested after the log was opened.
Offline     a log that an OSError hit, until the next start, with all of its directory if that is full or
            gone; one that is damaged (log/damage.py), or lost: clients get KAFKA_STORAGE_ERROR (56).
            Without a file descriptor (EMFILE, ENFILE) only the one request does.
Threads     opening, closing and deleting block, so they run off the loop, one at a time, under a lock.
Source      Kafka LogManager, ReplicaManager.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.log.log_starts import LOG_STARTS
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log_directories import ELSEWHERE, LogDirectories
from fencepost.broker.log_folders import FoundLog
from fencepost.broker.log_settings import LogSettings
from fencepost.broker.off_loop import off_loop
from fencepost.broker.partition import OfflineLog, Partition
from fencepost.controller.topics import TopicConfig
from fencepost.records.invariant import CorruptData
from fencepost.records.types import BrokerId, Offset, Term
from fencepost.wire.descriptors import is_exhausted
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.limited_log import LimitedLog

_LATER: Final = 2**63  # than any generation
PARTITIONS_AT_ONCE_MAX: Final = 1_000
"""Looked at in one step of the loop, when all topics are compared with what is hosted: a microsecond each."""

_NONE_HERE: Final[Mapping[int, Partition]] = {}


class Partitions:
    """All partitions that this broker hosts."""

    def __init__(
        self,
        directories: LogDirectories,
        broker_id: BrokerId,
        config: LogConfig,
        *,
        clock_ms: Callable[[], int],
        log: FilteringBoundLogger,
    ) -> None:
        self._directories = directories
        self.broker_id = broker_id
        self._settings = LogSettings(config)
        self._clock_ms = clock_ms
        self._log = log
        self._limited_log = LimitedLog(log)
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[uuid.UUID, dict[int, Partition]] = {}  # by topic and index
        self._offline: dict[tuple[str, int], OfflineLog] = {}
        self._lock = asyncio.Lock()
        self._moved: set[Partition] = set()
        self._generation = 0  # counts openings: what a question does not know of, its answer cannot miss
        self._opened_at: dict[Partition, int] = {}
        self.recovered = False

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._by_name.values()))

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is hosted here and its log is sound."""
        return self._by_name.get((topic, index))

    def find_by_id(self, topic_id: uuid.UUID, index: int) -> Partition | None:
        """The same by the topic's id."""
        return self._by_id.get(topic_id, _NONE_HERE).get(index)

    def is_offline(self, topic: str, index: int) -> bool:
        """It is hosted here, but its log cannot be used."""
        return (topic, index) in self._offline

    def offline(self) -> set[tuple[uuid.UUID, int]]:
        """Topic id and index of those that ``is_offline``, as far as their topics are known."""
        ids = ((each.placed_id or each.topic_id, index) for (_, index), each in self._offline.items())
        return {(topic_id, index) for topic_id, index in ids if topic_id is not None}

    @property
    def generation(self) -> int:
        """A number to note before all topics are requested from the controller; ``retire`` takes it."""
        return self._generation

    def lock(self) -> None:
        """Keep other processes from the logs, until ``close``. Raises LogDirectoryInUse, OSError."""
        self._directories.lock()

    async def recover(self) -> None:
        """Open every log that an earlier process left. Raises LogDirectoryInUse, OSError."""
        self.lock()
        found = await off_loop(self._directories.recover)
        for each in found:
            if each.conflict:
                self._take_offline((each.topic, each.index), each.conflict, None, each.path, doing="find")
            else:
                await self._open(each, None)
        hosted = self._directories.hosted
        logs = [hosted(each.topic, each.index, each.topic_id, each.log.directory) for each in self]
        for lost, reason in await off_loop(partial(self._directories.recovered, logs)):
            name = (lost.topic, lost.index)
            if name not in self._by_name and name not in self._offline:
                self._take_offline(name, reason, lost.topic_id, None, doing="find")
        self.recovered = True
        if found:
            self._log.info("logs_recovered", partitions=len(found), offline=len(self._offline))

    def unconfigured(self, topics: Iterable[TopicMetadata]) -> dict[str, uuid.UUID]:
        """By name, the ids of those topics with a partition here whose settings are not known."""
        return {
            topic.name: topic.topic_id
            for topic in topics
            if topic.error_code == 0 and topic.name is not None and topic.topic_id is not None
            if self._settings.digest(topic.topic_id) != topic.configs_digest
            if any(self.broker_id in each.replica_nodes for each in topic.partitions)
        }

    def configure(self, topic_id: uuid.UUID, settings: Iterable[TopicConfig]) -> None:
        """The settings of a topic, for its logs that are open and those that will be."""
        self._settings.configure(topic_id, settings)
        for partition in self._by_id.get(topic_id, _NONE_HERE).values():
            self._settings.apply_to(partition)

    def set_own(self, settings: Iterable[tuple[str, str | None]]) -> None:
        """What is set for this broker while it runs, by its names, for all logs that have no own value."""
        self._settings.set_own(settings)
        for partition in self:
            self._settings.apply_to(partition)

    async def host(self, topics: Iterable[TopicMetadata], *, may_make: bool) -> None:
        """Open, or make, what these topics, as the active controller describes them, place on this broker.

        ``may_make`` False: what it says of this broker may be out of date, so no log is made.
        """
        if not self.recovered:
            return
        rows = 0
        for topic in topics:
            rows += topic.rows
            if rows >= PARTITIONS_AT_ONCE_MAX:
                rows = 0
                await asyncio.sleep(0)
            if topic.error_code != 0 or topic.name is None or topic.topic_id is None:
                continue
            for each in topic.partitions:
                if self.broker_id in each.replica_nodes:
                    if may_make:
                        await self._host_one(topic.name, each, topic.topic_id)
                    found = self._by_name.get((topic.name, each.partition_index))
                    if found is not None and each.leader_epoch >= 0:
                        found.leader_epoch = Term(each.leader_epoch)

    async def retire(self, topic_ids: frozenset[uuid.UUID], generation: int) -> None:
        """Delete the partitions of topics that are no more.

        ``topic_ids`` are those of a full response of the active controller to a request that was sent
        when ``generation`` was the generation: partitions that were opened since are left alone.
        """
        for count, partition in enumerate(self, 1):
            if count % PARTITIONS_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)
            if partition.topic_id not in topic_ids and self._opened_at.get(partition, _LATER) <= generation:
                async with self._lock:
                    await self._delete(partition)
        for (topic, index), lost in tuple(self._offline.items()):
            if lost.topic_id is not None and lost.topic_id not in topic_ids and lost.generation <= generation:
                async with self._lock:
                    await self._delete_lost(topic, index, lost.topic_id)
        self._limited_log.flush()

    def fail(self, partition: Partition, error: OSError | CorruptData, *, doing: str) -> None:
        """Take a partition offline: after an OSError it is unknown what its log holds, or its bytes changed.

        Not for want of a file descriptor: then nothing was done, and the next request may find one.
        """
        if not partition.is_open or self._is_exhausted(error, str(partition), doing):
            return
        directory = self._directories.fail(partition.log.directory, error)
        for each in (partition,) if directory is None else tuple(self):
            path = each.log.directory
            if directory is None or path.parent == directory:
                self._take_offline((each.topic, each.index), str(error), each.topic_id, path, doing=doing)
                self._forget(each)

    def flushed(self, partition: Partition) -> None:
        """The log was flushed, with its checksums or, which is said, without."""
        if (failure := partition.log.take_sums_failure()) is not None:
            self._limited_log.warning("sums_not_saved", partition=str(partition), reason=str(failure))

    async def delete_records(self, starts: Mapping[Partition, Offset]) -> None:
        """Logs, flushed up to there, begin at these offsets from now on, durably. Raises OSError."""
        async with self._lock:
            rows = {each.log.directory: start for each, start in starts.items() if each.is_open}
            await off_loop(partial(self._directories.record_starts, rows))
            for each, start in starts.items():
                each.log.first_kept = max(each.log.first_kept, start)
                each.wake()

    async def scrub_directories(self) -> None:
        """See ``LogDirectories.scrub``."""
        async with self._lock:
            await off_loop(self._directories.scrub)

    async def close(self) -> None:
        """Flush and close every log; that all of a directory were is recorded beside them."""
        unclean = {lost.path.parent for lost in self._offline.values() if lost.path is not None}
        async with self._lock:
            for partition in self:
                self._forget(partition)
                await partition.unused()
                partition.log.release_files()
                try:
                    await off_loop(partition.log.close)
                    self.flushed(partition)
                except OSError as error:
                    unclean.add(partition.log.directory.parent)
                    self._log.error("log_not_closed", partition=str(partition), reason=str(error))
        if self.recovered:
            await off_loop(partial(self._directories.record_clean_end, unclean))
        self._directories.release()

    def moved(self, partition: Partition) -> None:
        """Requests that wait at the partition are woken at the end of this turn of the loop, once."""
        if not self._moved:
            asyncio.get_running_loop().call_soon(self._report_moved)
        self._moved.add(partition)

    def _report_moved(self) -> None:
        moved, self._moved = self._moved, set()
        for waits in {each for partition in moved for each in partition.waiting}:
            waits.partition_moved()

    async def _host_one(self, topic: str, placed: PartitionMetadata, topic_id: uuid.UUID) -> None:
        index = placed.partition_index
        found = self._by_name.get((topic, index))
        lost = self._offline.get((topic, index))
        given_up = placed.start_offset >= 0 and self._directories.is_given_up(
            topic_id, index, placed.leader_epoch
        )
        if found is not None and found.topic_id == topic_id:
            if given_up:  # but it is there: an operator's word is no reason to throw it away
                await self._remember(found, placed.leader_epoch)
            return
        if lost is not None and lost.topic_id in (None, topic_id) and not given_up:
            self._offline[topic, index] = lost._replace(placed_id=topic_id)
            return
        async with self._lock:
            found = self._by_name.get((topic, index))
            if found is not None and found.topic_id == topic_id:
                return
            if found is not None:  # its topic was deleted, and another has its name now
                await self._delete(found)
            elif lost is not None and lost.topic_id not in (None, topic_id):
                await self._delete_lost(topic, index, lost.topic_id)
            if self.broker_id not in placed.offline_replicas:
                await self._make(topic, placed, topic_id, given_up=given_up)
            elif self.broker_id == placed.leader_id:
                reason = ELSEWHERE.format(directories=self._directories)
                self._take_offline((topic, index), reason, topic_id, None, doing="make")

    async def _remember(self, partition: Partition, leader_epoch: int) -> None:
        topic, index, topic_id = partition.topic, partition.index, partition.topic_id
        try:
            log = self._directories.hosted(topic, index, topic_id, partition.log.directory, leader_epoch)
            async with self._lock:
                await off_loop(partial(self._directories.remember, log))
        except OSError as error:
            self.fail(partition, error, doing="remember")

    async def _make(
        self, topic: str, placed: PartitionMetadata, topic_id: uuid.UUID, *, given_up: bool
    ) -> None:
        """Make the log of a partition that is not hosted, or open one that could not be opened before."""
        index = placed.partition_index
        try:
            if given_up:
                kept = await off_loop(partial(self._directories.give_up, topic, index, topic_id))
                self._log.warning(
                    "log_given_up",
                    partition=f"{topic}-{index}",
                    leader_epoch=placed.leader_epoch,
                    start_offset=placed.start_offset,
                    kept=[str(path) for path in kept],
                )
            path = await off_loop(partial(self._directories.place, topic, index, topic_id))
        except OSError as error:
            if not self._is_exhausted(error, f"{topic}-{index}", "make"):
                self._take_offline((topic, index), str(error), topic_id, None, doing="make")
            return
        await self._open(FoundLog(topic, index, path), topic_id, placed)

    async def _open(
        self, found: FoundLog, topic_id: uuid.UUID | None, placed: PartitionMetadata | None = None
    ) -> None:
        """Open the log, or make it as ``placed`` of a topic. One that cannot be opened is offline."""
        topic, index, path = found.topic, found.index, found.path
        try:
            log = await off_loop(partial(self._opened, found, topic_id, placed))
            if log.topic_id is None:
                raise CorruptData(f"{path}: partition.metadata is missing")
        except (OSError, CorruptData) as error:
            if not self._is_exhausted(error, path.name, "open"):  # else tried again with the topics
                self._take_offline((topic, index), str(error), topic_id, path, doing="open")
            return
        if log.repairs:
            self._log.warning("log_repaired", partition=path.name, repairs=log.repairs)
        partition = Partition(topic, index, log.topic_id, log, self.moved)
        self._settings.apply_to(partition)  # perhaps known only since it is being opened
        self._generation += 1
        self._opened_at[partition] = self._generation
        self._offline.pop((topic, index), None)
        self._by_name[topic, index] = partition
        self._by_id.setdefault(log.topic_id, {})[index] = partition

    def _opened(
        self, found: FoundLog, topic_id: uuid.UUID | None, placed: PartitionMetadata | None
    ) -> PartitionLog:
        topic, index, path = found.topic, found.index, found.path
        log = PartitionLog.open(
            path,
            self._settings.of(topic_id),
            self._clock_ms(),
            topic_id,
            machine_went_down=self._directories.machine_went_down(path),
            start=Offset(0 if placed is None else max(placed.start_offset, 0)),
        )
        if topic_id is not None and placed is not None:
            hosted = self._directories.hosted(topic, index, topic_id, path, max(placed.leader_epoch, 0))
            self._directories.remember(hosted)
        log.first_kept = self._directories.start_of(path)
        if log.first_kept > log.end:
            raise CorruptData(f"{path} ends at {log.end}, {LOG_STARTS} has it begin at {log.first_kept}")
        return log

    def _is_exhausted(self, error: Exception, name: str, doing: str) -> bool:
        """No file descriptor is left: nothing was done."""
        if is_exhausted(error):
            self._limited_log.warning("descriptors_exhausted", partition=name, doing=doing)
            return True
        return False

    def _take_offline(
        self, name: tuple[str, int], reason: str, topic_id: uuid.UUID | None, path: Path | None, *, doing: str
    ) -> None:
        self._offline[name] = OfflineLog(reason, topic_id, self._generation, path)
        self._log.error("partition_offline", partition=f"{name[0]}-{name[1]}", doing=doing, reason=reason)

    async def _delete(self, partition: Partition) -> None:
        self._settings.forget(partition.topic_id)
        self._forget(partition)
        await partition.unused()
        partition.log.release_files()
        topic, index, topic_id = partition.topic, partition.index, partition.topic_id
        try:
            await off_loop(partial(self._directories.delete, topic, index, topic_id, partition.log))
        except OSError as error:
            self._log.error("partition_not_deleted", partition=str(partition), reason=str(error))
            lost = OfflineLog(str(error), topic_id, self._generation, partition.log.directory)
            self._offline[topic, index] = lost
            return
        self._log_deletion(str(partition), topic_id)

    async def _delete_lost(self, topic: str, index: int, topic_id: uuid.UUID) -> None:
        """What is left of a log that is offline: its topic is no more."""
        name = f"{topic}-{index}"
        try:
            await off_loop(partial(self._directories.delete, topic, index, topic_id, None))
        except OSError as error:
            self._log.error("partition_not_deleted", partition=name, reason=str(error))
            return
        self._offline.pop((topic, index), None)
        self._log_deletion(name, topic_id)

    def _log_deletion(self, name: str, topic_id: uuid.UUID) -> None:
        """Clients make and delete topics at any rate."""
        self._limited_log.info("partition_deleted", partition=name, topic_id=str(topic_id))

    def _forget(self, partition: Partition) -> None:
        partition.is_open = False
        self._by_name.pop((partition.topic, partition.index), None)
        of_topic = self._by_id.get(partition.topic_id, {})
        of_topic.pop(partition.index, None)
        if not of_topic:
            self._by_id.pop(partition.topic_id, None)
        self._opened_at.pop(partition, None)
        partition.wake()
