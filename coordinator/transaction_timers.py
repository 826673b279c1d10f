"""The coordinator's timers: transactions time out, unused ids are forgotten, the oldest open one is known.

Slices      every walk takes a bounded number of rows at a time, by an index, the loop free between them.
Proposals   only when there is something to write: a look at the image comes first.
Source      KIP-588; Kafka TransactionCoordinator (abortTimedOutTransactions), TransactionStateManager;
            KIP-939 (active-transaction-open-time-max); docs/kafka-notes.md B6.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.controller import clocks
from fencepost.controller.decision import Decision
from fencepost.controller.transactions import describe, expiry
from fencepost.controller.transactions.describe import OpenTimes
from fencepost.controller.transactions.expiry import Due, Expired, TimedOut
from fencepost.controller.transactions.states import TRANSACTIONS
from fencepost.controller.view import View
from fencepost.coordinator.marker_sender import CallLater, MarkerSender
from fencepost.coordinator.transaction_counts import TransactionCounts
from fencepost.quorum.port import Submit
from fencepost.quorum.quarantine import Quarantine
from fencepost.quorum.sweep import Sweep

FIRST_EXPIRY_S_MAX: Final = 60.0  # after activation: or a cluster whose leaders change would never forget
TIMEOUT: Final = "transaction timeout"
EXPIRY: Final = "transactional id expiry"

WALK_S: Final = 1.0  # between two walks of the index of prepared transactions
OPEN_WALK_S: Final = 2.0  # between two walks of the open transactions, and more the more there are
OPEN_ROWS_PER_S: Final = 10_000  # of that walk: some 2 % of the loop
OPEN_ROWS_MAX: Final = 500  # of that walk, between two looks at anything else
SLICE_PAUSE_S: Final = 0.01
LOOKED_AT_MAX: Final = 1_000
"""Partitions of transactions that timed out, in one slice; the last transaction may have more."""
EXPIRY_PAUSE_S: Final = 0.1
"""Between two slices of expiry. What they delete goes to the image's tables twice a second, in one go: at
5,000 ids a second that takes 20 ms, and a slice finds as little to step over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimes:
    """The settings of transactions, in milliseconds."""

    timeout_ms_max: int = 900_000
    timeouts_interval_ms: int = 1_000
    expiration_ms: int = 7 * 24 * 3_600_000
    expiry_interval_ms: int = 3_600_000


