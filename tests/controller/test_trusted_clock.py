"""Jumps of a wall clock: what is one, what ends it, what time it is meanwhile, and whom a majority may be."""

from typing import Final

from fencepost.controller.clocks import JUMP_MS, KeptClock, Reading, TrustedClock, agreed_ms
from tests.together import table

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WALL_MS: Final = 1_790_000_000_000
BOOT_MS: Final = 500_000


def at(boot: str, boottime_ms: int, ahead_ms: int) -> Reading:
    """The wall clock ``ahead_ms`` from where it is right."""
    return Reading(boot, BOOT_MS + boottime_ms, WALL_MS + boottime_ms + ahead_ms)


START: Final = at("a", 0, 0)


@table(
    ("ahead_ms", "jump_ms"),
    [(0, 0), (JUMP_MS, 0), (-JUMP_MS, 0), (JUMP_MS + 1, JUMP_MS + 1), (-JUMP_MS - 1, -JUMP_MS - 1)],
)
def test_a_jump_is_over_an_hour_off_the_boot_time_clock(ahead_ms: int, jump_ms: int) -> None:
    clock = TrustedClock(None, START)
    now = at("a", 10 * DAY_MS, ahead_ms)
    assert clock.jump_ms(now) == jump_ms
    assert clock.now_ms(now) == WALL_MS + 10 * DAY_MS + (0 if jump_ms else ahead_ms)


@table("ahead_ms", [8 * DAY_MS, -8 * DAY_MS], ids="{}-ms".format)
def test_a_clock_that_is_back_is_believed(ahead_ms: int) -> None:
    clock = TrustedClock(None, START)
    assert clock.jump_ms(at("a", 1000, ahead_ms)) == ahead_ms
    assert clock.jump_ms(at("a", 2000, 20)) == 0
    assert clock.now_ms(at("a", 2000, 20)) == WALL_MS + 2020


def test_steps_below_an_hour_add_up() -> None:
    clock = TrustedClock(None, START)
    assert not clock.jump_ms(at("a", 1, 40 * 60_000))
    assert clock.jump_ms(at("a", 2, 80 * 60_000))


KEPT: Final = TrustedClock(None, START).kept(at("a", HOUR_MS, 0))
KEPT_AHEAD: Final = TrustedClock(None, START).kept(at("a", HOUR_MS, 8 * DAY_MS))
KEPT_BACK: Final = TrustedClock(None, START).kept(at("a", HOUR_MS, -8 * DAY_MS))


@table(
    ("kept", "now", "has_jumped"),
    [
        (KEPT, at("a", 2 * HOUR_MS, 0), False),
        (KEPT, at("a", 2 * HOUR_MS, 8 * DAY_MS), True),
        (KEPT, at("a", 2 * HOUR_MS, -8 * DAY_MS), True),
        (KEPT_AHEAD, at("a", 2 * HOUR_MS, 8 * DAY_MS), True),
        (KEPT_AHEAD, at("a", 2 * HOUR_MS, 0), False),
        # another boot: the boot-time clock begins anew, and nothing is known of how long it was down
        (KEPT, at("b", 0, 9 * DAY_MS), False),
        (KEPT, at("b", 0, 0), False),
        (KEPT, at("b", 0, -1), True),
        (KEPT_AHEAD, at("b", 0, 8 * DAY_MS + HOUR_MS), True),
        (KEPT_AHEAD, at("b", 0, 2 * HOUR_MS), False),
        (KEPT_BACK, at("b", 0, -8 * DAY_MS + HOUR_MS), True),
        (KEPT_BACK, at("b", 0, 2 * HOUR_MS), False),
        (KEPT, at("", 0, 8 * DAY_MS), False),
    ],
    ids=[
        "same-boot", "ahead-in-one-boot", "back-in-one-boot", "still-ahead", "is-back",
        "ahead-across-boots", "an-hour-back-is-no-jump", "back-across-boots", "still-ahead-across-boots",
        "set-right-at-the-boot", "still-back-across-boots", "set-ahead-at-the-boot", "a-boot-without-an-id",
    ],
)  # fmt: skip
def test_what_the_next_process_makes_of_what_was_kept(
    kept: KeptClock, now: Reading, has_jumped: bool
) -> None:
    clock = TrustedClock(kept, now)
    assert (clock.jump_ms(now) != 0) is has_jumped
    assert clock.now_ms(now) >= kept.trusted_ms - HOUR_MS


def test_an_operators_word_and_the_next_process_knows_it() -> None:
    clock = TrustedClock(None, START)
    now = at("a", 1000, 8 * DAY_MS)
    assert clock.jump_ms(now)
    clock.accept(now)
    assert (clock.jump_ms(now), clock.now_ms(now)) == (0, now.wall_ms)
    assert clock.jump_ms(at("a", 2000, 0)), "the clock that was right has jumped now"
    assert not TrustedClock(clock.kept(now), at("a", 3000, 8 * DAY_MS)).jump_ms(at("a", 3000, 8 * DAY_MS))


@table(
    ("off_ms", "agrees"), [(0, True), (HOUR_MS, True), (HOUR_MS + 1, False), (-HOUR_MS - 1, False)], ids=str
)
def test_a_clock_that_jumped_agrees_with_a_majority_within_an_hour(off_ms: int, agrees: bool) -> None:
    clock = TrustedClock(None, START)
    now = at("a", 1000, 8 * DAY_MS)
    assert clock.agree(now, now.wall_ms + off_ms) is agrees
    assert (clock.jump_ms(now) == 0) is agrees


def test_a_clock_that_has_not_jumped_follows_no_majority() -> None:
    clock = TrustedClock(None, START)
    now = at("a", 1000, HOUR_MS // 2)
    assert not clock.agree(now, now.wall_ms)
    assert clock.jump_ms(at("a", 2000, HOUR_MS + HOUR_MS // 4)), "measured from where it was"


@table(
    ("times", "voters", "expected"),
    [
        ([], 1, None),
        ([5], 1, 5),
        ([5], 3, None),
        ([5, HOUR_MS + 5], 3, HOUR_MS + 5),
        ([5, HOUR_MS + 6], 3, None),
        ([5, 10, 8 * DAY_MS], 3, 10),
        ([0, 8 * DAY_MS, 8 * DAY_MS + 1], 3, 8 * DAY_MS + 1),
        ([0, 1, 8 * DAY_MS, 8 * DAY_MS], 5, None),
        ([0, 1, 2, 8 * DAY_MS, 8 * DAY_MS], 5, 1),
    ],
    ids=[
        "none", "the-only-voter", "a-minority", "an-hour-apart", "further-apart", "one-is-elsewhere",
        "the-majority-is-later", "two-and-two-of-five", "three-of-five",
    ],
)  # fmt: skip
def test_a_majority_of_all_voters_agrees_or_there_is_none(
    times: list[int], voters: int, expected: int | None
) -> None:
    assert agreed_ms(reversed(times), voters) == expected
