"""The small text files beside the segments: leader epochs, and the topic.

Source   Kafka LeaderEpochFileCache, LeaderEpochCheckpointFile, PartitionMetadataFile.
"""

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

from fencepost.broker.log.shapes import NO_EPOCH, NO_OFFSET, EpochEnd
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset, Term
from fencepost.snapshots.flushes import replace_file
from fencepost.snapshots.reads import read_bytes

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
PARTITION_FILE: Final = "partition.metadata"
EPOCHS_MAX: Final = 1_000_000  # lines; one per change of leader while the log is kept


class LeaderEpochs:
    """At which offset each leader epoch began, kept in a file that is replaced whole."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / EPOCHS_FILE
        self._starts: list[tuple[Term, Offset]] = []

    def load(self) -> bool:
        """Read the file. False: there is none, or it is no use; nothing is known then."""
        try:
            self._starts = _parse(read_bytes(self._path).decode("ascii"))
        except (FileNotFoundError, CorruptData, ValueError):
            self._starts = []
            return False
        return True

    @property
    def latest(self) -> Term:
        """The newest epoch, NO_EPOCH without one."""
        return self._starts[-1][0] if self._starts else NO_EPOCH

    @property
    def begins(self) -> Sequence[Offset]:
        """Where each epoch begins, ascending."""
        return [start for _, start in self._starts]

    def begins_inside(self, first: Offset, end: Offset) -> bool:
        """An epoch begins behind ``first``, before ``end``; the oldest may: the log may begin there."""
        number = bisect_left(self._starts, first + 1, lo=1, key=lambda line: line[1])
        return number < len(self._starts) and self._starts[number][1] < end

    def forget_all(self) -> None:
        """No epoch is known."""
        self._starts = []

    def assign(self, epoch: Term, offset: Offset, *, save: bool = True) -> None:
        """The batch at ``offset`` is of ``epoch``, which is at least the newest."""
        if epoch > self.latest:
            self._starts.append((epoch, offset))
            if save:
                self.save()

    def is_settled(self, offset: Offset) -> bool:
        """A later epoch is known: which one the batch at ``offset`` is of was written down before it."""
        return bool(self._starts) and offset < self._starts[-1][1]

    def at(self, offset: Offset) -> Term:
        """The epoch of the batch at ``offset``."""
        number = bisect_right([start for _, start in self._starts], offset)
        return self._starts[number - 1][0] if number else NO_EPOCH

    def contradicted(self, epoch: Term, offset: Offset, *, is_written: bool) -> str | None:
        """Why the batch at ``offset`` is not of ``epoch``, by this file; None: it may be.

        is_written   the file that was read had its line before that batch was there. What begins before the
                     first line is of an epoch that is forgotten (``forget_before``).
        """
        due = self.at(offset)
        if due in (epoch, NO_EPOCH) or not (is_written or self.is_settled(offset)):
            return None
        return f"a batch of epoch {epoch}, by {EPOCHS_FILE} it is of {due}"

    def end_of(self, epoch: Term, log_end: Offset) -> EpochEnd:
        """The greatest epoch at or below ``epoch`` and its end, as Kafka answers OffsetForLeaderEpoch."""
        if not self._starts or epoch > self.latest or epoch < 0:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        number = bisect_right([known for known, _ in self._starts], epoch)
        found = self._starts[number - 1][0] if number else epoch
        return EpochEnd(found, self._starts[number][1])

    def forget_after(self, end: Offset) -> bool:
        """The log ends at ``end``. True: an epoch is forgotten, and must not come back with a lost file."""
        known = len(self._starts)
        while self._starts and self._starts[-1][1] >= end:
            self._starts.pop()
        return len(self._starts) < known

    def forget_before(self, start: Offset) -> None:
        """The log begins at ``start``: the epoch that it begins in begins there now."""
        epoch = self.at(start)
        kept = [(known, begin) for known, begin in self._starts if begin > start]
        self._starts = [(epoch, start), *kept] if epoch != NO_EPOCH else kept

    def save(self, *, durable: bool = False) -> None:
        """Replace the file. Not flushed: if it is lost, the batches tell their epochs again."""
        lines = ["0", str(len(self._starts)), *(f"{epoch} {start}" for epoch, start in self._starts)]
        replace_file(self._path, "\n".join(lines).encode("ascii") + b"\n", durable=durable)


def _parse(text: str) -> list[tuple[Term, Offset]]:
    lines = text.splitlines()
    if not text.endswith("\n"):
        raise CorruptData(f"{EPOCHS_FILE}: it ends inside a line")
    if len(lines) < 2 or lines[0] != "0" or int(lines[1]) != len(lines) - 2 or len(lines) > EPOCHS_MAX:
        raise CorruptData(f"{EPOCHS_FILE}: expected version 0, a count and as many lines")
    starts = []
    for line in lines[2:]:
        epoch, start = line.split()
        starts.append((Term(int(epoch)), Offset(int(start))))
    if any(one[0] >= other[0] or one[1] >= other[1] for one, other in pairwise(starts)):
        raise CorruptData(f"{EPOCHS_FILE}: epochs or offsets go back")
    return starts


def load_topic_id(directory: Path) -> UUID | None:
    """The topic whose partition a directory holds; None if it does not say.

    Raises   CorruptData naming the file.
    """
    path = directory / PARTITION_FILE
    try:
        lines = dict(line.split(": ") for line in read_bytes(path).decode("ascii").splitlines() if line)
        raw = base64.urlsafe_b64decode(lines["topic_id"] + "==")
        if lines["version"] != "0":
            raise CorruptData(f"{path}: version {lines['version']}, expected 0")
        return UUID(bytes=raw)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, binascii.Error) as error:
        raise CorruptData(f"{path}: expected a version and a topic_id: {error}") from error


def save_topic_id(directory: Path, topic_id: UUID) -> None:
    """Write the file partition.metadata, durably."""
    text = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")
    replace_file(directory / PARTITION_FILE, f"version: 0\ntopic_id: {text}\n".encode(), durable=True)
