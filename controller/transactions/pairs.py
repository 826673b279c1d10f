"""The three pairs (producer id, epoch) of a transactional id. Each decision names the one that it reads.

Transaction's   what the batches of the open transaction have, and its markers. The log's ProducerId and
                ProducerEpoch, so that a reader that knows no other can end it (row 939.12).
Client's        what the producer presents, and is fenced by (I6). It is the transaction's, until an instance
                keeps what another one left open (KeepPreparedTxn): from then on to the end it is the log's
                NextProducerId and NextProducerEpoch. While markers are written these are what the client has
                once they all are.
Before          the client's before the last bump, if its instance may go on: a retry names it. Its epoch is
                ours (tag 1001); its id is the log's PreviousProducerId if the bump was a rotation.
Source          KIP-939, KIP-890, KIP-360; docs/kafka-notes.md B9, B10.
"""

from typing import NamedTuple, Protocol

from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from fencepost.records.types import ProducerId


class Pair(NamedTuple):
    """A producer id and one of its epochs."""

    producer_id: ProducerId
    epoch: int


class PairsOf(Protocol):
    """The fields of a row, or of a record, that hold pairs."""

    @property
    def producer_id(self) -> ProducerId:
        """The transaction's."""

    @property
    def producer_epoch(self) -> int:
        """The transaction's."""

    @property
    def previous_producer_id(self) -> ProducerId:
        """The client's before a rotation."""

    @property
    def next_producer_id(self) -> ProducerId:
        """The client's, if it has another pair than the transaction."""

    @property
    def next_producer_epoch(self) -> int:
        """The same; NO_EPOCH: it has no other."""

    @property
    def last_producer_epoch(self) -> int:
        """The client's before the last bump."""


def transaction_pair(row: PairsOf) -> Pair:
    """What the open transaction's batches have; from PrepareX on, what its markers have."""
    return Pair(row.producer_id, row.producer_epoch)


def client_pair(row: PairsOf) -> Pair:
    """What the producer presents; while markers are written, what it presents once they all are."""
    if row.next_producer_epoch == NO_EPOCH:
        return Pair(row.producer_id, row.producer_epoch)
    return Pair(row.next_producer_id, row.next_producer_epoch)


def has_two(row: PairsOf) -> bool:
    """The client's pair is not the transaction's."""
    return row.next_producer_epoch != NO_EPOCH


def pair_before(row: PairsOf) -> Pair | None:
    """The client's pair before the last bump, None if no instance may go on with it.

    A rotation starts at epoch 0, so a last epoch above the client's is of the id before it.
    """
    if row.last_producer_epoch == NO_EPOCH:
        return None
    client = client_pair(row)
    rotated = row.last_producer_epoch > client.epoch
    return Pair(client_id_before(row) if rotated else client.producer_id, row.last_producer_epoch)


def client_id_before(row: PairsOf) -> ProducerId:
    """The client's producer id before a rotation. In PrepareX none is named if it was the transaction's."""
    return row.producer_id if row.previous_producer_id == NO_PRODUCER_ID else row.previous_producer_id


def client_id_if_other(row: PairsOf) -> ProducerId:
    """The client's id, -1 if it is the transaction's: PreviousProducerId of the PrepareX after ``row``."""
    client = client_pair(row)
    return NO_PRODUCER_ID if client.producer_id == row.producer_id else client.producer_id
