"""Axes: round values, times of day, and numbers as a reader wants them."""

from datetime import UTC, datetime
from typing import Final

from fencepost.audit.report.figures import Bins

TICKS_MAX: Final = 6  # on a time axis: more would touch each other
STEPS_MS: Final = (
    *(factor * 10**power for power in range(3) for factor in (1, 2, 5)),
    *(seconds * 1000 for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3_600_000 for hours in (1, 2, 3, 6, 12)),
    *(days * 86_400_000 for days in (1, 2, 7, 14, 30, 90, 180, 365, 1000, 3650, 36500)),
)
_SECOND_MS: Final = 1000
_DAY_MS: Final = 86_400_000


def values(maximum: int) -> list[int]:
    """0 and up to five round values above it, the last one at or above ``maximum``; at least 0 and 1."""
    power = 10 ** max(len(str(maximum)) - 1, 0)
    steps = (factor * unit for unit in (max(power // 10, 1), power) for factor in (1, 2, 5))
    step = next((each for each in steps if each * 5 >= maximum), 10 * power)
    count = max(-(-maximum // step), 1)
    return [index * step for index in range(count + 1)]


def times(bins: Bins) -> list[tuple[float, str]]:
    """Round moments in the bins' span: how far along it each is (0 to 1), and what it is called, in UTC."""
    span = bins.width_ms * bins.bin_count
    step = next((each for each in STEPS_MS if span // each <= TICKS_MAX), span)
    first = -(-bins.first_ms // step) * step
    ticks = range(first, bins.first_ms + span, step)
    return [((each - bins.first_ms) / span, _time(each, step)) for each in ticks[: TICKS_MAX + 1]]


def _time(at_ms: int, step_ms: int) -> str:
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    if step_ms >= _DAY_MS or (step_ms >= 60 * _SECOND_MS and at_ms % _DAY_MS == 0):
        return f"{at:%Y-%m-%d}"
    if step_ms >= 60 * _SECOND_MS:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= _SECOND_MS else f"{at:%S}.{at_ms % 1000:03d} s"


def short(number: float) -> str:
    """A number in at most five characters: 950, 1.2k, 30M."""
    for divisor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= divisor:
            return f"{number / divisor:.3g}{unit}"
    return f"{number:.3g}"


def duration(span_ms: float) -> str:
    """A span in the unit that a human would choose: 12 ms, 3.4 s, 5 min, 2 h, 3 d."""
    for divisor, unit in ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if span_ms >= divisor:
            return f"{span_ms / divisor:.3g} {unit}"
    return f"{span_ms:.3g} ms"


def years(count: float | None) -> str:
    """How long ids will last; beyond a thousand years without digits."""
    if count is None:
        return "for ever, at this rate"
    for divisor, unit in ((1e9, "billion"), (1e6, "million")):
        if count >= divisor:
            return f"{count / divisor:,.3g} {unit} years"
    if count >= 1000:
        return f"{float(f'{count:.3g}'):,.0f} years"
    return f"{count:,.1f} years" if count >= 1 else f"{count * 365.25:,.1f} days"
