"""LeaveGroup, API key 13, versions 0-5: members leave, or an administrator removes them.

1   throttle_time_ms
3   several members, each with an instance id and an error of its own (KIP-345); below, one, whose error is
    the answer's
4   flexible      5   reason (KIP-800)
"""

from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.controller.groups.leaving import LeaveGroup, LeaveGroupAnswer, Leaver, LeftMember
from fencepost.records.invariant import invariant
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import code_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import Buffer

_THROTTLE_FROM: Final = 1
_SEVERAL_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_REASON_FROM: Final = 5


def _decode_request(version: int, body: Buffer) -> LeaveGroup:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"LeaveGroup v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> LeaveGroup:
    group_id = reader.string()
    if version < _SEVERAL_FROM:
        return LeaveGroup(group_id, (Leaver(reader.string()),))
    leavers = []
    for _ in range(reader.count()):
        member_id, instance_id = reader.string(), reader.nullable_string()
        reason = reader.nullable_string() if version >= _REASON_FROM else None
        reader.skip_tags()
        leavers.append(Leaver(member_id, instance_id, reason))
    reader.skip_tags()
    return LeaveGroup(group_id, tuple(leavers))


def _encode_request(version: int, request: LeaveGroup) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.group_id)
    if version < _SEVERAL_FROM:
        if len(request.members) != 1 or request.members[0].instance_id is not None:
            raise UnsupportedVersion(f"several members, and instance ids, need version {_SEVERAL_FROM}")
        writer.string(request.members[0].member_id)
        return writer.message()
    writer.count(len(request.members))
    for each in request.members:
        writer.string(each.member_id)
        writer.string(each.instance_id)
        if version >= _REASON_FROM:
            writer.string(each.reason)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: LeaveGroupAnswer, throttle_ms: int) -> bytes:
    if version >= _SEVERAL_FROM:
        return _encode(version, answer, throttle_ms, error_code=0)
    invariant(len(answer.members) == 1, "an answer to one member", answer=answer)
    return _encode(version, answer, throttle_ms, error_code=answer.members[0].error_code)


def _refusal(version: int, request: LeaveGroup | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(version, LeaveGroupAnswer(()), throttle_ms, error_code=error.code)


def _encode(version: int, answer: LeaveGroupAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    writer.int16(error_code)
    if version >= _SEVERAL_FROM:
        writer.count(len(answer.members))
        for each in answer.members:
            writer.string(each.member_id)
            writer.string(each.instance_id)
            writer.int16(each.error_code)
            writer.no_tags()
    writer.no_tags()
    return writer.message()


def _decode_response(version: int, body: Buffer) -> LeaveGroupAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    name = f"LeaveGroup answer v{version}"
    error_code, answer = read(name, reader, lambda reader: _read_answer(version, reader))
    raise_for(error_code)
    return answer


def _read_answer(version: int, reader: Reader) -> tuple[int, LeaveGroupAnswer]:
    """Below version 3 the answer does not name its member: the id is read as ""."""
    if version >= _THROTTLE_FROM:
        reader.int32()
    error_code = reader.int16()
    if version < _SEVERAL_FROM:
        reader.finish()
        return error_code, LeaveGroupAnswer((LeftMember("", None, ErrorCode.NONE),))
    members = []
    for _ in range(reader.count()):
        members.append(LeftMember(reader.string(), reader.nullable_string(), code_of(reader.int16())))
        reader.skip_tags()
    reader.skip_tags()
    reader.finish()
    return error_code, LeaveGroupAnswer(tuple(members))


LEAVE_GROUP: Final[Api[LeaveGroup, LeaveGroupAnswer]] = Api(
    key=13,
    name="LeaveGroup",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
