"""DescribeProducers, API key 61, version 0: which producers a partition's leader remembers (KIP-664)."""

import struct
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import Writer, grouped
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message


@dataclass(frozen=True, slots=True)
class DescribeProducers:
    """A request for the producers of partitions: (topic, partition indexes) (API key 61)."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """One producer. -1: no sequence, timestamp, marker, or open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """The producers of one partition, or the error in their place."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersAnswer:
    """One row per partition in the request; those of one topic stand together."""

    partitions: tuple[PartitionProducers, ...]


@dataclass(frozen=True, slots=True)
class EncodedPartition:
    """PartitionProducers whose ``count`` producers are bytes already, as ``encode_producers`` makes them.

    A hundred thousand of them take a tenth of a second: they are made in slices, the loop free between them.
    """

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    count: int = 0
    producers: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """DescribeProducersAnswer whose partitions are encoded already."""

    partitions: tuple[EncodedPartition, ...]


_PRODUCER: Final = struct.Struct(">qiiqiqB")  # ActiveProducer's fields, and no tagged one
_REQUEST: Final = Message(61, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(
    61, "response", {"active_producers": ActiveProducer}, elements_max=ANSWER_ELEMENTS_MAX
)


def _decode_request(version: int, body: Buffer) -> DescribeProducers:
    message = _REQUEST.decode(version, body)
    return DescribeProducers(tuple((each["name"], each["partition_indexes"]) for each in message["topics"]))


def _encode_request(version: int, request: DescribeProducers) -> bytes:
    topics = tuple({"name": topic, "partition_indexes": indexes} for topic, indexes in request.topics)
    return _REQUEST.encode(version, {"topics": topics})


def encode_producers(producers: Iterable[tuple[int, int, int, int, int, int]]) -> bytes:
    """ActiveProducers, each given by its fields in order, without their count."""
    return b"".join([_PRODUCER.pack(*each, 0) for each in producers])


def _encode_response(
    version: int, answer: DescribeProducersAnswer | EncodedAnswer, throttle_ms: int
) -> bytes:
    if isinstance(answer, DescribeProducersAnswer):
        answer = EncodedAnswer(tuple(_encoded(each) for each in answer.partitions))
    topics = grouped(answer.partitions, lambda each: each.topic)
    writer = Writer(flexible=True)
    writer.int32(throttle_ms)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.int32(each.index)
            writer.int16(each.error_code)
            writer.string(each.error_message)
            writer.count(each.count)
            writer.parts += each.producers
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encoded(row: PartitionProducers) -> EncodedPartition:
    producers = encode_producers(astuple(each) for each in row.producers)
    return EncodedPartition(
        row.topic, row.index, row.error_code, row.error_message, len(row.producers), (producers,)
    )


def _refusal(version: int, request: DescribeProducers | None, error: ApiError, throttle_ms: int) -> bytes:
    requested = request.topics if request is not None else ()
    rows = tuple(
        PartitionProducers(topic, index, error.code, message_of(error))
        for topic, indexes in requested
        for index in indexes
    )
    return _encode_response(version, DescribeProducersAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DescribeProducersAnswer:
    message = _RESPONSE.decode(version, body)
    rows = tuple(
        PartitionProducers(
            topic["name"],
            each["partition_index"],
            each["error_code"],
            each["error_message"],
            each["active_producers"],
        )
        for topic in message["topics"]
        for each in topic["partitions"]
    )
    return DescribeProducersAnswer(rows)


DESCRIBE_PRODUCERS: Final[Api[DescribeProducers, DescribeProducersAnswer | EncodedAnswer]] = Api(
    key=61,
    name="DescribeProducers",
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
