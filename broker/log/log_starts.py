"""``log-start-offset-checkpoint``: where logs begin whose first records were deleted by DeleteRecords.

File     of each log directory, in Kafka's format: version 0, a count, and ``<topic> <partition> <offset>``
         for each log that begins later than its first segment; any other one begins with that.
Order    a log is flushed, its line is on the disk, then the records are gone for readers: so a log that ends
         before its line says is damaged. The line of a deleted log is gone before the log is: another one of
         that name never has it.
Damage   a line that makes no sense is passed over, and counted: the records before it can be read again.
Source   Kafka LogManager.checkpointLogStartOffsets, OffsetCheckpointFile.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.broker.log.checkpoints import replace_file
from fencepost.records.types import Offset
from fencepost.snapshots.segments import LOG_START

LOG_STARTS: Final = "log-start-offset-checkpoint"
_HEADER_LINES: Final = 2  # version and count


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
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return 0
        parsed = [_parse(line) for line in lines[_HEADER_LINES:]]
        known = [each for each in parsed if each is not None]
        is_sound = len(lines) >= _HEADER_LINES and lines[0] == b"0" and lines[1] == b"%d" % len(parsed)
        self._starts = {folder: start for folder, start in known if folder in there}
        if len(self._starts) < len(parsed):
            self._save(self._starts)
        return len(parsed) - len(known) + (not is_sound)

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
        rows = (f"{' '.join(folder.rpartition('-')[::2])} {start}" for folder, start in starts.items())
        content = "\n".join(["0", str(len(starts)), *rows]) + "\n"
        replace_file(self._path, content.encode("ascii"), durable=True)
        self._starts = starts


def _parse(line: bytes) -> tuple[str, Offset] | None:
    """(folder, start) of a line; None: it makes no sense."""
    try:
        topic, index, start = line.decode("ascii").split(" ")
        if not (index.isdigit() and start.isdigit()):
            return None
        return f"{topic}-{int(index)}", Offset(int(start))
    except ValueError:
        return None
