"""JoinGroup, API key 11, versions 0-9: become a member of a group's next generation.

0   no rebalance timeout: the session timeout is it      1   rebalance_timeout_ms
2   throttle_time_ms                                     4   79 with an id to join again with (KIP-394)
5   group_instance_id (KIP-345)                          6   flexible
7   protocol_type in the answer; protocol_name is null behind an error, "" below 7 (KIP-559)
8   reason (KIP-800), of which 255 characters are kept   9   skip_assignment (KIP-814)
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import MemberIdRequired
from fencepost.controller.groups.identity import NO_GENERATION, NO_MEMBER
from fencepost.controller.groups.joining import JoinedMember, JoinGroup, JoinGroupAnswer
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import GROUP_MEMBERS
from fencepost.wire.schema import Buffer

_REBALANCE_TIMEOUT_FROM: Final = 1
_THROTTLE_FROM: Final = 2
_REQUIRED_IDS_FROM: Final = 4
_INSTANCE_FROM: Final = 5
_FLEXIBLE_FROM: Final = 6
_PROTOCOL_TYPE_FROM: Final = 7
_REASON_FROM: Final = 8
_SKIP_FROM: Final = 9
_BOOLEAN: Final = struct.Struct(">?")
REASON_CHARACTERS_MAX: Final = 255


def _decode_request(version: int, body: Buffer) -> JoinGroup:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"JoinGroup v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> JoinGroup:
    group_id, session_timeout_ms = reader.string(), reader.int32()
    rebalance_timeout_ms = reader.int32() if version >= _REBALANCE_TIMEOUT_FROM else session_timeout_ms
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_FROM else None
    protocol_type = reader.string()
    protocols = []
    for _ in range(reader.count()):
        protocols.append((reader.string(), read_bytes(reader)))
        reader.skip_tags()
    reason = reader.nullable_string() if version >= _REASON_FROM else None
    reader.skip_tags()
    return JoinGroup(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=tuple(protocols),
        reason=None if reason is None else reason[:REASON_CHARACTERS_MAX],
        knows_required_ids=version >= _REQUIRED_IDS_FROM,
        skips_assignment=version >= _SKIP_FROM,
    )


def read_bytes(reader: Reader) -> bytes:
    """Bytes that may not be null, copied. Raises CorruptData."""
    content = reader.records()
    if content is None:
        raise CorruptData(f"bytes are null at byte {reader.position}")
    return content


def _encode_request(version: int, request: JoinGroup) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.group_id)
    writer.int32(request.session_timeout_ms)
    if version >= _REBALANCE_TIMEOUT_FROM:
        writer.int32(request.rebalance_timeout_ms)
    writer.string(request.member_id)
    if version >= _INSTANCE_FROM:
        writer.string(request.instance_id)
    writer.string(request.protocol_type)
    writer.count(len(request.protocols))
    for name, metadata in request.protocols:
        writer.string(name)
        writer.records(metadata)
        writer.no_tags()
    if version >= _REASON_FROM:
        writer.string(request.reason)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: JoinGroupAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: JoinGroup | None, error: ApiError, throttle_ms: int) -> bytes:
    member_id = NO_MEMBER if request is None else request.member_id
    if isinstance(error, MemberIdRequired):
        member_id = error.member_id
    elif error.code == ErrorCode.GROUP_MAX_SIZE_REACHED:
        member_id = NO_MEMBER
    protocol = None if version >= _PROTOCOL_TYPE_FROM else ""
    answer = JoinGroupAnswer(NO_GENERATION, None, protocol, NO_MEMBER, member_id)
    return _encode(version, answer, throttle_ms, error_code=error.code)


def _encode(version: int, answer: JoinGroupAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    writer.int16(error_code)
    writer.int32(answer.generation)
    if version >= _PROTOCOL_TYPE_FROM:
        writer.string(answer.protocol_type)
    writer.string(answer.protocol if version >= _PROTOCOL_TYPE_FROM else answer.protocol or "")
    writer.string(answer.leader)
    if version >= _SKIP_FROM:
        writer.pack(_BOOLEAN, answer.skip_assignment)
    writer.string(answer.member_id)
    writer.count(len(answer.members))
    for each in answer.members:
        writer.string(each.member_id)
        if version >= _INSTANCE_FROM:
            writer.string(each.instance_id)
        writer.records(each.metadata)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _decode_response(version: int, body: Buffer) -> JoinGroupAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    name = f"JoinGroup answer v{version}"
    error_code, answer = read(name, reader, lambda reader: _read_answer(version, reader))
    if error_code == ErrorCode.MEMBER_ID_REQUIRED:
        raise MemberIdRequired(answer.member_id)
    raise_for(error_code)
    return answer


def _read_answer(version: int, reader: Reader) -> tuple[int, JoinGroupAnswer]:
    if version >= _THROTTLE_FROM:
        reader.int32()
    error_code, generation = reader.int16(), reader.int32()
    protocol_type = reader.nullable_string() if version >= _PROTOCOL_TYPE_FROM else None
    protocol, leader = reader.nullable_string(), reader.string()
    skip_assignment = bool(reader.fields(_BOOLEAN)[0]) if version >= _SKIP_FROM else False
    member_id = reader.string()
    members = []
    for _ in range(reader.count()):
        each_id = reader.string()
        instance_id = reader.nullable_string() if version >= _INSTANCE_FROM else None
        members.append(JoinedMember(each_id, instance_id, read_bytes(reader)))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return error_code, JoinGroupAnswer(
        generation, protocol_type, protocol, leader, member_id, tuple(members), skip_assignment
    )


JOIN_GROUP: Final[Api[JoinGroup, JoinGroupAnswer]] = Api(
    key=11,
    name="JoinGroup",
    versions=range(10),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=GROUP_MEMBERS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
