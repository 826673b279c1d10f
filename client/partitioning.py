"""Which partition a record goes to.

Keyed     murmur2 of the key, as in the Java client: both choose the same partition for a key.
No key    a partition is kept until its batch is full, then another one is chosen (KIP-480).
Source    Kafka Utils.murmur2, BuiltInPartitioner.
"""

import random
from collections.abc import Sequence
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash that Kafka's partitioner uses, as an unsigned number."""
    length = len(key)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of a key among ``partition_count``, 1 at least."""
    return (murmur2(key) & 0x7FFF_FFFF) % partition_count


class StickyPartitions:
    """The partition that records without a key go to now, by topic."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._chosen: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        """The topic's partition, of ``available``, at least one, those that have a leader."""
        chosen = self._chosen.get(topic)
        if chosen is None or chosen not in available:
            chosen = self._chosen[topic] = self._rng.choice(available)
        return chosen

    def advance(self, topic: str, available: Sequence[int]) -> None:
        """A batch of the topic is full: choose another partition, if there is one."""
        chosen = self._chosen.get(topic)
        others = [each for each in available if each != chosen]
        if others:
            self._chosen[topic] = self._rng.choice(others)
