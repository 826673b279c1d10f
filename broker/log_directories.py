"""The log directories of a broker (``log.dirs``): which can be used, and where the log of a partition is.

Places      ``<log directory>/<topic>-<partition>``; one that is being deleted is renamed ``*-delete`` first.
New         a log is made in the directory that has the fewest, as in Kafka.
Lost        a log that is not where it was made (hosted_logs.py) is not made anew: its bytes may be somewhere.
Given up    a lost log, by an operator's word (controller/partition_recovery.py): what is there of it is
            renamed ``*.lost``, all bytes kept, and the next one is made in the new leader epoch.
Offline     a directory that is gone, not formatted, another node's, unreadable, read-only or full: until the
            next start. The others go on. A mount point without its disk is none: nothing is made in it.
Threads     the calls that touch the disk block: off the loop, one at a time.
Source      Kafka LogManager (createAndValidateLogDirs, nextLogDirs, handleLogDirFailure).
"""

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.hosted_logs import HostedLog, HostedLogs
from fencepost.broker.log.checkpoints import PARTITION_FILE
from fencepost.broker.log.log_directory import LogDirectory, LogDirectoryInUse
from fencepost.broker.log.log_starts import LOG_STARTS, LogStarts
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log_folders import (
    OF_THE_DIRECTORY,
    OF_THE_FOLDERS,
    FoundLog,
    delete_folder,
    is_half_made,
    make_folder,
    partition_folders,
    topic_of,
    why_not_there,
)
from fencepost.broker.partition_ids import restored
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_identity import (
    Identity,
    StorageError,
    id_text,
    mended,
    read_identity,
    require_identity,
)
from fencepost.snapshots.clean_shutdown import forget_clean_shutdown, record_clean_shutdown

LOST_SUFFIX: Final = ".lost"
LOST_MAX: Final = 1_000  # folders of one partition that were given up in one directory

NOT_MADE: Final = (
    "Nothing is made in its place: bring it back and start the broker again, or delete the topic"
)

ELSEWHERE: Final = (
    "the cluster placed it in a log directory that this broker had before, and its log is in none of "
    "{directories}. " + NOT_MADE
)

NOT_OPENED: Final = "it was not opened"


@dataclass(slots=True)
class _Directory:
    path: Path
    directory_id: uuid.UUID | None = None
    lock: LogDirectory | None = None
    starts: LogStarts = field(init=False)
    fault: str = NOT_OPENED  # why it cannot be used; empty: it can

    def __post_init__(self) -> None:
        self.starts = LogStarts(self.path)


