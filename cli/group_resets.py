"""Where ``groups reset-offsets`` begins again: the partitions and the scenario that the options name.

File        what ``--export`` prints, and Kafka's tool: CSV without a head.

Source      Kafka ConsumerGroupCommand (resetOffsets, prepareOffsetsToReset).
"""

import csv
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from fencepost.cli.group_calls import Place
from fencepost.cluster.console import Failed, WrongUsage
from fencepost.wire.k02_list_offsets import EARLIEST, LATEST

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_TOPIC: Final = re.compile(r"(?P<topic>[^:]+)(?::(?P<indexes>\d+(?:,\d+)*))?")
Plan: TypeAlias = Mapping[str, Mapping[Place, int]]
"""Offsets by group."""

PLAN_LINES_MAX: Final = 100_000
PAST_THE_END: Final = -1  # what a leader answers for a time after its last record


class Scenario(Enum):
    """One option of ``reset-offsets`` each."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    DATETIME = "--to-datetime"
    DURATION = "--by-duration"
    FILE = "--from-file"


class Reset(NamedTuple):
    """A scenario, and its number: an offset, a difference of offsets, or milliseconds since 1970."""

    scenario: Scenario
    number: int = 0

    @property
    def time_ms(self) -> int | None:
        """Whose offset the leaders are requested besides the ends of their logs."""
        return self.number if self.scenario in (Scenario.DATETIME, Scenario.DURATION) else None


class Log(NamedTuple):
    """What is known of a partition. ``wanted``: the offset at ``Reset.time_ms``, or that of the file."""

    earliest: int
    latest: int
    current: int | None = None
    wanted: int | None = None


def parse_reset(options: Mapping[str, object], now_ms: int) -> Reset:
    """The one scenario among the options, by ``Scenario.value``. Raises WrongUsage."""
    given = [each for each in Scenario if options.get(each.value) not in (None, False)]
    if len(given) != 1:
        raise WrongUsage(f"expected one of {', '.join(each.value for each in Scenario)}; got {len(given)}")
    scenario, value = given[0], options[given[0].value]
    if scenario is Scenario.DATETIME:
        return Reset(scenario, _milliseconds(str(value)))
    if scenario is Scenario.DURATION:
        return Reset(scenario, now_ms - _duration_ms(str(value)))
    return Reset(scenario, int(str(value)) if scenario in (Scenario.OFFSET, Scenario.SHIFT) else 0)


def parse_topics(texts: Sequence[str]) -> dict[str, tuple[int, ...] | None]:
    """``t`` (all partitions: None) or ``t:0,1``, each topic once. Raises WrongUsage."""
    found: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        parsed = _TOPIC.fullmatch(text)
        if parsed is None or parsed["topic"] in found:
            raise WrongUsage(f"--topic: expected TOPIC or TOPIC:0,1, each topic once, got {text!r}")
        indexes = parsed["indexes"]
        found[parsed["topic"]] = None if indexes is None else tuple(sorted(set(map(int, indexes.split(",")))))
    return found


def parse_plan(text: str, group_id: str | None) -> Plan:
    """Lines ``GROUP,TOPIC,PARTITION,OFFSET``, or without the group if one ``group_id`` was named. No head.

    Of a partition that is there twice the last line counts. Raises WrongUsage with the line's number.
    """
    found: dict[str, dict[Place, int]] = {}
    for number, cells in enumerate(csv.reader(text.splitlines()), 1):
        if number > PLAN_LINES_MAX:
            raise WrongUsage(f"--from-file: expected at most {PLAN_LINES_MAX} lines")
        if not cells:
            continue
        named = [group_id, *cells] if group_id is not None and len(cells) == 3 else cells
        try:
            group, topic, partition, offset = named
            found.setdefault(str(group), {})[topic, _not_negative(partition)] = _not_negative(offset)
        except (TypeError, ValueError):
            raise WrongUsage(
                f"--from-file: line {number}: expected [GROUP,]TOPIC,PARTITION,OFFSET, got {cells}"
            ) from None
    return found


def _not_negative(text: str) -> int:
    """Raises ValueError, as Kafka's tool refuses such a file."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def new_offset(place: Place, reset: Reset, log: Log) -> int:
    """Between the ends of the log, whatever the scenario says. Raises Failed: there is none to shift."""
    if reset.scenario is Scenario.EARLIEST:
        return log.earliest
    if reset.scenario is Scenario.LATEST:
        return log.latest
    if reset.scenario is Scenario.CURRENT:
        return log.latest if log.current is None else log.current
    if reset.scenario is Scenario.FILE:
        wanted = log.earliest if log.wanted is None else log.wanted
    elif reset.time_ms is not None:
        wanted = log.latest if log.wanted is None or log.wanted == PAST_THE_END else log.wanted
    elif reset.scenario is Scenario.OFFSET:
        wanted = reset.number
    elif log.current is None:
        raise Failed(
            f"{place[0]}-{place[1]} has no committed offset to shift; --to-earliest or --to-latest sets one"
        )
    else:
        wanted = log.current + reset.number
    return min(max(wanted, log.earliest), log.latest)


def times(places: Sequence[Place], reset: Reset) -> tuple[dict[Place, int], ...]:
    """What leaders are requested, by partition: the earliest and the latest offset, and that at a time."""
    ends = tuple(dict.fromkeys(places, each) for each in (EARLIEST, LATEST))
    return ends if reset.time_ms is None else (*ends, dict.fromkeys(places, reset.time_ms))


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUsage(f"--to-datetime: expected YYYY-MM-DDTHH:MM:SS.sss[Z], got {text!r}") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)  # as Kafka's tool takes it
    return int(moment.timestamp() * 1000)


def _duration_ms(text: str) -> int:
    parsed = _DURATION.fullmatch(text)
    parts = {} if parsed is None else {name: float(part) for name, part in parsed.groupdict().items() if part}
    if not parts:
        raise WrongUsage(f"--by-duration: expected PnDTnHnMnS, such as PT1H30M, got {text!r}")
    return int(timedelta(**parts).total_seconds() * 1000)
