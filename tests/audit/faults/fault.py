"""What a fault is to those who plant and those who judge: its kind, who must find it, and where it lies."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from fencepost.audit.walks.story import CLOCK_GRACE_MS
from tests.audit.faults.tree import STATES, Entry, Log, Tree

T = TypeVar("T")

MARGIN_MS = 1000


class NoPlace(Exception):
    """The logs hold nothing to which this fault can be done, or another fault has taken it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One fault. A finding of ``check``, of one of ``rules``, at one of ``entries`` is the right one.

    ``entries``      the batch at fault, or those next to where it is missing.
    ``files``        of a fault in a file that is no log, or of a directory: any position in it.
    ``producer_id``  that the finding must name; -1: none is concerned.
    ``unknown``      why no reader of the logs could decide it: the audit says that it does not know. "":
                     it can be found.
    """

    check: str
    rules: frozenset[str]
    entries: tuple[Entry, ...]
    said: str  # what was done, for a reader
    files: tuple[Path, ...] = ()
    producer_id: int = -1
    unknown: str = ""

    def places(self) -> list[tuple[Path, int]]:
        """Files and bytes; known once the logs are written."""
        return [place for each in self.entries for place in each.places]


@dataclass(slots=True)
class Ground:
    """The logs that faults are planted in, and what has one already: a fault hides no other.

    Each partition of a user's topic, whichever replica of it, and each producer has one fault at most. What
    is judged by the logs of the quorum and the coordinators is not planted beside what makes these
    unreadable (``rely``, ``break_log``). Who plants raises NoPlace before anything is changed.
    """

    tree: Tree
    random: Random
    _partitions: set[tuple[str, int]] = field(default_factory=set)
    _everywhere: list[Log] = field(default_factory=list)
    _unbroken_ms: int | None = None
    _relied_on: set[str] = field(default_factory=set)
    _broken: set[str] = field(default_factory=set)
    _is_followed: bool = False
    _producers: set[int] = field(default_factory=set)
    _entries: list[Entry] = field(default_factory=list)

    def is_free(self, log: Log, producer_id: int = -1) -> bool:
        return (log.topic, log.partition) not in self._partitions and producer_id not in self._producers

    def is_untouched(self, entry: Entry) -> bool:
        return all(each is not entry for each in self._entries)

    def partitions(self) -> list[Log]:
        """Of users' topics, those without a fault, whole from their beginning, in an order by chance."""
        found = [
            log
            for log in self.tree.partitions()
            if self.is_free(log) and _is_whole(log) and self.tree.is_replicated_alike(log)
        ]
        self.random.shuffle(found)
        return found

    def choose(self, candidates: Iterable[T]) -> T:
        """Raises NoPlace."""
        found = list(candidates)
        if not found:
            raise NoPlace
        return self.random.choice(found)

    def is_judged(self, entry: Entry, *, alone: bool = False) -> bool:
        """Whether the coordinators' logs still tell of the batch: compaction has not been there yet.

        alone   no coordinator tells of its producer on that partition: only its time says when it was there.
        """
        if self._unbroken_ms is None:
            self._unbroken_ms = max(map(_unbroken_ms, self.tree.of_topic(STATES)), default=0)
        grace_ms = CLOCK_GRACE_MS if alone and self._unbroken_ms else 0
        return entry.header.base_timestamp_ms >= self._unbroken_ms + grace_ms

    def rely(self, *topics: str) -> None:
        """The fault can be seen only while these topics can be read. Raises NoPlace: one has been broken."""
        if self._broken & {*topics}:
            raise NoPlace
        self._relied_on |= {*topics}

    def break_log(self, topic: str) -> None:
        """A part of the topic's logs says nothing any more. Raises NoPlace: another fault needs it."""
        if topic in self._relied_on | self._broken:
            raise NoPlace
        self._broken.add(topic)

    def follow_coordinators(self) -> None:
        """The fault is what a producer wrote after its coordinator's last word. Raises NoPlace: another is
        that, too, and of two producers it is what a coordinator's log leaves that lost its end.
        """
        if self._is_followed:
            raise NoPlace
        self._is_followed = True

    def take(
        self,
        *,
        log: Log | None = None,
        producer_id: int = -1,
        entries: Iterable[Entry] = (),
        in_each: bool = True,
    ) -> None:
        """What has its fault now. ``in_each``: the change to ``log`` is to be made in each replica of it."""
        if log is not None:
            self._partitions.add((log.topic, log.partition))
            if in_each:
                self._everywhere.append(log)
        self._producers |= {producer_id} - {-1}
        self._entries += entries

    def write(self) -> None:
        """The changed logs, in each of their replicas."""
        for log in self._everywhere:
            self.tree.mirror(log)
        self.tree.write()


def _unbroken_ms(log: Log) -> int:
    """Of the first batch from which on no offset of the log is missing; a second later, for a margin."""
    entries = log.entries
    first = len(entries) - 1
    while first > 0 and entries[first - 1].header.end == entries[first].header.base_offset:
        first -= 1
    is_whole = entries[first].header.base_offset == 0
    return 0 if is_whole else entries[first].header.max_timestamp_ms + MARGIN_MS


def _is_whole(log: Log) -> bool:
    """No compaction, no retention: from offset 0 on without a hole."""
    end = 0
    for entry in log.entries:
        header = entry.header
        if header.base_offset != end:
            return False
        end = header.end
    return True
