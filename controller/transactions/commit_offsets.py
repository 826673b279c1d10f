"""AddOffsetsToTxn and TxnOffsetCommit: offsets that are committed with the outputs of a transaction.

One decision  the transaction's state and the group's are read together, and what is wrong with the
              transaction is said first: no round trip verifies it, and nothing can change in between.
Pending       an offset is pending in the image before its request is answered, and until the outcome is.
Identity      a commit without a generation is accepted from clients that cannot say one, as by Kafka, but not
              over another producer that presented the current generation for the same partition: a group
              that fences by generations is not fenced by half (KIP-447). With
              ``refuses_all_without_identity`` it is refused over any other producer's. An empty group refuses
              none.
Source        Kafka KafkaApis.handleAddOffsetsToTxn, .handleTxnOffsetCommit, GroupCoordinator
              (validateTransactionalOffsetCommit), AddPartitionsToTxnManager; KIP-447; docs/kafka-notes.md D2.
"""

from typing import Final, TypeAlias

import msgspec

from fencepost.controller import levels
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    ApiError,
    ConcurrentTransactions,
    InvalidRequest,
    TransactionAbortable,
    TransactionTimedOut,
)
from fencepost.controller.group_errors import (
    IllegalGeneration,
    UnstableOffsetCommit,
)
from fencepost.controller.groups import offset_tables
from fencepost.controller.groups.identity import NO_MEMBER, require_committer
from fencepost.controller.groups.offset_messages import (
    CommitTransactionOffsets,
    PartitionCodes,
)
from fencepost.controller.groups.offset_tables import (
    OFFSETS,
    PENDING,
    PRODUCERS,
    WAITING,
    KeptOffset,
    OffsetKey,
)
from fencepost.controller.groups.offsets import (
    OffsetRules,
    answered,
    find,
    is_identified,
    known_partitions,
    offset_records,
    require_group_id,
)
from fencepost.controller.groups.tables import Group
from fencepost.controller.transactions.add_partitions import AddPartitions, added
from fencepost.controller.transactions.ending import OFFSETS_PARTITION, holds_offsets
from fencepost.controller.transactions.fencing import find as find_transaction
from fencepost.controller.transactions.fencing import require_current, require_not_kept
from fencepost.controller.transactions.states import PREPARED_STATES, State
from fencepost.controller.view import View
from fencepost.records.group_metadata import GroupState
from fencepost.records.offset_commit import OffsetCommitRecord
from fencepost.records.transaction_log import TransactionStateRecord

TXN_OFFSETS_MAX: Final = 1_000
"""Pending offsets of one transaction: its end moves all of them in one step of every node's loop."""

WAITING_MAX: Final = (
    100  # open transactions with a pending offset of one partition; a partition has one owner
)

CommitDecision: TypeAlias = Decision[PartitionCodes]


def decide_commit_in_transaction(
    view: View, request: CommitTransactionOffsets, rules: OffsetRules, *, now_ms: int
) -> CommitDecision:
    """Make these offsets pending until the transaction ends; a row for each partition of the request.

    Raises   UnsupportedVersion, InvalidRequest, InvalidProducerIdMapping, ProducerFenced,
             TransactionAbortable (its transaction ended, or timed out and it knows the code),
             IllegalGeneration (timed out), ConcurrentTransactions. Refusals of the group are in the rows.
    """
    levels.require_group_log(view)
    refusals, known = known_partitions(view, request.offsets)
    if not known:
        return Decision((), answered(request.offsets, refusals))
    adding = _added_offsets(view, request, now_ms)
    generation = -1
    try:
        require_group_id(request.group_id)
        group = find(view, request.group_id)
        if group is not None:
            require_committer(view, request.group_id, group, request.identity, transactional=True)
            _require_no_owner(view, group, request, rules)
            generation = -1 if group.state is GroupState.EMPTY else group.generation
        elif request.identity.generation >= 0:
            raise IllegalGeneration(
                f"nothing is known of group {request.group_id!r}, so it has no generation"
            )
    except ApiError as refusal:
        return Decision((), answered(request.offsets, refusals, refusal.code))
    identified = is_identified(request.identity)
    records = [
        msgspec.structs.replace(
            record,
            committer=request.producer_id,
            # The one presented, which is the group's: were it not, the log would tell.
            generation=request.identity.generation if identified else generation,
            is_identified=identified,
            member_id=request.identity.member_id if identified else NO_MEMBER,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )
        for record in offset_records(request.group_id, known, refusals, rules, now_ms=now_ms)
    ]
    _require_room(view, request, records)
    if records and levels.knows_group_aware_init(view) and view.get(PRODUCERS, request.producer_id) is None:
        records[0] = msgspec.structs.replace(records[0], transactional_id=request.transactional_id)
    return Decision((*adding, *records) if records else (), answered(request.offsets, refusals))


