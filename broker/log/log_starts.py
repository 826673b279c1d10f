"""``log-start-offset-checkpoint``: where logs begin whose first records were deleted by DeleteRecords.

File     of each log directory, in Kafka's format: version 0, a count, and ``<topic> <partition> <offset>``
         for each log that begins later than its first segment; any other one begins with that.
Order    a log is flushed, its line is on the disk, then the records are gone for readers: so a log that ends
         before its line says is damaged. The line of a deleted log is gone before the log is: another one of
         that name never has it.
Damage   a line that makes no sense is passed over: the records before it can be read again.
Source   Kafka LogManager.checkpointLogStartOffsets, OffsetCheckpointFile.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.broker.log.offset_checkpoint import load_offsets, save_offsets
from fencepost.records.types import Offset
from fencepost.snapshots.segments import LOG_START

LOG_STARTS: Final = "log-start-offset-checkpoint"


class LogStarts:
    """The file of one log directory, and what it says. Its calls block: off the loop, one at a time."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOG_STARTS
        self._starts: dict[str, Offset] = {}  # by the name of the log's folder

    def load(self, folders: Iterable[str]) -> int:
        """Read the file; lines of logs that have no folder are removed. Returns how many make no sense.

        Raises OSError.
        """
        there = set(folders)
        found = load_offsets(self._path)
        self._starts = {folder: start for folder, start in found.by_folder.items() if folder in there}
        if found.senseless or len(self._starts) < len(found.by_folder):
            self._save(self._starts)
        return found.senseless

    def of(self, folder: str) -> Offset:
        """Where a log begins, unless its first segment begins later."""
        return self._starts.get(folder, LOG_START)

    def raise_to(self, starts: Mapping[str, Offset]) -> None:
        """Logs begin there from now on, durably; none begins earlier than before. Raises OSError."""
        raised = {folder: start for folder, start in starts.items() if start > self.of(folder)}
        if raised:
            self._save(self._starts | raised)

    def forget(self, folder: str) -> None:
        """The log will be deleted. Durable. Raises OSError."""
        if folder in self._starts:
            self._save({name: start for name, start in self._starts.items() if name != folder})

    def _save(self, starts: dict[str, Offset]) -> None:
        save_offsets(self._path, starts)
        self._starts = starts
