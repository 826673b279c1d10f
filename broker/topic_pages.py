"""Topics page by page, for DescribeTopicPartitions (KIP-966).

Source   Kafka KRaftMetadataCache.describeTopicResponse.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode
from fencepost.wire.k03_metadata import TopicMetadata
from fencepost.wire.k75_describe_topic_partitions import (
    PARTITIONS_MAX,
    Cursor,
    DescribeTopicPartitions,
    TopicPartitionsDescribed,
)


def page(topics: Iterable[TopicMetadata], request: DescribeTopicPartitions) -> TopicPartitionsDescribed:
    """What the request wants of the topics, which come in the order of their names.

    A leader that is not there is no error of its partition, unlike in Metadata. Without a limit topics are
    not looked at, and not copied: the caller pages them.
    """
    limit = request.partitions_max
    if limit is None:
        return TopicPartitionsDescribed(tuple(topics))
    start = request.cursor or Cursor("", 0)
    room = max(min(limit, PARTITIONS_MAX), 1)
    found: list[TopicMetadata] = []
    for topic in topics:
        name = topic.name or ""
        if name < start.topic_name or (topic.error_code and not request.topics):
            continue
        if room == 0:
            return TopicPartitionsDescribed(tuple(found), Cursor(name, 0))
        first = start.partition_index if name == start.topic_name else 0
        end = min(first + room, len(topic.partitions))
        found.append(_part(topic, first, end))
        if end < len(topic.partitions):
            return TopicPartitionsDescribed(tuple(found), Cursor(name, end))
        room -= len(found[-1].partitions)
    return TopicPartitionsDescribed(tuple(found))


def _part(topic: TopicMetadata, first: int, end: int) -> TopicMetadata:
    rows = tuple(replace(each, error_code=ErrorCode.NONE) for each in topic.partitions[first:end])
    return replace(topic, partitions=rows)
