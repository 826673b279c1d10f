"""A log's segments for a cleaner: what may be cleaned, what is due, and the owner's part of a swap.

Cleanable   full segments below the last stable offset and the newest producer snapshot on the disk, and older
            than ``min.compaction.lag.ms``.
Due         when more than ``min.cleanable.dirty.ratio`` of their bytes is dirty, or a dirty segment is older
            than ``max.compaction.lag.ms``.
Snapshots   of producers before the end of what is cleaned are deleted first: a transaction that one of them
            has open would never end, if its marker went.
Threads     the owner's; the pass runs beside it (cleaner.py).
Source      Kafka LogCleanerManager (cleanableOffsets, maxCompactionDelay), LogToClean.
"""

from itertools import pairwise
from typing import NamedTuple

from fencepost.broker.log.cleaner import Dirty, Group
from fencepost.broker.log.durability import Durability
from fencepost.broker.log.recovery import Recovered
from fencepost.broker.log.retention import waited_ms
from fencepost.broker.log.search import Places
from fencepost.broker.log.segment import Segment, segment_files
from fencepost.broker.log.shapes import LogConfig
from fencepost.broker.log.swaps import SWAP, keep_swap_sums, rename_files
from fencepost.records.invariant import invariant
from fencepost.records.types import Offset
from fencepost.snapshots.flushes import sync_path


class Dirt(NamedTuple):
    """How much of a log may be cleaned, and whether it is due."""

    first_dirty: Offset
    end: Offset  # the base of a segment: what is before it may be cleaned
    dirty_bytes: int
    clean_bytes: int
    overdue_ms: int  # since ``max.compaction.lag.ms`` of the oldest dirty segment; 0: none is

    @property
    def ratio(self) -> float:
        """Of dirty bytes; 0 without any."""
        return self.dirty_bytes / (self.dirty_bytes + self.clean_bytes) if self.dirty_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether a pass is worth it."""
        return self.dirty_bytes > 0 and (self.overdue_ms > 0 or self.ratio > config.min_cleanable_dirty_ratio)


class Cleanable:
    """The segments of a log that is open: the list is the log's own."""

    def __init__(self, log: Recovered, places: Places, durability: Durability) -> None:
        self._directory = log.directory
        self._segments = log.segments
        self._states = log.states
        self._cleaned_end = log.cleaned_end
        self._places = places
        self._durability = durability

    def dirt(self, clean_end: Offset, stable: Offset, config: LogConfig, now_ms: int) -> Dirt:
        """What may be cleaned now.

        clean_end   where the last pass ended, as its checkpoint says. It may be another log's that had the
                    name: it is believed up to where this one was cleaned, which its own file says.
        stable      the last stable offset.
        """
        segments = self._segments
        first_dirty = max(min(clean_end, self._cleaned_end), segments[0].base)
        bound = min(stable, self._durability.newest_snapshot)
        dirty_bytes = clean_bytes = overdue_ms = 0
        end = segments[0].base
        for segment, following in pairwise(segments):
            if following.base > bound or not self._durability.is_settled(segment.path):
                break
            if following.base > first_dirty:
                newest_ms = segment.max_timestamp_ms
                if config.min_compaction_lag_ms > 0 and newest_ms > now_ms - config.min_compaction_lag_ms:
                    break
                dirty_bytes += segment.size
                overdue_ms = max(overdue_ms, waited_ms(segment, now_ms) - config.max_compaction_lag_ms)
            else:
                clean_bytes += segment.size
            end = following.base
        return Dirt(first_dirty, end, dirty_bytes, clean_bytes, overdue_ms)

    def begin(self, dirt: Dirt, config: LogConfig) -> Dirty:
        """What a pass needs to know. Raises OSError."""
        self._durability.forget_before(dirt.end)
        self._cleaned_end = max(self._cleaned_end, dirt.end)
        below = tuple(each.base for each in self._segments if each.base < dirt.end)
        later = tuple(each.base for each in self._segments if each.base >= dirt.end)
        producers = dict(self._states.table)
        return Dirty(self._directory, below, dirt.end, later, dirt.first_dirty, producers, config)

    def swap_in(self, group: Group) -> None:
        """Step 3 of a swap: read from the group's new segment from now on. Raises OSError."""
        first = next(n for n, each in enumerate(self._segments) if each.base == group.bases[0])
        after = first + len(group.bases)
        there = tuple(each.base for each in self._segments[first:after])
        invariant(there == group.bases, "segments went while they were cleaned", there=there, group=group)
        self._durability.deleted(self._segments[first:after])
        for segment in self._segments[first:after]:
            segment.close()
        self._segments[first:after] = [Segment(self._directory, group.bases[0], SWAP)]
        self._places.clear()

    def settle(self, group: Group) -> None:
        """Step 5: the new segment gets its name. Raises OSError."""
        number = next(n for n, each in enumerate(self._segments) if each.base == group.bases[0])
        self._segments[number].close()
        rename_files(self._directory, group.bases[0], SWAP, "")
        self._segments[number] = Segment(self._directory, group.bases[0])
        self._segments[number].take_sums(group.sums)
        self._places.clear()

    def settled(self, group: Group) -> None:
        """The end of step 5, in the pass's thread: the names are durable, old sums gone. Raises OSError."""
        sync_path(self._directory)
        with self._durability.locked():
            self._durability.replaced(segment_files(self._directory, group.bases[0])[0])
            keep_swap_sums(self._directory, group.bases[0])
