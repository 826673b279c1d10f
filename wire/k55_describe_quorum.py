"""DescribeQuorum, API key 55, versions 0-2: the leader, the voters, and how far each has replicated.

1   last_fetch_timestamp, last_caught_up_timestamp
2   directory ids, error messages, the nodes with their listeners
For anything but partition 0 of ``__cluster_metadata``, an endpoint answers that partition with 3.
"""

import uuid
from dataclasses import dataclass
from typing import Any, Final

from fencepost.controller.errors import ApiError
from fencepost.records.types import NodeId, Offset, Term
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

METADATA_TOPIC: Final = "__cluster_metadata"
UNKNOWN_TIMESTAMP: Final = -1
NO_NODE: Final = NodeId(-1)
UNKNOWN_TERM: Final = Term(-1)
UNKNOWN_OFFSET: Final = Offset(-1)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions of one topic in the request."""

    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribeQuorum:
    """A request for the state of the quorum (API key 55)."""

    topics: tuple[TopicPartitions, ...] = (TopicPartitions(METADATA_TOPIC, (0,)),)


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica as the leader sees it. Timestamps are milliseconds of the leader's wall clock."""

    replica_id: NodeId
    log_end_offset: Offset  # -1 unknown
    directory_id: uuid.UUID | None = None  # None is the zero uuid: unknown
    last_fetch_timestamp: int = UNKNOWN_TIMESTAMP  # -1 for the leader, too
    last_caught_up_timestamp: int = UNKNOWN_TIMESTAMP  # the leader reports now


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPartition:
    """The quorum of one partition."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    leader_id: NodeId = NO_NODE
    leader_epoch: Term = UNKNOWN_TERM
    high_watermark: Offset = UNKNOWN_OFFSET
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumTopic:
    """The answer for one topic."""

    topic_name: str
    partitions: tuple[QuorumPartition, ...]


@dataclass(frozen=True, slots=True)
class NodeListener:
    """The address of one listener of a controller."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A node of the quorum, with its listeners."""

    node_id: NodeId
    listeners: tuple[NodeListener, ...]


@dataclass(frozen=True, slots=True)
class DescribeQuorumAnswer:
    """One row per topic and partition in the request; ``nodes`` only from version 2."""

    topics: tuple[QuorumTopic, ...]
    nodes: tuple[QuorumNode, ...] = ()
    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def of(cls, partition: QuorumPartition, nodes: tuple[QuorumNode, ...] = ()) -> "DescribeQuorumAnswer":
        """The answer about the one partition there is."""
        return cls((QuorumTopic(METADATA_TOPIC, (partition,)),), nodes)

    @property
    def partition(self) -> QuorumPartition | None:
        """The partition of the metadata log, if the answer has it."""
        for topic in self.topics:
            for partition in topic.partitions:
                if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                    return partition
        return None


_REQUEST: Final = Message(55, "request")
_RESPONSE: Final = Message(
    55,
    "response",
    parts={
        "topics": QuorumTopic,
        "partitions": QuorumPartition,
        "current_voters": ReplicaState,
        "observers": ReplicaState,
        "nodes": QuorumNode,
        "listeners": NodeListener,
    },
    renames={"replica_directory_id": "directory_id"},
)


def _decode_request(version: int, body: Buffer) -> DescribeQuorum:
    topics = _REQUEST.decode(version, body)["topics"]
    return DescribeQuorum(tuple(_topic(each["topic_name"], each["partitions"]) for each in topics))


def _topic(name: str, partitions: tuple[dict[str, int], ...]) -> TopicPartitions:
    return TopicPartitions(name, tuple(each["partition_index"] for each in partitions))


def _encode_request(version: int, request: DescribeQuorum) -> bytes:
    topics: list[dict[str, Any]] = []
    for topic in request.topics:
        partitions = [{"partition_index": index} for index in topic.partitions]
        topics.append({"topic_name": topic.topic_name, "partitions": partitions})
    return _REQUEST.encode(version, {"topics": topics})


def _encode_response(version: int, answer: DescribeQuorumAnswer, throttle_ms: int) -> bytes:
    return _RESPONSE.encode(
        version,
        {
            "error_code": answer.error_code,
            "error_message": answer.error_message,
            "topics": answer.topics,
            "nodes": answer.nodes,
        },
    )


def _refusal(version: int, request: DescribeQuorum | None, error: ApiError, throttle_ms: int) -> bytes:
    refused = DescribeQuorumAnswer((), error_code=error.code, error_message=message_of(error))
    return _encode_response(version, refused, throttle_ms)


def _decode_response(version: int, body: Buffer) -> DescribeQuorumAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message.get("error_message"))
    return DescribeQuorumAnswer(message["topics"], message.get("nodes", ()))


DESCRIBE_QUORUM: Final[Api[DescribeQuorum, DescribeQuorumAnswer]] = Api(
    key=55,
    name="DescribeQuorum",
    versions=range(3),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # one partition
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
