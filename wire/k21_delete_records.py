"""DeleteRecords, API key 21, versions 0-2: partitions begin at a later offset from now on.

2   flexible
Each partition has its own error, and the offset where it begins now; -1 where there is an error.
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import code_of
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

HIGH_WATERMARK: Final = -1  # an offset: up to what consumers may read
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class RecordsToDelete:
    """The records of a partition before ``offset``, which is the first to be kept."""

    topic: str
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """API key 21."""

    partitions: tuple[RecordsToDelete, ...]
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """What became of one partition. ``low_watermark``: where it begins now."""

    topic: str
    index: int
    error_code: int = ErrorCode.NONE
    low_watermark: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteRecordsAnswer:
    """One for each partition in the request."""

    partitions: tuple[RecordsDeleted, ...]


_FLEXIBLE_FROM: Final = 2
_WANTED: Final = struct.Struct(">iq")  # index | offset
_ANSWERED: Final = struct.Struct(">iqh")  # index | low watermark | error


def _decode_request(version: int, body: Buffer) -> DeleteRecords:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"DeleteRecords v{version}", reader, _read_request)


def _read_request(reader: Reader) -> DeleteRecords:
    partitions: list[RecordsToDelete] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partitions.append(RecordsToDelete(topic, *reader.fields(_WANTED)))
            reader.skip_tags()
        reader.skip_tags()
    timeout_ms = reader.int32()
    reader.skip_tags()
    return DeleteRecords(tuple(partitions), timeout_ms)


def _encode_request(version: int, request: DeleteRecords) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    topics = grouped(request.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.pack(_WANTED, each.index, each.offset)
            writer.no_tags()
        writer.no_tags()
    writer.int32(request.timeout_ms)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: DeleteRecordsAnswer, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    topics = grouped(answer.partitions, lambda each: each.topic)
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.count(len(partitions))
        for each in partitions:
            writer.pack(_ANSWERED, each.index, each.low_watermark, each.error_code)
            writer.no_tags()
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: DeleteRecords | None, error: ApiError, throttle_ms: int) -> bytes:
    wanted = request.partitions if request is not None else ()
    rows = tuple(RecordsDeleted(each.topic, each.index, error.code) for each in wanted)
    return _encode_response(version, DeleteRecordsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DeleteRecordsAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=2 * LOOKED_UP_ELEMENTS_MAX)
    return read(f"DeleteRecords answer v{version}", reader, _read_response)


def _read_response(reader: Reader) -> DeleteRecordsAnswer:
    reader.int32()
    rows: list[RecordsDeleted] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            index, low_watermark, code = reader.fields(_ANSWERED)
            rows.append(RecordsDeleted(topic, index, code_of(code), low_watermark))
            reader.skip_tags()
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return DeleteRecordsAnswer(tuple(rows))


DELETE_RECORDS: Final[Api[DeleteRecords, DeleteRecordsAnswer]] = Api(
    key=21,
    name="DeleteRecords",
    versions=range(3),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,  # 2,500 topics with a partition each
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
