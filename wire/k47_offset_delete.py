"""OffsetDelete, API key 47, version 0: forget what a group committed of some partitions. Never flexible."""

import struct
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.groups.offset_messages import DeleteOffsets, PartitionCodes
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, NEVER_FLEXIBLE, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.offset_rows import read_codes, write_codes
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

_HEAD: Final = struct.Struct(">hi")  # error | throttle ms


def _decode_request(version: int, body: Buffer) -> DeleteOffsets:
    reader = Reader(body, flexible=False, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"OffsetDelete v{version}", reader, _read_request)


def _read_request(reader: Reader) -> DeleteOffsets:
    group_id = reader.string()
    partitions: list[tuple[str, int]] = []
    for _ in range(reader.count()):
        topic = reader.string()
        partitions += [(topic, index) for index in reader.int32s()]
    return DeleteOffsets(group_id, tuple(partitions))


def _encode_request(version: int, request: DeleteOffsets) -> bytes:
    writer = Writer(flexible=False)
    writer.string(request.group_id)
    topics = grouped(request.partitions, lambda each: each[0])
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.int32s(tuple([index for _, index in partitions]))
    return writer.message()


def _encode_response(version: int, answer: PartitionCodes, throttle_ms: int) -> bytes:
    return _encode(answer, throttle_ms, error_code=0)


def _refusal(version: int, request: DeleteOffsets | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(PartitionCodes(()), throttle_ms, error_code=error.code)


def _encode(answer: PartitionCodes, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=False)
    writer.pack(_HEAD, error_code, throttle_ms)
    write_codes(writer, answer.rows)
    return writer.message()


def _decode_response(version: int, body: Buffer) -> PartitionCodes:
    reader = Reader(body, flexible=False)
    error_code, answer = read(f"OffsetDelete answer v{version}", reader, _read_response)
    raise_for(error_code)
    return answer


def _read_response(reader: Reader) -> tuple[int, PartitionCodes]:
    error_code: int = reader.fields(_HEAD)[0]
    rows = read_codes(reader)
    reader.finish()
    return error_code, PartitionCodes(rows)


OFFSET_DELETE: Final[Api[DeleteOffsets, PartitionCodes]] = Api(
    key=47,
    name="OffsetDelete",
    versions=range(1),
    flexible_from=NEVER_FLEXIBLE,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
