"""WriteTxnMarkers, API key 27, versions 1-2: end these transactions on these partitions.

1   flexible       2   transaction_version of each marker (KIP-1228)
Ours        tagged field 1000 of a marker, ``image_version``: the image version of the decision that it
            carries out, against late duplicates. Kafka's brokers skip a tag they do not know (KIP-482).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

IMAGE_VERSION_TAG: Final = 1000
NO_IMAGE_VERSION: Final = 0  # an admin's abort, or a coordinator that is none of ours

MarkerTopics: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, partition indexes)."""


@dataclass(frozen=True, slots=True)
class TxnMarker:
    """One transaction's end. ``committed`` False: aborted."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: MarkerTopics
    coordinator_epoch: int
    transaction_version: int = 0
    image_version: int = NO_IMAGE_VERSION


@dataclass(frozen=True, slots=True)
class WriteTxnMarkers:
    """Markers of many transactions."""

    markers: tuple[TxnMarker, ...]


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersAnswer:
    """(producer id, ((topic, ((partition index, error code), ...)), ...)) per marker asked."""

    markers: tuple[tuple[int, tuple[tuple[str, tuple[tuple[int, int], ...]], ...]], ...]
