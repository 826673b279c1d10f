"""The pool of producer ids: a row per rule of Kafka's RPCProducerIdManager, and a law over all orders.

Source   docs/kafka-notes.md A4; ProducerIdManagerTest (block sizes, invalid ranges, retry backoff).
"""

from random import Random

import pytest

from fencepost.broker.producer_ids import (
    BLOCK_LENGTH_MAX,
    RETRY_BACKOFF_MS,
    RETRY_BACKOFF_MS_MAX,
    THROTTLE_MS_MAX,
    ProducerIdPool,
)
from fencepost.controller.errors import CoordinatorLoadInProgress, ErrorCode
from fencepost.records.invariant import InvariantViolation
from fencepost.records.types import PRODUCER_ID_MAX
from tests.together import table


def new_pool() -> ProducerIdPool:
    return ProducerIdPool(Random(1))


def grant(pool: ProducerIdPool, first: int, length: int, now_ms: int = 0) -> None:
    pool.request_sent(now_ms)
    assert pool.granted(first, length, now_ms=now_ms) is None


def pool_with(first: int, length: int) -> ProducerIdPool:
    pool = new_pool()
    grant(pool, first, length)
    return pool


def refused_claims(pool: ProducerIdPool) -> list[ErrorCode]:
    codes = []
    for _ in range(3):
        with pytest.raises(CoordinatorLoadInProgress) as refusal:
            pool.allocate()
        codes.append(refusal.value.code)
    return codes


def test_a_new_pool_wants_a_block_at_once() -> None:
    pool = new_pool()
    assert pool.request_due_ms() == 0
    assert pool.ids_left() == 0


def test_without_a_block_a_claim_is_refused_at_once_with_14_and_never_7() -> None:
    """KAFKA-14417: REQUEST_TIMED_OUT is fatal to old clients. KAFKA-14694: no request waits."""
    pool = new_pool()
    assert refused_claims(pool) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    pool.request_sent(0)  # also while a request is in flight
    assert refused_claims(pool) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    pool.refused(now_ms=0)  # also while backing off
    assert refused_claims(pool) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3


def test_refused_claims_do_not_queue_more_requests() -> None:
    pool = new_pool()
    refused_claims(pool)
    pool.request_sent(0)
    refused_claims(pool)
    assert pool.request_due_ms() is None
    assert pool.granted(0, 1000, now_ms=0) is None
    assert pool.request_due_ms() is None, "what the refused claims wanted is here now"


@table("length", [1, 2, 10, 100, 1000], ids="block-of-{}".format)
def test_ids_are_those_of_the_block_in_order(length: int) -> None:
    pool = pool_with(7000, length)
    assert pool.ids_left() == length
    assert [pool.allocate() for _ in range(length)] == list(range(7000, 7000 + length))
    assert pool.ids_left() == 0
    with pytest.raises(CoordinatorLoadInProgress):
        pool.allocate()


@pytest.mark.parametrize("length", [1, 2, 10, 100], ids="blocks-of-{}".format)
def test_blocks_follow_each_other_without_a_refusal_when_the_controller_keeps_up(length: int) -> None:
    pool = new_pool()
    claimed = []
    for first in range(0, 50 * length, length):
        grant(pool, first, length)
        while pool.request_due_ms() is None or pool.ids_left() > 0:
            claimed.append(pool.allocate())
    assert claimed == list(range(50 * length))


THRESHOLDS = [
    pytest.param(1, 0, id="size-1-at-the-only-id"),
    pytest.param(2, 1, id="size-2-at-the-last-id"),
    pytest.param(9, 8, id="size-9-at-the-last-id"),
    pytest.param(10, 9, id="size-10-at-the-last-id"),
    pytest.param(11, 9, id="size-11-floor-of-9.9"),
    pytest.param(100, 90, id="size-100-at-the-91st"),
    pytest.param(1000, 900, id="size-1000-at-the-901st"),
    pytest.param(BLOCK_LENGTH_MAX, None, id="the-largest-block-not-at-once"),
]


