"""DescribeTopicPartitions, API key 75, version 0 (KIP-966): topics with their partitions, page by page.

Page        at most PARTITIONS_MAX partitions, or fewer if the client wants fewer; its cursor says where the
            next one begins. Topics come in the order of their names.
Replicas    a partition has one: none is an eligible leader (ELR) that is not in sync.
Source      Kafka DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message

PARTITIONS_MAX: Final = 2_000  # Kafka's max.request.partition.size.limit


@dataclass(frozen=True, slots=True)
class Cursor:
    """A page begins with this partition of this topic."""

    topic_name: str
    partition_index: int


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitions:
    """API key 75. ``topics``: their names; none of them: all topics.

    partitions_max   of one page. None: any number, which no client can request.
    """

    topics: tuple[str, ...] = ()
    partitions_max: int | None = PARTITIONS_MAX
    cursor: Cursor | None = None

    def wanted(self) -> tuple[str, ...]:
        """The names that this page may have, in their order, each once. Raises InvalidRequest."""
        cursor = self.cursor
        if cursor is None:
            return tuple(sorted(set(self.topics)))
        if self.topics and cursor.topic_name not in self.topics:
            raise InvalidRequest(f"the cursor's topic {cursor.topic_name!r} is not among those requested")
        if cursor.partition_index < 0:
            raise InvalidRequest(f"a cursor's partition is 0 or more, not {cursor.partition_index}")
        return tuple(sorted({each for each in self.topics if each >= cursor.topic_name}))


@dataclass(frozen=True, slots=True)
class TopicPartitionsDescribed:
    """One page. ``next_cursor`` None: the last one."""

    topics: tuple[TopicMetadata, ...]
    next_cursor: Cursor | None = None


_REQUEST: Final = Message(75, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(75, "response", elements_max=ANSWER_ELEMENTS_MAX)
_PARTITION: Final = struct.Struct(">hiii")  # error | index | leader | leader epoch
_FLAG: Final = struct.Struct(">b")
_NULL, _STRUCT = -1, 1  # before a struct that may be null


def _decode_request(version: int, body: Buffer) -> DescribeTopicPartitions:
    message = _REQUEST.decode(version, body)
    cursor = message["cursor"]
    return DescribeTopicPartitions(
        tuple(each["name"] for each in message["topics"]),
        message["response_partition_limit"],
        None if cursor is None else Cursor(**cursor),
    )


def _encode_request(version: int, request: DescribeTopicPartitions) -> bytes:
    fields = {
        "topics": tuple({"name": each} for each in request.topics),
        "response_partition_limit": request.partitions_max,
        "cursor": request.cursor,
    }
    return _REQUEST.encode(version, fields)


def _encode_response(version: int, answer: TopicPartitionsDescribed, throttle_ms: int) -> bytes:
    writer = Writer(flexible=True)
    writer.int32(throttle_ms)
    writer.count(len(answer.topics))
    for topic in answer.topics:
        writer.int16(topic.error_code)
        writer.string(topic.name)
        writer.uuid(topic.topic_id)
        writer.pack(_FLAG, topic.is_internal)
        writer.count(len(topic.partitions))
        for each in topic.partitions:
            writer.pack(_PARTITION, each.error_code, each.partition_index, each.leader_id, each.leader_epoch)
            writer.int32s(each.replica_nodes)
            writer.int32s(each.isr_nodes)
            writer.int32s(())  # eligible leaders
            writer.int32s(())  # the last of them
            writer.int32s(each.offline_replicas)
            writer.no_tags()
        writer.int32(topic.topic_authorized_operations)
        writer.no_tags()
    cursor = answer.next_cursor
    writer.pack(_FLAG, _NULL if cursor is None else _STRUCT)
    if cursor is not None:
        writer.string(cursor.topic_name)
        writer.int32(cursor.partition_index)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(
    version: int, request: DescribeTopicPartitions | None, error: ApiError, throttle_ms: int
) -> bytes:
    # As in Kafka: the error stands at each topic in the request, so it may stand nowhere.
    names = () if request is None else request.topics
    topics = tuple(TopicMetadata(name=each, error_code=error.code) for each in names)
    return _encode_response(version, TopicPartitionsDescribed(topics), throttle_ms)


def _decode_response(version: int, body: Buffer) -> TopicPartitionsDescribed:
    message = _RESPONSE.decode(version, body)
    cursor = message["next_cursor"]
    topics = (
        TopicMetadata(
            name=topic["name"],
            error_code=topic["error_code"],
            topic_id=topic["topic_id"],
            is_internal=topic["is_internal"],
            partitions=tuple(
                PartitionMetadata(
                    partition_index=each["partition_index"],
                    error_code=each["error_code"],
                    leader_id=each["leader_id"],
                    leader_epoch=each["leader_epoch"],
                    replica_nodes=each["replica_nodes"],
                    isr_nodes=each["isr_nodes"],
                    offline_replicas=each["offline_replicas"],
                )
                for each in topic["partitions"]
            ),
            topic_authorized_operations=topic["topic_authorized_operations"],
        )
        for topic in message["topics"]
    )
    return TopicPartitionsDescribed(tuple(topics), None if cursor is None else Cursor(**cursor))


DESCRIBE_TOPIC_PARTITIONS: Final[Api[DescribeTopicPartitions, TopicPartitionsDescribed]] = Api(
    key=75,
    name="DescribeTopicPartitions",
    versions=range(1),
    flexible_from=0,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
