"""WriteTxnMarkers, API key 27, versions 1-2: end these transactions on these partitions.

1   flexible       2   transaction_version of each marker (KIP-1228)
Ours        tagged field 1000 of a marker, ``image_version``: the image version of the decision that it
            carries out, against late duplicates. Kafka's brokers skip a tag they do not know (KIP-482).
"""

import struct
from typing import Final, TypeAlias

import msgspec

from controller.errors import ApiError
from wire.cursor import Reader, Writer, read, varint
from wire.dispatch import Api
from wire.schema import Buffer

IMAGE_VERSION_TAG: Final = 1000
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


class WriteTxnMarkers(msgspec.Struct, frozen=True):
    """Markers of many transactions."""

    markers: tuple[TxnMarker, ...]


class WriteTxnMarkersAnswer(msgspec.Struct, frozen=True):
    """(producer id, ((topic, ((partition index, error code), ...)), ...)) per marker asked."""

    markers: tuple[tuple[int, tuple[tuple[str, tuple[tuple[int, int], ...]], ...]], ...]


_FLEXIBLE_FROM: Final = 1  # from the first version on
_MARKER: Final = struct.Struct(">qh?")  # producer id | producer epoch | committed
_RESULT: Final = struct.Struct(">ih")  # partition index | error
_INT64: Final = struct.Struct(">q")
_IMAGE_VERSION_HEAD: Final = varint(IMAGE_VERSION_TAG) + varint(_INT64.size)


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
    image_version = reader.tags(_TAGS).get(IMAGE_VERSION_TAG, NO_IMAGE_VERSION)
    return TxnMarker(
        producer_id,
        producer_epoch,
        committed,
        tuple(topics),
        coordinator_epoch,
        transaction_version,
        image_version,
    )


_TAGS: Final = {IMAGE_VERSION_TAG: Reader.int64}


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
        if each.image_version == NO_IMAGE_VERSION:
            writer.no_tags()
        else:
            writer.parts += (b"\1", _IMAGE_VERSION_HEAD, _INT64.pack(each.image_version))
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
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