class TransactionTimers:
    """Runs the timers in slices: ``maintenance_tick`` every few milliseconds while this node coordinates."""

    def __init__(
        self,
        times: TransactionTimes,
        image: Callable[[], View],
        submit: Submit,
        call_later: CallLater,
        *,
        quarantine: Quarantine,
        clock: Callable[[], float],
        slowest_ms: Callable[[], int | None],
        may_expire: Callable[[], bool],
        counts: TransactionCounts,
        markers: MarkerSender,
        log: FilteringBoundLogger,
    ) -> None:
        self._times = times
        self._image = image
        self._timeouts = Sweep(TIMEOUT, self._decide_timeouts, submit, quarantine, log)
        self._expiry = Sweep(EXPIRY, self._decide_forget, submit, quarantine, log)
        self._call_later = call_later
        self._clock = clock
        self._slowest_ms = slowest_ms
        self._may_expire = may_expire
        self._counts = counts
        self._markers = markers
        self._log = log
        self._leadership = 0
        self._begin(0)

    def _begin(self, now_ms: int) -> None:
        now_s = self._clock()
        self._leadership += 1
        self._activated_ms = now_ms
        self._after: tuple[int, str] | None = None  # where the walk of expiry.due_timeouts is
        self._aborting = self._forgetting = self._walking = False
        self._timeouts_due_s = now_s + self._times.timeouts_interval_ms / 1000
        self._expiry_due_s = now_s + min(self._times.expiry_interval_ms / 1000, FIRST_EXPIRY_S_MAX)
        self._markers_due_s = now_s + WALK_S
        self._open_due_s = now_s

    def activated(self, now_ms: int) -> None:
        """A new leadership: no transaction times out before one sweep's grace is over."""
        self._begin(now_ms)

    def deposed(self) -> None:
        """The leadership is over. The next one reports what is open."""
        self._begin(0)
        self._counts.open_times = OpenTimes()
        self._counts.parked = self._counts.markers_waiting = self._counts.wedged = 0

    def maintenance_tick(self, now_ms: int) -> None:
        """Begin what is due and not under way."""
        now_s = self._clock()
        if now_s >= self._timeouts_due_s and not self._aborting:
            self._timeouts_due_s = now_s + self._times.timeouts_interval_ms / 1000
            self._abort(now_ms)
        if now_s >= self._expiry_due_s and not self._forgetting:
            self._expiry_due_s = now_s + self._times.expiry_interval_ms / 1000
            self._forget(self._leadership, now_ms)
        if now_s >= self._markers_due_s:
            self._markers_due_s = now_s + WALK_S
            self._markers.walk()
        if now_s >= self._open_due_s and not self._walking:
            self._walking = True
            self._walk_open(self._leadership, now_ms, None, 0, OpenTimes())

    # -- timeouts -----------------------------------------------------------------------------------

    def _abort(self, now_ms: int) -> None:
        found = expiry.due_timeouts(
            self._image(),
            now_ms,
            activated_ms=self._activated_ms,
            grace_ms=self._times.timeouts_interval_ms,
            after=self._after,
            passed_by=self._timeouts.passed_by(),
        )
        if not found.transactional_ids:
            self._after = found.after
            return
        self._aborting = True
        self._timeouts.run(found.transactional_ids, partial(self._aborted, self._leadership, found))

    def _decide_timeouts(
        self, view: View, now_ms: int, transactional_ids: tuple[str, ...]
    ) -> Decision[TimedOut]:
        return expiry.decide_timeouts(view, now_ms, transactional_ids, activated_ms=self._activated_ms)

    def _aborted(self, leadership: int, found: Due, outcomes: tuple[TimedOut, ...]) -> None:
        if leadership != self._leadership:
            return
        self._aborting = False
        if not outcomes:
            return  # the next sweep comes
        self._after = found.after
        ids = [each for outcome in outcomes for each in outcome.transactional_ids]
        self._counts.timed_out += len(ids)
        self._look(leadership, iter(ids))
        if ids:
            self._log.info("transactions_timed_out", count=len(ids), first=ids[0])
        if found.more or any(outcome.more for outcome in outcomes):
            self._timeouts_due_s = self._clock()

    def _look(self, leadership: int, transactional_ids: Iterator[str]) -> None:
        """Send their markers, the loop free after LOOKED_AT_MAX partitions: 10,000 of one take it 10 ms."""
        if leadership != self._leadership:
            return
        looked_at = 0
        for transactional_id in transactional_ids:
            row = self._image().get(TRANSACTIONS, transactional_id)
            looked_at += 0 if row is None else sum(len(each.partition_ids) for each in row.partitions)
            self._markers.look(transactional_id)
            if looked_at >= LOOKED_AT_MAX:
                self._call_later(0.0, partial(self._look, leadership, transactional_ids))
                return

    # -- expiry -------------------------------------------------------------------------------------

    def _forget(self, leadership: int, now_ms: int) -> None:
        """A slice: one entry. The next one follows when it is applied."""
        if leadership != self._leadership:
            return
        if not self._may_expire():
            self._forgetting = False  # the next sweep comes
            return
        idle = self._idle(now_ms)
        found = expiry.decide_expire(self._image(), idle, passed_by=self._expiry.passed_by()).response
        self._forgetting = bool(found.transactional_ids)
        if self._forgetting:
            self._expiry.run(found.transactional_ids, partial(self._forgot, leadership, now_ms, found.more))

    def _idle(self, now_ms: int) -> clocks.IdleStamps:
        return clocks.idle_stamps(now_ms, self._activated_ms, self._times.expiration_ms, self._slowest_ms())

    def _decide_forget(
        self, view: View, now_ms: int, transactional_ids: tuple[str, ...]
    ) -> Decision[Expired]:
        return expiry.decide_forget(view, self._idle(now_ms), transactional_ids)

    def _forgot(self, leadership: int, now_ms: int, more: bool, outcomes: tuple[Expired, ...]) -> None:
        if leadership != self._leadership:
            return
        self._forgetting = more and bool(outcomes)
        if self._forgetting:
            self._call_later(EXPIRY_PAUSE_S, partial(self._forget, leadership, now_ms))

    # -- active-transaction-open-time-max -------------------------------------------------------------

    def _walk_open(
        self, leadership: int, now_ms: int, after: tuple[int, str] | None, rows: int, times: OpenTimes
    ) -> None:
        if leadership != self._leadership:
            return
        times, after = describe.open_time_slice(
            self._image(), times, after=after, rows_max=OPEN_ROWS_MAX, now_ms=now_ms
        )
        rows += OPEN_ROWS_MAX
        if after is None:
            self._walking = False
            self._counts.open_times = times
            self._open_due_s = self._clock() + OPEN_WALK_S + rows / OPEN_ROWS_PER_S
            return
        again = partial(self._walk_open, leadership, now_ms, after, rows, times)
        self._call_later(SLICE_PAUSE_S, again)
