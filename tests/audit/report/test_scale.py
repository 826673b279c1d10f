"""Axes and numbers as a reader wants them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.report import scale
from fencepost.audit.report.charts import classes
from fencepost.audit.report.figures import Bins, IdSpace
from tests.together import table


@given(st.integers(0, 2**63))
def test_a_value_axis_reaches_the_value_in_few_round_steps(maximum: int) -> None:
    ticks = scale.values(maximum)
    assert ticks[0] == 0
    assert maximum <= ticks[-1] <= max(2 * maximum, 1)
    assert 2 <= len(ticks) <= 6
    assert str(ticks[1]).rstrip("0") in {"1", "2", "5"}


@given(st.integers(0, 2**45), st.integers(1, 2**40), st.integers(1, 60))
def test_a_time_axis_has_few_ticks_inside_it(first_ms: int, width_ms: int, count: int) -> None:
    ticks = scale.times(Bins(first_ms, width_ms, count))
    assert len(ticks) <= scale.TICKS_MAX + 1
    assert all(0 <= at < 1 for at, _ in ticks)
    assert [at for at, _ in ticks] == sorted(at for at, _ in ticks)


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        pytest.param(Bins(0, 100, 50), [f"00:00:0{second}" for second in range(5)], id="seconds"),
        pytest.param(Bins(1_500, 60_000, 20), ["00:05", "00:10", "00:15", "00:20"], id="minutes"),
        pytest.param(
            Bins(0, 86_400_000, 2),
            ["1970-01-01", "12:00", "1970-01-02", "12:00"],
            id="days",
        ),
    ],
)
def test_times_are_round(bins: Bins, words: list[str]) -> None:
    assert [word for _, word in scale.times(bins)] == words


@table(
    ("count", "words"),
    [
        pytest.param(None, "for ever, at this rate", id="for-ever"),
        pytest.param(0.5, "182.6 days", id="days"),
        pytest.param(12.34, "12.3 years", id="years"),
        pytest.param(123_456.0, "123,000 years", id="thousands"),
        pytest.param(2.92e8, "292 million years", id="millions"),
        pytest.param(2.92e11, "292 billion years", id="billions"),
    ],
)
def test_years_are_told_without_false_digits(count: float | None, words: str) -> None:
    assert scale.years(count) == words


@table(
    ("span_ms", "words"),
    [(0, "0 ms"), (12.3, "12.3 ms"), (1_500, "1.5 s"), (90_000, "1.5 min"), (7_200_000, "2 h")],
    ids=str,
)
def test_a_duration_has_one_unit(span_ms: float, words: str) -> None:
    assert scale.duration(span_ms) == words


def test_classes_of_durations_have_names() -> None:
    assert classes((5, 1_000, 2_000)) == ["under 5 ms", "5 ms to 1 s", "1 s or more"]


def test_ids_last_as_long_as_int64() -> None:
    space = IdSpace(
        end=2**62, block_count=1, given_out=1_000, broker_count=1, first_ms=0, last_ms=1_000, fastest=4_000.0
    )
    assert space.mean == 1_000
    mean, fastest = space.years_left(space.mean), space.years_left(space.fastest)
    assert mean is not None
    assert fastest is not None
    assert mean == pytest.approx(2**62 / 1_000 / 86_400 / 365.25)
    assert fastest == pytest.approx(mean / 4)


@pytest.mark.parametrize("last_ms", [0, None], ids=["one-moment", "no-time"])
def test_without_time_there_is_no_rate(last_ms: int | None) -> None:
    space = IdSpace(
        end=1, block_count=1, given_out=1, broker_count=1, first_ms=0, last_ms=last_ms, fastest=0.0
    )
    assert space.mean == 0
    assert space.years_left(space.mean) is None