@table(("length", "trigger"), THRESHOLDS)
def test_the_next_block_is_wanted_by_the_claim_at_first_plus_floor_of_nine_tenths(
    length: int, trigger: int | None
) -> None:
    pool = pool_with(5000, length)
    wanted_after = None
    for offset in range(min(length, 1000)):
        assert pool.allocate() == 5000 + offset
        if wanted_after is None and pool.request_due_ms() is not None:
            wanted_after = offset
    assert wanted_after == trigger


def test_exactly_one_claim_asks_for_the_next_block() -> None:
    """Equality, not >=: once the next block is in reserve, the rest of this one asks for nothing."""
    pool = pool_with(0, 10)
    for _ in range(10):
        pool.allocate()
    grant(pool, 10, 100)
    for _ in range(90):
        pool.allocate()
        assert pool.request_due_ms() is None
    pool.allocate()
    assert pool.request_due_ms() is not None
    grant(pool, 1000, 100)
    for _ in range(9):
        pool.allocate()
        assert pool.request_due_ms() is None


def test_a_block_in_reserve_waits_until_the_current_one_is_empty() -> None:
    pool = pool_with(0, 10)
    claimed = [pool.allocate() for _ in range(10)]
    grant(pool, 500, 2)
    claimed += [pool.allocate() for _ in range(2)]
    assert claimed == [*range(10), 500, 501]


def test_a_failed_prefetch_is_due_again_though_nobody_claims() -> None:
    pool = pool_with(0, 100)
    for _ in range(91):
        pool.allocate()
    pool.request_sent(10)
    pool.refused(now_ms=10)
    assert pool.request_due_ms() == 10 + RETRY_BACKOFF_MS
    assert pool.allocate() == 91, "the block at hand is not disturbed"


INSANE_BLOCKS = [
    pytest.param(0, 0, "0 ids", id="the-fields-of-an-error-answer-KAFKA-15845"),
    pytest.param(-1, 10, "below 0", id="start-below-0"),
    pytest.param(1000, -1, "-1 ids", id="negative-length"),
    pytest.param(1000, 0, "0 ids", id="empty"),
    pytest.param(1000, BLOCK_LENGTH_MAX + 1, "ids", id="longer-than-an-int32"),
    pytest.param(PRODUCER_ID_MAX - 1, 10, "passes 2^63", id="past-the-last-id"),
    pytest.param(PRODUCER_ID_MAX - 9, 10, "passes 2^63", id="past-the-last-id-by-one"),
    pytest.param(0, 10, "granted before", id="the-same-block-again"),
    pytest.param(9, 10, "granted before", id="starts-with-the-last-id-of-the-one-before"),
    pytest.param(5, 1000, "granted before", id="overlaps"),
]


@table(("first", "length", "why"), INSANE_BLOCKS)
def test_an_insane_block_is_a_failure_and_gives_no_id(first: int, length: int, why: str) -> None:
    pool = pool_with(0, 10)
    for _ in range(10):
        pool.allocate()
    pool.request_sent(0)
    defect = pool.granted(first, length, now_ms=0)
    assert defect is not None
    assert why in defect
    assert pool.ids_left() == 0
    with pytest.raises(CoordinatorLoadInProgress):
        pool.allocate()
    assert pool.request_due_ms() == RETRY_BACKOFF_MS
    grant(pool, 10, 10, now_ms=RETRY_BACKOFF_MS)
    assert pool.allocate() == 10


SANE_BLOCKS = [
    pytest.param(10, 10, id="right-after-the-one-before"),
    pytest.param(11, 1, id="after-a-gap"),
    pytest.param(PRODUCER_ID_MAX - 10, 10, id="the-last-block-there-is"),
    pytest.param(10, BLOCK_LENGTH_MAX, id="the-longest"),
]


@pytest.mark.parametrize(("first", "length"), SANE_BLOCKS)
def test_a_sane_block_is_taken(first: int, length: int) -> None:
    pool = pool_with(0, 10)
    for _ in range(10):
        pool.allocate()
    grant(pool, first, length)
    assert pool.allocate() == first


