"""Rows of the APIs that the transaction coordinator and the controller's topics serve."""

import uuid
from typing import Any

from msgspec.structs import replace

from fencepost.controller import topics as t
from fencepost.controller.errors import ErrorCode
from fencepost.controller.transactions import describe as d
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    AddPartitionsAnswer,
    AddPartitionsToTxn,
    AddPartitionsToTxnAnswer,
)
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire import k24_add_partitions_to_txn as k24
from fencepost.wire import k32_describe_configs as k32
from fencepost.wire.k19_create_topics import CREATE_TOPICS
from fencepost.wire.k20_delete_topics import DELETE_TOPICS
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS
from tests.wire.row import Row, ms

ID_A = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
NO_ID = uuid.UUID(int=0)
GATED = {ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH)}
GATED[ErrorCode.TRANSACTION_ABORTABLE] = (5, ErrorCode.INVALID_TXN_STATE)


# AddPartitionsToTxn


def visible_add(version: int, said: AddPartitionsToTxn) -> AddPartitionsToTxn:
    return replace(said, batched=version >= 4)


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
    None,
    lambda version, said: replace(said, version=version),
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


# CreateTopics and DeleteTopics


def _flat_create(version: int, entity: Any) -> t.CreateTopics:
    topics = tuple(
        t.NewTopic(
            each.name,
            each.num_partitions,
            each.replication_factor,
            tuple((one.partition_index, one.broker_ids) for one in each.assignments),
            tuple((one.name, one.value) for one in each.configs),
        )
        for each in entity.topics
    )
    return t.CreateTopics(topics, entity.validate_only, ms(entity.timeout))


def _visible_created(version: int, said: t.CreateTopicsAnswer) -> t.CreateTopicsAnswer:
    if version >= 7:
        return said
    hidden: dict[str, Any] = {"topic_id": NO_ID}
    if version < 5:
        hidden |= {"partition_count": -1, "replication_factor": -1, "configs": ()}
    return t.CreateTopicsAnswer(tuple(replace(each, **hidden) for each in said.topics))


def _flat_created(version: int, entity: Any) -> t.CreateTopicsAnswer:
    rows = []
    for each in entity.topics:
        configs = tuple(
            t.TopicConfig(one.name, one.value, one.config_source, one.read_only, one.is_sensitive)
            for one in getattr(each, "configs", ())
        )
        row = t.TopicCreated(
            each.name,
            ErrorCode(each.error_code.value),
            each.error_message,
            getattr(each, "topic_id", None) or NO_ID,
            getattr(each, "num_partitions", -1),
            getattr(each, "replication_factor", -1),
            configs,
        )
        rows.append(row)
    return t.CreateTopicsAnswer(tuple(rows))


CREATE = Row(
    CREATE_TOPICS,
    t.CreateTopics(
        (
            t.NewTopic("orders", 3, 1, (), (("retention.ms", "1000"), ("cleanup.policy", None))),
            t.NewTopic("payments", assignments=((0, (1, 2)), (1, (2,)))),
        ),
        True,
        5000,
    ),
    t.CreateTopicsAnswer(
        (
            t.TopicCreated(
                "orders",
                topic_id=ID_A,
                partition_count=3,
                replication_factor=1,
                configs=(t.TopicConfig("retention.ms", "1000", 1), t.TopicConfig("x", None, 5, True, True)),
            ),
            t.TopicCreated("payments", ErrorCode.INVALID_REPLICATION_FACTOR, "one replica only"),
        )
    ),
    visible_response=_visible_created,
    flat_request=_flat_create,
    flat_response=_flat_created,
)


def _flat_delete(version: int, entity: Any) -> t.DeleteTopics:
    if version < 6:
        return t.DeleteTopics(entity.topic_names, (), ms(entity.timeout))
    names = tuple(each.name for each in entity.topics if each.name is not None)
    ids = tuple(each.topic_id for each in entity.topics if each.name is None)
    return t.DeleteTopics(names, ids, ms(entity.timeout))


def _visible_deleted(version: int, said: t.DeleteTopicsAnswer) -> t.DeleteTopicsAnswer:
    return t.DeleteTopicsAnswer(
        tuple(
            t.TopicDeleted(
                each.name if version >= 6 else each.name or "",
                each.topic_id if version >= 6 else NO_ID,
                each.error_code,
                each.error_message if version >= 5 else None,
            )
            for each in said.topics
        )
    )


def _flat_deleted(version: int, entity: Any) -> t.DeleteTopicsAnswer:
    return t.DeleteTopicsAnswer(
        tuple(
            t.TopicDeleted(
                each.name,
                getattr(each, "topic_id", None) or NO_ID,
                ErrorCode(each.error_code.value),
                getattr(each, "error_message", None),
            )
            for each in entity.responses
        )
    )


DELETE = Row(
    DELETE_TOPICS,
    t.DeleteTopics(("orders", "payments"), (), 5000),
    t.DeleteTopicsAnswer(
        (
            t.TopicDeleted("orders", ID_A),
            t.TopicDeleted("payments", NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic"),
            t.TopicDeleted(None, ID_A, ErrorCode.UNKNOWN_TOPIC_ID),
        )
    ),
    visible_response=_visible_deleted,
    flat_request=_flat_delete,
    flat_response=_flat_deleted,
)


# DescribeConfigs


def _flat_resources(version: int, entity: Any) -> k32.DescribeConfigs:
    return k32.DescribeConfigs(
        tuple(
            k32.ConfigResource(each.resource_type, each.resource_name, each.configuration_keys)
            for each in entity.resources
        )
    )


def _flat_configs(version: int, entity: Any) -> k32.DescribeConfigsAnswer:
    return k32.DescribeConfigsAnswer(
        tuple(
            k32.ConfigsDescribed(
                each.resource_type,
                each.resource_name,
                tuple(
                    t.TopicConfig(
                        config.name, config.value, config.config_source, config.read_only, config.is_sensitive
                    )
                    for config in each.configs
                ),
                each.error_code.value,
                each.error_message,
            )
            for each in entity.results
        )
    )


CONFIGS = Row(
    k32.DESCRIBE_CONFIGS,
    k32.DescribeConfigs(
        (
            k32.ConfigResource(k32.TOPIC_RESOURCE, "orders"),
            k32.ConfigResource(k32.TOPIC_RESOURCE, "none", ()),
            k32.ConfigResource(k32.BROKER_RESOURCE, "1", ("retention.ms", "x")),
        )
    ),
    k32.DescribeConfigsAnswer(
        (
            k32.ConfigsDescribed(
                k32.TOPIC_RESOURCE,
                "orders",
                (t.TopicConfig("retention.ms", "5", 1), t.TopicConfig("secret", None, 5, True, True)),
            ),
            k32.ConfigsDescribed(k32.BROKER_RESOURCE, "1", (), ErrorCode.INVALID_REQUEST, "no"),
        )
    ),
    flat_request=_flat_resources,
    flat_response=_flat_configs,
)

COORDINATOR_ROWS = (CREATE, DELETE, ADD_PARTITIONS_TO_TXN, END, DESCRIBE, LIST, CONFIGS)