def _added_offsets(
    view: View, request: CommitTransactionOffsets, now_ms: int
) -> tuple[TransactionStateRecord, ...]:
    """What makes the transaction hold offsets, if the client leaves that to us; nothing if it does.

    Raises   as ``decide_commit_in_transaction``: the producer has no transaction open that holds offsets.
    """
    row = find_transaction(view, request.transactional_id)
    try:
        require_current(row, request.producer_id, request.producer_epoch)
    except TransactionTimedOut as timed_out:  # clients have no code of their own for it, but abort on these
        said = f"{timed_out}; abort, and begin the next transaction"
        raise (TransactionAbortable(said) if request.knows_abortable else IllegalGeneration(said)) from None
    if request.adds_offsets:
        return added(
            view,
            AddPartitions(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                (OFFSETS_PARTITION,),
                for_client=True,
            ),
            now_ms,
        )
    if row.state in PREPARED_STATES:
        raise ConcurrentTransactions(f"{row.transactional_id!r} is in {row.state.wire_name}: retry later")
    require_not_kept(row)
    if row.state is not State.ONGOING or not holds_offsets(row):
        raise TransactionAbortable(
            f"{row.transactional_id!r} is in {row.state.wire_name}, and AddOffsetsToTxn was not sent for it"
        )
    return ()


def _require_no_owner(
    view: View, group: Group, request: CommitTransactionOffsets, rules: OffsetRules
) -> None:
    """Raises IllegalGeneration (22) for a commit without a generation over another producer's."""
    if is_identified(request.identity) or group.state is GroupState.EMPTY:
        return  # a request that names a member has the group's generation, or was refused (require_committer)
    for each in request.offsets:
        key = offset_tables.key_of(request.group_id, each.topic, each.partition)
        owner = None if key is None else _owner(view, key, group, request.producer_id, rules)
        if owner is not None:
            raise IllegalGeneration(
                f"{each.topic}-{each.partition} of group {request.group_id!r} was committed by producer "
                f"{owner} in generation {group.generation}: a commit without a generation is refused there"
            )


def _owner(view: View, key: OffsetKey, group: Group, producer_id: int, rules: OffsetRules) -> int | None:
    """Another producer that committed the partition in the group's generation, so that this one may not."""
    waiting = view.get(WAITING, key)
    rows: list[KeptOffset | None] = [view.get(OFFSETS, key)]
    rows += [view.get(PENDING, (each, key)) for each in waiting or ()]
    for row in rows:
        if row is None or row.committer == producer_id or row.generation != group.generation:
            continue  # no transaction committed it, if it has no generation
        if row.is_identified or rules.refuses_all_without_identity:
            return row.committer
    return None


def _require_room(view: View, request: CommitTransactionOffsets, records: list[OffsetCommitRecord]) -> None:
    kept = offset_tables.open_offsets(view, request.producer_id)
    new = 0
    for each in records:
        key = (each.group_id, each.topic, each.partition)
        if view.get(PENDING, (request.producer_id, key)) is not None:
            continue
        new += 1
        waiting = view.get(WAITING, key)
        if waiting is not None and len(waiting) >= WAITING_MAX:
            raise UnstableOffsetCommit(
                f"{WAITING_MAX} open transactions have offsets of {each.topic}-{each.partition}: retry later"
            )
    if len(kept.keys) + new > TXN_OFFSETS_MAX:
        raise InvalidRequest(
            f"a transaction with {len(kept.keys) + new} offsets; at most {TXN_OFFSETS_MAX}: "
            "end it, and go on in the next one"
        )
