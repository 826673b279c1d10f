"""Logs whose segments have files of sums: opened, and what they answer."""

from pathlib import Path

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.records.types import Offset
from tests.broker.log.builders import NOW_MS, contents, memory
from tests.broker.log.test_recovery import SMALL


def everything(log: PartitionLog) -> tuple[object, ...]:
    """What clients are answered: also what only an index says."""
    offsets = [Offset(offset) for offset in range(log.end)]
    return (
        contents(log),
        [log.read_committed(offset, 300) for offset in offsets],
        [log.offset_for_time(NOW_MS + number) for number in range(14)],
        memory(log),
    )


def opened(directory: Path, config: LogConfig = SMALL, *, went_down: bool = False) -> PartitionLog:
    return PartitionLog.open(directory, config, NOW_MS, machine_went_down=went_down)


def at_once(size: int) -> None:
    """A scrub's pace."""


def scrub(log: PartitionLog) -> None:
    """One round over a log. Raises what it finds."""
    for segment in log.scrubbable.segments():
        part = log.scrubbable.part(segment)
        assert part is not None
        log.scrubbable.scrubbed(part, log.scrubbable.scrub(part, at_once))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))
