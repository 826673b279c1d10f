"""Rows of the APIs that a partition's leader serves; Produce and Fetch are in data_rows.py."""

import dataclasses
from typing import Any

import msgspec

from fencepost.controller.errors import ErrorCode
from fencepost.wire import k02_list_offsets as k02
from fencepost.wire import k21_delete_records as k21
from fencepost.wire import k23_offset_for_leader_epoch as k23
from fencepost.wire import k27_write_txn_markers as k27
from fencepost.wire import k61_describe_producers as k61
from tests.wire.placement_rows import PLACEMENT_ROWS
from tests.wire.row import Row, ms

# ListOffsets


def _visible_list(version: int, said: k02.ListOffsets) -> k02.ListOffsets:
    epoch = [each.current_leader_epoch if version >= 4 else -1 for each in said.partitions]
    return k02.ListOffsets(
        tuple(
            dataclasses.replace(each, current_leader_epoch=epoch[i]) for i, each in enumerate(said.partitions)
        ),
        said.replica_id,
        said.isolation_level if version >= 2 else 0,
        said.timeout_ms if version >= 10 else 0,
        k02.special_lowest(version),
    )


def _visible_listed(version: int, said: k02.ListOffsetsAnswer) -> k02.ListOffsetsAnswer:
    return k02.ListOffsetsAnswer(
        tuple(
            dataclasses.replace(each, leader_epoch=each.leader_epoch if version >= 4 else -1)
            for each in said.partitions
        )
    )


def _flat_list(version: int, entity: Any) -> k02.ListOffsets:
    partitions = tuple(
        k02.OffsetQuery(
            topic.name, each.partition_index, each.timestamp, getattr(each, "current_leader_epoch", -1)
        )
        for topic in entity.topics
        for each in topic.partitions
    )
    timeout_ms = ms(entity.timeout) if version >= 10 else 0
    return k02.ListOffsets(
        partitions,
        entity.replica_id,
        getattr(entity, "isolation_level", 0),
        timeout_ms,
        k02.special_lowest(version),
    )


def _flat_listed(version: int, entity: Any) -> k02.ListOffsetsAnswer:
    rows = (
        k02.OffsetFound(
            topic.name,
            each.partition_index,
            each.error_code.value,
            each.timestamp,
            each.offset,
            getattr(each, "leader_epoch", -1),
        )
        for topic in entity.topics
        for each in topic.partitions
    )
    return k02.ListOffsetsAnswer(tuple(rows))


LIST_OFFSETS = Row(
    k02.LIST_OFFSETS,
    k02.ListOffsets(
        (
            k02.OffsetQuery("orders", 0, k02.LATEST, 5),
            k02.OffsetQuery("orders", 1, k02.EARLIEST),
            k02.OffsetQuery("payments", 0, 1_700_000_000_000),
        ),
        -1,
        1,
        250,
    ),
    k02.ListOffsetsAnswer(
        (
            k02.OffsetFound("orders", 0, 0, -1, 99, 5),
            k02.OffsetFound("orders", 1, ErrorCode.FENCED_LEADER_EPOCH),
            k02.OffsetFound("payments", 0, 0, 1_700_000_000_001, 7, 0),
        )
    ),
    _visible_list,
    _visible_listed,
    _flat_list,
    _flat_listed,
)


# OffsetForLeaderEpoch


def _flat_epochs(version: int, entity: Any) -> k23.OffsetForLeaderEpoch:
    partitions = tuple(
        k23.EpochQuery(topic.topic, each.partition, each.leader_epoch, each.current_leader_epoch)
        for topic in entity.topics
        for each in topic.partitions
    )
    return k23.OffsetForLeaderEpoch(partitions, getattr(entity, "replica_id", -1))


def _flat_ends(version: int, entity: Any) -> k23.OffsetForLeaderEpochAnswer:
    rows = (
        k23.EpochEnd(topic.topic, each.partition, each.error_code.value, each.leader_epoch, each.end_offset)
        for topic in entity.topics
        for each in topic.partitions
    )
    return k23.OffsetForLeaderEpochAnswer(tuple(rows))


OFFSET_FOR_LEADER_EPOCH = Row(
    k23.OFFSET_FOR_LEADER_EPOCH,
    k23.OffsetForLeaderEpoch((k23.EpochQuery("orders", 0, 4, 5), k23.EpochQuery("orders", 1, 3)), 7),
    k23.OffsetForLeaderEpochAnswer(
        (k23.EpochEnd("orders", 0, 0, 4, 1000), k23.EpochEnd("orders", 1, ErrorCode.UNKNOWN_LEADER_EPOCH))
    ),
    lambda version, said: dataclasses.replace(said, replica_id=said.replica_id if version >= 3 else -1),
    flat_request=_flat_epochs,
    flat_response=_flat_ends,
)


# WriteTxnMarkers


