"""Metadata, API key 3, versions 0-13: the brokers, and the topics with their partitions.

0   no topics means all of them; from 1 on null does, and none means none
1   controller_id, rack, is_internal       2   cluster_id        3   throttle_time
4   allow_auto_topic_creation              5   offline_replicas  7   leader_epoch
8   authorized operations                  9   flexible         10   topic ids
11  no authorized operations of the cluster
12  a topic may be asked for by its id alone, and answered without a name
13  error_code for the whole answer
"""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from controller.errors import ApiError, InvalidRequest
from wire.dispatch import Api
from wire.errors import raise_for
from wire.schema import Buffer, Message

OPERATIONS_OMITTED: Final = -(2**31)  # Kafka's "authorized operations were not asked for"
BY_TOPIC_ID_FROM: Final = 12


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition. ``leader_epoch`` -1 if unknown."""

    partition_index: int
    error_code: int = 0
    leader_id: int = -1
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic, or why it cannot be had. ``name`` None only if it was asked for by an unknown id."""

    name: str | None
    error_code: int = 0
    topic_id: uuid.UUID | None = None
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    topic_authorized_operations: int = OPERATIONS_OMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer:
    """``controller_id`` is one of ``brokers``, or -1. ``error_code`` is told from version 13 on: then no
    topic was looked up, and a call of ours raises it.
    """

    cluster_id: str | None
    controller_id: int = -1
    brokers: tuple[BrokerNode, ...] = ()
    topics: tuple[TopicMetadata, ...] = ()
    cluster_authorized_operations: int = OPERATIONS_OMITTED
    error_code: int = 0


_REQUEST: Final = Message(3, "request")
_RESPONSE: Final = Message(
    3, "response", {"brokers": BrokerNode, "topics": TopicMetadata, "partitions": PartitionMetadata}
)


def _decode_request(version: int, body: Buffer) -> Metadata:
    message = _REQUEST.decode(version, body)
    topics = message["topics"]
    if version == 0 and not topics:
        topics = None
    if topics is not None:
        topics = tuple(TopicQuery(each["name"], each.get("topic_id")) for each in topics)
        if version < BY_TOPIC_ID_FROM and any(each.name is None or each.topic_id for each in topics):
            raise InvalidRequest(f"topics by id need version {BY_TOPIC_ID_FROM}, this is {version}")
    return Metadata(
        topics,
        allow_auto_topic_creation=message.get("allow_auto_topic_creation", True),
        include_cluster_authorized_operations=message.get("include_cluster_authorized_operations", False),
        include_topic_authorized_operations=message.get("include_topic_authorized_operations", False),
    )


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
    return _encode(version, answer, throttle_ms, error_code=answer.error_code)


def _refusal(version: int, request: Metadata | None, error: ApiError, throttle_ms: int) -> bytes:
    # As in Kafka: before version 13 the error stands at each topic asked for, so it may stand nowhere.
    queries = (request.topics if request is not None else None) or ()
    topics = tuple(
        TopicMetadata(name=each.name or "", topic_id=each.topic_id, error_code=error.code) for each in queries
    )
    return _encode(
        version, MetadataAnswer(cluster_id=None, topics=topics), throttle_ms, error_code=error.code
    )


def _encode(version: int, answer: MetadataAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    message: dict[str, Any] = {
        "throttle_time_ms": throttle_ms,
        "brokers": answer.brokers,
        "cluster_id": answer.cluster_id,
        "controller_id": answer.controller_id,
        "topics": answer.topics,
        "cluster_authorized_operations": answer.cluster_authorized_operations,
        "error_code": error_code,
    }
    return _RESPONSE.encode(version, message)


def _decode_response(version: int, body: Buffer) -> MetadataAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message.get("error_code", 0))
    return MetadataAnswer(
        cluster_id=message.get("cluster_id"),
        controller_id=message.get("controller_id", -1),
        brokers=message["brokers"],
        topics=message["topics"],
        cluster_authorized_operations=message.get("cluster_authorized_operations", OPERATIONS_OMITTED),
    )


METADATA: Final[Api[Metadata, MetadataAnswer]] = Api(
    key=3,
    name="Metadata",
    versions=range(14),
    flexible_from=9,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
