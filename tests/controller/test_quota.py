"""The allocation quota: over it a request is served, and its connection is muted for a while (row 730.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.quota import THROTTLE_MS_MAX, AllocationQuota
from fencepost.records.types import BrokerId
from tests.together import table

ONE, TWO = BrokerId(1), BrokerId(2)


def charges(quota: AllocationQuota, *times_ms: int) -> list[int]:
    return [quota.charge(ONE, time_ms) for time_ms in times_ms]


CASES = [
    pytest.param(0, 5, [0] * 1000, [0] * 1000, id="no-rate-is-no-limit"),
    pytest.param(10, 3, [0, 0, 0], [0, 0, 0], id="the-burst-is-free"),
    pytest.param(10, 3, [0, 0, 0, 0], [0, 0, 0, 101], id="one-past-the-burst-waits-for-its-block"),
    pytest.param(10, 3, [0, 0, 0, 0, 0], [0, 0, 0, 101, 201], id="and-the-next-for-two"),
    pytest.param(10, 1, [0, 100, 200, 300], [0, 0, 0, 0], id="exactly-at-the-rate"),
    pytest.param(10, 1, [0, 99], [0, 2], id="a-moment-too-early"),
    pytest.param(
        10, 2, [0, 0, 60_000, 60_000, 60_000], [0, 0, 0, 0, 101], id="rest-refills-no-more-than-the-burst"
    ),
    pytest.param(10, 1, [1000, 500, 1000], [0, 101, 201], id="time-that-goes-back-refills-nothing"),
    pytest.param(0.001, 1, [0, 0], [0, THROTTLE_MS_MAX], id="never-muted-past-the-clients-own-timeout"),
]


@table(("rate", "burst", "times_ms", "muted_ms"), CASES)
def test_charge(rate: float, burst: float, times_ms: list[int], muted_ms: list[int]) -> None:
    assert charges(AllocationQuota(rate, burst), *times_ms) == muted_ms


def test_brokers_do_not_share_a_bucket() -> None:
    quota = AllocationQuota(1, 1)
    assert [quota.charge(ONE, 0), quota.charge(ONE, 0), quota.charge(TWO, 0)] == [0, 1001, 0]


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 100), st.integers(1, 20))
def test_who_waits_as_told_gets_the_rate_and_the_burst_and_no_more(
    pauses_ms: list[int], rate: int, burst: int
) -> None:
    """A client that stays muted as long as the reply says takes at most burst + rate x time."""
    quota = AllocationQuota(rate, burst)
    now_ms = 0
    for taken, pause_ms in enumerate(pauses_ms):
        assert taken <= burst + rate * now_ms / 1000 + 1
        now_ms += quota.charge(ONE, now_ms) + pause_ms
