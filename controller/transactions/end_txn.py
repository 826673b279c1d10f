"""EndTxn: commit or abort. Once the PrepareX record is committed, the outcome can never change (I7).

Source   Kafka TransactionCoordinator.endTransaction; KIP-890; spec/kafka.md B4.
"""

import msgspec

from records.types import ProducerId


class EndTxn(msgspec.Struct, frozen=True):
    """API key 26. ``version`` of the request: from 5 on each end bumps the epoch (KIP-890)."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    version: int = 4


class EndTxnAnswer(msgspec.Struct, frozen=True):
    """Who the producer is in its next transaction; version 5 alone carries it."""

    producer_id: ProducerId
    producer_epoch: int
