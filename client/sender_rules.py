"""What a sender of batches is given: its settings, and the rules of the producer that owns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fencepost.client.batches import Batch
from fencepost.client.types import TopicPartition
from fencepost.wire.k00_produce import PartitionData, Produce


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """How records are batched and sent. ``codec``: the number of records/compression.py."""

    linger_s: float
    batch_bytes: int
    request_bytes_max: int
    buffer_bytes: int
    request_timeout_s: float
    delivery_timeout_s: float
    codec: int


class Rules(Protocol):
    """What the producer that owns a sender says of its batches."""

    transactional_id: str | None
    adds_partitions: bool
    """Partitions add themselves to the transaction when they are written to (KIP-890)."""

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether the partition is part of the transaction; if not, it is being added."""

    def on_refused(self, error: Exception) -> None:
        """A batch was given up with this error."""

    def on_sequence_lost(self) -> None:
        """A partition needs a new identity: give one by ``Sender.renew``."""


def request_of(rules: Rules, batches: Sequence[Batch], timeout_s: float) -> Produce:
    """The request that writes these batches, each of another partition, to all in-sync replicas."""
    transactional = rules.transactional_id is not None
    return Produce(
        rules.transactional_id,
        -1,
        round(timeout_s * 1000),
        tuple(
            PartitionData(*batch.partition, batch.encode(transactional=transactional)) for batch in batches
        ),
        adds_partitions=transactional and rules.adds_partitions,
    )