class LogDirectories:
    """All log directories. ``home`` is ``metadata.log.dir``, whose identity is the node's."""

    def __init__(
        self, paths: Sequence[Path], home: Path, identity: Identity, log: FilteringBoundLogger
    ) -> None:
        self._all = tuple(_Directory(path) for path in paths)
        self._home = home
        self._identity = identity
        self._log = log
        self._hosted = HostedLogs(home)

    def lock(self) -> None:
        """Keep other processes from the logs, until ``release``.

        Raises LogDirectoryInUse; OSError for ``home``, without which the node is nothing.
        """
        for each in self._all:
            if each.fault != NOT_OPENED:
                continue
            try:
                if each.path == self._home:
                    each.directory_id = self._identity.directory_id
                else:
                    each.directory_id = self._require_own(each.path)
                each.lock = LogDirectory(each.path)
                each.fault = ""
            except LogDirectoryInUse:
                self.release()
                raise
            except (OSError, StorageError) as error:
                if each.path == self._home:
                    raise
                self._take_offline(each, error)

    def recover(self) -> list[FoundLog]:
        """Every partition's folder, in order; what was being deleted is deleted. Raises OSError."""
        unread = self._hosted.load()
        self._hosted.tidy()
        if unread:
            self._log.error("hosted_logs_damaged", directory=str(self._home), lines=unread)
        found: list[FoundLog] = []
        for each in self._usable():
            try:
                forget_clean_shutdown(each.path)
                folders = self._identified(each, partition_folders(each.path))
                self._say_damaged(each, each.starts.load(folder.path.name for folder in folders))
                found += folders
            except OSError as error:
                if each.path == self._home:
                    raise
                self._take_offline(each, error)
        return self._without_conflicts(found)

    def recovered(self, logs: Sequence[HostedLog]) -> list[tuple[HostedLog, str]]:
        """Remember the logs that were opened. Returns those that are lost, each with the reason."""
        self._hosted.add(logs)
        for each in self._usable():
            self._remember_boot(each)
        there = {(log.topic_id, log.index) for log in logs}
        others = (log for log in self._hosted if (log.topic_id, log.index) not in there)
        return [(log, self._why_lost(log)) for log in others if self._folder(log) is None]

    def place(self, topic: str, index: int, topic_id: uuid.UUID) -> Path:
        """Where the log of a partition is, or is to be made; ``remember`` it then. Raises OSError.

        A directory in which no folder can be made is offline from then on; the logs that it has go on, as far
        as they can.
        """
        known = self._hosted.find(topic_id, index)
        if known is not None:
            there = self._folder(known)
            if there is None:
                raise OSError(self._why_lost(known))
            return there
        counts: Counter[uuid.UUID | None] = Counter(log.directory_id for log in self._hosted)
        full: OSError | None = None
        for each in sorted(self._usable(), key=lambda each: counts[each.directory_id]):
            try:
                if (why := self._why_gone(each)) is not None:
                    raise why
                return make_folder(each.path / f"{topic}-{index}")
            except OSError as error:
                if error.errno not in OF_THE_FOLDERS:
                    full = error
                    continue
                self._take_offline(each, error)
        raise full or OSError(f"no log directory can be used: {self._faults()}")

    def remember(self, log: HostedLog) -> None:
        """A log was made, and may be used once this returns. Raises OSError."""
        self._hosted.add((log,))

    def hosted(
        self, topic: str, index: int, topic_id: uuid.UUID, path: Path, leader_epoch: int = 0
    ) -> HostedLog:
        """What is to be remembered of a log that is open at ``path``, in a leader epoch or an older one."""
        at, known = self._at(path), self._hosted.find(topic_id, index)
        epoch = leader_epoch if known is None else max(leader_epoch, known.leader_epoch)
        return HostedLog(topic, index, topic_id, at.directory_id or self._identity.directory_id, epoch)

    def is_given_up(self, topic_id: uuid.UUID, index: int, leader_epoch: int) -> bool:
        """The log of this partition, if there was one, was there in older leader epochs only."""
        known = self._hosted.find(topic_id, index)
        return known is None or known.leader_epoch < leader_epoch

    def give_up(self, topic: str, index: int, topic_id: uuid.UUID) -> list[Path]:
        """Put aside what is there of a log, and forget it. Returns where it is now. Raises OSError."""
        kept = []
        for each in self._usable():
            folder = each.path / f"{topic}-{index}"
            if is_half_made(folder):
                shutil.rmtree(folder)
            elif folder.exists():
                each.starts.forget(folder.name)
                names = (f"{topic_id.hex}-{index}.{number}{LOST_SUFFIX}" for number in range(LOST_MAX))
                aside = next((each.path / name for name in names if not (each.path / name).exists()), None)
                if aside is None:
                    raise OSError(f"{each.path}: {LOST_MAX} logs of {topic}-{index} were given up already")
                kept.append(folder.rename(aside))
        self._hosted.forget(topic_id, index)
        return kept

    def start_of(self, path: Path) -> Offset:
        """Where the log at ``path`` begins, as DeleteRecords left it."""
        return self._at(path).starts.of(path.name)

    def record_starts(self, starts: Mapping[Path, Offset]) -> None:
        """Logs, by their folders, begin there from now on, durably. Raises OSError."""
        for each in self._all:
            own = {path.name: start for path, start in starts.items() if path.parent == each.path}
            each.starts.raise_to(own)

    def machine_went_down(self, path: Path) -> bool:
        """Since the log at ``path`` was open last, or that is not known."""
        lock = self._at(path).lock
        return lock is None or lock.machine_went_down

    def fail(self, path: Path, error: OSError | CorruptData) -> Path | None:
        """The log directory of ``path``, if ``error`` shows that nothing in it can be used. None: it can."""
        if isinstance(error, CorruptData):
            return None
        at = self._at(path)
        if error.errno not in OF_THE_DIRECTORY and not self._why_gone(at):
            return None
        if not at.fault:
            self._take_offline(at, error)
        return at.path

    def delete(self, topic: str, index: int, topic_id: uuid.UUID, log: PartitionLog | None) -> None:
        """Delete a log, its topic is no more; ``log`` is closed first. Raises OSError."""
        known = self._hosted.find(topic_id, index)
        self._hosted.forget(topic_id, index)
        if log is not None:
            log.close()
            self._at(log.directory).starts.forget(log.directory.name)
            delete_folder(log.directory, topic_id)
            return
        for each in self._usable():
            folder = each.path / f"{topic}-{index}"
            if known is not None and known.directory_id != each.directory_id:
                continue
            if topic_of(folder) in (None, topic_id):
                each.starts.forget(folder.name)
                delete_folder(folder, topic_id)

    def scrub(self) -> None:
        """What is remembered of logs is on the disk as it is in memory, or written again."""
        self._scrub(self._home, self._scrub_hosted)
        for each in self._usable():
            if self._why_gone(each) is None:
                self._scrub(each.path, partial(self._scrub_starts, each))

    def _scrub(self, directory: Path, scrub: Callable[[], None]) -> None:
        try:
            scrub()
        except OSError as error:
            self._log.error("log_directory_not_scrubbed", directory=str(directory), reason=str(error))

    def _scrub_hosted(self) -> None:
        if self._hosted.scrub():
            self._log.error("hosted_logs_damaged", directory=str(self._home))

    def _scrub_starts(self, at: _Directory) -> None:
        self._say_damaged(at, at.starts.scrub())

    def states(self) -> list[tuple[Path, bool]]:
        """Each directory, and whether it can be used."""
        return [(each.path, not each.fault) for each in self._all]

    def record_clean_end(self, unclean: set[Path]) -> None:
        """The logs of every directory but these are flushed and closed."""
        for each in self._usable():
            if each.path not in unclean:
                record_clean_shutdown(each.path, self._log)

    def release(self) -> None:
        """Let another process have the directories."""
        for each in self._all:
            if each.lock is not None:
                each.lock.release()
                each.lock = None
                each.fault = NOT_OPENED

    def __str__(self) -> str:
        return ", ".join(str(each.path) for each in self._all)

    def _usable(self) -> Iterator[_Directory]:
        return (each for each in self._all if not each.fault)

    def _folder(self, log: HostedLog) -> Path | None:
        """Where the log is; None: it is lost."""
        at = next((each for each in self._usable() if each.directory_id == log.directory_id), None)
        if at is None or not (at.path / str(log) / PARTITION_FILE).is_file():
            return None
        return at.path / str(log)

    def _at(self, path: Path) -> _Directory:
        return next(each for each in self._all if each.path == path.parent)

    def _why_gone(self, at: _Directory) -> OSError | None:
        """Why the directory that was opened is not at its path: nothing is, or where its disk was mounted."""
        return None if at.path == self._home and at.path.is_dir() else why_not_there(at.path)

    def _require_own(self, path: Path) -> uuid.UUID:
        """The directory's id. Raises StorageError, OSError."""
        if not path.is_dir():
            raise StorageError(f"{path} is no directory: is its disk mounted?")
        if not (path / META_PROPERTIES).exists():
            raise StorageError(
                f"{path} is not formatted: is its disk mounted? A new one is formatted by: fencepost storage "
                f"format --ignore-formatted --config FILE --cluster-id {self._identity.cluster_id}"
            )
        found = read_identity(path)
        own = self._identity
        require_identity(path, found, cluster_id=own.cluster_id, node_id=own.node_id)
        taken = next((each.path for each in self._all if each.directory_id == found.directory_id), None)
        if taken is not None or found.directory_id == own.directory_id:
            raise StorageError(
                f"{path} has the directory.id of {taken or self._home}: it is a copy; format a directory of "
                "its own"
            )
        if found.meta_fault:
            self._log.error("meta_properties_damaged", directory=str(path), reason=found.meta_fault)
        return mended(path, found).directory_id

    def _remember_boot(self, at: _Directory) -> None:
        """Raises OSError for ``home``. Elsewhere the next start takes it that the machine went down."""
        try:
            if at.lock is not None:
                at.lock.remember()
        except OSError as error:
            if at.path == self._home:
                raise
            self._log.error("boot_not_remembered", directory=str(at.path), reason=str(error))

    def _say_damaged(self, at: _Directory, wrong: str) -> None:
        if wrong:
            self._log.error("log_starts_damaged", file=str(at.path / LOG_STARTS), reason=wrong)

    def _take_offline(self, at: _Directory, error: Exception) -> None:
        at.fault = str(error)
        self._log.error("log_directory_offline", directory=str(at.path), reason=at.fault)

    def _why_lost(self, log: HostedLog) -> str:
        at = next((each for each in self._all if each.directory_id == log.directory_id), None)
        if at is None:
            faults = f" ({self._faults()})" if self._faults() else ""
            where = f"in log directory {id_text(log.directory_id)}, which is none of {self}{faults}"
        elif at.fault:
            where = f"in {at.path}, which cannot be used: {at.fault}"
        else:
            where = f"in {at.path / str(log)}, which is not there now"
        return f"the log was {where}. {NOT_MADE}"

    def _faults(self) -> str:
        return "; ".join(f"{each.path}: {each.fault}" for each in self._all if each.fault)

    def _identified(self, at: _Directory, folders: list[FoundLog]) -> list[FoundLog]:
        """Each with the topic id that is remembered of it, or not to be used. Raises OSError."""
        remembered: dict[tuple[str, int], list[HostedLog]] = {}
        for log in self._hosted:
            if log.directory_id == at.directory_id:
                remembered.setdefault((log.topic, log.index), []).append(log)
        found = []
        for folder in folders:
            mended, conflict = restored(folder.path, remembered.get((folder.topic, folder.index), ()))
            if mended:
                self._log.warning("log_repaired", partition=folder.path.name, repairs=(mended,))
            found.append(replace(folder, conflict=conflict))
        return found

    def _without_conflicts(self, found: list[FoundLog]) -> list[FoundLog]:
        """Of a partition with several folders the one that is remembered is used; else none."""
        several: dict[tuple[str, int], list[FoundLog]] = {}
        for each in found:
            several.setdefault((each.topic, each.index), []).append(each)
        used = []
        for folders in several.values():
            named = [each for each in folders if len(folders) == 1 or self._is_remembered(each)]
            places = " and ".join(str(each.path) for each in folders)
            if len(named) == 1 < len(folders):
                self._log.error("log_in_two_directories", used=str(named[0].path), folders=places)
            chosen = (named or folders)[0]
            if len(named) != 1:
                chosen = replace(chosen, conflict=f"its log is in several folders, {places}: move one away")
            used.append(chosen)
        return used

    def _is_remembered(self, found: FoundLog) -> bool:
        topic_id = topic_of(found.path)
        known = None if topic_id is None else self._hosted.find(topic_id, found.index)
        return known is not None and known.directory_id == self._at(found.path).directory_id
