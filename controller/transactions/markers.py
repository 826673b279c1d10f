"""Markers: what is still to be written into partitions, and the end of a transaction when all of it is.

Source   Kafka TransactionMarkerChannelManager; spec/kafka.md B5; DESIGN 6.
"""

import msgspec

from records.transaction_log import TopicPartitions
from records.types import ImageVersion, ProducerId, Term


class Marker(msgspec.Struct, frozen=True):
    """One transaction's markers. ``version``: the image version of its PrepareX, newer than any before."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartitions, ...]
    coordinator_epoch: Term
    version: ImageVersion
