"""Clocks of other leaderships: what is clamped, what is forgotten, and what never is.

The law plays leaderships of three nodes whose wall clocks are days apart and jump at every activation. It
knows the true time: nothing may be forgotten before it was idle for its whole time, and a leader that stays
must forget all that is idle.
"""

from random import Random
from typing import Final

import pytest

from fencepost.controller.clocks import IdleStamps, SeenClocks, began_ms, idle_stamps
from tests.together import table

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
IDLE_MS: Final = 7 * DAY_MS
NOW_MS: Final = 1_700_000_000_000
LAG_MS_MAX: Final = 200  # of a stamp, until another node has it
STEP_MS: Final = 10 * 60_000


@pytest.mark.parametrize(
    ("stamp_ms", "inherited", "began"),
    [
        pytest.param(900, True, 900, id="before-the-activation"),
        pytest.param(1000, True, 1000, id="at-the-activation"),
        pytest.param(1001, True, 1000, id="by-a-clock-that-was-ahead"),
        pytest.param(1001, False, 1001, id="in-this-leadership"),
    ],
)
def test_what_began_earlier_began_at_the_activation_at_the_latest(
    stamp_ms: int, inherited: bool, began: int
) -> None:
    assert began_ms(stamp_ms, 1000, inherited=inherited) == began


@table(
    ("led_ms", "slowest", "expected"),
    [
        pytest.param(0, None, (-1, None), id="no-other-clock-was-seen"),
        pytest.param(IDLE_MS - 1, None, (-1, None), id="one-ms-too-short"),
        pytest.param(IDLE_MS, None, (-IDLE_MS, 1), id="led-for-the-whole-time"),
        pytest.param(IDLE_MS, -DAY_MS, (-IDLE_MS, 1), id="whatever-other-clocks-said"),
        pytest.param(0, 0, (-IDLE_MS, None), id="the-clocks-agree"),
        pytest.param(0, -8 * DAY_MS, (-8 * DAY_MS - IDLE_MS, None), id="this-clock-is-ahead"),
        pytest.param(0, 8 * DAY_MS, (-IDLE_MS, None), id="never-later-than-this-leaders-own-time"),
    ],
)
def test_which_stamps_are_idle_for_sure(
    led_ms: int, slowest: int | None, expected: tuple[int, int | None]
) -> None:
    """Relative to now."""
    slowest_ms = None if slowest is None else NOW_MS + slowest
    last_ms, future_ms = expected
    wanted = IdleStamps(
        -1 if last_ms == -1 else NOW_MS + last_ms, None if future_ms is None else NOW_MS + future_ms
    )
    assert idle_stamps(NOW_MS, NOW_MS - led_ms, IDLE_MS, slowest_ms) == wanted


def test_the_slowest_clock_of_all_leaderships_counts() -> None:
    seen = SeenClocks()
    assert seen.slowest_ms(0) is None
    seen.observe(1, 5_000, 100)
    assert seen.slowest_ms(100) is None, "it may be this leader's own"
    seen.observe(2, 7_000, 200)
    assert seen.slowest_ms(1200) == 6_100
    seen.observe(3, 1_000, 2_200)
    assert seen.slowest_ms(2_200) == 1_000
    seen.observe(4, 9_000, 3_200)
    seen.observe(5, 12_000, 4_200)
    assert seen.slowest_ms(4_200) == 3_000, "for as long as the node lives"


def test_of_one_leadership_the_stamp_that_was_least_late_counts() -> None:
    seen = SeenClocks()
    seen.observe(1, 0, 1_000_000)  # read from the journal, long after it was written
    seen.observe(1, 999_990, 1_000_000)
    seen.observe(1, 999_000, 1_000_000)
    seen.observe(2, 1_000_000, 1_000_000)
    assert seen.slowest_ms(1_000_000) == 999_990


class Cluster:
    """Three nodes in true time, and what each of some ids was last used and stamped at."""

    def __init__(self, seed: int, skew_ms: int) -> None:
        self.rng = Random(seed)
        self.skew_ms = skew_ms
        self.true_ms = 0
        self.seen = [SeenClocks() for _ in range(3)]
        self.booted_ms = [self.rng.randrange(DAY_MS) for _ in range(3)]
        self.used: dict[int, tuple[int, int]] = {}  # true time, stamp
        self.leadership = 0
        self.lead()

    def lead(self) -> None:
        self.leadership += 1
        self.leader = self.rng.randrange(3)
        self.clock_ms = NOW_MS + self.rng.randint(-self.skew_ms, self.skew_ms)
        self.since_ms = self.true_ms
        self.activated_ms = self.stamp()

    def now_ms(self) -> int:
        return self.clock_ms + self.true_ms

    def stamp(self) -> int:
        """The leader writes something; the others have it a little later."""
        for node, seen in enumerate(self.seen):
            lag_ms = 0 if node == self.leader else self.rng.randrange(LAG_MS_MAX)
            seen.observe(self.leadership, self.now_ms(), self.true_ms + lag_ms - self.booted_ms[node])
        return self.now_ms()

    def use(self, number: int) -> None:
        self.used[number] = (self.true_ms, self.stamp())

    def sweep(self) -> None:
        monotonic_ms = self.true_ms - self.booted_ms[self.leader]
        idle = idle_stamps(
            self.now_ms(), self.activated_ms, IDLE_MS, self.seen[self.leader].slowest_ms(monotonic_ms)
        )
        for number, (used_ms, stamp_ms) in list(self.used.items()):
            if idle.holds(stamp_ms):
                assert self.true_ms - used_ms >= IDLE_MS, f"{number} was used {self.true_ms - used_ms} ms ago"
                del self.used[number]


@table("skew_ms", [0, 60_000, 8 * DAY_MS, 1000 * DAY_MS], ids="skew-{}-ms".format)
@table("seed", range(10), ids="seed-{}".format)
def test_nothing_is_forgotten_that_was_used_and_all_that_is_idle_is(seed: int, skew_ms: int) -> None:
    cluster = Cluster(seed, skew_ms)
    forgotten = 0
    for _ in range(600):
        cluster.true_ms += cluster.rng.choice((1, 1000, STEP_MS, HOUR_MS, 12 * HOUR_MS))
        for number in range(20):
            if cluster.rng.random() < 0.02:
                cluster.use(number)
        if cluster.rng.random() < 0.05:
            cluster.lead()
        before = len(cluster.used)
        cluster.sweep()
        forgotten += before - len(cluster.used)
    used = max((at for at, _ in cluster.used.values()), default=0)
    while cluster.true_ms < max(cluster.since_ms, used) + 2 * IDLE_MS:
        cluster.true_ms += HOUR_MS
        cluster.sweep()
    assert cluster.used == {}, "a leader that stays forgets all that is idle"
    assert forgotten or skew_ms >= DAY_MS


@pytest.mark.parametrize(
    ("skew_ms", "late_ms"), [(0, 0), (60_000, 120_000), (DAY_MS, 2 * DAY_MS)], ids=["agree", "minute", "day"]
)
def test_leaders_that_change_often_forget_too(skew_ms: int, late_ms: int) -> None:
    """As late as their clocks are apart."""
    cluster = Cluster(1, skew_ms)
    cluster.use(1)
    while cluster.true_ms < IDLE_MS + late_ms + 2 * HOUR_MS:
        cluster.true_ms += HOUR_MS
        cluster.lead()
        cluster.sweep()
    assert cluster.used == {}
