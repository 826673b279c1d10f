"""Which way to read outcomes and turns side by side the clocks speak for, by however much they differ.

Usual       a decision has its coordinator's time, a marker that of its partition's leader: two machines,
            whose clocks may be seconds apart. By how much shows in the pairs themselves; of several ways to
            read them the right one is that in which most pairs agree on it.
Doubt       where two ways agree as well, the one with fewer faults; then the one whose clocks agree; then
            the one in which fewer transactions have data that was written after they were decided; then the
            one whose markers are nearer to what is usual.
"""

from collections.abc import Sequence
from statistics import median_high, median_low
from typing import Final, NamedTuple

from fencepost.audit.walks import align
from fencepost.audit.walks.align import SKEW_MS, Sides, Step

_SOME, _FEW = 9, 3  # pairs at an end, that say what is usual there
_CLOSE_MS: Final = 200
_SOUND: Final = frozenset({align.SAME, align.BEFORE, align.PENDING, align.RETRY})


class Clocks(NamedTuple):
    """How much later two clocks are than the coordinator's, in milliseconds; 0 if by less than a second.

    marker_ms   of the partition's leader, that stamps markers.
    data_ms     of who stamps the data: a client, or a group's coordinator.
    """

    marker_ms: int
    data_ms: int


def read(sides: Sides) -> tuple[list[Step], Clocks]:
    """The way that the clocks speak for. Ways are compared where something is wrong or may be one off."""
    steps = align.align(sides)
    one_off = align.may_be_one_off(sides, steps)
    if one_off or any(step.what not in _SOUND for step in steps):
        plain = align.align(sides._replace(by_times=False))
        lags = _lags(sides, plain)  # those before a marker that is missing are one off, or those behind it
        usual = {_usual(each) for each in (lags[:_SOME], lags[-_SOME:], lags[-_FEW:], lags[-1:])}
        readings = [sides._replace(late_ms=each) for each in sorted(usual) if abs(each) > _CLOSE_MS]
        if one_off:
            readings += [each._replace(by_nearness=True) for each in (sides, *readings)]
        ways = [align.align(each) for each in readings]
        steps = min((plain, steps, *ways), key=lambda way: _rank(sides, way))
    marker_ms, data_ms = _usual(_lags(sides, steps)), _data_lags(sides, steps)
    return steps, Clocks(_apart(marker_ms), _apart(median_high(data_ms) if data_ms else 0))


def _rank(sides: Sides, steps: Sequence[Step]) -> tuple[int, int, bool, int, int]:
    lags = _lags(sides, steps)
    usual = _usual(lags)
    apart = [abs(each - usual) for each in lags]
    agreeing = sum(each <= SKEW_MS for each in apart)
    later = sum(
        align.is_written_later(sides.outcomes[step.outcome], sides.turns[step.turn], _apart(usual))
        for step in steps
        if step.what == align.SAME and step.outcome is not None and step.turn is not None
    )
    faults = sum(step.what not in _SOUND for step in steps)
    return -agreeing, faults, _apart(usual) != 0, later, sum(min(each, SKEW_MS) for each in apart)


def _lags(sides: Sides, steps: Sequence[Step]) -> list[int]:
    """By how much each marker is later than the decision that it is paired with."""
    lags = []
    for step in steps:
        if step.outcome is None or step.turn is None:
            continue
        decided_ms, turn = sides.outcomes[step.outcome]["prepared_ms"], sides.turns[step.turn]
        if turn["control_type"] is not None and turn["at_ms"] is not None and (decided_ms or -1) >= 0:
            lags.append(turn["at_ms"] - decided_ms)
    return lags


def _data_lags(sides: Sides, steps: Sequence[Step]) -> list[int]:
    """By how much the first data of each transaction is later than its begin."""
    pairs = [
        (sides.outcomes[step.outcome]["started_ms"], sides.turns[step.turn]["data_ms"])
        for step in steps
        if step.outcome is not None and step.turn is not None
    ]
    return [data_ms - began_ms for began_ms, data_ms in pairs if data_ms is not None and began_ms >= 0]


def _usual(lags: Sequence[int]) -> int:
    return median_low(lags) if lags else 0


def _apart(usual_ms: int) -> int:
    return usual_ms if abs(usual_ms) > SKEW_MS else 0
