"""What is known of transactions, told to tools and people.

Source   KIP-664, KIP-994, KIP-1152; Kafka DescribeTransactions (65), ListTransactions (66); spec/kafka.md B7.
"""

import msgspec

from controller.errors import ErrorCode
from records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from records.types import ProducerId


class DescribeTransactions(msgspec.Struct, frozen=True):
    """API key 65."""

    transactional_ids: tuple[str, ...]


class DescribedTransaction(msgspec.Struct, frozen=True):
    """One id. With an ``error_code`` the rest says nothing. ``partitions``: whose marker is still missing."""

    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    transaction_timeout_ms: int = 0
    started_ms: int = -1
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: tuple[TopicPartitions, ...] = ()


class DescribeTransactionsAnswer(msgspec.Struct, frozen=True):
    """One for each id, in the order of the request."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactions(msgspec.Struct, frozen=True):
    """API key 66. Empty filters let all pass; the filters are ANDed.

    ``duration_ms``   from version 1 on: open for longer than that; -1: all.
    ``pattern``       from version 2 on: the whole id matches this RE2 expression; None or "": all.
    """

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[ProducerId, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None


class ListedTransaction(msgspec.Struct, frozen=True):
    """One id."""

    transactional_id: str
    producer_id: ProducerId
    state: str


class ListTransactionsAnswer(msgspec.Struct, frozen=True):
    """``unknown_state_filters``: names of the request that are no state."""

    unknown_state_filters: tuple[str, ...]
    transactions: tuple[ListedTransaction, ...]
