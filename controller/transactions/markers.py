"""Markers: what is still to be written into partitions, and the end of a transaction when all of it is.

Source   Kafka TransactionMarkerChannelManager; docs/kafka-notes.md B5; docs/design.md 6.
"""

from itertools import islice

import msgspec

from fencepost.controller.decision import Decision
from fencepost.controller.transactions.end_txn import completed
from fencepost.controller.transactions.ending import with_markers
from fencepost.controller.transactions.states import (
    PREPARED,
    PREPARED_STATES,
    State,
    Transaction,
    get,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ImageVersion, ProducerId, Term


class Marker(msgspec.Struct, frozen=True):
    """One transaction's markers. ``version``: the image version of its PrepareX, newer than any before.

    ``transaction_version``   TRANSACTIONS_V2: the epoch was bumped for them; 0: maybe not.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartitions, ...]
    coordinator_epoch: Term
    version: ImageVersion
    transaction_version: int = 0


def marker_of(view: View, transactional_id: str) -> Marker | None:
    """The markers of one id, None if it is not in PrepareX."""
    row = get(view, transactional_id)
    return None if row is None or row.state not in PREPARED_STATES else _marker(view, row)


def pending_markers(view: View, after: str | None, rows_max: int) -> tuple[Marker, ...]:
    """The markers of up to ``rows_max`` ids in PrepareX whose id is beyond ``after``, in their order."""
    markers = []
    for transactional_id, _ in islice(view.scan(PREPARED, after), rows_max):
        marker = marker_of(view, transactional_id)
        if marker is not None:
            markers.append(marker)
    return tuple(markers)


def decide_complete(
    view: View, transactional_id: str, prepared_version: ImageVersion, *, now_ms: int
) -> Decision[bool]:
    """Every marker of that PrepareX is written, or its partition is gone. False: it was completed before."""
    row = get(view, transactional_id)
    if row is None or row.state not in PREPARED_STATES or row.prepared_version != prepared_version:
        return Decision((), False)
    return Decision((record_of(completed(view, row, now_ms)),), True)


def _marker(view: View, row: Transaction) -> Marker:
    return Marker(
        row.transactional_id,
        row.producer_id,
        row.producer_epoch,
        row.state is State.PREPARE_COMMIT,
        with_markers(row.partitions),
        view.header.controller_epoch,
        row.prepared_version,
        row.client_transaction_version,
    )
