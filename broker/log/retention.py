"""Which segments of a log are past ``retention.ms`` or ``retention.bytes``. Source: Kafka UnifiedLog."""

import itertools
from collections.abc import Sequence

from fencepost.broker.log.segment import Segment
from fencepost.broker.log.shapes import NO_TIMESTAMP, UNLIMITED, LogConfig
from fencepost.records.types import Offset


def is_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """Its newest record is older than ``retention.ms``."""
    if config.retention_ms == UNLIMITED or segment.max_timestamp_ms == NO_TIMESTAMP:
        return False
    return now_ms - segment.max_timestamp_ms > config.retention_ms


def count_past(segments: Sequence[Segment], config: LogConfig, now_ms: int, restored_from: Offset) -> int:
    """How many of the oldest segments may go, the last one never.

    ``restored_from`` is the newest producer snapshot on the disk: a segment goes only if it is after it.
    """
    size = sum(segment.size for segment in segments)
    excess = size - config.retention_bytes if config.retention_bytes != UNLIMITED else -1
    gone = 0
    for segment, following in itertools.pairwise(segments):
        too_much = excess >= segment.size
        if not (too_much or is_expired(segment, config, now_ms)) or restored_from < following.base:
            break
        excess -= segment.size
        gone += 1
    return gone
