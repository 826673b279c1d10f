"""The marker sender: ends prepared transactions on their partitions, then completes them.

Jobs        one for each transaction in PrepareCommit or PrepareAbort, made as soon as that is applied; after
            activation, and ever again in slices, the index of prepared transactions is walked, so that
            nothing is forgotten: not by a failover, not by a response that was lost.
Group       one request per broker is under way; what comes meanwhile goes with the next one. So the slowest
            broker holds up the transactions that touch it, and no others.
Progress    is of one leadership: the next one sends all markers again, which a partition that has one already
            answers without a second (the image version of the PrepareX in each marker tells it).
Outcomes    docs/kafka-notes.md B5, but that no job is given up: a marker that is refused is wedged
            (coordinator/wedges.py). What is retried is resolved again: the leader may be elsewhere by then.
Effects     no socket, clock or timer: ``send`` and ``call_later`` are given (coordinator/marker_links.py).

Source      Kafka TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler;
            docs/design.md 6.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.controller import topics
from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions import markers
from fencepost.controller.transactions.markers import Marker
from fencepost.controller.transactions.states import PREPARED
from fencepost.controller.view import View
from fencepost.coordinator.completions import Completions
from fencepost.coordinator.marker_job import (
    DONE,
    REFUSED,
    RETRIED,
    Job,
    TopicPartition,
    partitions_of,
)
from fencepost.coordinator.wedges import Wedges
from fencepost.quorum.port import Submit
from fencepost.quorum.quarantine import Quarantine
from fencepost.records.types import BrokerId
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkers, WriteTxnMarkersAnswer

JOBS_MAX: Final = 20_000  # transactions under way; the walk comes back for the rest
WALK_ROWS_MAX: Final = 500  # of the index, between two looks at anything else
PARTITIONS_MAX: Final = 5_000  # in one request
ROUTED_MAX: Final = 500  # partitions whose leaders are looked up between two looks at anything else: 10 ms
RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 1.0

Done = Callable[[WriteTxnMarkersAnswer | Exception], None]
Send = Callable[[BrokerId, str, int, WriteTxnMarkers, Done], None]
"""(broker, host, port, request, what to do with its answer or failure). ``Done`` is called once, later."""

CallLater = Callable[[float, Callable[[], None]], None]


@dataclass(slots=True)
class Lane:
    """What goes to one broker. ``busy``: a request is under way, or its failure is being waited out."""

    waiting: list[tuple[Job, TopicPartition]] = field(default_factory=list)
    busy: bool = False
    failures: int = 0


class MarkerSender:
    """See the module. Used on the node's one thread; ``activated`` and ``deposed`` say who leads."""

    def __init__(
        self,
        image: Callable[[], View],
        submit: Submit,
        send: Send,
        call_later: CallLater,
        *,
        quarantine: Quarantine,
        on_completing: Callable[[str], None],
        on_completed: Callable[[Marker], None],
        now_ms: Callable[[], int],
        log: FilteringBoundLogger,
    ) -> None:
        self._image = image
        self._send = send
        self._call_later = call_later
        self._completions = Completions(
            submit, quarantine, log, on_completing=on_completing, on_decided=self._decided
        )
        self._on_completed = on_completed
        self._now_ms = now_ms
        self._log = log
        self._leadership = 0  # counts up: what was begun in an earlier one is void
        self._begin()
        self._active = False

    def _begin(self) -> None:
        self._leadership += 1
        self._jobs: dict[str, Job] = {}
        self.wedges = Wedges(self._now_ms, self._log)
        self._lanes: dict[BrokerId, Lane] = {}
        self._completions.begin()
        self._flush_wanted = False
        self._walked: str | None = None  # up to here; None: from the beginning
        self._walking = False

    # -- leadership ---------------------------------------------------------------------------------

    def activated(self) -> None:
        """This node leads from now on: every marker of what is prepared is sent, of earlier leaders too."""
        self._begin()
        self._active = True
        self.walk()

    def deposed(self) -> None:
        """It leads no more. What is under way may still be written: it is decided, or fenced there."""
        self._begin()
        self._active = False

    # -- asking -------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Markers not known to be written: of all jobs, so ask now and then only."""
        return sum(len(job.missing) for job in self._jobs.values())

    def is_pending(self, transactional_id: str) -> bool:
        """Its transaction waits for markers: further requests would be answered 51."""
        job = self._jobs.get(transactional_id)
        return job is not None and not job.completing

    def is_completing(self, transactional_id: str) -> bool:
        """The decision that completes its transaction is submitted, and not answered yet."""
        job = self._jobs.get(transactional_id)
        return job is not None and job.completing

    def written(self, transactional_id: str) -> frozenset[TopicPartition]:
        """Partitions of a transaction that ends whose marker is known to be written."""
        job = self._jobs.get(transactional_id)
        return frozenset() if job is None else frozenset(partitions_of(job.marker) - job.missing)

    def look(self, transactional_id: str) -> bool:
        """Begin a job if the id's transaction is prepared. Returns whether it waits for markers now."""
        if not self._active:
            return False
        marker = markers.marker_of(self._image(), transactional_id)
        if marker is not None:
            self._take(marker)
            self._completions.submit()
        return self.is_pending(transactional_id)

    def walk(self) -> None:
        """Walk the index of prepared transactions, the loop free between slices, unless that is under way."""
        if self._active and not self._walking:
            self._walking = True
            self._walk_slice(self._leadership)

    def _walk_slice(self, leadership: int) -> None:
        if leadership != self._leadership:
            return
        view, routed = self._image(), 0
        passed_by = self._completions.passed_by()
        rows = list(islice(view.scan(PREPARED, self._walked), WALK_ROWS_MAX))
        for transactional_id, version in rows:
            if self._is_full:
                self._walking = False  # goes on where it was, at the next call
                return
            if routed >= ROUTED_MAX:
                break
            known = self._jobs.get(transactional_id)
            if (known is None or known.marker.version != version) and transactional_id not in passed_by:
                marker = markers.marker_of(view, transactional_id)
                if marker is not None:
                    self._take(marker)
                    routed += sum(len(each.partition_ids) for each in marker.partitions)
            self._walked = transactional_id
        self._completions.submit()
        if len(rows) < WALK_ROWS_MAX and routed < ROUTED_MAX:
            self._walked, self._walking = None, False
        else:
            self._call_later(0.0, partial(self._walk_slice, leadership))

    # -- routing ------------------------------------------------------------------------------------

    def _take(self, marker: Marker) -> None:
        transactional_id = marker.transactional_id
        known = self._jobs.get(transactional_id)
        if known is not None and known.marker.version >= marker.version:
            return
        if known is None and self._is_full:
            return  # the walk finds it
        self.wedges.forget(transactional_id)
        job = Job(marker, partitions_of(marker))
        self._jobs[transactional_id] = job
        if job.missing:
            self._route(job, tuple(sorted(job.missing)))
        else:
            self._completions.add(job)

    def _route(self, job: Job, parts: tuple[TopicPartition, ...]) -> None:
        """Add each partition to its leader's lane; done if it was deleted, later if it has no leader."""
        view = self._image()
        later: list[TopicPartition] = []
        if len(parts) > ROUTED_MAX:
            again = partial(self._route_again, self._leadership, job, parts[ROUTED_MAX:])
            self._call_later(0.0, again)
        for part in sorted(parts[:ROUTED_MAX]):
            partition = topics.partition(view, *part)
            if partition is None:
                self._written(job, part)
                continue
            leader = topics.leader_of(view, partition)
            if leader == topics.NO_LEADER:
                later.append(part)
            else:
                lane = self._lanes.get(leader)
                if lane is None:
                    lane = self._lanes[leader] = Lane()
                lane.waiting.append((job, part))
                self._want_flush()
        if later:
            self._retry(job, later)

    def _retry(self, job: Job, parts: list[TopicPartition]) -> None:
        delay_s = min(RETRY_S * 2 ** min(job.tries, 10), RETRY_S_MAX)
        job.tries += 1
        self._call_later(delay_s, partial(self._route_again, self._leadership, job, tuple(parts)))

    def _route_again(self, leadership: int, job: Job, parts: tuple[TopicPartition, ...]) -> None:
        if leadership == self._leadership and self._is_current(job):
            self._route(job, tuple(part for part in parts if part in job.missing))
            self._completions.submit()

    @property
    def _is_full(self) -> bool:
        """Wedged transactions have a bound of their own: they keep no others waiting."""
        return len(self._jobs) - len(self.wedges) >= JOBS_MAX

    def _is_current(self, job: Job) -> bool:
        return self._jobs.get(job.marker.transactional_id) is job

    # -- sending ------------------------------------------------------------------------------------

    def _want_flush(self) -> None:
        """Send once all that happens now is known: many transactions share a request."""
        if not self._flush_wanted:
            self._flush_wanted = True
            self._call_later(0.0, partial(self._flush, self._leadership))

    def _flush(self, leadership: int) -> None:
        if leadership != self._leadership:
            return
        self._flush_wanted = False
        for broker_id, lane in self._lanes.items():
            if lane.waiting and not lane.busy:
                self._send_next(broker_id, lane)

    def _send_next(self, broker_id: BrokerId, lane: Lane) -> None:
        sent: dict[int, tuple[Job, list[TopicPartition]]] = {}  # by producer id, which is in one job alone
        taken = lane.waiting[:PARTITIONS_MAX]
        lane.waiting = lane.waiting[PARTITIONS_MAX:]
        for job, part in taken:
            if self._is_current(job) and part in job.missing:
                known = sent.setdefault(job.marker.producer_id, (job, []))
                if known[0] is job:
                    known[1].append(part)
                else:
                    self._retry(job, [part])
        broker = self._image().get(BROKERS, broker_id)
        if not sent:
            return
        lane.busy = True
        done = partial(self._answered, self._leadership, broker_id, sent)
        if broker is None:
            self._call_later(0.0, partial(done, LookupError(f"broker {broker_id} is not registered")))
            return
        endpoint = broker.endpoints[0]
        made = tuple(each for job, parts in sent.values() for each in self.wedges.markers(job, parts))
        self._send(broker_id, endpoint.host, endpoint.port, WriteTxnMarkers(made), done)

    # -- answers ------------------------------------------------------------------------------------

    def _answered(
        self,
        leadership: int,
        broker_id: BrokerId,
        sent: dict[int, tuple[Job, list[TopicPartition]]],
        outcome: WriteTxnMarkersAnswer | Exception,
    ) -> None:
        if leadership != self._leadership:
            return
        lane = self._lanes[broker_id]
        if isinstance(outcome, Exception):
            self._failed(broker_id, lane, sent, outcome)
            return
        lane.busy, lane.failures = False, 0
        codes: dict[int, dict[TopicPartition, int]] = {}
        for producer_id, answered in outcome.markers:
            of_producer = codes.setdefault(producer_id, {})
            for topic, results in answered:
                of_producer.update(((topic, index), code) for index, code in results)
        for producer_id, (job, parts) in sent.items():
            self._settle(broker_id, job, parts, codes.get(producer_id, {}))
        self._completions.submit()
        if lane.waiting:
            self._want_flush()

    def _failed(
        self,
        broker_id: BrokerId,
        lane: Lane,
        sent: dict[int, tuple[Job, list[TopicPartition]]],
        error: Exception,
    ) -> None:
        """The outcome is unknown: all of it is sent again, to the leaders of that time."""
        if not lane.failures:
            self._log.warning(
                "markers_not_sent", broker_id=broker_id, reason=f"{type(error).__name__}: {error}"
            )
        delay_s = min(RETRY_S * 2 ** min(lane.failures, 10), RETRY_S_MAX)
        lane.failures += 1
        self._call_later(delay_s, partial(self._resume, self._leadership, lane, sent))

    def _resume(self, leadership: int, lane: Lane, sent: dict[int, tuple[Job, list[TopicPartition]]]) -> None:
        if leadership != self._leadership:
            return
        lane.busy = False
        for job, parts in sent.values():
            self._route_again(leadership, job, tuple(parts))
        if lane.waiting:
            self._want_flush()

    def _settle(
        self, broker_id: BrokerId, job: Job, parts: list[TopicPartition], codes: dict[TopicPartition, int]
    ) -> None:
        again: list[TopicPartition] = []
        for part in parts:
            if not self._is_current(job):
                return
            code = codes.get(part, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in DONE:
                self._written(job, part)
            elif code in REFUSED:
                self._wedge(broker_id, job, part, code)
            else:
                if (
                    code not in RETRIED and not job.tries
                ):  # Kafka halts here; a partition that is wrong must not end us
                    self._log.error("marker_refused", broker_id=broker_id, partition=part, code=int(code))
                again.append(part)
        if again:
            self._retry(job, again)
        else:
            job.tries = 0

    def _wedge(self, broker_id: BrokerId, job: Job, part: TopicPartition, code: int) -> None:
        """The partition refuses: it is shown, and tried again ever more slowly."""
        delay_s, turn = self.wedges.refused(broker_id, job, part, code)
        self._call_later(delay_s, partial(self._try_wedge, self._leadership, job, part, turn))
        oldest = self.wedges.past_the_bound()
        if oldest is not None:
            del self._jobs[oldest.marker.transactional_id]  # the walk finds it

    def force(self, transactional_id: str) -> tuple[TopicPartition, ...]:
        """Send the markers that partitions refuse again, forced. Returns the partitions; () if none does."""
        wedged = self.wedges.force(transactional_id)
        if wedged is None:
            return ()
        job, sent_now = wedged
        self._route_again(self._leadership, job, sent_now)
        return self.wedges.parts(job)

    def _try_wedge(self, leadership: int, job: Job, part: TopicPartition, turn: int) -> None:
        if leadership == self._leadership and self.wedges.is_due(job, part, turn):
            self._route_again(leadership, job, (part,))

    def _written(self, job: Job, part: TopicPartition) -> None:
        if part not in job.missing:
            return  # it was sent twice; a job is added to the completions once
        job.missing.discard(part)
        self.wedges.ended(job, part)
        if not job.missing:
            self._completions.add(job)

    def _decided(self, job: Job, completed: bool) -> None:
        if self._is_current(job):
            del self._jobs[job.marker.transactional_id]
            self.wedges.forget(job.marker.transactional_id)
        if completed:
            self._on_completed(job.marker)
