"""What a fault is to those who plant and those who judge: its kind, who must find it, and where it lies."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.audit.faults.tree import Entry, Log, Tree

T = TypeVar("T")


class NoPlace(Exception):
    """The logs hold nothing to which this fault can be done, or another fault has taken it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One fault. A finding of ``check``, of one of ``rules``, at one of ``entries`` is the right one.

    ``entries``   the batch at fault, or those next to where it is missing.
    """

    check: str
    rules: frozenset[str]
    entries: tuple[Entry, ...]
    said: str  # what was done, for a reader

    def places(self) -> list[tuple[Path, int]]:
        """Files and bytes; known once the logs are written."""
        return [(each.path, each.position) for each in self.entries if each.path is not None]


@dataclass(slots=True)
class Ground:
    """The logs that faults are planted in, and what has one already: a fault hides no other.

    Each partition of a user's topic and each producer has one fault at most.
    """

    tree: Tree
    random: Random
    _logs: list[Log] = field(default_factory=list)
    _producers: set[int] = field(default_factory=set)
    _entries: list[Entry] = field(default_factory=list)

    def is_free(self, log: Log, producer_id: int = -1) -> bool:
        return all(each is not log for each in self._logs) and producer_id not in self._producers

    def is_untouched(self, entry: Entry) -> bool:
        return all(each is not entry for each in self._entries)

    def partitions(self) -> list[Log]:
        """Of users' topics, those without a fault, whole from their beginning, in an order by chance."""
        found = [log for log in self.tree.partitions() if self.is_free(log) and _is_whole(log)]
        self.random.shuffle(found)
        return found

    def choose(self, candidates: Iterable[T]) -> T:
        """Raises NoPlace."""
        found = list(candidates)
        if not found:
            raise NoPlace
        return self.random.choice(found)

    def take(self, *, log: Log | None = None, producer_id: int = -1, entries: Iterable[Entry] = ()) -> None:
        if log is not None:
            self._logs.append(log)
        self._producers |= {producer_id} - {-1}
        self._entries += entries


def _is_whole(log: Log) -> bool:
    """No compaction, no retention: from offset 0 on without a hole."""
    end = 0
    for entry in log.entries:
        header = entry.header
        if header.base_offset != end:
            return False
        end = header.end
    return True
