"""``log-start-offset-checkpoint``: where logs begin whose first records were deleted by DeleteRecords.

File     of each log directory, in Kafka's format: version 0, a count, and ``<topic> <partition> <offset>``
         for each log that begins later than its first segment; any other one begins with that.
Check    its first line is of a log that has no folder, ``~crc32c 0 <CRC-32C of the file without it>``.
         Apache Kafka and earlier versions pass it over, and write the file without it: what they wrote is
         not checked, up to the next start, which writes it again.
Copy     ``log-start-offset-checkpoint.copy`` is the same, written first: where its checksum is right it is
         the one that counts, unless another version wrote the file since.
Order    a log is flushed, its line is on the disk, then the records are gone for readers: so a log that ends
         before its line says is damaged. The line of a deleted log is gone before the log is: another one of
         that name never has it.
Damage   what neither file has under a right checksum counts if both have it; else it is passed over, and
         named: the records before it can be read again, none is hidden or deleted.
Source   Kafka LogManager.checkpointLogStartOffsets, OffsetCheckpointFile.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.broker.log.offset_checkpoint import decode_offsets, encode_offsets
from fencepost.records.types import Offset
from fencepost.snapshots.flushes import replace_file
from fencepost.snapshots.reads import read_if_there
from fencepost.snapshots.segments import LOG_START

LOG_STARTS: Final = "log-start-offset-checkpoint"
COPY: Final = f"{LOG_STARTS}.copy"

CHECK: Final = "~crc32c"
"""No topic has a name with that character. Of the file: the first line behind version and count."""

_CHECK_FOLDER: Final = f"{CHECK}-0"


class Starts(NamedTuple):
    """What the two files say: starts by folder; what is wrong with them, or ""; ``is_as_written`` both."""

    by_folder: dict[str, Offset]
    wrong: str
    is_as_written: bool


class LogStarts:
    """The file of one log directory, and what it says. Its calls block: off the loop, one at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._starts: dict[str, Offset] = {}  # by the name of the log's folder

    def load(self, folders: Iterable[str]) -> str:
        """Read the file; lines of logs that have no folder are removed. Returns what is wrong with it, or "".

        On a full disk what changed is not written again: ``scrub`` says so, and tries it. Raises OSError.
        """
        there = set(folders)
        found = read_starts(self._directory)
        self._starts = {folder: start for folder, start in found.by_folder.items() if folder in there}
        if len(self._starts) < len(found.by_folder):  # else another log of that name might have the line
            self._save(self._starts)
        elif not found.is_as_written:
            with suppress(OSError):
                self._save(self._starts)
        return found.wrong

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

    def scrub(self) -> str:
        """Write the file again if it changed on the disk since it was written. Returns what was wrong, or "".

        Raises OSError.
        """
        found = read_starts(self._directory)
        if found.by_folder == self._starts and found.is_as_written:
            return ""
        self._save(self._starts)
        return found.wrong or f"{LOG_STARTS} has other lines than were written"

    def _save(self, starts: dict[str, Offset]) -> None:
        content = encode_starts(starts)
        for name in (COPY, LOG_STARTS):
            replace_file(self._directory / name, content, durable=True)
        self._starts = starts


def read_starts(directory: Path) -> Starts:
    """What the files of a log directory say; nothing is changed. Raises OSError."""
    file, copy = read_if_there(directory / LOG_STARTS), read_if_there(directory / COPY)
    if file == copy and (file is None or _is_checked(file)):
        return Starts({} if file is None else _starts(file), "", is_as_written=True)
    if file is not None and CHECK[:1].encode() not in file:
        found = decode_offsets(file)
        wrong = f"{LOG_STARTS}: {found.senseless} lines make no sense" if found.senseless else ""
        return Starts(found.by_folder, wrong, is_as_written=False)
    if copy is not None and _is_checked(copy):
        is_older = file is not None and _is_checked(file)  # killed between the two
        wrong = "" if is_older else f"{LOG_STARTS} is not as it was written: its copy counts"
        return Starts(_starts(copy), wrong, is_as_written=False)
    if file is not None and _is_checked(file):
        return Starts(_starts(file), "" if copy is None else f"{COPY} is not as it was written", False)
    one, other = _starts(file or b""), _starts(copy or b"")
    both = {folder: start for folder, start in one.items() if other.get(folder) == start}
    passed = sorted((one.keys() | other.keys()) - both.keys())
    wrong = f"neither {LOG_STARTS} nor its copy is as it was written: logs begin with their first segments"
    return Starts(both, f"{wrong}, also {', '.join(passed)}" if passed else wrong, is_as_written=False)


def encode_starts(starts: Mapping[str, Offset]) -> bytes:
    """The content of the file."""
    content = encode_offsets(starts)
    return encode_offsets({_CHECK_FOLDER: Offset(crc32c(content)), **starts})


def _starts(content: bytes) -> dict[str, Offset]:
    found = decode_offsets(content).by_folder
    return {folder: start for folder, start in found.items() if not folder.startswith(CHECK)}


def _is_checked(content: bytes) -> bool:
    """Its checksum is right: it is what it would be written as."""
    return content == encode_starts(_starts(content))
