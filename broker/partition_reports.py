"""What this broker's heartbeats say of its partitions: where the logs end, and which are offline.

Ends      once a minute, ENDS_MAX of them, in turn: a broker with more takes some minutes for all.
Offline   with the next heartbeat after a log went offline, or came back; all of them once a minute again, as
          a controller below the log level keeps none.
Lost      what was in a heartbeat without an answer is in the next one.
Source    controller/partition_reports.py keeps them.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Final

from fencepost.broker.partitions import Partitions
from fencepost.records.partition_report import OFFLINE, REPORTS_MAX, PartitionReport
from fencepost.records.types import BrokerEpoch

ENDS_MAX: Final = 1_000
OFFLINE_MAX: Final = REPORTS_MAX - ENDS_MAX
INTERVAL_MS: Final = 62_000
"""A little above the controller's minute, or it would pass by each second report."""

_Key = tuple[uuid.UUID, int]


class PartitionReports:
    """The reports of one broker. ``next`` goes into a heartbeat, then ``answered`` once that was."""

    def __init__(self, partitions: Partitions, *, clock_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._clock_ms = clock_ms
        self._epoch: BrokerEpoch | None = None
        self._due_ms = 0
        self._next_end = 0  # how many partitions come before the first of the next ends
        self._offline: set[_Key] = set()  # those that the controller knows to be offline
        self._sent: tuple[PartitionReport, ...] = ()
        self._sent_ends: int | None = None  # None: they were not due

    def next(self, epoch: BrokerEpoch, *, leaving: bool = False) -> tuple[PartitionReport, ...]:
        """What the next heartbeat of this registration says; nothing as a rule."""
        if epoch != self._epoch:
            self._epoch, self._due_ms = epoch, 0
            self._offline.clear()
        is_due = leaving or self._clock_ms() >= self._due_ms
        offline = self._partitions.offline()
        if is_due and self._offline <= offline:
            self._offline.clear()
        ends = tuple(self._ends()) if is_due else ()
        self._sent_ends = len(ends) if is_due else None
        self._sent = (*self._changes(offline), *ends)
        return self._sent

    def answered(self) -> None:
        """The controller has what ``next`` returned last."""
        for each in self._sent:
            if each.end == OFFLINE:
                self._offline.add((each.topic_id, each.partition))
            else:
                self._offline.discard((each.topic_id, each.partition))
        if self._sent_ends is not None:
            self._next_end += self._sent_ends
            self._due_ms = self._clock_ms() + INTERVAL_MS
        self._sent, self._sent_ends = (), None

    def _changes(self, offline: set[_Key]) -> Iterator[PartitionReport]:
        for key in sorted(offline ^ self._offline)[:OFFLINE_MAX]:
            found = self._partitions.find_by_id(*key)
            if key in offline:
                yield PartitionReport(*key, OFFLINE)
            elif found is not None:
                yield PartitionReport(*key, found.log.end)
            else:
                self._offline.discard(key)  # its topic was deleted

    def _ends(self) -> Iterator[PartitionReport]:
        every = tuple(self._partitions)
        start = self._next_end % len(every) if every else 0
        for each in every[start : start + ENDS_MAX]:
            yield PartitionReport(each.topic_id, each.index, each.log.end)