def test_a_block_that_overlaps_the_reserve_is_refused_even_if_the_current_one_is_older() -> None:
    pool = pool_with(0, 1)
    pool.allocate()
    grant(pool, 100, 50)
    assert pool.allocate() == 100
    for _ in range(45):
        pool.allocate()
    pool.request_sent(0)
    assert pool.granted(149, 10, now_ms=0) is not None


def test_block_zero_is_sane_when_the_controller_really_grants_it() -> None:
    pool = pool_with(0, 1)
    assert pool.allocate() == 0


def test_after_a_first_failure_the_pause_is_exactly_kafkas() -> None:
    pool = new_pool()
    pool.request_sent(1_000)
    assert pool.request_due_ms() is None
    pool.refused(now_ms=1_010)
    assert pool.request_due_ms() == 1_010 + RETRY_BACKOFF_MS
    with pytest.raises(InvariantViolation, match="too early"):
        pool.request_sent(1_010 + RETRY_BACKOFF_MS - 1)
    pool.request_sent(1_010 + RETRY_BACKOFF_MS)


@table("seed", range(20), ids="seed-{}".format)
def test_pauses_grow_jittered_up_to_the_bound_and_a_block_resets_them(seed: int) -> None:
    pool, now_ms = ProducerIdPool(Random(seed)), 0
    pauses = []
    for _ in range(200):
        pool.request_sent(now_ms)
        pool.refused(now_ms=now_ms)
        due_ms = pool.request_due_ms()
        assert due_ms is not None
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
    assert pauses[0] == RETRY_BACKOFF_MS
    assert all(RETRY_BACKOFF_MS <= pause <= RETRY_BACKOFF_MS << n for n, pause in enumerate(pauses[:4]))
    assert all(RETRY_BACKOFF_MS <= pause <= RETRY_BACKOFF_MS_MAX for pause in pauses)
    assert len(set(pauses[10:])) > 50, "full jitter: many brokers spread out"
    grant(pool, 0, 1, now_ms)
    pool.allocate()
    pool.request_sent(now_ms)
    pool.refused(now_ms=now_ms)
    assert pool.request_due_ms() == now_ms + RETRY_BACKOFF_MS


def test_after_a_timeout_the_request_is_due_at_once() -> None:
    pool = new_pool()
    pool.request_sent(0)
    pool.refused(now_ms=0)
    pool.request_sent(60)
    pool.timed_out()
    assert pool.request_due_ms() == 0


def test_a_throttle_time_holds_the_next_request_back_and_not_the_claims() -> None:
    pool = new_pool()
    pool.request_sent(100)
    assert pool.granted(0, 1, now_ms=200, throttle_ms=5_000) is None
    assert pool.allocate() == 0
    assert pool.request_due_ms() == 5_200


def test_a_throttle_time_outlives_a_timeout_and_a_backoff() -> None:
    pool = new_pool()
    pool.request_sent(0)
    pool.refused(now_ms=0, throttle_ms=700)
    assert pool.request_due_ms() == 700
    pool.request_sent(700)
    assert pool.granted(0, 1, now_ms=700, throttle_ms=300) is None
    pool.allocate()
    pool.request_sent(1_000)
    pool.timed_out()
    assert pool.request_due_ms() == 1_000


def test_an_absurd_throttle_time_is_capped() -> None:
    pool = new_pool()
    pool.request_sent(0)
    pool.refused(now_ms=0, throttle_ms=2**31 - 1)
    assert pool.request_due_ms() == THROTTLE_MS_MAX


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(lambda pool: pool.granted(0, 10, now_ms=0), id="granted"),
        pytest.param(lambda pool: pool.granted(-1, 10, now_ms=0), id="insane"),
        pytest.param(lambda pool: pool.refused(now_ms=0), id="refused"),
        pytest.param(lambda pool: pool.timed_out(), id="timed-out"),
    ],
)
def test_an_outcome_without_a_request_is_our_bug(report: object) -> None:
    assert callable(report)
    with pytest.raises(InvariantViolation, match="without a request"):
        report(new_pool())


def test_two_requests_at_once_are_our_bug() -> None:
    pool = new_pool()
    pool.request_sent(0)
    with pytest.raises(InvariantViolation, match="not due"):
        pool.request_sent(0)
