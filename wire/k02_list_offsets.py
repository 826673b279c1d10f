"""ListOffsets, API key 2, versions 1-11: the offset at a time.

2   isolation_level, throttle_time     4   leader epochs      6   flexible
7   timestamp -3 (the largest timestamp)      8   -4 (earliest local)      9   -5 (last tiered)
10  timeout      11  -6 (earliest pending upload)
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import Writer, grouped
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
SPECIAL_LOWEST: Final = -6  # the earliest pending upload


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """The first offset whose timestamp is not below ``timestamp_ms``, or one of the special ones above."""

    topic: str
    index: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """``isolation_level`` 1: LATEST is the last stable offset. ``replica_id`` -1: a consumer.

    ``special_lowest``: of the special timestamps that the request's version has.
    """

    partitions: tuple[OffsetQuery, ...]
    replica_id: int = -1
    isolation_level: int = 0
    timeout_ms: int = 0
    special_lowest: int = SPECIAL_LOWEST


@dataclass(frozen=True, slots=True)
class OffsetFound:
    """``offset`` -1: there is none, or an error."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsAnswer:
    """One row per partition in the request; those of one topic stand together."""

    partitions: tuple[OffsetFound, ...]


_SPECIAL_FROM: Final = {7: MAX_TIMESTAMP, 8: -4, 9: -5, 11: SPECIAL_LOWEST}  # by version
_EPOCH_FROM: Final = 4
_FLEXIBLE_FROM: Final = 6
_FOUND: Final = struct.Struct(">ihqq")  # partition | error | timestamp | offset
_REQUEST: Final = Message(2, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(2, "response")


def _decode_request(version: int, body: Buffer) -> ListOffsets:
    message = _REQUEST.decode(version, body)
    partitions = tuple(
        OffsetQuery(
            topic["name"],
            each["partition_index"],
            each["timestamp"],
            each.get("current_leader_epoch", -1),
        )
        for topic in message["topics"]
        for each in topic["partitions"]
    )
    return ListOffsets(
        partitions,
        message["replica_id"],
        message.get("isolation_level", 0),
        message.get("timeout_ms", 0),
        special_lowest(version),
    )


def special_lowest(version: int) -> int:
    """Of the special timestamps of a version. Source: Kafka ReplicaManager.timestampMinSupportedVersion."""
    return min((lowest for since, lowest in _SPECIAL_FROM.items() if version >= since), default=EARLIEST)


def _encode_request(version: int, request: ListOffsets) -> bytes:
    topics = grouped(request.partitions, lambda each: each.topic)
    message = {
        "replica_id": request.replica_id,
        "isolation_level": request.isolation_level,
        "timeout_ms": request.timeout_ms,
        "topics": tuple(
            {
                "name": topic,
                "partitions": tuple(
                    {
                        "partition_index": each.index,
                        "current_leader_epoch": each.current_leader_epoch,
                        "timestamp": each.timestamp_ms,
                    }
                    for each in partitions
                ),
            }
            for topic, partitions in topics.items()
        ),
    }
    return _REQUEST.encode(version, message)


def _encode_response(version: int, answer: ListOffsetsAnswer, throttle_ms: int) -> bytes:
    """By hand: a request may have thousands of partitions."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 2:
        writer.int32(throttle_ms)
    topics = grouped(answer.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.pack(_FOUND, each.index, each.error_code, each.timestamp_ms, each.offset)
            if version >= _EPOCH_FROM:
                writer.int32(each.leader_epoch)
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: ListOffsets | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.partitions if request is not None else ()
    rows = tuple(OffsetFound(each.topic, each.index, error.code) for each in requested)
    return _encode_response(version, ListOffsetsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> ListOffsetsAnswer:
    message = _RESPONSE.decode(version, body)
    rows = tuple(
        OffsetFound(
            topic["name"],
            each["partition_index"],
            each["error_code"],
            each["timestamp"],
            each["offset"],
            each.get("leader_epoch", -1),
        )
        for topic in message["topics"]
        for each in topic["partitions"]
    )
    return ListOffsetsAnswer(rows)


LIST_OFFSETS: Final[Api[ListOffsets, ListOffsetsAnswer]] = Api(
    key=2,
    name="ListOffsets",
    versions=range(1, 12),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
