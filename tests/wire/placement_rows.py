"""Rows of the APIs about where partitions are, who leads them, and what has settings."""

import dataclasses
from typing import Any

from fencepost.controller.errors import ErrorCode
from fencepost.wire import k35_describe_log_dirs as k35
from fencepost.wire import k43_elect_leaders as k43
from fencepost.wire import k46_list_partition_reassignments as k46
from fencepost.wire import k74_list_config_resources as k74
from fencepost.wire import k75_describe_topic_partitions as k75
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from tests.wire.row import ID_A, Row, ms

# DescribeLogDirs


def _flat_log_dirs(version: int, entity: Any) -> k35.DescribeLogDirs:
    topics = entity.topics
    if topics is not None:
        topics = tuple((each.topic, each.partitions) for each in topics)
    return k35.DescribeLogDirs(topics)


def _visible_log_dirs(version: int, said: k35.DescribeLogDirsAnswer) -> k35.DescribeLogDirsAnswer:
    if version >= 4:
        return said
    hidden = {"total_bytes": -1, "usable_bytes": -1}
    return k35.DescribeLogDirsAnswer(
        tuple(dataclasses.replace(each, **hidden) for each in said.directories)  # type: ignore[arg-type]
    )


def _flat_log_dirs_answer(version: int, entity: Any) -> k35.DescribeLogDirsAnswer:
    return k35.DescribeLogDirsAnswer(
        tuple(
            k35.LogDirDescribed(
                each.log_dir,
                tuple(
                    k35.LogSize(
                        topic.name,
                        one.partition_index,
                        one.partition_size,
                        one.offset_lag,
                        one.is_future_key,
                    )
                    for topic in each.topics
                    for one in topic.partitions
                ),
                each.error_code.value,
                getattr(each, "total_bytes", -1),
                getattr(each, "usable_bytes", -1),
            )
            for each in entity.results
        )
    )


LOG_DIRS = Row(
    k35.DESCRIBE_LOG_DIRS,
    k35.DescribeLogDirs((("orders", (0, 1)), ("payments", (2,)))),
    k35.DescribeLogDirsAnswer(
        (
            k35.LogDirDescribed(
                "/disks/1",
                (k35.LogSize("orders", 0, 2**40), k35.LogSize("orders", 1, 5, 7, True)),
                0,
                2**50,
                2**49,
            ),
            k35.LogDirDescribed("/disks/2", (), ErrorCode.KAFKA_STORAGE_ERROR),
        )
    ),
    visible_response=_visible_log_dirs,
    flat_request=_flat_log_dirs,
    flat_response=_flat_log_dirs_answer,
)


# ListPartitionReassignments


def _flat_reassignments(version: int, entity: Any) -> k46.ListPartitionReassignments:
    topics = entity.topics
    if topics is not None:
        topics = tuple((each.name, each.partition_indexes) for each in topics)
    return k46.ListPartitionReassignments(topics, ms(entity.timeout))


REASSIGNMENTS = Row(
    k46.LIST_PARTITION_REASSIGNMENTS,
    k46.ListPartitionReassignments((("orders", (0, 1)),), 5000),
    k46.NoReassignments(),
    flat_request=_flat_reassignments,
    flat_response=lambda version, entity: k46.NoReassignments(),
)

# ElectLeaders and ListConfigResources


def _flat_elections(version: int, entity: Any) -> k43.ElectLeaders:
    rows = entity.topic_partitions
    if rows is not None:
        rows = tuple((topic.topic, index) for topic in rows for index in topic.partitions)
    return k43.ElectLeaders(rows, getattr(entity, "election_type", k43.PREFERRED), ms(entity.timeout))


def _flat_elected(version: int, entity: Any) -> k43.ElectLeadersAnswer:
    rows = (
        k43.LeaderElected(topic.topic, each.partition_id, each.error_code.value, each.error_message)
        for topic in entity.replica_election_results
        for each in topic.partition_result
    )
    return k43.ElectLeadersAnswer(tuple(rows))


