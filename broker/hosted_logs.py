"""In which log directory the log of each partition was made: what tells a lost log from one yet to be made.

File     ``hosted-logs`` in ``metadata.log.dir``, text, a line for each change, in order:
         ``+ <topic id> <index> <directory id> <topic> [<leader epoch>]`` a log was made there,
         ``- <topic id> <index>`` it was deleted; ids as Kafka writes them. The newest leader epoch in which
         the log was there is 0 if none is named. Written anew when most of its lines are of the past.
Check    behind each line is one that earlier versions take for the deletion of a log that never was:
         ``- <id> 0``, the id being 12 fixed bytes and the CRC-32C of the line. A line without one was
         written by an earlier version: it is not checked, and the next start writes it again.
Order    a log is made, its line is on the disk, then it takes records; the line that it is deleted is on the
         disk before it is. So a log that a crash left without a line is found at the next start, and
         remembered; none that has a line was never there.
Damage   a last line without an end was never acknowledged. A line that makes no sense, or is not as it was
         written, is passed over, and counted: a log that is there is remembered again, one that is not
         there may be made anew.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

from crc32c import crc32c

from fencepost.records.named_errors import named
from fencepost.settings.node_identity import id_text, parse_id
from fencepost.snapshots.flushes import replace_file, sync_path
from fencepost.snapshots.reads import read_if_there

HOSTED_LOGS: Final = "hosted-logs"
PAST_LINES_MAX: Final = 1_000  # beside as many as there are logs

_CHECK: Final = b"line checked"
_CHECK_BEGIN: Final = b"- bGluZSBjaGVja2Vk"  # what a check's line begins with: those bytes in base64


@dataclass(frozen=True, slots=True)
class HostedLog:
    """The log of partition ``index`` of a topic was made in the log directory of that id."""

    topic: str
    index: int
    topic_id: UUID
    directory_id: UUID
    leader_epoch: int = 0  # the newest in which it was there
    is_checked: bool = field(default=True, compare=False)  # not one that an earlier version remembered

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


class HostedLogs:
    """The file, and what it says. Its calls block: off the loop, one at a time; ``tidy`` before a change."""

    def __init__(self, home: Path) -> None:
        self._file = home / HOSTED_LOGS
        self._logs: dict[tuple[UUID, int], HostedLog] = {}
        self._is_untidy = self._is_unchecked = False

    def __iter__(self) -> Iterator[HostedLog]:
        return iter(tuple(self._logs.values()))

    def find(self, topic_id: UUID, index: int) -> HostedLog | None:
        """Where the log of that partition was made; None: none was, or it was deleted."""
        return self._logs.get((topic_id, index))

    def load(self) -> int:
        """Read the file; one that is not there says nothing. Returns how many lines make no sense.

        Raises OSError.
        """
        self._logs.clear()
        raw = read_if_there(self._file)
        if raw is None:
            return 0
        *lines, torn = raw.split(b"\n")
        unread = past = unchecked = 0
        for line, following in pairwise((*lines, b"")):
            if line.startswith(_CHECK_BEGIN):
                continue
            is_checked = following.startswith(_CHECK_BEGIN)
            is_read = not is_checked or following + b"\n" == _check(line + b"\n")
            unread += not (is_read and self._take(line, is_checked=is_checked))
            unchecked += not is_checked
            past += 1
        past -= len(self._logs)
        self._is_untidy = bool(torn or unread) or past > len(self._logs) + PAST_LINES_MAX
        self._is_unchecked = unchecked > 0
        return unread

    def tidy(self) -> None:
        """Write the file anew if what was read has a torn end, or much of the past. Raises OSError.

        On a full disk lines of an earlier version stay without a check up to another start.
        """
        content = b"".join(_checked(_line(log)) for log in self._logs.values())
        if self._is_untidy:
            replace_file(self._file, content, durable=True)
            self._is_untidy = False
        elif self._is_unchecked:
            with suppress(OSError):
                replace_file(self._file, content, durable=True)
        self._is_unchecked = False

    def scrub(self) -> bool:
        """Write the file anew if it changed on the disk since it was written: True. Raises OSError."""
        found = HostedLogs(self._file.parent)
        self._is_untidy = found.load() > 0 or found._logs != self._logs
        is_changed = self._is_untidy
        self.tidy()
        return is_changed

    def add(self, logs: Iterable[HostedLog]) -> None:
        """Remember them, durably. Raises OSError: then none of them may be used."""
        new = [log for log in logs if self._logs.get((log.topic_id, log.index)) != log]
        self._append(_line(log) for log in new)
        self._logs |= {(log.topic_id, log.index): log for log in new}

    def forget(self, topic_id: UUID, index: int) -> None:
        """The log will be deleted. Durable. Raises OSError."""
        if (topic_id, index) in self._logs:
            self._append((f"- {id_text(topic_id)} {index}\n",))
            del self._logs[topic_id, index]

    def _append(self, lines: Iterable[str]) -> None:
        content = b"".join(map(_checked, lines))
        if not content:
            return
        is_new = not self._file.exists()
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        before = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, "only a part of a line could be written", str(self._file))
            os.fsync(descriptor)
        except OSError as error:
            named(error, self._file)
            os.ftruncate(descriptor, before)
            raise
        finally:
            os.close(descriptor)
        if is_new:
            sync_path(self._file.parent)

    def _take(self, line: bytes, *, is_checked: bool) -> bool:
        """Apply a line; False: it makes no sense."""
        try:
            sign, *fields = line.decode("ascii").split(" ")
            if sign == "+" and len(fields) in (4, 5):
                topic_id, index, directory_id, topic, *epoch = fields
                log = HostedLog(
                    topic,
                    int(index),
                    parse_id(topic_id),
                    parse_id(directory_id),
                    int(epoch[0]) if epoch else 0,
                    is_checked,
                )
                self._logs[log.topic_id, log.index] = log
                return True
            if sign == "-" and len(fields) == 2:
                self._logs.pop((parse_id(fields[0]), int(fields[1])), None)
                return True
        except ValueError:
            return False
        return False


def _checked(line: str) -> bytes:
    """A line, and the one that is its check."""
    raw = line.encode("ascii")
    return raw + _check(raw)


def _check(line: bytes) -> bytes:
    identifier = UUID(bytes=_CHECK + crc32c(line).to_bytes(4, "big"))
    return f"- {id_text(identifier)} 0\n".encode("ascii")


def _line(log: HostedLog) -> str:
    epoch = f" {log.leader_epoch}" if log.leader_epoch else ""
    return f"+ {id_text(log.topic_id)} {log.index} {id_text(log.directory_id)} {log.topic}{epoch}\n"
