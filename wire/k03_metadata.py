"""Metadata, API key 3, versions 0-13: the brokers, and the topics with their partitions.

0   no topics means all of them; from 1 on null does, and none means none
1   controller_id, rack, is_internal       2   cluster_id        3   throttle_time
4   allow_auto_topic_creation              5   offline_replicas  7   leader_epoch
8   authorized operations                  9   flexible         10   topic ids
11  no authorized operations of the cluster
12  a topic may be requested by its id alone, and answered without a name
13  error_code for the whole answer
Ours: tag 1000 of a partition, ``start_offset``, and of a topic, ``configs_digest``; clients skip them
"""

import struct
import uuid
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.wire.cursor import Reader, Writer, read, read_in_steps
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import TOPIC_NAMES
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message
from fencepost.wire.steps import Steps, completed

OPERATIONS_OMITTED: Final = -(2**31)  # Kafka's "authorized operations were not requested"
BY_TOPIC_ID_FROM: Final = 12

ROWS_AT_ONCE_MAX: Final = 2_000
"""Partitions that are written or read in one step of the loop, besides those of the topic that passes it."""
TOPIC_ROWS: Final = 5  # what a topic costs beside its partitions, in partitions


@dataclass(frozen=True, slots=True)
class TopicQuery:
    """A topic, by name or by id."""

    name: str | None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """API key 3. ``topics`` None: all of them."""

    topics: tuple[TopicQuery, ...] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker, on the listener of the request."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(Struct, frozen=True, kw_only=True, gc=False):
    """One partition. ``leader_epoch`` -1 if unknown. A Struct, as a cluster may have 100,000 of them."""

    partition_index: int
    error_code: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    start_offset: int = -1  # ours, tag 1000: where a log that was lost was started again in leader_epoch


