"""AddPartitionsToTxn: what a transaction touches is known before it is written; and: is it in there.

Kept     a transaction that a new instance keeps (KIP-939) takes no more partitions: the client's pair is
         answered 48, the transaction's is fenced. Kafka takes the latter, which a fenced instance has.
Source   Kafka TransactionCoordinator.handleAddPartitionsToTransaction, .handleVerifyPartitionsInTransaction;
         docs/kafka-notes.md B3.
"""

from typing import Final, TypeAlias

import msgspec

from fencepost.controller import levels, topics
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ConcurrentTransactions, ErrorCode, InvalidRequest
from fencepost.controller.groups.offset_messages import AddOffsets
from fencepost.controller.transactions.ending import OFFSETS_PARTITION
from fencepost.controller.transactions.fencing import find, require_current, require_not_kept
from fencepost.controller.transactions.states import (
    PREPARED_STATES,
    TRANSACTIONS_V2,
    State,
    Transaction,
    record_of,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import TopicPartitions, TransactionStateRecord
from fencepost.records.types import ProducerId

PARTITIONS_MAX: Final = 10_000  # of one transaction
TOPICS_MAX: Final = 2_000
"""Of one transaction: 560 KB with the longest names. Each step of the transaction writes its whole row, and
every node decodes it in one step of its loop (10 ms). What is too wide is refused when the row grows."""


class AddPartitions(msgspec.Struct, frozen=True):
    """One transaction's part of API key 24.

    ``verify_only``   answer whether they are in, add nothing.
    ``for_client``    a partition leader, or the group's coordinator, adds them for a client that uses
                      transactions V2 (KIP-890); else the client asks itself.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    topics: tuple[TopicPartitions, ...]
    verify_only: bool = False
    for_client: bool = False


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


AddDecision: TypeAlias = Decision[AddPartitionsAnswer]


def same_for_all(request: AddPartitions, code: ErrorCode) -> AddPartitionsAnswer:
    """``code`` for each partition of the request."""
    return AddPartitionsAnswer(
        tuple((each.topic, tuple((index, code) for index in each.partition_ids)) for each in request.topics)
    )


def decide_add_partitions(view: View, request: AddPartitions, *, now_ms: int) -> AddDecision:
    """Add partitions to the open transaction, or begin one. What is in already is not written again.

    If a partition does not exist, it is answered 3 and all others 55: nothing is added.
    Raises   InvalidRequest, InvalidProducerIdMapping, ProducerFenced, TransactionTimedOut,
             ConcurrentTransactions.
    """
    missing = _missing(view, request)
    if missing is not None:
        return Decision((), missing)
    records = added(view, request, now_ms)
    return Decision(records, same_for_all(request, ErrorCode.NONE))


def decide_add_offsets(view: View, request: AddOffsets, *, now_ms: int) -> Decision[None]:
    """The transaction will commit offsets of a group: as if its partition of the log of groups were added.

    The group is not looked at: it need not exist, and who may commit is decided with each commit.
    Raises   UnsupportedVersion (the log level is too low), and what ``decide_add_partitions`` raises.
    """
    levels.require_group_log(view)
    adding = AddPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (OFFSETS_PARTITION,)
    )
    return Decision(added(view, adding, now_ms), None)


def added(view: View, request: AddPartitions, now_ms: int) -> tuple[TransactionStateRecord, ...]:
    """What makes the partitions part of the open transaction, or of one that begins; nothing if they are.

    Raises   what ``decide_add_partitions`` raises.
    """
    row = find(view, request.transactional_id)
    require_current(row, request.producer_id, request.producer_epoch)
    _require_not_ending(row)
    require_not_kept(row)
    united = _united(row.partitions, request.topics)
    if row.state is State.ONGOING and united == row.partitions:
        return ()
    count = sum(len(each.partition_ids) for each in united)
    if count > PARTITIONS_MAX or len(united) > TOPICS_MAX:
        raise InvalidRequest(
            f"a transaction of {count} partitions in {len(united)} topics; at most {PARTITIONS_MAX} "
            f"partitions in {TOPICS_MAX} topics: end it, and go on in the next one"
        )
    ongoing = msgspec.structs.replace(
        row,
        state=State.ONGOING,
        partitions=united,
        updated_ms=now_ms,
        started_ms=row.started_ms if row.state is State.ONGOING else now_ms,
        client_transaction_version=TRANSACTIONS_V2 if request.for_client else 0,
    )
    return (record_of(ongoing),)


def decide_verify(view: View, request: AddPartitions) -> AddDecision:
    """Which partitions are in the open transaction: NONE, or TRANSACTION_ABORTABLE (120). Writes nothing.

    Raises   what ``decide_add_partitions`` raises: a partition leader tells a timed-out epoch from a fenced
             one by it.
    """
    row = find(view, request.transactional_id)
    require_current(row, request.producer_id, request.producer_epoch)
    _require_not_ending(row)
    require_not_kept(row)
    known = {each.topic: frozenset(each.partition_ids) for each in row.partitions}
    errors = []
    for each in request.topics:
        inside = known.get(each.topic, frozenset())
        errors.append(
            (each.topic, tuple((index, _verified(index in inside)) for index in each.partition_ids))
        )
    return Decision((), AddPartitionsAnswer(tuple(errors)))


def _verified(inside: bool) -> ErrorCode:
    return ErrorCode.NONE if inside else ErrorCode.TRANSACTION_ABORTABLE


def _require_not_ending(row: Transaction) -> None:
    if row.state in PREPARED_STATES:
        raise ConcurrentTransactions(f"{row.transactional_id!r} is in {row.state.wire_name}: retry later")


def _missing(view: View, request: AddPartitions) -> AddPartitionsAnswer | None:
    """What to answer if any partition does not exist; None if all do."""
    errors = []
    complete = True
    for each in request.topics:
        topic = topics.find(view, each.topic)
        count = 0 if topic is None else topic.partition_count  # its partitions are 0 to count - 1
        codes = []
        for index in each.partition_ids:
            exists = 0 <= index < count
            complete = complete and exists
            code = ErrorCode.OPERATION_NOT_ATTEMPTED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes.append((index, code))
        errors.append((each.topic, tuple(codes)))
    return None if complete else AddPartitionsAnswer(tuple(errors))


def _united(
    known: tuple[TopicPartitions, ...], added: tuple[TopicPartitions, ...]
) -> tuple[TopicPartitions, ...]:
    """Both, ordered by topic and index, each once."""
    indexes: dict[str, set[int]] = {each.topic: set(each.partition_ids) for each in known}
    for each in added:
        indexes.setdefault(each.topic, set()).update(each.partition_ids)
    return tuple(TopicPartitions(topic, tuple(sorted(indexes[topic]))) for topic in sorted(indexes))
