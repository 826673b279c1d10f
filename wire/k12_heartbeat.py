"""Heartbeat, API key 12, versions 0-4: a member of a group is alive.

1   throttle_time_ms      3   group_instance_id (KIP-345)      4   flexible
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

_THROTTLE_FROM: Final = 1
_INSTANCE_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_CODE: Final = struct.Struct(">h")
_ANSWER: Final = struct.Struct(">ih")  # throttle ms | error
_TAGGED_ANSWER: Final = struct.Struct(">ihB")


def _decode_request(version: int, body: Buffer) -> HeartbeatGroup:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"Heartbeat v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> HeartbeatGroup:
    group_id, generation, member_id = reader.string(), reader.int32(), reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_FROM else None
    reader.skip_tags()
    return HeartbeatGroup(group_id, generation, member_id, instance_id)


def _encode_request(version: int, request: HeartbeatGroup) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.group_id)
    writer.int32(request.generation)
    writer.string(request.member_id)
    if version >= _INSTANCE_FROM:
        writer.string(request.instance_id)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: None, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, error_code=0)


def _refusal(version: int, request: HeartbeatGroup | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, error_code=error.code)


def _encode(version: int, throttle_ms: int, *, error_code: int) -> bytes:
    if version >= _FLEXIBLE_FROM:
        return _TAGGED_ANSWER.pack(throttle_ms, error_code, 0)
    return _ANSWER.pack(throttle_ms, error_code) if version >= _THROTTLE_FROM else _CODE.pack(error_code)


def _decode_response(version: int, body: Buffer) -> None:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    raise_for(read(f"Heartbeat answer v{version}", reader, lambda reader: _read_code(version, reader)))


def _read_code(version: int, reader: Reader) -> int:
    if version >= _THROTTLE_FROM:
        reader.int32()
    error_code = reader.int16()
    reader.skip_tags()
    reader.finish()
    return error_code


HEARTBEAT: Final[Api[HeartbeatGroup, None]] = Api(
    key=12,
    name="Heartbeat",
    versions=range(5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=SMALL,  # a group, a member and an instance
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