class TopicMetadata(Struct, frozen=True, kw_only=True):
    """One topic, or why it cannot be had. ``name`` None only if it was requested by an unknown id."""

    name: str | None
    error_code: int = 0
    topic_id: uuid.UUID | None = None
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    topic_authorized_operations: int = OPERATIONS_OMITTED
    configs_digest: int = 0  # ours, tag 1000: another number for other settings of the topic; 0: none

    @property
    def rows(self) -> int:
        """What it takes to describe, write or read the topic, in partitions."""
        return TOPIC_ROWS + len(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer:
    """``controller_id`` is one of ``brokers``, or -1. ``error_code`` is sent from version 13 on: then no
    topic was looked up, and a call of ours raises it.
    """

    cluster_id: str | None
    controller_id: int = -1
    brokers: tuple[BrokerNode, ...] = ()
    topics: tuple[TopicMetadata, ...] = ()
    cluster_authorized_operations: int = OPERATIONS_OMITTED
    error_code: int = 0


_FLEXIBLE_FROM: Final = 9
_ANSWER_ELEMENTS_MAX: Final = 1_000_000
"""Some 200,000 partitions with one replica each; a topic's partitions are read in a few microseconds each."""

_REQUEST: Final = Message(3, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_PARTITION: Final = struct.Struct(">hii")  # error | index | leader
_CLUSTER_OPERATIONS_IN: Final = range(8, 11)
_PLAIN: Final = struct.Struct(">hiiiBiBiBB")
"""A flexible partition with one replica, in sync: each array's length plus one, the ids, and no tags."""
_PLAIN_LENGTHS: Final = (2, 2, 1, 0)
_OWN_TAG: Final = bytes((1, 0xE8, 0x07, 8))  # one tag, 1000, of eight bytes
_INT64_TAGS: Final = {1000: Reader.int64}
_IS_INTERNAL: Final = struct.Struct(">?")


def _decode_request(version: int, body: Buffer) -> Metadata:
    """Bytes after it are left unread: librdkafka 2.16 sends three too many with version 9 and up."""
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"Metadata v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> Metadata:
    count = reader.nullable_count()
    topics = None if count is None else tuple([_read_query(version, reader) for _ in range(count)])
    if version == 0 and not topics:
        topics = None
    if topics and version < BY_TOPIC_ID_FROM and any(each.name is None or each.topic_id for each in topics):
        raise InvalidRequest(f"topics by id need version {BY_TOPIC_ID_FROM}, this is {version}")
    creates = reader.int8() != 0 if version >= 4 else True
    of_cluster = reader.int8() != 0 if version in _CLUSTER_OPERATIONS_IN else False
    of_topics = reader.int8() != 0 if version >= 8 else False
    reader.skip_tags()
    return Metadata(topics, creates, of_cluster, of_topics)


def _read_query(version: int, reader: Reader) -> TopicQuery:
    topic_id = reader.uuid() if version >= 10 else None
    name = reader.nullable_string() if version >= 10 else reader.string()
    reader.skip_tags()
    return TopicQuery(name, topic_id)


def _encode_request(version: int, request: Metadata) -> bytes:
    topics = request.topics
    return _REQUEST.encode(
        version,
        {
            "topics": () if version == 0 and topics is None else topics,
            "allow_auto_topic_creation": request.allow_auto_topic_creation,
            "include_cluster_authorized_operations": request.include_cluster_authorized_operations,
            "include_topic_authorized_operations": request.include_topic_authorized_operations,
        },
    )


def _encode_response(version: int, answer: MetadataAnswer, throttle_ms: int) -> bytes:
    return b"".join(completed(_encode_steps(version, answer, throttle_ms)))


def _encode_steps(version: int, answer: MetadataAnswer, throttle_ms: int) -> Steps[list[bytes]]:
    return _encode(version, answer, throttle_ms, error_code=answer.error_code)


def _refusal(version: int, request: Metadata | None, error: ApiError, throttle_ms: int) -> bytes:
    # As in Kafka: before version 13 the error stands at each topic in the request, so it may stand nowhere.
    queries = (request.topics if request is not None else None) or ()
    topics = tuple(
        TopicMetadata(name=each.name or "", topic_id=each.topic_id, error_code=error.code) for each in queries
    )
    answer = MetadataAnswer(cluster_id=None, topics=topics)
    return b"".join(completed(_encode(version, answer, throttle_ms, error_code=error.code)))


def _encode(version: int, answer: MetadataAnswer, throttle_ms: int, *, error_code: int) -> Steps[list[bytes]]:
    """Each step joins what it has written: all at once would be the longest step of all."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    pieces: list[bytes] = []
    if version >= 3:
        writer.int32(throttle_ms)
    writer.count(len(answer.brokers))
    for broker in answer.brokers:
        writer.int32(broker.node_id)
        writer.string(broker.host)
        writer.int32(broker.port)
        if version >= 1:
            writer.string(broker.rack)
        writer.no_tags()
    if version >= 2:
        writer.string(answer.cluster_id)
    if version >= 1:
        writer.int32(answer.controller_id)
    writer.count(len(answer.topics))
    rows = 0
    for topic in answer.topics:
        if rows >= ROWS_AT_ONCE_MAX:
            rows = 0
            pieces.append(writer.message())
            writer.parts.clear()
            yield
        _write_topic(version, writer, topic)
        rows += topic.rows
    if version in _CLUSTER_OPERATIONS_IN:
        writer.int32(answer.cluster_authorized_operations)
    if version >= 13:
        writer.int16(error_code)
    writer.no_tags()
    return [*pieces, writer.message()]


def _write_topic(version: int, writer: Writer, topic: TopicMetadata) -> None:
    writer.int16(topic.error_code)
    writer.string(topic.name if version >= BY_TOPIC_ID_FROM else topic.name or "")
    if version >= 10:
        writer.uuid(topic.topic_id)
    if version >= 1:
        writer.pack(_IS_INTERNAL, topic.is_internal)
    writer.count(len(topic.partitions))
    for each in topic.partitions:
        if version >= _FLEXIBLE_FROM and _is_plain(each):
            _write_plain(writer, each)
            continue
        writer.pack(_PARTITION, each.error_code, each.partition_index, each.leader_id)
        if version >= 7:
            writer.int32(each.leader_epoch)
        writer.int32s(each.replica_nodes)
        writer.int32s(each.isr_nodes)
        if version >= 5:
            writer.int32s(each.offline_replicas)
        if version >= _FLEXIBLE_FROM and each.start_offset >= 0:
            writer.parts.append(_OWN_TAG + each.start_offset.to_bytes(8, "big"))
        else:
            writer.no_tags()
    if version >= 8:
        writer.int32(topic.topic_authorized_operations)
    if version >= _FLEXIBLE_FROM and topic.configs_digest:
        writer.parts.append(_OWN_TAG + topic.configs_digest.to_bytes(8, "big", signed=True))
    else:
        writer.no_tags()


def _is_plain(partition: PartitionMetadata) -> bool:
    return (
        len(partition.replica_nodes) == 1
        and len(partition.isr_nodes) == 1
        and not partition.offline_replicas
        and partition.start_offset < 0
    )


def _write_plain(writer: Writer, row: PartitionMetadata) -> None:
    fields = (row.error_code, row.partition_index, row.leader_id, row.leader_epoch)
    writer.pack(_PLAIN, *fields, 2, row.replica_nodes[0], 2, row.isr_nodes[0], 1, 0)


def _decode_response(version: int, body: Buffer) -> MetadataAnswer:
    return completed(_decode_steps(version, body))


def _decode_steps(version: int, body: Buffer) -> Steps[MetadataAnswer]:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=_ANSWER_ELEMENTS_MAX)
    error_code, answer = yield from read_in_steps(
        f"Metadata answer v{version}", reader, _read_response(version, reader)
    )
    raise_for(error_code)
    return answer


def _read_response(version: int, reader: Reader) -> Steps[tuple[int, MetadataAnswer]]:
    if version >= 3:
        reader.int32()
    brokers = tuple(_read_broker(version, reader) for _ in range(reader.count()))
    cluster_id = reader.nullable_string() if version >= 2 else None
    controller_id = reader.int32() if version >= 1 else -1
    topics: list[TopicMetadata] = []
    rows = 0
    for _ in range(reader.count()):
        if rows >= ROWS_AT_ONCE_MAX:
            rows = 0
            yield
        topics.append(_read_topic(version, reader))
        rows += topics[-1].rows
    operations = reader.int32() if version in _CLUSTER_OPERATIONS_IN else OPERATIONS_OMITTED
    error_code = reader.int16() if version >= 13 else 0
    reader.skip_tags()
    reader.finish()
    return error_code, MetadataAnswer(
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        topics=tuple(topics),
        cluster_authorized_operations=operations,
    )


def _read_broker(version: int, reader: Reader) -> BrokerNode:
    node_id = reader.int32()
    host = reader.string()
    port = reader.int32()
    rack = reader.nullable_string() if version >= 1 else None
    reader.skip_tags()
    return BrokerNode(node_id, host, port, rack)


def _read_topic(version: int, reader: Reader) -> TopicMetadata:
    error_code = reader.int16()
    name = reader.nullable_string() if version >= BY_TOPIC_ID_FROM else reader.string()
    topic_id = reader.uuid() if version >= 10 else None
    is_internal = reader.fields(_IS_INTERNAL)[0] if version >= 1 else False
    partitions = _read_partitions(version, reader, reader.count())
    operations = reader.int32() if version >= 8 else OPERATIONS_OMITTED
    tags = reader.tags(_INT64_TAGS) if version >= _FLEXIBLE_FROM else {}
    return TopicMetadata(
        name=name,
        error_code=error_code,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
        configs_digest=tags.get(1000, 0),
    )


def _read_partitions(version: int, reader: Reader, count: int) -> tuple[PartitionMetadata, ...]:
    found = _read_plain(reader, count) if version >= _FLEXIBLE_FROM else []
    while len(found) < count:
        found.append(_read_partition(version, reader))
    return tuple(found)


def _read_plain(reader: Reader, count: int) -> list[PartitionMetadata]:
    """Plain partitions, up to the first one that is not."""
    start = reader.position
    found: list[PartitionMetadata] = []
    whole = min(count, reader.bytes_left // _PLAIN.size)
    for error, index, leader, epoch, replicas, replica, isr, in_sync, offline, tags in _PLAIN.iter_unpack(
        reader.take(whole * _PLAIN.size)
    ):
        if (replicas, isr, offline, tags) != _PLAIN_LENGTHS:
            break
        found.append(
            PartitionMetadata(
                partition_index=index,
                error_code=error,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=(replica,),
                isr_nodes=(in_sync,),
            )
        )
    reader.position = start + len(found) * _PLAIN.size
    return found


def _read_partition(version: int, reader: Reader) -> PartitionMetadata:
    error_code, partition_index, leader_id = reader.fields(_PARTITION)
    leader_epoch = reader.int32() if version >= 7 else -1
    replica_nodes = reader.int32s()
    isr_nodes = reader.int32s()
    offline_replicas = reader.int32s() if version >= 5 else ()
    tags = reader.tags(_INT64_TAGS) if version >= _FLEXIBLE_FROM else {}
    return PartitionMetadata(
        partition_index=partition_index,
        error_code=error_code,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
        start_offset=tags.get(1000, -1),
    )


METADATA: Final[Api[Metadata, MetadataAnswer]] = Api(
    key=3,
    name="Metadata",
    versions=range(14),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_NAMES,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_steps=_encode_steps,
    decode_steps=_decode_steps,
)
