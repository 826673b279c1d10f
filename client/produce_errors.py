"""What a producer makes of each error code of Produce.

Retried     with the same sequence, until ``delivery_timeout_ms``: a broker that has the batch says so.
Unknown     some of these codes do not say whether the batch was appended. A batch with such an attempt behind
            it is never given another sequence, nor given up while the producer lives.
Source      Kafka Errors (RetriableException), TransactionManager.handleFailedBatch.
"""

import enum
from typing import Final

from fencepost.client.errors import (
    AbortableError,
    DeliveryTimedOut,
    FatalError,
    ProducerFenced,
    RecordRefused,
    TransactionTimedOut,
    name_of,
    refused,
)
from fencepost.client.types import TopicPartition
from fencepost.wire.requests import ErrorCode

DUPLICATE_SEQUENCE_NUMBER: Final = 46
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20


class Verdict(enum.Enum):
    """What becomes of a batch."""

    WRITTEN = enum.auto()
    RETRY = enum.auto()  # it was not appended
    RETRY_UNKNOWN = enum.auto()  # it may have been
    OUT_OF_ORDER = enum.auto()  # retried unless it is the first without an outcome
    REFUSED = enum.auto()  # it was not appended, and never will be


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.WRITTEN,
    DUPLICATE_SEQUENCE_NUMBER: Verdict.WRITTEN,
    ErrorCode.CORRUPT_MESSAGE: Verdict.RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.RETRY,
    ErrorCode.LEADER_NOT_AVAILABLE: Verdict.RETRY,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.RETRY,
    ErrorCode.NOT_COORDINATOR: Verdict.RETRY,
    ErrorCode.NOT_ENOUGH_REPLICAS: Verdict.RETRY,
    ErrorCode.CONCURRENT_TRANSACTIONS: Verdict.RETRY,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.RETRY,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Verdict.RETRY,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.RETRY_UNKNOWN,
    ErrorCode.NETWORK_EXCEPTION: Verdict.RETRY_UNKNOWN,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: Verdict.RETRY_UNKNOWN,
    ErrorCode.KAFKA_STORAGE_ERROR: Verdict.RETRY_UNKNOWN,
    ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.RETRY_UNKNOWN,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_ORDER,
}

_FATAL: Final = frozenset(
    (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
)


def verdict_of(code: int) -> Verdict:
    """What becomes of a batch that is answered with ``code``. A code that is not listed refuses it."""
    return _VERDICTS.get(code, Verdict.REFUSED)


def error_of(code: int, what: str, message: str | None, *, transactional: bool) -> Exception:
    """The exception of a batch that is given up. ``what``: its topic and partition.

    An old epoch in Produce does not say whether the transaction timed out or another producer took over:
    the coordinator says it when the transaction is aborted (KIP-588).
    """
    said = f"{what}: {message or name_of(code)}"
    if code == ErrorCode.PRODUCER_FENCED:
        return ProducerFenced(said, code)
    if not transactional:
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            return ProducerFenced(said, code)
        return refused(code, said)
    if code in _FATAL:
        return FatalError(said, code)
    if code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return TransactionTimedOut(said, code)
    if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_ABORTABLE):
        return AbortableError(said, code)
    return RecordRefused(said, code)


def too_late(partition: TopicPartition, timeout_s: float, *, transactional: bool) -> Exception:
    """The exception of a batch that has no outcome after the delivery timeout."""
    said = f"{partition}: not written in {timeout_s:.1f} s"
    if transactional:
        return RecordRefused(said, ErrorCode.REQUEST_TIMED_OUT)
    return DeliveryTimedOut(said, ErrorCode.REQUEST_TIMED_OUT)
