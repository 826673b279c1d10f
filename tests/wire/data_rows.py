"""Rows of Produce and Fetch."""

import dataclasses
from typing import Any

import msgspec

from fencepost.controller.errors import ErrorCode
from fencepost.wire import k00_produce as k00
from fencepost.wire import k01_fetch as k01
from tests.wire.row import ID_A, Row, ms

# Produce


def visible_produce(version: int, said: k00.Produce) -> k00.Produce:
    return msgspec.structs.replace(
        said,
        knows_timed_out=version >= 10,
        knows_abortable=version >= 11,
        adds_partitions=version >= 12,
    )


def visible_produced(version: int, said: k00.ProduceAnswer) -> k00.ProduceAnswer:
    rows = tuple(
        msgspec.structs.replace(
            each,
            error_code=48 if each.error_code == 120 and version < 11 else each.error_code,
            log_start_offset=each.log_start_offset if version >= 5 else -1,
            record_errors=each.record_errors if version >= 8 else (),
            error_message=each.error_message if version >= 8 else None,
        )
        for each in said.partitions
    )
    return k00.ProduceAnswer(rows)


def flat_produce(version: int, entity: Any) -> k00.Produce:
    partitions = tuple(
        k00.PartitionData(topic.name, each.index, each.records)
        for topic in entity.topic_data
        for each in topic.partition_data
    )
    sent = k00.Produce(entity.transactional_id, entity.acks, ms(entity.timeout), partitions)
    return visible_produce(version, sent)


def flat_produced(version: int, entity: Any) -> k00.ProduceAnswer:
    rows = []
    for topic in entity.responses:
        for each in topic.partition_responses:
            errors = tuple(
                k00.RecordError(error.batch_index, error.batch_index_error_message)
                for error in getattr(each, "record_errors", ())
            )
            row = k00.PartitionProduced(
                topic.name,
                each.index,
                each.error_code.value,
                each.base_offset,
                ms(each.log_append_time),
                getattr(each, "log_start_offset", -1),
                errors,
                getattr(each, "error_message", None),
            )
            rows.append(row)
    return k00.ProduceAnswer(tuple(rows))


PRODUCE = Row(
    k00.PRODUCE,
    k00.Produce(
        "transfers",
        -1,
        30_000,
        (
            k00.PartitionData("orders", 3, b"batch" * 100),
            k00.PartitionData("orders", 4, None),
            k00.PartitionData("payments", 0, b""),
        ),
    ),
    k00.ProduceAnswer(
        (
            k00.PartitionProduced("orders", 3, 0, 1234, 1_700_000_000_123, 7),
            k00.PartitionProduced(
                "orders", 4, ErrorCode.INVALID_RECORD, record_errors=(k00.RecordError(2, "no key"),)
            ),
            k00.PartitionProduced("payments", 0, ErrorCode.TRANSACTION_ABORTABLE, error_message="abort"),
        )
    ),
    visible_produce,
    visible_produced,
    flat_produce,
    flat_produced,
)


# Fetch


def visible_fetch(version: int, said: k01.Fetch) -> k01.Fetch:
    partitions = tuple(
        dataclasses.replace(
            each,
            topic=each.topic if version < 13 else None,
            topic_id=each.topic_id if version >= 13 else None,
            current_leader_epoch=each.current_leader_epoch if version >= 9 else -1,
            last_fetched_epoch=each.last_fetched_epoch if version >= 12 else -1,
            log_start_offset=each.log_start_offset if version >= 5 else -1,
        )
        for each in said.partitions
    )
    session_id, session_epoch = (said.session_id, said.session_epoch) if version >= 7 else (0, -1)
    return dataclasses.replace(
        said, partitions=partitions, session_id=session_id, session_epoch=session_epoch
    )


def visible_fetched(version: int, said: k01.FetchAnswer) -> k01.FetchAnswer:
    rows = tuple(
        dataclasses.replace(
            each,
            topic=each.topic if version < 13 else None,
            topic_id=each.topic_id if version >= 13 else None,
            log_start_offset=each.log_start_offset if version >= 5 else -1,
        )
        for each in said.partitions
    )
    return k01.FetchAnswer(*((said.error_code, said.session_id) if version >= 7 else (0, 0)), rows)


def flat_fetch(version: int, entity: Any) -> k01.Fetch:
    partitions = tuple(
        k01.FetchPartition(
            getattr(topic, "topic", None),
            getattr(topic, "topic_id", None),
            each.partition,
            getattr(each, "current_leader_epoch", -1),
            each.fetch_offset,
            getattr(each, "last_fetched_epoch", -1),
            getattr(each, "log_start_offset", -1),
            each.partition_max_bytes,
        )
        for topic in entity.topics
        for each in topic.partitions
    )
    replica_id = entity.replica_id if version < 15 else entity.replica_state.replica_id
    return k01.Fetch(
        replica_id,
        ms(entity.max_wait),
        entity.min_bytes,
        entity.max_bytes,
        entity.isolation_level,
        getattr(entity, "session_id", 0),
        getattr(entity, "session_epoch", -1),
        partitions,
    )


def flat_fetched(version: int, entity: Any) -> k01.FetchAnswer:
    rows = []
    for topic in entity.responses:
        for each in topic.partitions:
            aborted = each.aborted_transactions
            if aborted is not None:
                aborted = tuple(k01.AbortedTransaction(t.producer_id, t.first_offset) for t in aborted)
            row = k01.FetchedPartition(
                getattr(topic, "topic", None),
                getattr(topic, "topic_id", None),
                each.partition_index,
                each.error_code.value,
                each.high_watermark,
                each.last_stable_offset,
                getattr(each, "log_start_offset", -1),
                aborted,
                each.records,
            )
            rows.append(row)
    if version < 7:
        return k01.FetchAnswer(partitions=tuple(rows))
    return k01.FetchAnswer(entity.error_code.value, entity.session_id, tuple(rows))


FETCH = Row(
    k01.FETCH,
    k01.Fetch(
        4,
        500,
        1,
        52_428_800,
        k01.READ_COMMITTED,
        17,
        2,
        (
            k01.FetchPartition("orders", ID_A, 0, 5, 1000, 4, 10, 1_048_576),
            k01.FetchPartition("orders", ID_A, 9, -1, 0, -1, -1, 100),
            k01.FetchPartition("payments", None, 1, 6, 2, 3, 4, 5),
        ),
    ),
    k01.FetchAnswer(
        0,
        0,
        (
            k01.FetchedPartition(
                "orders",
                ID_A,
                0,
                high_watermark=2000,
                last_stable_offset=1900,
                log_start_offset=10,
                aborted=(k01.AbortedTransaction(77, 1001), k01.AbortedTransaction(78, 1002)),
                records=b"batch" * 1000,
            ),
            k01.FetchedPartition("orders", ID_A, 9, ErrorCode.OFFSET_OUT_OF_RANGE, 1, 2, 3),
            k01.FetchedPartition("payments", None, 1, aborted=()),
        ),
    ),
    visible_fetch,
    visible_fetched,
    flat_fetch,
    flat_fetched,
)

DATA_ROWS = (PRODUCE, FETCH)
