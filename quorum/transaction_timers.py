"""The coordinator's timers: transactions time out, unused ids are forgotten, the oldest open one is known.

Slices      every walk takes a bounded number of rows at a time, by an index, the loop free between them.
Proposals   only when there is something to write: a look at the image comes first.
Source      KIP-588; Kafka TransactionCoordinator (abortTimedOutTransactions), TransactionStateManager;
            KIP-939 (active-transaction-open-time-max); spec/kafka.md B6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from controller.transactions import describe, expiry
from controller.transactions.expiry import Expired, TimedOut
from controller.view import View
from quorum.draft import Decide, Reply
from quorum.marker_sender import CallLater, MarkerSender
from quorum.transaction_counts import TransactionCounts

FIRST_EXPIRY_S_MAX: Final = 60.0  # after activation: or a cluster whose leaders change would never forget
WALK_S: Final = 1.0  # between two walks of the index of prepared transactions
OPEN_WALK_S: Final = 2.0  # between two walks of the open transactions, and more the more there are
OPEN_ROWS_PER_S: Final = 10_000  # of that walk: some 2 % of the loop
OPEN_ROWS_MAX: Final = 500  # of that walk, between two looks at anything else
SLICE_PAUSE_S: Final = 0.01
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
    """See the module. ``beat`` every few milliseconds while this node coordinates."""

    def __init__(
        self,
        times: TransactionTimes,
        image: Callable[[], View],
        submit: Callable[[Decide, Reply], None],
        call_later: CallLater,
        *,
        clock: Callable[[], float],
        counts: TransactionCounts,
        markers: MarkerSender,
        log: Any,
    ) -> None:
        self._times = times
        self._image = image
        self._submit = submit
        self._call_later = call_later
        self._clock = clock
        self._counts = counts
        self._markers = markers
        self._log = log
        self._leadership = 0
        self._begin(0)

    def _begin(self, now_ms: int) -> None:
        now_s = self._clock()
        self._leadership += 1
        self._activated_ms = now_ms
        self._after: tuple[int, str] | None = None  # where the walk of expiry.decide_timeouts is
        self._aborting = self._forgetting = self._walking = False
        self._timeouts_due_s = now_s + self._times.timeouts_interval_ms / 1000
        self._expiry_due_s = now_s + min(self._times.expiry_interval_ms / 1000, FIRST_EXPIRY_S_MAX)
        self._markers_due_s = now_s + WALK_S
        self._open_due_s = now_s

    def activated(self, now_ms: int) -> None:
        """A new leadership: nobody times out before one sweep's grace is over."""
        self._begin(now_ms)

    def deposed(self) -> None:
        """The leadership is over. What is open is told by the next one."""
        self._begin(0)
        self._counts.open_ms_max = self._counts.held = self._counts.markers_waiting = 0

    def beat(self, now_ms: int) -> None:
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
            self._walk_open(self._leadership, now_ms, None, 0, 0)

    # -- timeouts -----------------------------------------------------------------------------------

    def _decide_timeouts(self, view: View, now_ms: int) -> Any:
        return expiry.decide_timeouts(
            view,
            now_ms,
            activated_ms=self._activated_ms,
            grace_ms=self._times.timeouts_interval_ms,
            after=self._after,
        )

    def _abort(self, now_ms: int) -> None:
        looked = self._decide_timeouts(self._image(), now_ms)
        if not looked.records:
            self._after = looked.response.after
            return
        self._aborting = True
        self._submit(self._decide_timeouts, partial(self._aborted, self._leadership))

    def _aborted(self, leadership: int, outcome: Any, _throttle_ms: int = 0) -> None:
        if leadership != self._leadership:
            return
        self._aborting = False
        if not isinstance(outcome, TimedOut):
            return  # the next sweep comes
        self._after = outcome.after
        self._counts.timed_out += len(outcome.transactional_ids)
        for transactional_id in outcome.transactional_ids:
            self._markers.look(transactional_id)
        if outcome.transactional_ids:
            self._log.info(
                "transactions_timed_out",
                count=len(outcome.transactional_ids),
                first=outcome.transactional_ids[0],
            )
        if outcome.more:
            self._timeouts_due_s = self._clock()

    # -- expiry -------------------------------------------------------------------------------------

    def _forget(self, leadership: int, now_ms: int) -> None:
        """A slice: one entry. The next one is asked for when it is applied."""
        if leadership != self._leadership:
            return
        expiration_ms = self._times.expiration_ms
        self._forgetting = bool(expiry.decide_expire(self._image(), now_ms, expiration_ms).records)
        if self._forgetting:
            self._submit(
                lambda view, at_ms: expiry.decide_expire(view, at_ms, expiration_ms),
                partial(self._forgot, leadership, now_ms),
            )

    def _forgot(self, leadership: int, now_ms: int, outcome: Any, _throttle_ms: int = 0) -> None:
        if leadership != self._leadership:
            return
        self._forgetting = isinstance(outcome, Expired) and outcome.more
        if self._forgetting:
            self._call_later(EXPIRY_PAUSE_S, partial(self._forget, leadership, now_ms))

    # -- active-transaction-open-time-max -------------------------------------------------------------

    def _walk_open(
        self, leadership: int, now_ms: int, after: tuple[int, str] | None, rows: int, open_ms_max: int
    ) -> None:
        if leadership != self._leadership:
            return
        longest_ms, after = describe.open_time_slice(
            self._image(), after=after, rows_max=OPEN_ROWS_MAX, now_ms=now_ms
        )
        open_ms_max, rows = max(open_ms_max, longest_ms), rows + OPEN_ROWS_MAX
        if after is None:
            self._walking = False
            self._counts.open_ms_max = open_ms_max
            self._open_due_s = self._clock() + OPEN_WALK_S + rows / OPEN_ROWS_PER_S
            return
        again = partial(self._walk_open, leadership, now_ms, after, rows, open_ms_max)
        self._call_later(SLICE_PAUSE_S, again)
