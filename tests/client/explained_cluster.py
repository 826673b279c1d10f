"""Brokers of the test's own loop that describe producers and transactions by what a test sets."""

from collections import defaultdict
from typing import Any

from fencepost.client.types import TopicPartition
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.describe import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsAnswer,
    ListedTransaction,
    ListTransactions,
    ListTransactionsAnswer,
)
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.errors import error_for
from fencepost.wire.k02_list_offsets import LIST_OFFSETS, ListOffsets, ListOffsetsAnswer, OffsetFound
from fencepost.wire.k61_describe_producers import (
    DESCRIBE_PRODUCERS,
    ActiveProducer,
    DescribeProducers,
    DescribeProducersAnswer,
    PartitionProducers,
)
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from fencepost.wire.k20065_explain_transaction import EXPLAIN_TRANSACTION, Explanation
from tests.client.scripted import ScriptedCluster


def transaction(
    name: str = "billing",
    state: str = "Ongoing",
    *,
    producer_id: int = 42,
    epoch: int = 3,
    partitions: tuple[TopicPartitions, ...] = (TopicPartitions("t", (0,)),),
) -> DescribedTransaction:
    """An id in a state."""
    return DescribedTransaction(
        name,
        state=state,
        transaction_timeout_ms=60_000,
        started_ms=1_000,
        producer_id=ProducerId(producer_id),
        producer_epoch=epoch,
        partitions=partitions,
    )


class ExplainedCluster(ScriptedCluster):
    """``producers``: by partition. ``listed_by``: the transactions that each node lists.

    ``looks``   called with the number of each look at a partition's producers: what changes meanwhile.
    """

    def __init__(self, node_count: int = 2, partition_count: int = 2) -> None:
        super().__init__(node_count, partition_count)
        self.producers: defaultdict[TopicPartition, list[ActiveProducer]] = defaultdict(list)
        self.codes: dict[str, int] = {}  # of topics, from DescribeProducers
        self.ends: defaultdict[TopicPartition, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.listed_by: dict[int, list[DescribedTransaction]] = {}
        self.coordinating: set[int] | None = None  # ours: the only ones that do; None: all, as in Kafka
        self.describes: int = ErrorCode.NONE
        self.explanation: Explanation | None = None
        self.looked = 0
        self.at_look: dict[int, Any] = {}
        self.rules |= {
            DESCRIBE_PRODUCERS: self._describe_producers,
            LIST_OFFSETS: self._list_offsets,
            LIST_TRANSACTIONS: self._list_transactions,
            DESCRIBE_TRANSACTIONS: self._describe_transactions,
            EXPLAIN_TRANSACTION: self._explain,
        }

    def open(self, partition: TopicPartition, start: int, *, producer_id: int = 42, epoch: int = 3) -> None:
        """A transaction from an offset on; the end is ten further."""
        self.producers[partition].append(ActiveProducer(producer_id, epoch, 7, 5_000, -1, start))
        starts = [each.current_txn_start_offset for each in self.producers[partition]]
        self.ends[partition] = (min(starts), max(starts) + 10)

    def _describe_producers(self, request: DescribeProducers, node_id: int) -> DescribeProducersAnswer:
        self.looked += 1
        if self.looked in self.at_look:
            self.at_look[self.looked]()
        rows = []
        for topic, indexes in request.topics:
            for index in indexes:
                place = TopicPartition(topic, index)
                code = self.codes.get(topic, ErrorCode.NONE)
                if self.leader(place) != node_id:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                producers = () if code else tuple(self.producers[place])
                rows.append(PartitionProducers(topic, index, code, None, producers))
        return DescribeProducersAnswer(tuple(rows))

    def _list_offsets(self, request: ListOffsets, node_id: int) -> ListOffsetsAnswer:
        rows = []
        for each in request.partitions:
            stable, end = self.ends[TopicPartition(each.topic, each.index)]
            offset = stable if request.isolation_level else end
            rows.append(OffsetFound(each.topic, each.index, offset=offset))
        return ListOffsetsAnswer(tuple(rows))

    def _list_transactions(
        self, request: ListTransactions, node_id: int
    ) -> ListTransactionsAnswer | ApiError:
        if self.coordinating is not None and node_id not in self.coordinating:
            return error_for(ErrorCode.NOT_COORDINATOR)
        rows = (
            ListedTransaction(each.transactional_id, each.producer_id, each.state)
            for each in self.listed_by.get(node_id, ())
            if not request.producer_id_filters or each.producer_id in request.producer_id_filters
        )
        return ListTransactionsAnswer((), tuple(rows))

    def _describe_transactions(
        self, request: DescribeTransactions, node_id: int
    ) -> DescribeTransactionsAnswer | ApiError:
        if self.describes:
            return error_for(self.describes)
        known = {each.transactional_id: each for rows in self.listed_by.values() for each in rows}
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        rows = (known.get(name, DescribedTransaction(name, missing)) for name in request.transactional_ids)
        return DescribeTransactionsAnswer(tuple(rows))

    def _explain(self, request: Any, node_id: int) -> Explanation | ApiError:
        return self.explanation or error_for(ErrorCode.UNSUPPORTED_VERSION)
