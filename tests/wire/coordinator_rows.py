"""Rows of the APIs that the transaction coordinator and the controller's topics serve."""

from typing import Any

from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions import describe as d
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire import k24_add_partitions_to_txn as k24
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from tests.wire.row import Row, ms

GATED = {ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)}
GATED[ErrorCode.TRANSACTION_ABORTABLE] = (5, ErrorCode.INVALID_TXN_STATE)


# AddPartitionsToTxn


def visible_add(version: int, said: AddPartitionsToTxn) -> AddPartitionsToTxn:
    transactions = tuple(
        replace(each, for_client=version >= 4 and not each.verify_only) for each in said.transactions
    )
    return replace(said, transactions=transactions, batched=version >= 4)


def _gated(version: int, code: ErrorCode) -> ErrorCode:
    first, instead = GATED.get(code, (0, code))
    return code if version >= first else instead


def visible_added(version: int, said: AddPartitionsToTxnAnswer) -> AddPartitionsToTxnAnswer:
    results = []
    for transactional_id, answer in said.results:
        assert isinstance(answer, AddPartitionsAnswer)
        errors = tuple(
            (topic, tuple((index, _gated(version, code)) for index, code in codes))
            for topic, codes in answer.errors
        )
        results.append((transactional_id if version >= 4 else "", AddPartitionsAnswer(errors)))
    return AddPartitionsToTxnAnswer(tuple(results))


def flat_add(version: int, entity: Any) -> AddPartitionsToTxn:
    if version >= 4:
        transactions = tuple(
            AddPartitions(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                tuple(TopicPartitions(topic.name, topic.partitions) for topic in each.topics),
                each.verify_only,
                for_client=not each.verify_only,
            )
            for each in entity.transactions
        )
        return AddPartitionsToTxn(transactions, batched=True)
    topics = tuple(TopicPartitions(each.name, each.partitions) for each in entity.v3_and_below_topics)
    one = AddPartitions(
        entity.v3_and_below_transactional_id,
        entity.v3_and_below_producer_id,
        entity.v3_and_below_producer_epoch,
        topics,
    )
    return AddPartitionsToTxn((one,), batched=False)


def _flat_results(results: Any) -> AddPartitionsAnswer:
    return AddPartitionsAnswer(
        tuple(
            (
                topic.name,
                tuple(
                    (each.partition_index, ErrorCode(each.partition_error_code.value))
                    for each in topic.results_by_partition
                ),
            )
            for topic in results
        )
    )


def flat_added(version: int, entity: Any) -> AddPartitionsToTxnAnswer:
    if version < 4:
        return AddPartitionsToTxnAnswer((("", _flat_results(entity.results_by_topic_v3_and_below)),))
    return AddPartitionsToTxnAnswer(
        tuple(
            (each.transactional_id, _flat_results(each.topic_results))
            for each in entity.results_by_transaction
        )
    )


ADD_PARTITIONS_TO_TXN = Row(
    k24.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxn(
        (
            AddPartitions(
                "transfers",
                ProducerId(77),
                3,
                (TopicPartitions("orders", (0, 1)), TopicPartitions("payments", (9,))),
            ),
        )
    ),
    AddPartitionsToTxnAnswer(
        (
            (
                "transfers",
                AddPartitionsAnswer(
                    (
                        ("orders", ((0, ErrorCode.NONE), (1, ErrorCode.PRODUCER_FENCED))),
                        ("payments", ((9, ErrorCode.TRANSACTION_ABORTABLE),)),
                    )
                ),
            ),
        )
    ),
    visible_add,
    visible_added,
    flat_add,
    flat_added,
)

END = Row(
    END_TXN,
    EndTxn("transfers", ProducerId(77), 3, True),
    EndTxnAnswer(ProducerId(78), 0),
    lambda version, said: replace(said, knows_abortable=version >= 4, bumps_epoch=version >= 5),
    lambda version, said: said if version >= 5 else None,
)


# DescribeTransactions and ListTransactions


def _flat_described(version: int, entity: Any) -> d.DescribeTransactionsAnswer:
    return d.DescribeTransactionsAnswer(
        tuple(
            d.DescribedTransaction(
                each.transactional_id,
                ErrorCode(each.error_code.value),
                each.transaction_state,
                ms(each.transaction_timeout),
                ms(each.transaction_start_time),
                each.producer_id,
                each.producer_epoch,
                tuple(TopicPartitions(topic.topic, topic.partitions) for topic in each.topics),
            )
            for each in entity.transaction_states
        )
    )


DESCRIBE = Row(
    DESCRIBE_TRANSACTIONS,
    d.DescribeTransactions(("transfers", "refunds")),
    d.DescribeTransactionsAnswer(
        (
            d.DescribedTransaction(
                "transfers",
                ErrorCode.NONE,
                "Ongoing",
                60_000,
                1_700_000_000_123,
                ProducerId(77),
                3,
                (TopicPartitions("orders", (0, 1)),),
            ),
            d.DescribedTransaction(
                "refunds", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, started_ms=1_700_000_000_000
            ),
        )
    ),
    flat_response=_flat_described,
)


def _flat_list(version: int, entity: Any) -> d.ListTransactions:
    return d.ListTransactions(
        entity.state_filters,
        entity.producer_id_filters,
        getattr(entity, "duration_filter", -1),
        getattr(entity, "transactional_id_pattern", None),
    )


def _flat_listed(version: int, entity: Any) -> d.ListTransactionsAnswer:
    return d.ListTransactionsAnswer(
        entity.unknown_state_filters,
        tuple(
            d.ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state)
            for each in entity.transaction_states
        ),
    )


LIST = Row(
    LIST_TRANSACTIONS,
    d.ListTransactions(("Ongoing",), (ProducerId(77),), 1000, "tr.*"),
    d.ListTransactionsAnswer(
        ("Confused",),
        (
            d.ListedTransaction("transfers", ProducerId(77), "Ongoing"),
            d.ListedTransaction("refunds", ProducerId(78), "Empty"),
        ),
    ),
    lambda version, said: replace(
        said,
        duration_ms=said.duration_ms if version >= 1 else -1,
        pattern=said.pattern if version >= 2 else None,
    ),
    flat_request=_flat_list,
    flat_response=_flat_listed,
)


COORDINATOR_ROWS = (ADD_PARTITIONS_TO_TXN, END, DESCRIBE, LIST)
