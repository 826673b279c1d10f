"""One transaction's markers: what is missing of them, what each answer means, and the decision at their end.

Source   Kafka TransactionMarkerRequestCompletionHandler; docs/kafka-notes.md B5.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions.markers import Marker
from fencepost.wire.k27_write_txn_markers import TxnMarker

TopicPartition = tuple[str, int]

DONE: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, 43}  # 43: UNSUPPORTED_FOR_MESSAGE_FORMAT
)
REFUSED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Of a partition's answer. REFUSED is a wedge (coordinator/wedges.py): Kafka gives such a marker up, and the
transaction with it. What is in none of the three is a defect here or there: sent again, and logged."""


@dataclass(slots=True, eq=False)
class Job:
    """One transaction's markers. ``missing``: not known to be written.

    ``completing``: the decision that completes the transaction is submitted.
    """

    marker: Marker
    missing: set[TopicPartition]
    tries: int = 0
    completing: bool = False


def partitions_of(marker: Marker) -> set[TopicPartition]:
    """All that the transaction wrote to."""
    return {(each.topic, index) for each in marker.partitions for index in each.partition_ids}


def txn_marker(marker: Marker, parts: Iterable[TopicPartition], *, forced: bool = False) -> TxnMarker:
    """As it is sent to the leader of these partitions; ``forced``: over a higher epoch."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in parts:
        by_topic.setdefault(topic, []).append(index)
    return TxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.committed,
        topics=tuple((topic, tuple(indexes)) for topic, indexes in by_topic.items()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        image_version=marker.version,
        forced=forced,
    )
