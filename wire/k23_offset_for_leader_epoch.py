"""OffsetForLeaderEpoch, API key 23, versions 2-4: where an epoch ends in the leader's log (KIP-320).

2   current_leader_epoch, throttle_time      3   replica_id      4   flexible
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import Writer, grouped
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message

DEBUGGING_REPLICA: Final = -2  # what Kafka takes a replica id for that was not given


@dataclass(frozen=True, slots=True)
class EpochQuery:
    """Where does ``leader_epoch`` end? ``current_leader_epoch`` -1: do not check whom I take for leader."""

    topic: str
    index: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpoch:
    """``replica_id`` -1: a consumer; below version 3 a follower may ask too, and looks the same."""

    partitions: tuple[EpochQuery, ...]
    replica_id: int = -1


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest epoch not above the requested one, and the first offset after it; -1 and -1: none."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochAnswer:
    """One row per partition in the request; those of one topic stand together."""

    partitions: tuple[EpochEnd, ...]


_FLEXIBLE_FROM: Final = 4
_END: Final = struct.Struct(">hiiq")  # error | partition | leader epoch | end offset
_REQUEST: Final = Message(23, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(23, "response")


def _decode_request(version: int, body: Buffer) -> OffsetForLeaderEpoch:
    message = _REQUEST.decode(version, body)
    partitions = tuple(
        EpochQuery(topic["topic"], each["partition"], each["leader_epoch"], each["current_leader_epoch"])
        for topic in message["topics"]
        for each in topic["partitions"]
    )
    return OffsetForLeaderEpoch(partitions, message.get("replica_id", -1))


def _encode_request(version: int, request: OffsetForLeaderEpoch) -> bytes:
    topics = grouped(request.partitions, lambda each: each.topic)
    message = {
        "replica_id": request.replica_id,
        "topics": tuple(
            {
                "topic": topic,
                "partitions": tuple(
                    {
                        "partition": each.index,
                        "current_leader_epoch": each.current_leader_epoch,
                        "leader_epoch": each.leader_epoch,
                    }
                    for each in partitions
                ),
            }
            for topic, partitions in topics.items()
        ),
    }
    return _REQUEST.encode(version, message)


def _encode_response(version: int, answer: OffsetForLeaderEpochAnswer, throttle_ms: int) -> bytes:
    """By hand: a request may have thousands of partitions."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    topics = grouped(answer.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.pack(_END, each.error_code, each.index, each.leader_epoch, each.end_offset)
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: OffsetForLeaderEpoch | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.partitions if request is not None else ()
    rows = tuple(EpochEnd(each.topic, each.index, error.code) for each in requested)
    return _encode_response(version, OffsetForLeaderEpochAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> OffsetForLeaderEpochAnswer:
    message = _RESPONSE.decode(version, body)
    rows = tuple(
        EpochEnd(
            topic["topic"], each["partition"], each["error_code"], each["leader_epoch"], each["end_offset"]
        )
        for topic in message["topics"]
        for each in topic["partitions"]
    )
    return OffsetForLeaderEpochAnswer(rows)


OFFSET_FOR_LEADER_EPOCH: Final[Api[OffsetForLeaderEpoch, OffsetForLeaderEpochAnswer]] = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=range(2, 5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
