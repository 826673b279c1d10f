"""WriteTxnMarkers, API key 27, versions 1-2: end these transactions on these partitions.

1   flexible       2   transaction_version of each marker (KIP-1228)
Ours        tagged fields of a marker, which Kafka's brokers skip (KIP-482). They count only on a connection
            that proved the cluster's secret:
            1000 ``image_version``, i64: of the decision that it carries out, against late duplicates
            1001 ``forced``, i8: 1 where it is to apply over a higher epoch; absent otherwise
"""

import struct
from typing import Final, TypeAlias

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.records.varint import unsigned
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer

IMAGE_VERSION_TAG: Final = 1000
FORCED_TAG: Final = 1001
NO_IMAGE_VERSION: Final = 0  # an admin's abort, or a coordinator that is none of ours
PARTITIONS_MAX: Final = 5_000
"""Partitions in one request, over all its markers: then any distribution is below ELEMENTS_MAX."""

MarkerTopics: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, partition indexes)."""


class TxnMarker(msgspec.Struct, frozen=True):
    """One transaction's end. ``committed`` False: aborted."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: MarkerTopics
    coordinator_epoch: int
    transaction_version: int = 0
    image_version: int = NO_IMAGE_VERSION
    forced: bool = False


class WriteTxnMarkers(msgspec.Struct, frozen=True):
    """A request to write the markers of many transactions (API key 27)."""

    markers: tuple[TxnMarker, ...]


class WriteTxnMarkersAnswer(msgspec.Struct, frozen=True):
    """(producer id, ((topic, ((partition index, error code), ...)), ...)) per marker of the request."""

    markers: tuple[tuple[int, tuple[tuple[str, tuple[tuple[int, int], ...]], ...]], ...]


_FLEXIBLE_FROM: Final = 1  # from the first version on
_MARKER: Final = struct.Struct(">qh?")  # producer id | producer epoch | committed
_RESULT: Final = struct.Struct(">ih")  # partition index | error
_INT64: Final = struct.Struct(">q")
_IMAGE_VERSION_HEAD: Final = unsigned(IMAGE_VERSION_TAG) + unsigned(_INT64.size)
_FORCED: Final = unsigned(FORCED_TAG) + b"\1\1"


def _decode_request(version: int, body: Buffer) -> WriteTxnMarkers:
    return read(
        f"WriteTxnMarkers v{version}", Reader(body, flexible=True), lambda reader: _read(version, reader)
    )


def _read(version: int, reader: Reader) -> WriteTxnMarkers:
    markers = tuple(_read_marker(version, reader) for _ in range(reader.count()))
    reader.skip_tags()
    return WriteTxnMarkers(markers)


def _read_marker(version: int, reader: Reader) -> TxnMarker:
    producer_id, producer_epoch, committed = reader.fields(_MARKER)
    topics: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(reader.count()):
        topics.append((reader.string(), reader.int32s()))
        reader.skip_tags()
    coordinator_epoch = reader.int32()
    transaction_version = reader.int8() if version >= 2 else 0
    tags = reader.tags(_TAGS)
    return TxnMarker(
        producer_id,
        producer_epoch,
        committed,
        tuple(topics),
        coordinator_epoch,
        transaction_version,
        tags.get(IMAGE_VERSION_TAG, NO_IMAGE_VERSION),
        tags.get(FORCED_TAG, 0) == 1,
    )


_TAGS: Final = {IMAGE_VERSION_TAG: Reader.int64, FORCED_TAG: Reader.int8}


def _encode_request(version: int, request: WriteTxnMarkers) -> bytes:
    writer = Writer(flexible=True)
    writer.count(len(request.markers))
    for each in request.markers:
        writer.pack(_MARKER, each.producer_id, each.producer_epoch, each.committed)
        writer.count(len(each.topics))
        for topic, indexes in each.topics:
            writer.string(topic)
            writer.int32s(indexes)
            writer.no_tags()
        writer.int32(each.coordinator_epoch)
        if version >= 2:
            writer.int8(each.transaction_version)
        tags = [_IMAGE_VERSION_HEAD, _INT64.pack(each.image_version)]
        if each.forced:
            writer.parts += (b"\2", *tags, _FORCED)
        elif each.image_version == NO_IMAGE_VERSION:
            writer.no_tags()
        else:
            writer.parts += (b"\1", *tags)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: WriteTxnMarkersAnswer, throttle_ms: int) -> bytes:
    writer = Writer(flexible=True)
    writer.count(len(answer.markers))
    for producer_id, topics in answer.markers:
        writer.pack(_INT64, producer_id)
        writer.count(len(topics))
        for topic, results in topics:
            writer.string(topic)
            writer.count(len(results))
            for index, error_code in results:
                writer.pack(_RESULT, index, error_code)
                writer.no_tags()
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: WriteTxnMarkers | None, error: ApiError, throttle_ms: int) -> bytes:
    markers = request.markers if request is not None else ()
    refused = tuple(
        (
            each.producer_id,
            tuple(
                (topic, tuple((index, int(error.code)) for index in indexes))
                for topic, indexes in each.topics
            ),
        )
        for each in markers
    )
    return _encode_response(version, WriteTxnMarkersAnswer(refused), throttle_ms)


def _decode_response(version: int, body: Buffer) -> WriteTxnMarkersAnswer:
    return read(f"WriteTxnMarkers answer v{version}", Reader(body, flexible=True), _read_answer)


def _read_answer(reader: Reader) -> WriteTxnMarkersAnswer:
    markers = tuple(_read_result(reader) for _ in range(reader.count()))
    reader.skip_tags()
    reader.finish()
    return WriteTxnMarkersAnswer(markers)


def _read_result(reader: Reader) -> tuple[int, tuple[tuple[str, tuple[tuple[int, int], ...]], ...]]:
    producer_id = reader.int64()
    topics: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    for _ in range(reader.count()):
        topic = reader.string()
        results: list[tuple[int, int]] = []
        for _ in range(reader.count()):
            index, error_code = reader.fields(_RESULT)
            results.append((index, error_code))
            reader.skip_tags()
        topics.append((topic, tuple(results)))
        reader.skip_tags()
    reader.skip_tags()
    return producer_id, tuple(topics)


WRITE_TXN_MARKERS: Final[Api[WriteTxnMarkers, WriteTxnMarkersAnswer]] = Api(
    key=27,
    name="WriteTxnMarkers",
    versions=range(1, 3),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,  # 5,000 partitions, each with a marker of its own at worst
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
