"""Allocation quota: each broker may take so many blocks a second, with a burst.

A request over the quota is served, and its connection is muted for the time that brings the
broker back under it (ThrottleTimeMs): Kafka's request-quota rule. The bucket is soft state of one
leadership; a new leader starts with full buckets.
Source      KIP-730 (rate limited by the existing throttling); KIP-124, KIP-599 (token bucket).
"""

from dataclasses import dataclass, field
from typing import Final

from fencepost.records.types import BrokerId

THROTTLE_MS_MAX: Final = 30_000  # a muted connection is closed by clients after request.timeout.ms = 30 s


@dataclass(slots=True)
class AllocationQuota:
    """Token buckets by broker. ``rate`` in blocks per second, 0 = unlimited; ``burst`` in blocks."""

    rate: float
    burst: float
    _buckets: dict[BrokerId, tuple[float, int]] = field(default_factory=dict)  # tokens, at ms

    def charge(self, broker_id: BrokerId, now_ms: int) -> int:
        """Take one block's worth. Returns the milliseconds to mute the connection, 0 if under."""
        if self.rate <= 0:
            return 0
        tokens, at_ms = self._buckets.get(broker_id, (self.burst, now_ms))
        refilled = min(self.burst, tokens + max(0, now_ms - at_ms) * self.rate / 1000)
        left = refilled - 1
        self._buckets[broker_id] = (left, max(now_ms, at_ms))
        if left >= 0:
            return 0
        return min(THROTTLE_MS_MAX, int(-left * 1000 / self.rate) + 1)
