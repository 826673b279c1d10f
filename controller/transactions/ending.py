"""What is written when a transaction's outcome is decided: its own record, and what moves its offsets.

One entry   PrepareCommit or PrepareAbort and the COMMIT or ABORT of ``__consumer_offsets`` are one decision:
            from that entry on the offsets are committed, or gone, and no marker is sent for them. Readers of
            the outputs wait for markers, so an offset may be committed before its outputs are visible.
Source      Kafka sends the group's partition a marker as any other (TransactionMarkerChannelManager).
"""

from typing import Final

from fencepost.controller.groups import offset_tables
from fencepost.controller.transactions.states import State, Transaction, record_of
from fencepost.controller.view import View
from fencepost.records.end_marker import EndMarker
from fencepost.records.logged import RECORD_COST, StateRecord
from fencepost.records.transaction_log import TopicPartitions

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_PARTITION: Final = TopicPartitions(OFFSETS_TOPIC, (0,))
"""What a transaction holds that commits offsets. It is no topic of the image: no broker has it."""

MOVED_OFFSET_COST: Final = RECORD_COST
"""Of an offset that the end of its transaction commits or drops, as ``records.logged.cost_of`` counts."""


def holds_offsets(row: Transaction) -> bool:
    """AddOffsetsToTxn was sent for the transaction."""
    return OFFSETS_PARTITION in row.partitions


def records_of_end(view: View, row: Transaction) -> tuple[StateRecord, ...]:
    """The records of ``row``, which is in PrepareCommit or PrepareAbort from now on."""
    if not holds_offsets(row):
        return (record_of(row),)
    marker = EndMarker(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        committed=row.state is State.PREPARE_COMMIT,
        coordinator_epoch=view.header.controller_epoch,
    )
    return record_of(row), marker


def cost_of_end(view: View, row: Transaction) -> int:
    """What replaying these records takes beyond what their bytes say."""
    if not holds_offsets(row):
        return 0
    return MOVED_OFFSET_COST * len(offset_tables.open_offsets(view, row.producer_id).keys)


def with_markers(partitions: tuple[TopicPartitions, ...]) -> tuple[TopicPartitions, ...]:
    """Those of a transaction's partitions into which a marker is written."""
    return tuple([each for each in partitions if each.topic != OFFSETS_TOPIC])
