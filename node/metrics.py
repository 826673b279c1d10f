"""What a node says of itself: Prometheus metrics on a loopback port.

Cost        setting a number is under a microsecond; nothing here blocks, allocates per label at run time,
            or is read by a decision. ``metrics_port`` serves them.
Names       ``fencepost_`` and the unit last; counters end in ``_total`` (Prometheus' rules).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from structlog.typing import FilteringBoundLogger

from fencepost.broker.log_cleaning import CleaningCounts
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.transaction_counts import TransactionCounts
from fencepost.node.cleaner_metrics import CleanerMetrics, OfflineMetrics
from fencepost.node.group_metrics import GroupMetrics
from fencepost.records.types import NodeId, Offset, Term
from fencepost.wire.stalls import Stalls

T = TypeVar("T")

ROLES: Final = ("follower", "candidate", "leader")
OUTCOMES: Final = ("granted", "refused", "throttled", "unknown")
"""Of a producer-id block: ``throttled`` was granted, connection muted; ``unknown`` may be committed."""

CONCERN_CHARACTERS_MAX: Final = 100

COMMIT_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STALL_CHECK_SECONDS: Final = 0.02


class _Shown(Generic[T]):
    """A value that is set only when it changes: prometheus_client takes a lock and five calls for each."""

    __slots__ = ("_set", "_value")

    def __init__(self, set_value: Callable[[T], None], value: T) -> None:
        """``value``: what it is before it is ever set."""
        self._set = set_value
        self._value = value

    def set(self, value: T) -> None:
        """Set it, unless it is that already."""
        if value != self._value:
            self._value = value
            self._set(value)


class NodeMetrics:
    """One node's numbers, in ``registry``."""

    def __init__(self, log: FilteringBoundLogger | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        self._make_raft(registry)
        self._commit = Histogram(
            "fencepost_commit_latency_seconds",
            "From the proposal of an entry to its apply",
            buckets=COMMIT_SECONDS,
            registry=registry,
        )
        blocks = Counter(
            "fencepost_producer_id_blocks_total",
            "Requests for a producer-id block by outcome",
            ["outcome"],
            registry=registry,
        )
        self._blocks = {outcome: blocks.labels(outcome) for outcome in OUTCOMES}
        self._decisions_failed = Counter(
            "fencepost_decisions_failed_total",
            "Decisions that broke an invariant or failed otherwise: each cost its own request",
            ["concern"],
            registry=registry,
        )
        self._requests_failed = Counter(
            "fencepost_requests_failed_total",
            "Requests that failed in a way that is a bug: each cost its own reply or connection",
            ["request"],
            registry=registry,
        )
        self._answers_failed = Counter(
            "fencepost_answers_failed_total",
            "Answers that could not be given: each cost its own connection",
            registry=registry,
        )
        set_aside = Gauge(
            "fencepost_set_aside",
            "Work that the active controller has set aside and tries again slowly: markers that a partition "
            "refuses (wedged), rows that timers pass by as a decision on them fails (quarantined)",
            ["kind"],
            registry=registry,
        )
        self._wedged = _Shown(set_aside.labels("wedged").set, 0)
        self._quarantined = _Shown(set_aside.labels("quarantined").set, 0)
        self._ids_left = Gauge(
            "fencepost_producer_ids_left", "Ids this broker can hand out without asking", registry=registry
        )
        self._transactions = _TransactionMetrics(registry)
        self._groups = GroupMetrics(registry)
        self._cleaner = CleanerMetrics(registry)
        self._offline = OfflineMetrics(registry)
        self._stall = Gauge(
            "fencepost_loop_stall_seconds_max", "Longest time the event loop stood still", registry=registry
        )
        self._stall_seconds_max = 0.0
        self.stalls = Stalls(log)
        """What held the event loop, and for how long."""
        registry.register(_StallMetrics(self.stalls))

    def _make_raft(self, registry: CollectorRegistry) -> None:
        role = Enum("fencepost_raft_role", "Role in the quorum", states=list(ROLES), registry=registry)
        self._role = _Shown(role.state, ROLES[0])
        leader_id = Gauge(
            "fencepost_raft_leader_id", "Node id of the leader, -1 if unknown", registry=registry
        )
        leader_id.set(-1)
        self._leader_id = _Shown(leader_id.set, -1)
        self._epoch = _Shown(Gauge("fencepost_raft_epoch", "Raft term", registry=registry).set, 0)
        high_watermark = Gauge(
            "fencepost_raft_high_watermark", "End offset of the committed metadata log", registry=registry
        )
        self._high_watermark = _Shown(high_watermark.set, 0)

    def raft_role(self, role: str) -> None:
        """Set the role: one of ROLES."""
        self._role.set(role)

    def raft_leader_id(self, leader_id: NodeId | None) -> None:
        """Set the leader's node id; None = unknown."""
        self._leader_id.set(-1 if leader_id is None else leader_id)

    def raft_epoch(self, term: Term) -> None:
        """Set the gauge of the Raft term."""
        self._epoch.set(term)

    def raft_high_watermark(self, end: Offset) -> None:
        """Set the end offset of the committed metadata log."""
        self._high_watermark.set(end)

    def commit_latency_seconds(self, seconds: float) -> None:
        """Count one entry that took ``seconds`` from its proposal to its apply."""
        self._commit.observe(seconds)

    def producer_id_blocks_total(self, outcome: str, count: int = 1) -> None:
        """Count answered requests for a block; ``outcome`` is one of OUTCOMES."""
        self._blocks[outcome].inc(count)

    def decisions_failed_total(self, concern: str, count: int) -> None:
        """Count decisions that failed before anything was proposed; ``concern`` names the decision."""
        self._decisions_failed.labels(concern[:CONCERN_CHARACTERS_MAX]).inc(count)

    def requests_failed_total(self, request: str) -> None:
        """Count a request that failed outside its decision; ``request`` is its name."""
        self._requests_failed.labels(request).inc()

    def answers_failed_total(self, count: int) -> None:
        """Count answers that could not be given."""
        self._answers_failed.inc(count)

    def quarantined_rows(self, count: int) -> None:
        """Set how many rows are set aside."""
        self._quarantined.set(count)

    def producer_ids_left(self, count: int) -> None:
        """Set how many ids the broker has at hand."""
        self._ids_left.set(count)

    def log_cleaner(self, counts: CleaningCounts) -> None:
        """What the log cleaner did, and what there is for it to do."""
        self._cleaner.take(counts)

    def offline(self, directories: int, partitions: int) -> None:
        """How many of this broker's log directories, and of its partitions, cannot be used."""
        self._offline.show(directories, partitions)

    def groups(self, counts: GroupCounts) -> None:
        """What the group coordinator counted since the last time; totals are taken, and are 0 again."""
        self._groups.take(counts)

    def transactions(self, counts: TransactionCounts) -> None:
        """Take the coordinator's totals, which start anew, and set what is so now."""
        self._transactions.take(counts)
        self._wedged.set(counts.wedged)

    def loop_stalled(self, seconds: float) -> None:
        """Remember the longest time the loop stood still."""
        if seconds > self._stall_seconds_max:
            self._stall_seconds_max = seconds
            self._stall.set(seconds)


class _StallMetrics(Collector):
    """What held the loop; collected at each scrape."""

    def __init__(self, stalls: Stalls) -> None:
        self._stalls = stalls

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of a scrape. See prometheus_client."""
        stall = GaugeMetricFamily(
            "fencepost_loop_stall_ms",
            "Longest CPU time that one piece of work held the event loop, flushes of the store taken out",
            labels=["work"],
        )
        for work, stall_s in sorted(self._stalls.longest_s.copy().items()):
            stall.add_metric([work], stall_s * 1000)
        yield stall
        yield GaugeMetricFamily(
            "fencepost_flush_ms_max", "Longest flush of the store", value=self._stalls.flush.longest_s * 1000
        )


class _TransactionMetrics:
    """The coordinator's numbers; those of what is so now are 0 on a node that does not coordinate."""

    def __init__(self, registry: CollectorRegistry) -> None:
        completed = Counter(
            "fencepost_transactions_completed_total",
            "Transactions whose every marker is written, by outcome",
            ["outcome"],
            registry=registry,
        )
        self._committed, self._aborted = completed.labels("committed"), completed.labels("aborted")
        self._timed_out = Counter(
            "fencepost_transactions_timed_out_total",
            "Open transactions aborted as their time was over",
            registry=registry,
        )
        self._fenced = Counter(
            "fencepost_transactions_fenced_total",
            "Open transactions aborted as another instance requested their id",
            registry=registry,
        )
        open_max = Gauge(
            "fencepost_active_transaction_open_time_max_seconds",  # KIP-939 active-transaction-open-time-max
            "For how long the oldest open transaction has been open",
            registry=registry,
        )
        two_phase = Gauge(
            "fencepost_two_phase_transactions_open",
            "Open transactions of two-phase commit, which have no timeout",
            registry=registry,
        )
        two_phase_max = Gauge(
            "fencepost_two_phase_transaction_open_time_max_seconds",
            "For how long the oldest of them has been open",
            registry=registry,
        )
        parked = Gauge(
            "fencepost_transaction_requests_held",
            "Requests that wait for a transaction to complete",
            registry=registry,
        )
        markers = Gauge(
            "fencepost_transaction_markers_waiting",
            "Markers not known to be written",
            registry=registry,
        )
        self._open_max = _Shown(open_max.set, 0.0)
        self._two_phase, self._two_phase_max = _Shown(two_phase.set, 0), _Shown(two_phase_max.set, 0.0)
        self._parked, self._markers = _Shown(parked.set, 0), _Shown(markers.set, 0)

    def take(self, counts: TransactionCounts) -> None:
        """See NodeMetrics.transactions."""
        for counter, count in (
            (self._committed, counts.committed),
            (self._aborted, counts.aborted),
            (self._timed_out, counts.timed_out),
            (self._fenced, counts.fenced),
        ):
            if count:
                counter.inc(count)
        counts.committed = counts.aborted = counts.timed_out = counts.fenced = 0
        self._open_max.set(counts.open_times.longest_ms / 1000)
        self._two_phase.set(counts.open_times.two_phase)
        self._two_phase_max.set(counts.open_times.two_phase_longest_ms / 1000)
        self._parked.set(counts.parked)
        self._markers.set(counts.markers_waiting)


def watch_loop(loop: asyncio.AbstractEventLoop, metrics: NodeMetrics) -> Callable[[], None]:
    """Measure how late the loop runs a timer, every STALL_CHECK_SECONDS. Returns what stops it."""
    due = loop.time() + STALL_CHECK_SECONDS
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal due, timer
        now = loop.time()
        metrics.loop_stalled(max(0.0, now - due))
        due = now + STALL_CHECK_SECONDS
        timer = loop.call_at(due, check)

    def stop() -> None:
        timer.cancel()

    timer = loop.call_at(due, check)
    return stop