def visible_markers(version: int, said: k27.WriteTxnMarkers) -> k27.WriteTxnMarkers:
    return k27.WriteTxnMarkers(
        tuple(
            msgspec.structs.replace(each, transaction_version=each.transaction_version if version >= 2 else 0)
            for each in said.markers
        )
    )


def flat_markers(version: int, entity: Any) -> k27.WriteTxnMarkers:
    """Without the image version: kio, like Kafka, does not know our tag."""
    return k27.WriteTxnMarkers(
        tuple(
            k27.TxnMarker(
                each.producer_id,
                each.producer_epoch,
                each.transaction_result,
                tuple((topic.name, topic.partition_indexes) for topic in each.topics),
                each.coordinator_epoch,
                getattr(each, "transaction_version", 0),
            )
            for each in entity.markers
        )
    )


def flat_marked(version: int, entity: Any) -> k27.WriteTxnMarkersAnswer:
    return k27.WriteTxnMarkersAnswer(
        tuple(
            (
                each.producer_id,
                tuple(
                    (topic.name, tuple((p.partition_index, p.error_code.value) for p in topic.partitions))
                    for topic in each.topics
                ),
            )
            for each in entity.markers
        )
    )


WRITE_TXN_MARKERS = Row(
    k27.WRITE_TXN_MARKERS,
    k27.WriteTxnMarkers(
        (
            k27.TxnMarker(77, 3, True, (("orders", (0, 1, 9)), ("payments", (2,))), 6, 1),
            k27.TxnMarker(78, 32767, False, (("orders", (0,)),), 7),
        )
    ),
    k27.WriteTxnMarkersAnswer(
        (
            (77, (("orders", ((0, 0), (1, 0), (9, 3))), ("payments", ((2, 6),)))),
            (78, (("orders", ((0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),)),)),
        )
    ),
    visible_markers,
    flat_request=flat_markers,
    flat_response=flat_marked,
)


# DescribeProducers


def _flat_describe(version: int, entity: Any) -> k61.DescribeProducers:
    return k61.DescribeProducers(tuple((each.name, each.partition_indexes) for each in entity.topics))


def _flat_described(version: int, entity: Any) -> k61.DescribeProducersAnswer:
    rows = []
    for topic in entity.topics:
        for each in topic.partitions:
            producers = tuple(
                k61.ActiveProducer(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.current_txn_start_offset,
                )
                for producer in each.active_producers
            )
            code = each.error_code.value
            rows.append(
                k61.PartitionProducers(topic.name, each.partition_index, code, each.error_message, producers)
            )
    return k61.DescribeProducersAnswer(tuple(rows))


DESCRIBE_PRODUCERS = Row(
    k61.DESCRIBE_PRODUCERS,
    k61.DescribeProducers((("orders", (0, 1)), ("payments", (2,)))),
    k61.DescribeProducersAnswer(
        (
            k61.PartitionProducers(
                "orders",
                0,
                producers=(
                    k61.ActiveProducer(77, 3, 41, 1_700_000_000_000, 6, 1000),
                    k61.ActiveProducer(78, 0),
                ),
            ),
            k61.PartitionProducers("orders", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "ask 2"),
            k61.PartitionProducers("payments", 2),
        )
    ),
    flat_request=_flat_describe,
    flat_response=_flat_described,
)

# DeleteRecords


def _flat_delete(version: int, entity: Any) -> k21.DeleteRecords:
    rows = (
        k21.RecordsToDelete(topic.name, each.partition_index, each.offset)
        for topic in entity.topics
        for each in topic.partitions
    )
    return k21.DeleteRecords(tuple(rows), ms(entity.timeout))


def _flat_deleted(version: int, entity: Any) -> k21.DeleteRecordsAnswer:
    rows = (
        k21.RecordsDeleted(topic.name, each.partition_index, each.error_code.value, each.low_watermark)
        for topic in entity.topics
        for each in topic.partitions
    )
    return k21.DeleteRecordsAnswer(tuple(rows))


DELETE_RECORDS = Row(
    k21.DELETE_RECORDS,
    k21.DeleteRecords(
        (
            k21.RecordsToDelete("orders", 0, 5),
            k21.RecordsToDelete("orders", 1, k21.HIGH_WATERMARK),
            k21.RecordsToDelete("payments", 2, 2**40),
        ),
        5000,
    ),
    k21.DeleteRecordsAnswer(
        (
            k21.RecordsDeleted("orders", 0, ErrorCode.NONE, 5),
            k21.RecordsDeleted("payments", 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        )
    ),
    flat_request=_flat_delete,
    flat_response=_flat_deleted,
)

PARTITION_ROWS = (
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    WRITE_TXN_MARKERS,
    DESCRIBE_PRODUCERS,
    DELETE_RECORDS,
    *PLACEMENT_ROWS,
)
