"""The partitions that this broker hosts: their logs are opened, made and deleted as the metadata says.

Places      ``<log.dirs>/<topic>-<partition>``; a log that is being deleted is renamed ``*-delete`` first.
Start       ``recover`` opens every log before the broker registers; until then nothing is hosted.
Deletion    only of what the active controller's full answer lacks, if requested after the log was opened.
Offline     a log that an OSError hit, until the next start, or that is damaged (log/damage.py): clients get
            KAFKA_STORAGE_ERROR (56). Without a file descriptor (EMFILE, ENFILE) only the one request does.
Threads     opening, closing and deleting block, so they run off the loop, one at a time, under a lock.
Source      Kafka LogManager, ReplicaManager.
"""

import asyncio
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from fencepost.broker.log.log_directory import LogDirectory
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log_settings import with_topic_settings
from fencepost.controller.topics import TopicConfig
from fencepost.records.invariant import CorruptData
from fencepost.records.types import BrokerId, Log, Term
from fencepost.snapshots.clean_shutdown import forget_clean_shutdown, record_clean_shutdown
from fencepost.wire.descriptors import is_exhausted
from fencepost.wire.k03_metadata import TopicMetadata
from fencepost.wire.limited_log import LimitedLog

T = TypeVar("T")

DELETED_SUFFIX: Final = "-delete"
_LATER: Final = 2**63  # than any generation
PARTITIONS_AT_ONCE_MAX: Final = 1_000
"""Looked at in one step of the loop, when all topics are compared with what is hosted: a microsecond each."""

_NONE_HERE: Final[Mapping[int, "Partition"]] = {}

OWN_LOGS: Final = frozenset(log.directory for log in Log)
"""The quorum's archives lie in the same folder; they are no partitions of ours."""


class Waits(Protocol):
    """A request that waits for a partition to move."""

    def partition_moved(self) -> None:
        """More can be read, or the partition is gone."""


