"""A scripted cluster with a transaction coordinator: one state per id, V1 and V2, without markers."""

from dataclasses import dataclass
from typing import Any

from fencepost.controller.errors import (
    ApiError,
    InvalidTxnState,
    ProducerFenced,
    TransactionTimedOut,
)
from fencepost.controller.groups.offset_messages import PartitionCode
from fencepost.controller.transactions.add_partitions import same_for_all
from fencepost.records.types import ProducerId
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.requests import (
    AddOffsets,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
    CommitTransactionOffsets,
    EndTxn,
    EndTxnAnswer,
    ErrorCode,
    InitProducerId,
    InitProducerIdAnswer,
    MemberAssignment,
    PartitionCodes,
)
from tests.client.scripted import ScriptedCluster


@dataclass
class Row:
    producer_id: int
    epoch: int = 0
    last_epoch: int = -1  # of the same producer, before the last bump
    outcome: bool | None = None  # of the last transaction that ended
    timed_out: bool = False


class CoordinatedCluster(ScriptedCluster):
    """``outcomes``: of every transaction that ended with something in it, in order.

    ``members``   of every group-aware InitProducerId; without ``knows_groups`` it is answered as by Kafka.
    """

    def __init__(self, transaction_version: int, node_count: int = 2) -> None:
        super().__init__(node_count)
        self.transaction_version = transaction_version
        self.rows: dict[str, Row] = {}
        self.outcomes: list[bool] = []
        self.members: list[MemberAssignment] = []
        self.knows_groups = True
        self.rules |= {
            ADD_PARTITIONS_TO_TXN: self._add,
            ADD_OFFSETS_TO_TXN: self._add_offsets,
            END_TXN: self._end,
            TXN_OFFSET_COMMIT: self._offsets,
        }

    def time_out(self, transactional_id: str) -> None:
        """The coordinator aborts the open transaction, and bumps the epoch."""
        row = self.rows[transactional_id]
        row.last_epoch, row.epoch = row.epoch, row.epoch + 1
        row.timed_out, row.outcome = True, False
        self.outcomes.append(False)

    def fence(self, transactional_id: str) -> None:
        """Another instance takes over."""
        row = self.rows[transactional_id]
        row.epoch, row.last_epoch = row.epoch + 2, -1

    def _current(self, transactional_id: str, epoch: int) -> Row | ApiError:
        row = self.rows[transactional_id]
        if epoch == row.epoch:
            return row
        if row.timed_out and epoch == row.last_epoch:
            return TransactionTimedOut("timed out")
        return ProducerFenced("fenced")

    def _init_producer_id(self, request: InitProducerId, node_id: int) -> InitProducerIdAnswer | ApiError:
        if request.transactional_id is None and request.member is None:
            return super()._init_producer_id(request, node_id)
        name = request.transactional_id or "made"
        if request.member is not None:
            self.members.append(request.member)
        row = self.rows.get(name)
        if row is None:
            self.next_producer_id += 1
            row = self.rows[name] = Row(self.next_producer_id)
        elif request.producer_epoch == row.last_epoch and request.producer_epoch >= 0:
            row.timed_out = False
        elif request.producer_epoch in (-1, row.epoch):
            row.last_epoch = row.epoch if request.producer_epoch >= 0 else -1
            row.epoch += 1
        else:
            return ProducerFenced("fenced")
        row.outcome = None
        named = name if request.member is not None and self.knows_groups else None
        return InitProducerIdAnswer(ProducerId(row.producer_id), row.epoch, transactional_id=named)

    def _add(self, request: AddPartitionsToTxn, node_id: int) -> AddPartitionsToTxnAnswer:
        (transaction,) = request.transactions
        current = self._current(transaction.transactional_id, transaction.producer_epoch)
        code = current.code if isinstance(current, ApiError) else ErrorCode.NONE
        if isinstance(current, Row):
            current.outcome = None
        answer = same_for_all(transaction, code)
        return AddPartitionsToTxnAnswer(((transaction.transactional_id, answer),))

    def _add_offsets(self, request: AddOffsets, node_id: int) -> ApiError | None:
        current = self._current(request.transactional_id, request.producer_epoch)
        return current if isinstance(current, ApiError) else None

    def _offsets(self, request: CommitTransactionOffsets, node_id: int) -> PartitionCodes:
        return PartitionCodes(tuple(PartitionCode(each.topic, each.partition) for each in request.offsets))

    def _end(self, request: EndTxn, node_id: int) -> Any:
        row = self.rows[request.transactional_id]
        retried = request.producer_epoch == row.last_epoch and row.outcome is request.committed
        if request.bumps_epoch and retried:
            return EndTxnAnswer(ProducerId(row.producer_id), row.epoch)
        current = self._current(request.transactional_id, request.producer_epoch)
        if isinstance(current, TransactionTimedOut) and not request.committed:
            return None
        if isinstance(current, ApiError):
            return current
        if not request.bumps_epoch and row.outcome is not None:
            return None if row.outcome is request.committed else InvalidTxnState("ended otherwise")
        row.outcome = request.committed
        self.outcomes.append(request.committed)
        if not request.bumps_epoch:
            return None
        row.last_epoch, row.epoch, row.timed_out = row.epoch, row.epoch + 1, False
        return EndTxnAnswer(ProducerId(row.producer_id), row.epoch)
