"""OffsetCommit, API key 8, versions 2-9: a consumer commits how far it has read.

2    retention_time_ms, up to version 4
3    throttle_time
6    leader epoch of each offset
7    group_instance_id
8    flexible
9    a missing group is GROUP_ID_NOT_FOUND
The code stands at each partition. Version 10 (topic ids) is not served yet.
"""

from typing import Final

from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import NO_RETENTION, CommitOffsets, PartitionCodes
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.offset_rows import read_codes, read_offsets, same_for_all, write_codes, write_offsets
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer

_RETENTION_BELOW: Final = 5
_THROTTLE_FROM: Final = 3
_EPOCHS_FROM: Final = 6
_INSTANCE_FROM: Final = 7
_FLEXIBLE_FROM: Final = 8
_NOT_FOUND_FROM: Final = 9


def _decode_request(version: int, body: Buffer) -> CommitOffsets:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"OffsetCommit v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> CommitOffsets:
    group_id = reader.string()
    generation = reader.int32()
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= _INSTANCE_FROM else None
    retention_ms = reader.int64() if version < _RETENTION_BELOW else NO_RETENTION
    offsets = read_offsets(reader, epochs=version >= _EPOCHS_FROM)
    reader.skip_tags()
    identity = Identity(member_id, instance_id, generation)
    return CommitOffsets(group_id, offsets, identity, retention_ms, version >= _NOT_FOUND_FROM)


def _encode_request(version: int, request: CommitOffsets) -> bytes:
    if request.retention_ms != NO_RETENTION and version >= _RETENTION_BELOW:
        raise UnsupportedVersion(f"a retention time needs OffsetCommit below version {_RETENTION_BELOW}")
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.group_id)
    writer.int32(request.identity.generation)
    writer.string(request.identity.member_id)
    if version >= _INSTANCE_FROM:
        writer.string(request.identity.instance_id)
    if version < _RETENTION_BELOW:
        writer.int64(request.retention_ms)
    write_offsets(writer, request.offsets, epochs=version >= _EPOCHS_FROM)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: PartitionCodes, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    write_codes(writer, answer.rows)
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: CommitOffsets | None, error: ApiError, throttle_ms: int) -> bytes:
    offsets = request.offsets if request is not None else ()
    return _encode_response(version, PartitionCodes(same_for_all(offsets, error.code)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> PartitionCodes:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"OffsetCommit answer v{version}", reader, lambda reader: _read_response(version, reader))


def _read_response(version: int, reader: Reader) -> PartitionCodes:
    if version >= _THROTTLE_FROM:
        reader.int32()
    rows = read_codes(reader)
    reader.skip_tags()
    reader.finish()
    return PartitionCodes(rows)


OFFSET_COMMIT: Final[Api[CommitOffsets, PartitionCodes]] = Api(
    key=8,
    name="OffsetCommit",
    versions=range(2, 10),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
