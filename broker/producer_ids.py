"""A broker's pool of producer ids: allocates them one by one, and says when to request more.

Invariant   an id is handed out at most once, ids only grow, and each lies in a block granted here.
            At most one request is in flight, and none is due while a block lies in reserve.
Never waits a request without a block is refused at once with COORDINATOR_LOAD_IN_PROGRESS (14): 7 is
            fatal to old clients (KAFKA-14417), and no request queues behind another (KAFKA-14694).
Time        an argument: milliseconds of one monotonic clock. Outcomes are arguments, too.
Source      Kafka RPCProducerIdManager; KIP-730. Blocks live in memory only: a restart wastes the rest.
Deviations  from Kafka: the first block is wanted from the start, not from the first refusal; a request
            that failed is due again by itself, not at the next request to an empty pool; the backoff grows; a
            block of length 0 is refused; the controller's throttle time is obeyed.
"""

from random import Random
from typing import Final

from fencepost.controller.errors import CoordinatorLoadInProgress
from fencepost.records.invariant import invariant
from fencepost.records.types import PRODUCER_ID_MAX, ProducerId

RETRY_BACKOFF_MS: Final = 50
"""Kafka's: the pause after a first failure, and the least after any."""

RETRY_BACKOFF_MS_MAX: Final = 1_000
"""After repeated failures the pause is drawn from [RETRY_BACKOFF_MS, at most this]."""

BLOCK_LENGTH_MAX: Final = 2**31 - 1
"""ProducerIdLen is an int32; the controller chooses, so nothing smaller is ours to demand."""

THROTTLE_MS_MAX: Final = 60_000
"""A longer throttle time is taken for this one: a broken answer must not silence a broker for weeks."""


class ProducerIdPool:
    """A current block, at most one in reserve, and whether the next is wanted, requested, or backed off.

    The caller drives: when ``request_due_ms()`` has come it calls ``request_sent``, sends the request to
    the controller, and reports exactly one of ``granted``, ``refused`` and ``timed_out``.
    """

    __slots__ = (
        "_backoff_until_ms",
        "_current_end",
        "_failures",
        "_granted_end",
        "_in_flight",
        "_muted_until_ms",
        "_next",
        "_prefetch_at",
        "_reserve",
        "_rng",
        "_wanted",
    )

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._next = 0  # the id that is allocated next, if below _current_end
        self._current_end = 0
        self._prefetch_at = -1  # allocating this id makes the next block wanted
        self._reserve: tuple[int, int] | None = None  # first, end
        self._granted_end = 0  # of the last block taken in: the next may not begin below it
        self._wanted = True
        self._in_flight = False
        self._failures = 0  # in a row
        self._backoff_until_ms: int | None = None
        self._muted_until_ms: int | None = None

    def allocate(self) -> ProducerId:
        """The next id. Raises CoordinatorLoadInProgress, at once, if no block is at hand."""
        if self._next == self._current_end:
            self._install_reserve()
        allocated = self._next
        self._next = allocated + 1
        if allocated == self._prefetch_at:
            self._wanted = True
        return ProducerId(allocated)

    def ids_left(self) -> int:
        """How many ids can be allocated before another block comes."""
        first, end = self._reserve or (0, 0)
        return self._current_end - self._next + end - first

    def request_due_ms(self) -> int | None:
        """The earliest time for the next request; in the past or 0 means now, None that none is due."""
        if not self._wanted or self._in_flight:
            return None
        return max(self._backoff_until_ms or 0, self._muted_until_ms or 0)

    def request_sent(self, now_ms: int) -> None:
        """Note that a request leaves now."""
        due_ms = self.request_due_ms()
        invariant(due_ms is not None, "a request that is not due")
        invariant((due_ms or 0) <= now_ms, "a request too early", due_ms=due_ms, now_ms=now_ms)
        self._in_flight = True

    def granted(self, first: int, length: int, *, now_ms: int, throttle_ms: int = 0) -> str | None:
        """The controller answered with a block: the ids [first, first + length).

        Returns what is wrong with it, or None. A block with a defect is not taken in and counts as
        a failure: whatever the answer held, no id comes from it.
        """
        defect = block_defect(first, length, self._granted_end)
        if defect is not None:
            self.refused(now_ms=now_ms, throttle_ms=throttle_ms)
            return defect
        self._answered(now_ms, throttle_ms)
        self._wanted = False
        self._failures = 0
        self._backoff_until_ms = None
        self._reserve = (first, first + length)
        self._granted_end = first + length
        return None

    def refused(self, *, now_ms: int, throttle_ms: int = 0) -> None:
        """The request failed: an error code, a lost connection, no common version. Backs off, then retries.

        Whether a block was written is unknown; if so it is wasted, never used (row 730.9).
        """
        # Deadline first, flag second: as the flag falls, the next request is already held back
        # (KAFKA-20114). Nothing runs between the two here, but the order is the rule.
        ceiling_ms = min(RETRY_BACKOFF_MS << min(self._failures, 10), RETRY_BACKOFF_MS_MAX)
        self._backoff_until_ms = now_ms + self._rng.randint(RETRY_BACKOFF_MS, ceiling_ms)
        self._failures += 1
        self._answered(now_ms, throttle_ms)

    def timed_out(self) -> None:
        """No response came in time. It may be retried at once: the wait was the pause."""
        invariant(self._in_flight, "an outcome without a request")
        self._backoff_until_ms = None
        self._in_flight = False

    def _install_reserve(self) -> None:
        if self._reserve is None:
            invariant(self._wanted, "the block is used up and the next was not requested")
            raise CoordinatorLoadInProgress("no producer id is at hand; a block has been requested")
        first, end = self._reserve
        self._reserve = None
        self._next, self._current_end = first, end
        self._prefetch_at = first + (end - first) * 9 // 10

    def _answered(self, now_ms: int, throttle_ms: int) -> None:
        invariant(self._in_flight, "an outcome without a request")
        if throttle_ms > 0:
            self._muted_until_ms = now_ms + min(throttle_ms, THROTTLE_MS_MAX)
        self._in_flight = False


def block_defect(first: int, length: int, granted_end: int) -> str | None:
    """What makes [first, first + length) unusable after blocks up to ``granted_end``, or None.

    Source   Kafka RPCProducerIdManager.sanityCheckResponse, with its "not monotonic" test at `<=` the
             last id (the older `<` let a block begin with the last id of the one before).
    """
    if first < 0:
        return f"the block starts at {first}, below 0"
    if not 0 < length <= BLOCK_LENGTH_MAX:
        return f"the block has {length} ids"
    if first > PRODUCER_ID_MAX - length:
        return f"the block [{first}, {first + length}) passes 2^63 - 1"
    if first < granted_end:
        return f"the block starts at {first}, but ids below {granted_end} were granted before"
    return None
