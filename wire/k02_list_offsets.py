"""ListOffsets, API key 2, versions 1-11: the offset at a time.

2   isolation_level, throttle_time     4   leader epochs      6   flexible
7   timestamp -3 (the largest timestamp)      8   -4 (earliest local)      9   -5 (last tiered)
10  timeout      11  -6 (earliest pending upload)
"""

from dataclasses import dataclass
from typing import Final

from controller.errors import ErrorCode

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """The first offset whose timestamp is not below ``timestamp_ms``, or one of the special ones above."""

    topic: str
    index: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """``isolation_level`` 1: LATEST is the last stable offset. ``replica_id`` -1: a consumer."""

    partitions: tuple[OffsetQuery, ...]
    replica_id: int = -1
    isolation_level: int = 0
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class OffsetFound:
    """``offset`` -1: there is none, or an error."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsAnswer:
    """One row per partition asked; those of one topic stand together."""

    partitions: tuple[OffsetFound, ...]
