"""OffsetForLeaderEpoch, API key 23, versions 2-4: where an epoch ends in the leader's log (KIP-320).

2   current_leader_epoch, throttle_time      3   replica_id      4   flexible
"""

from dataclasses import dataclass
from typing import Final

from controller.errors import ErrorCode

DEBUGGING_REPLICA: Final = -2  # what Kafka takes a replica id for that was not given


@dataclass(frozen=True, slots=True)
class EpochQuery:
    """Where does ``leader_epoch`` end? ``current_leader_epoch`` -1: do not check whom I take for leader."""

    topic: str
    index: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpoch:
    """``replica_id`` -1: a consumer; below version 3 a follower may ask too, and is not told apart."""

    partitions: tuple[EpochQuery, ...]
    replica_id: int = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest epoch not above the one asked, and the first offset after it; -1 and -1: none."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochAnswer:
    """One row per partition asked; those of one topic stand together."""

    partitions: tuple[EpochEnd, ...]
