"""Which segments of a log are full, and which are past their time.

Settings ``segment.*``, ``retention.ms``, ``retention.bytes``, ``max.compaction.lag.ms``.
Jitter   is a hash of the partition and the segment's first offset: the same at each look and each start.
Source   Kafka UnifiedLog (maybeRoll, deletableSegments), LogConfig.maxSegmentMs.
"""

import hashlib
import itertools
from collections.abc import Sequence

from fencepost.broker.log.segment import Segment
from fencepost.broker.log.shapes import NO_TIMESTAMP, UNLIMITED, LogConfig
from fencepost.records.batch import BatchHeader
from fencepost.records.types import Offset


def waited_ms(segment: Segment, now_ms: int) -> int:
    """For how long the segment has had a record, by the time of its first batch; 0 without one."""
    first_ms = segment.first_ms
    return 0 if first_ms == NO_TIMESTAMP else now_ms - first_ms


def is_overdue(active: Segment, config: LogConfig, now_ms: int) -> bool:
    """The active segment is to be full because of its age: a cleaner never takes the active one."""
    bound_ms = config.segment_ms - jitter_ms(active, config)
    if config.compact:
        bound_ms = min(bound_ms, config.max_compaction_lag_ms)
    return waited_ms(active, now_ms) > bound_ms


def jitter_ms(segment: Segment, config: LogConfig) -> int:
    """How much sooner than after ``segment.ms`` this segment is full: less than ``segment.jitter.ms``."""
    most_ms = min(config.segment_jitter_ms, config.segment_ms)
    if not most_ms:
        return 0
    name = f"{segment.path.parent.name}/{segment.base}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") % most_ms


def is_full(active: Segment, size: int, last: BatchHeader, config: LogConfig) -> bool:
    """Batches of ``size`` bytes, of which ``last`` is the last, belong into a new segment."""
    if not active.has_room(size, last.end, config.segment_bytes):
        return True
    if not active.has_index_room(config.index_bytes_max):
        return True
    return is_overdue(active, config, last.max_timestamp_ms)


def is_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """Its newest record is older than ``retention.ms``, and the policy is to delete it then."""
    if not config.delete or config.retention_ms == UNLIMITED or segment.max_timestamp_ms == NO_TIMESTAMP:
        return False
    return now_ms - segment.max_timestamp_ms > config.retention_ms


def count_past(
    segments: Sequence[Segment], config: LogConfig, now_ms: int, start: Offset, restored_from: Offset
) -> int:
    """How many of the oldest segments may go, the last one never.

    ``start``: what is before it is deleted for readers. ``restored_from`` is the newest producer snapshot on
    the disk: a segment goes only if it is after it.
    """
    size = sum(segment.size for segment in segments)
    is_bounded = config.delete and config.retention_bytes != UNLIMITED
    excess = size - config.retention_bytes if is_bounded else -1
    gone = 0
    for segment, following in itertools.pairwise(segments):
        too_much = excess >= segment.size
        is_past = too_much or following.base <= start or is_expired(segment, config, now_ms)
        if not is_past or restored_from < following.base:
            break
        excess -= segment.size
        gone += 1
    return gone
