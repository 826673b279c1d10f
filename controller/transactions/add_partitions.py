"""AddPartitionsToTxn: what a transaction touches is known before it is written; and: is it in there.

Source   Kafka TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction;
         spec/kafka.md B3.
"""

import msgspec

from controller.errors import ErrorCode
from records.transaction_log import TopicPartitions
from records.types import ProducerId


class AddPartitions(msgspec.Struct, frozen=True):
    """One transaction's part of API key 24. ``verify_only``: answer whether they are in, add nothing."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    topics: tuple[TopicPartitions, ...]
    verify_only: bool = False


class AddPartitionsAnswer(msgspec.Struct, frozen=True):
    """For each topic, in the order of the request: each partition's code."""

    errors: tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]


class AddPartitionsToTxn(msgspec.Struct, frozen=True):
    """API key 24. ``batched`` (v4 and 5): from a broker; else (v0-3) one transaction, from a client."""

    transactions: tuple[AddPartitions, ...]
    batched: bool = False


class AddPartitionsToTxnAnswer(msgspec.Struct, frozen=True):
    """For each transactional id, in the order of the request: its answer, or why the whole was refused."""

    results: tuple[tuple[str, AddPartitionsAnswer | ErrorCode], ...]


def same_for_all(request: AddPartitions, code: ErrorCode) -> AddPartitionsAnswer:
    """``code`` for each partition of the request."""
    return AddPartitionsAnswer(
        tuple((each.topic, tuple((index, code) for index in each.partition_ids)) for each in request.topics)
    )
