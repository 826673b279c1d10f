"""A law of the pool of producer ids: whatever the order of events, no id is given out twice."""

import itertools
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fencepost.broker.producer_ids import RETRY_BACKOFF_MS, RETRY_BACKOFF_MS_MAX, ProducerIdPool
from fencepost.controller.errors import CoordinatorLoadInProgress


class PoolLaw(RuleBasedStateMachine):
    """In every order of claims, time and outcomes: ids are unique, rising, and inside granted blocks.

    The model is a controller that advances its end for every block it writes, also for the blocks
    whose answer is lost, plus answers no controller should give.
    """

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.pool = ProducerIdPool(Random(seed))
        self.now_ms = 0
        self.end = 0  # the controller's next free id
        self.granted: list[range] = []
        self.claimed: list[int] = []
        self.in_flight = False
        self.backoff_until_ms = 0
        self.muted_until_ms = 0

    def answered(self, throttle_ms: int = 0) -> None:
        self.in_flight = False
        if throttle_ms:
            self.muted_until_ms = self.now_ms + throttle_ms

    @rule(elapsed_ms=st.sampled_from([0, 1, 49, 50, 51, 1_000, 60_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule(count=st.integers(1, 30))
    def claim(self, count: int) -> None:
        for _ in range(count):
            left = self.pool.ids_left()
            try:
                self.claimed.append(self.pool.allocate())
                assert left > 0
                assert self.pool.ids_left() == left - 1
            except CoordinatorLoadInProgress:
                assert left == 0
                assert self.in_flight or self.pool.request_due_ms() is not None, "help is on its way"

    @precondition(lambda self: self.pool.request_due_ms() is not None)
    @rule()
    def send(self) -> None:
        due_ms = self.pool.request_due_ms()
        assert due_ms is not None
        self.now_ms = max(self.now_ms, due_ms)
        self.pool.request_sent(self.now_ms)
        self.in_flight = True

    @precondition(lambda self: self.in_flight)
    @rule(length=st.sampled_from([1, 2, 10, 11, 100]), throttle_ms=st.sampled_from([0, 0, 70]))
    def answer_with_a_block(self, length: int, throttle_ms: int) -> None:
        assert self.pool.granted(self.end, length, now_ms=self.now_ms, throttle_ms=throttle_ms) is None
        self.granted.append(range(self.end, self.end + length))
        self.end += length
        self.backoff_until_ms = 0
        self.answered(throttle_ms)

    @precondition(lambda self: self.in_flight)
    @rule(length=st.sampled_from([0, 1, 10]))
    def lose_the_answer(self, length: int) -> None:
        self.end += length  # written, and wasted
        self.pool.timed_out()
        self.backoff_until_ms = 0
        self.answered()

    @precondition(lambda self: self.in_flight)
    @rule(length=st.sampled_from([0, 1, 10]), throttle_ms=st.sampled_from([0, 200]))
    def answer_with_an_error(self, length: int, throttle_ms: int) -> None:
        self.end += length
        self.pool.refused(now_ms=self.now_ms, throttle_ms=throttle_ms)
        self.backoff_until_ms = self.now_ms + RETRY_BACKOFF_MS
        self.answered(throttle_ms)

    @precondition(lambda self: self.in_flight and self.granted)
    @rule(back=st.integers(1, 200), length=st.integers(-3, 200))
    def answer_with_ids_granted_before(self, back: int, length: int) -> None:
        first = self.granted[-1].stop - back
        assert self.pool.granted(first, length, now_ms=self.now_ms) is not None
        self.backoff_until_ms = self.now_ms + RETRY_BACKOFF_MS
        self.answered()

    @invariant()
    def ids_are_unique_rising_and_granted(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert all(a < b for a, b in itertools.pairwise(self.claimed))
        blocks = iter(self.granted)
        block = range(0)
        for claimed in self.claimed:
            while claimed not in block:
                block = next(blocks)  # StopIteration: an id from nowhere

    @invariant()
    def requests_are_single_and_never_early(self) -> None:
        if not hasattr(self, "pool"):
            return
        due_ms = self.pool.request_due_ms()
        if self.in_flight:
            assert due_ms is None
        if due_ms is not None:
            assert due_ms >= max(self.backoff_until_ms, self.muted_until_ms)
            assert due_ms <= self.now_ms + RETRY_BACKOFF_MS_MAX


TestPoolLaw = PoolLaw.TestCase
