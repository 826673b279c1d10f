"""What clients received, compared with what the nodes' archives keep.

Refused   must not be done. An allocation names its broker and no request, so each client has a broker of
          its own, one request at a time: what the archive has for it beyond its grants must be one of its
          unknown attempts, sent before the grant that follows in the archive was received.
Granted   must be kept (I2): a block that a client holds stands in the archive, for its broker.
Source    docs/design.md 2 (the outcome is learned at apply), 10 (I2).
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fencepost.bench.history import OK, UNKNOWN, Attempt
from fencepost.cluster.console import Unreadable
from fencepost.records.types import BrokerId
from fencepost.snapshots.history import Allocation
from fencepost.snapshots.segments import Hole


@dataclass(frozen=True, slots=True)
class Findings:
    """Both are 0 in a sound cluster."""

    refused_but_done: int
    granted_but_missing: int


@dataclass(slots=True)
class _Client:
    """One client's side of the story, and how far the archive's has been followed."""

    starts: "array[int]" = field(default_factory=lambda: array("q"))  # its grants, in the order received
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    received_ns: "array[int]" = field(default_factory=lambda: array("q"))
    unknown_sent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    position: int = 0  # grants found in the archive, or found missing
    ungranted: int = 0  # in the archive, and received by no client
    unexplained: int = 0  # the most that ``ungranted`` ever exceeded the unknown attempts until then by
    missing: int = 0

    def received(self, attempt: Attempt) -> None:
        if attempt.outcome == OK and attempt.start is not None and attempt.length is not None:
            self.starts.append(attempt.start)
            self.ends.append(attempt.start + attempt.length)
            self.received_ns.append(attempt.received_ns)
        elif attempt.outcome == UNKNOWN:
            self.unknown_sent_ns.append(attempt.sent_ns)

    def kept(self, first: int, end: int) -> None:
        """The next allocation of the archive; their ids only grow."""
        while self.position < len(self.starts) and self.starts[self.position] < first:
            self.missing += 1
            self.position += 1
        here = self.position
        if here == len(self.starts) or (self.starts[here], self.ends[here]) != (first, end):
            self.ungranted += 1
            return
        self._compare(bisect_left(self.unknown_sent_ns, self.received_ns[here]))
        self.position += 1

    def finish(self) -> None:
        self.missing += len(self.starts) - self.position
        self._compare(len(self.unknown_sent_ns))

    def _compare(self, unknown: int) -> None:
        self.unexplained = max(self.unexplained, self.ungranted - unknown)


def compare(
    attempts: Iterable[Attempt], archived: Iterable[Allocation | Hole], brokers: Mapping[int, BrokerId]
) -> Findings:
    """Compare both; ``brokers``: each client's broker id. Raises Unreadable if a part of one is lost."""
    clients = {broker_id: _Client() for broker_id in brokers.values()}
    for attempt in attempts:
        clients[brokers[attempt.client]].received(attempt)
    for item in archived:
        if isinstance(item, Hole):
            raise Unreadable(f"no node has the records from offset {item.first} to {item.end - 1}")
        client = clients.get(item.broker_id)
        if client is None:
            continue
        if item.first is None:
            raise Unreadable(f"the block at offset {item.offset} has no known start")
        client.kept(item.first, item.end)
    for client in clients.values():
        client.finish()
    return Findings(
        refused_but_done=sum(client.unexplained for client in clients.values()),
        granted_but_missing=sum(client.missing for client in clients.values()),
    )
