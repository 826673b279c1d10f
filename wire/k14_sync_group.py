"""SyncGroup, API key 14, versions 0-5: the leader's assignments, and each member's own.

1   throttle_time_ms      3   group_instance_id (KIP-345)      4   flexible
5   protocol_type and protocol_name, which must not be null, and are answered (KIP-559)

Source   Kafka SyncGroupRequest.areMandatoryProtocolTypeAndNamePresent: looked at before rights are.
"""

from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.group_errors import InconsistentGroupProtocol
from fencepost.controller.groups.syncing import SyncGroup, SyncGroupAnswer
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.k11_join_group import read_bytes
from fencepost.wire.request_limits import GROUP_MEMBERS
from fencepost.wire.schema import Buffer

_THROTTLE_FROM: Final = 1
_INSTANCE_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_PROTOCOL_FROM: Final = 5


def _decode_request(version: int, body: Buffer) -> SyncGroup:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"SyncGroup v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> SyncGroup:
    group_id, generation, member_id = reader.string(), reader.int32(), reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_FROM else None
    protocol_type = protocol = None
    if version >= _PROTOCOL_FROM:
        protocol_type, protocol = reader.nullable_string(), reader.nullable_string()
    assignments = []
    for _ in range(reader.count()):
        assignments.append((reader.string(), read_bytes(reader)))
        reader.skip_tags()
    reader.skip_tags()
    if version >= _PROTOCOL_FROM and (protocol_type is None or protocol is None):
        raise InconsistentGroupProtocol(f"version {version} of SyncGroup needs a protocol and its type")
    return SyncGroup(
        group_id, generation, member_id, instance_id, protocol_type, protocol, tuple(assignments)
    )


def _newest_for(request: SyncGroup) -> int:
    has_both = request.protocol_type is not None and request.protocol is not None
    return _PROTOCOL_FROM if has_both else _PROTOCOL_FROM - 1


def _encode_request(version: int, request: SyncGroup) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.group_id)
    writer.int32(request.generation)
    writer.string(request.member_id)
    if version >= _INSTANCE_FROM:
        writer.string(request.instance_id)
    if version >= _PROTOCOL_FROM:
        writer.string(request.protocol_type)
        writer.string(request.protocol)
    writer.count(len(request.assignments))
    for member_id, assignment in request.assignments:
        writer.string(member_id)
        writer.records(assignment)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: SyncGroupAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: SyncGroup | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(version, SyncGroupAnswer(None, None, b""), throttle_ms, error_code=error.code)


def _encode(version: int, answer: SyncGroupAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    writer.int16(error_code)
    if version >= _PROTOCOL_FROM:
        writer.string(answer.protocol_type)
        writer.string(answer.protocol)
    writer.records(answer.assignment)
    writer.no_tags()
    return writer.message()


def _decode_response(version: int, body: Buffer) -> SyncGroupAnswer:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    name = f"SyncGroup answer v{version}"
    error_code, answer = read(name, reader, lambda reader: _read_answer(version, reader))
    raise_for(error_code)
    return answer


def _read_answer(version: int, reader: Reader) -> tuple[int, SyncGroupAnswer]:
    if version >= _THROTTLE_FROM:
        reader.int32()
    error_code = reader.int16()
    protocol_type = protocol = None
    if version >= _PROTOCOL_FROM:
        protocol_type, protocol = reader.nullable_string(), reader.nullable_string()
    assignment = read_bytes(reader)
    reader.skip_tags()
    reader.finish()
    return error_code, SyncGroupAnswer(protocol_type, protocol, assignment)


SYNC_GROUP: Final[Api[SyncGroup, SyncGroupAnswer]] = Api(
    key=14,
    name="SyncGroup",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=GROUP_MEMBERS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
)
