"""What a transactional producer makes of the coordinators' error codes.

Fenced      PRODUCER_FENCED and INVALID_PRODUCER_EPOCH of the transaction coordinator: fatal. From a partition
            or a group's coordinator an old epoch only says that the transaction must abort: the answer to the
            abort says whether the producer was fenced, or its transaction timed out (KIP-588).
Source      Kafka TransactionManager; KIP-588, KIP-890 (TransactionAbortableException).
"""

from typing import Final

from fencepost.client.errors import (
    AbortableError,
    ClientError,
    CommitFailed,
    FatalError,
    ProducerFenced,
    TransactionTimedOut,
    name_of,
    number_of,
    refused,
)
from fencepost.wire.requests import AddPartitionsToTxnAnswer, ApiError, ErrorCode, PartitionCodes

_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_ABORTABLE: Final = frozenset(
    (
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
)
_NOT_A_MEMBER: Final = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)


def from_coordinator(error: ApiError, what: str) -> ClientError:
    """The exception of a refusal by the transaction coordinator."""
    code = number_of(error)
    said = f"{what}: {error}"
    if code in _FENCED:
        return ProducerFenced(said, code)
    if code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return TransactionTimedOut(said, code)
    return AbortableError(said, code) if code in _ABORTABLE else FatalError(said, code)


def from_group_init(error: ApiError, what: str) -> ClientError:
    """The exception of a refused group-aware InitProducerId (KIP-447)."""
    code = number_of(error)
    if code in _NOT_A_MEMBER or code == ErrorCode.GROUP_ID_NOT_FOUND:
        return CommitFailed(f"{what}: {error}", code)
    return refused(code, f"{what}: {error}")


def from_commit(error: ApiError, *, bumps: bool) -> ClientError:
    """The exception of a refused commit. ``bumps``: of transactions V2.

    A V2 transaction that timed out is one epoch behind: Apache Kafka answers that nothing is open (48).
    No commit of ours is hidden behind that: one that is repeated is answered as done.
    """
    if bumps and number_of(error) == ErrorCode.INVALID_TXN_STATE:
        return TransactionTimedOut(f"commit: {error}", ErrorCode.INVALID_TXN_STATE)
    return from_coordinator(error, "commit")


def from_group(code: int, what: str) -> ClientError:
    """The exception of a refusal of offsets by the group's coordinator."""
    said = f"{what}: {name_of(code)}"
    if code in _NOT_A_MEMBER:
        return CommitFailed(said, code)
    if code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return TransactionTimedOut(said, code)
    if code == ErrorCode.PRODUCER_FENCED:
        return ProducerFenced(said, code)
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return FatalError(said, code)
    return AbortableError(said, code)


def code_of_additions(answer: AddPartitionsToTxnAnswer) -> int:
    """The code that an answer of AddPartitionsToTxn has: one refused partition refuses all of them (55)."""
    codes = [
        code
        for _, result in answer.results
        if not isinstance(result, ErrorCode)
        for _, rows in result.errors
        for _, code in rows
        if code != ErrorCode.NONE
    ]
    reasons = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter(reasons or codes), ErrorCode.NONE)


def code_of_offsets(answer: PartitionCodes) -> int:
    """The first code of an answer of TxnOffsetCommit."""
    return next((each.code for each in answer.rows if each.code != ErrorCode.NONE), ErrorCode.NONE)