ELECTIONS = Row(
    k43.ELECT_LEADERS,
    k43.ElectLeaders((("orders", 0), ("orders", 1), ("payments", 2)), k43.UNCLEAN, 5000),
    k43.ElectLeadersAnswer(
        (
            k43.LeaderElected("orders", 0, ErrorCode.ELECTION_NOT_NEEDED, "it leads"),
            k43.LeaderElected("payments", 2),
        )
    ),
    visible_request=lambda version, said: (
        said if version >= 1 else dataclasses.replace(said, election_type=k43.PREFERRED)
    ),
    flat_request=_flat_elections,
    flat_response=_flat_elected,
)
RESOURCES = Row(
    k74.LIST_CONFIG_RESOURCES,
    k74.ListConfigResources((2, 4)),
    k74.ListConfigResourcesAnswer((k74.ListedResource("orders", 2), k74.ListedResource("1", 4))),
    visible_request=lambda version, said: said if version >= 1 else k74.ListConfigResources((16,)),
    visible_response=lambda version, said: (
        said
        if version >= 1
        else k74.ListConfigResourcesAnswer(tuple(k74.ListedResource(each.name) for each in said.resources))
    ),
    flat_request=lambda version, entity: k74.ListConfigResources(getattr(entity, "resource_types", (16,))),
    flat_response=lambda version, entity: k74.ListConfigResourcesAnswer(
        tuple(
            k74.ListedResource(each.resource_name, getattr(each, "resource_type", 16))
            for each in entity.config_resources
        )
    ),
)

# DescribeTopicPartitions


def _flat_cursor(cursor: Any) -> k75.Cursor | None:
    return None if cursor is None else k75.Cursor(cursor.topic_name, cursor.partition_index)


def _flat_described(version: int, entity: Any) -> k75.TopicPartitionsDescribed:
    topics = []
    for topic in entity.topics:
        assert all(each.eligible_leader_replicas == each.last_known_elr == () for each in topic.partitions)
        rows = tuple(
            PartitionMetadata(
                partition_index=each.partition_index,
                error_code=each.error_code.value,
                leader_id=each.leader_id,
                leader_epoch=each.leader_epoch,
                replica_nodes=each.replica_nodes,
                isr_nodes=each.isr_nodes,
                offline_replicas=each.offline_replicas,
            )
            for each in topic.partitions
        )
        topics.append(
            TopicMetadata(
                name=topic.name,
                error_code=topic.error_code.value,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=rows,
                topic_authorized_operations=topic.topic_authorized_operations,
            )
        )
    return k75.TopicPartitionsDescribed(tuple(topics), _flat_cursor(entity.next_cursor))


TOPIC_PAGES = Row(
    k75.DESCRIBE_TOPIC_PARTITIONS,
    k75.DescribeTopicPartitions(("orders", "payments"), 7, k75.Cursor("orders", 3)),
    k75.TopicPartitionsDescribed(
        (
            TopicMetadata(
                name="orders",
                topic_id=ID_A,
                partitions=(
                    PartitionMetadata(
                        partition_index=3, leader_id=2, leader_epoch=5, replica_nodes=(2,), isr_nodes=(2,)
                    ),
                    PartitionMetadata(
                        partition_index=4, leader_epoch=6, replica_nodes=(1,), offline_replicas=(1,)
                    ),
                ),
                topic_authorized_operations=3576,
            ),
            TopicMetadata(name="payments", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, is_internal=True),
        ),
        k75.Cursor("payments", 0),
    ),
    flat_request=lambda version, entity: k75.DescribeTopicPartitions(
        tuple(each.name for each in entity.topics),
        entity.response_partition_limit,
        _flat_cursor(entity.cursor),
    ),
    flat_response=_flat_described,
)

PLACEMENT_ROWS = (LOG_DIRS, REASSIGNMENTS, ELECTIONS, RESOURCES, TOPIC_PAGES)