class Partition:
    """One partition that is hosted here. Its log is used only while ``is_open``."""

    __slots__ = (
        "_flush_ended", "_moved", "flushing", "index", "is_open", "leader_epoch", "log", "topic", "topic_id",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: uuid.UUID,
        log: PartitionLog,
        moved: "Callable[[Partition], None]",
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = Term(0)
        self.is_open = True
        self.flushing = False
        self.waiting: set[Waits] = set()
        self._moved = moved
        self._flush_ended: asyncio.Event | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def wake(self) -> None:
        """Tell those who wait that they may read more, or nothing any more; soon, all at once."""
        if self.waiting:
            self._moved(self)

    def flush_ended(self) -> None:
        """No thread is in the log now."""
        if self._flush_ended is not None:
            self._flush_ended.set()

    async def unused(self) -> None:
        """Waits until no thread is in the log. Only once the partition is closed to new flushes."""
        while self.flushing:
            self._flush_ended = asyncio.Event()
            await self._flush_ended.wait()


class _Offline(NamedTuple):
    """A log that cannot be used, and of which topic it is; None: not even that is known."""

    reason: str
    topic_id: uuid.UUID | None
    generation: int


class Partitions:
    """All partitions that this broker hosts."""

    def __init__(
        self,
        directory: Path,
        broker_id: BrokerId,
        config: LogConfig,
        *,
        clock_ms: Callable[[], int],
        log: FilteringBoundLogger,
    ) -> None:
        self._directory = directory
        self.broker_id = broker_id
        self._config = config
        self._clock_ms = clock_ms
        self._log = log
        self._limited_log = LimitedLog(log)
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[uuid.UUID, dict[int, Partition]] = {}  # by topic and index
        self._offline: dict[tuple[str, int], _Offline] = {}
        self._configs: dict[uuid.UUID, LogConfig] = {}  # of topics that are hosted here, by id
        self._lock = asyncio.Lock()
        self._moved: set[Partition] = set()
        self._lock_file: LogDirectory | None = None
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

    @property
    def generation(self) -> int:
        """A number to note before all topics are requested from the controller; ``retire`` takes it."""
        return self._generation

    def lock(self) -> LogDirectory:
        """Keep other processes from the logs, until ``close``. Raises LogDirectoryInUse, OSError."""
        if self._lock_file is None:
            self._lock_file = LogDirectory(self._directory)
        return self._lock_file

    async def recover(self) -> None:
        """Open every log that an earlier process left. Raises LogDirectoryInUse, OSError."""
        lock_file = self.lock()
        forget_clean_shutdown(self._directory)
        names = await asyncio.to_thread(_partition_directories, self._directory)
        for topic, index in names:
            await self._open(topic, index, None)
        lock_file.remember()
        self.recovered = True
        if names:
            self._log.info("logs_recovered", partitions=len(names), offline=len(self._offline))

    def unconfigured(self, topics: Iterable[TopicMetadata]) -> dict[str, uuid.UUID]:
        """Of these topics, those with a partition here whose settings are not known; their ids by name."""
        return {
            topic.name: topic.topic_id
            for topic in topics
            if topic.error_code == 0 and topic.name is not None and topic.topic_id is not None
            if topic.topic_id not in self._configs
            and any(self.broker_id in each.replica_nodes for each in topic.partitions)
        }

    def configure(self, topic_id: uuid.UUID, settings: Iterable[TopicConfig]) -> None:
        """The settings of a topic, for its logs that are open and those that will be."""
        config = self._configs[topic_id] = with_topic_settings(self._config, settings)
        for partition in self._by_id.get(topic_id, _NONE_HERE).values():
            partition.log.config = config

    async def host(self, topics: Iterable[TopicMetadata]) -> None:
        """Open, or make, what these topics, as the active controller describes them, place on this broker."""
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
                    await self._host_one(topic.name, each.partition_index, topic.topic_id)
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

    def fail(self, partition: Partition, error: OSError, *, doing: str) -> None:
        """Take a partition offline: after an OSError it is unknown what its log holds.

        Not for want of a file descriptor: then nothing was done, and the next request may find one.
        """
        if not partition.is_open:
            return
        if is_exhausted(error):
            self._limited_log.warning("descriptors_exhausted", partition=str(partition), doing=doing)
            return
        lost = _Offline(str(error), partition.topic_id, self._generation)
        self._offline[partition.topic, partition.index] = lost
        self._log.error("partition_offline", partition=str(partition), doing=doing, reason=str(error))
        self._forget(partition)

    async def close(self) -> None:
        """Flush and close every log; that all of them were is recorded beside them."""
        is_clean = self.recovered and not self._offline
        async with self._lock:
            for partition in self:
                self._forget(partition)
                await partition.unused()
                partition.log.release_files()
                try:
                    await _off_loop(partition.log.close)
                except OSError as error:
                    is_clean = False
                    self._log.error("log_not_closed", partition=str(partition), reason=str(error))
        if is_clean:
            await _off_loop(partial(record_clean_shutdown, self._directory, self._log))
        if self._lock_file is not None:
            self._lock_file.release()
            self._lock_file = None

    def moved(self, partition: Partition) -> None:
        """Requests that wait at the partition are woken at the end of this turn of the loop, once."""
        if not self._moved:
            asyncio.get_running_loop().call_soon(self._report_moved)
        self._moved.add(partition)

    def _report_moved(self) -> None:
        moved, self._moved = self._moved, set()
        for waits in {each for partition in moved for each in partition.waiting}:
            waits.partition_moved()

    async def _host_one(self, topic: str, index: int, topic_id: uuid.UUID) -> None:
        found = self._by_name.get((topic, index))
        lost = self._offline.get((topic, index))
        if found is not None and found.topic_id == topic_id:
            return
        if lost is not None and lost.topic_id in (None, topic_id):
            return
        async with self._lock:
            found = self._by_name.get((topic, index))
            if found is not None and found.topic_id == topic_id:
                return
            if found is not None:  # its topic was deleted, and another has its name now
                await self._delete(found)
            elif lost is not None and lost.topic_id is not None:
                await self._delete_lost(topic, index, lost.topic_id)
            await self._open(topic, index, topic_id)

    async def _open(self, topic: str, index: int, topic_id: uuid.UUID | None) -> None:
        """Open the log, or make it if ``topic_id`` is given. One that cannot be opened is offline."""
        name = f"{topic}-{index}"
        directory = self._directory / name
        try:
            config = self._config if topic_id is None else self._configs.get(topic_id, self._config)
            log = await _off_loop(partial(self._opened, directory, config, topic_id))
            if log.topic_id is None:
                raise CorruptData(f"{directory}: partition.metadata is missing")
        except (OSError, CorruptData) as error:
            if is_exhausted(error):  # tried again when the topics are looked at next
                self._limited_log.warning("descriptors_exhausted", partition=name, doing="open")
                return
            self._offline[topic, index] = _Offline(str(error), topic_id, self._generation)
            self._log.error("partition_offline", partition=name, doing="open", reason=str(error))
            return
        if log.repairs:
            self._log.warning("log_repaired", partition=name, repairs=log.repairs)
        partition = Partition(topic, index, log.topic_id, log, self.moved)
        self._generation += 1
        self._opened_at[partition] = self._generation
        self._by_name[topic, index] = partition
        self._by_id.setdefault(log.topic_id, {})[index] = partition

    def _opened(self, directory: Path, config: LogConfig, topic_id: uuid.UUID | None) -> PartitionLog:
        went_down = self._lock_file is None or self._lock_file.machine_went_down
        return PartitionLog.open(directory, config, self._clock_ms(), topic_id, machine_went_down=went_down)

    async def _delete(self, partition: Partition) -> None:
        self._configs.pop(partition.topic_id, None)
        directory = self._directory / str(partition)
        self._forget(partition)
        await partition.unused()
        partition.log.release_files()
        try:
            await _off_loop(lambda: _delete_log(partition.log, directory, partition.topic_id))
        except OSError as error:
            self._log.error("partition_not_deleted", partition=str(partition), reason=str(error))
            lost = _Offline(str(error), partition.topic_id, self._generation)
            self._offline[partition.topic, partition.index] = lost
            return
        self._log_deletion(str(partition), partition.topic_id)

    async def _delete_lost(self, topic: str, index: int, topic_id: uuid.UUID) -> None:
        """The folder of a log that is offline: its topic is no more."""
        directory = self._directory / f"{topic}-{index}"
        try:
            await _off_loop(lambda: _delete_directory(directory, topic_id))
        except OSError as error:
            self._log.error("partition_not_deleted", partition=directory.name, reason=str(error))
            return
        self._offline.pop((topic, index), None)
        self._log_deletion(directory.name, topic_id)

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


async def _off_loop(blocking: Callable[[], T]) -> T:
    """Run it in a thread, to its end even if the caller is cancelled meanwhile: no log is left half open."""
    running = asyncio.get_running_loop().run_in_executor(None, blocking)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait((running,))
        raise


def _partition_directories(root: Path) -> list[tuple[str, int]]:
    """(topic, index) of every partition's folder, in order; what was being deleted is deleted."""
    found = []
    for directory in sorted(root.iterdir()) if root.is_dir() else ():
        if not directory.is_dir() or directory.name in OWN_LOGS:
            continue
        if directory.name.endswith(DELETED_SUFFIX):
            shutil.rmtree(directory, ignore_errors=True)
            continue
        topic, dash, number = directory.name.rpartition("-")
        is_named = dash and topic and number.isascii() and number.isdigit()
        if is_named and (directory / "partition.metadata").exists():
            found.append((topic, int(number)))
    return found


def _delete_log(log: PartitionLog, directory: Path, topic_id: uuid.UUID) -> None:
    log.close()
    _delete_directory(directory, topic_id)


def _delete_directory(directory: Path, topic_id: uuid.UUID) -> None:
    if not directory.exists():
        return
    number = directory.name.rpartition("-")[2]  # not the topic: a name with both could pass 255 characters
    aside = directory.with_name(f"{topic_id.hex}-{number}{DELETED_SUFFIX}")
    directory.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
