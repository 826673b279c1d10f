"""AnnouncePartitions, API key 20024, version 0: the coordinator tells a partition leader who writes there.

A private API from the active controller to brokers. It says, before the first batch comes, what the broker
would ask with AddPartitionsToTxn and VerifyOnly (KIP-890): in the image of ``image_version`` this producer's
transaction is open and holds these partitions. It is never needed: who was told nothing asks. So it is not
answered, either; a refusal closes the connection.

request     compact array of: producer id i64 | producer epoch i16 | image version i64 |
            compact array of (compact topic, compact array of partition i32)
response    none; to a request that is not even read: throttle ms i32 | error i16
"""

import struct
from typing import Final

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, NEVER_FLEXIBLE, Api, Unanswered
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer

PARTITIONS_MAX: Final = 5_000
"""Partitions in one request: then any distribution is below ELEMENTS_MAX."""

_HEAD: Final = struct.Struct(">qhq")
_ANSWER: Final = struct.Struct(">ih")


class Announcement(msgspec.Struct, frozen=True):
    """A producer's open transaction holds these partitions: ((topic, (partition, ...)), ...)."""

    producer_id: int
    producer_epoch: int
    image_version: int
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class AnnouncePartitions(msgspec.Struct, frozen=True):
    """Of many transactions, in the order in which they were decided."""

    announcements: tuple[Announcement, ...]


def _decode_request(version: int, body: Buffer) -> AnnouncePartitions:
    return read("AnnouncePartitions", Reader(body, flexible=True), _read)


def _read(reader: Reader) -> AnnouncePartitions:
    announcements = tuple(_read_one(reader) for _ in range(reader.count()))
    reader.finish()
    return AnnouncePartitions(announcements)


def _read_one(reader: Reader) -> Announcement:
    producer_id, epoch, image_version = reader.fields(_HEAD)
    topics = tuple((reader.string(), reader.int32s()) for _ in range(reader.count()))
    return Announcement(producer_id, epoch, image_version, topics)


def _encode_request(version: int, request: AnnouncePartitions) -> bytes:
    writer = Writer(flexible=True)
    writer.count(len(request.announcements))
    for each in request.announcements:
        writer.pack(_HEAD, each.producer_id, each.producer_epoch, each.image_version)
        writer.count(len(each.topics))
        for topic, indexes in each.topics:
            writer.string(topic)
            writer.int32s(indexes)
    return writer.message()


def _encode_response(version: int, answer: None, throttle_ms: int) -> bytes:
    return _ANSWER.pack(throttle_ms, 0)


def _refusal(version: int, request: AnnouncePartitions | None, error: ApiError, throttle_ms: int) -> bytes:
    return _ANSWER.pack(throttle_ms, error.code)


def _decode_response(version: int, body: Buffer) -> None:
    if len(body) != _ANSWER.size:
        raise CorruptData(f"AnnouncePartitions: an answer of {len(body)} bytes")
    raise_for(_ANSWER.unpack(body)[1])


def _unanswered(request: AnnouncePartitions, outcome: ApiError | None) -> Unanswered:
    return Unanswered(None if outcome is None else message_of(outcome))


ANNOUNCE_PARTITIONS: Final[Api[AnnouncePartitions, None]] = Api(
    key=20024,
    name="AnnouncePartitions",
    versions=range(1),
    flexible_from=NEVER_FLEXIBLE,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,  # 5,000 partitions, each with an id of its own at worst
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    unanswered=_unanswered,
)
