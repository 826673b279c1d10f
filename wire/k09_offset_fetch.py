"""OffsetFetch, API key 9, versions 1-9: what a group has committed.

1   the code of the group stands at each partition
2   a code of the group; null topics request all partitions
3   throttle_time
5   leader epoch of each offset
6   flexible
7   require_stable: the client knows UNSTABLE_OFFSET_COMMIT, and retries
8   several groups, each with its own code
9   member id and epoch, which classic groups ignore
Up to version 7 the group's code stands at each partition that was requested, too: aiokafka looks only there,
and takes an empty answer for "nothing is committed". From 8 on a group with a code has no partitions.
Elsewhere   a node that does not coordinate closes the connection: after an error librdkafka never fetches
            the partition again; after a lost connection every client asks again.
Version 10 (topic ids) is not served yet.
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode, UnsupportedVersion
from fencepost.controller.groups.offset_messages import (
    FetchedGroup,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupQuery,
)
from fencepost.records.invariant import invariant
from fencepost.wire.cursor import Reader, Writer, grouped, read
from fencepost.wire.dispatch import BROKER, Api, Unanswered
from fencepost.wire.errors import code_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer

_GROUP_CODE_FROM: Final = 2
_THROTTLE_FROM: Final = 3
_EPOCHS_FROM: Final = 5
_FLEXIBLE_FROM: Final = 6
_STABLE_FROM: Final = 7
_GROUPS_FROM: Final = 8
_MEMBERS_FROM: Final = 9
_OFFSET: Final = struct.Struct(">iq")  # partition | offset
_OFFSET_WITH_EPOCH: Final = struct.Struct(">iqi")
_ELSEWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})


# -- requests --------------------------------------------------------------------------------------------


def _decode_request(version: int, body: Buffer) -> FetchOffsets:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM, elements_max=LOOKED_UP_ELEMENTS_MAX)
    return read(f"OffsetFetch v{version}", reader, lambda reader: _read_request(version, reader))


def _read_request(version: int, reader: Reader) -> FetchOffsets:
    if version >= _GROUPS_FROM:
        groups = tuple([_read_group(version, reader) for _ in range(reader.count())])
    else:
        groups = (GroupQuery(reader.string(), _read_partitions(version, reader)),)
    require_stable = bool(reader.int8()) if version >= _STABLE_FROM else False
    reader.skip_tags()
    return FetchOffsets(groups, require_stable, version >= _STABLE_FROM)


def _read_group(version: int, reader: Reader) -> GroupQuery:
    group_id, member_id, member_epoch = reader.string(), None, -1
    if version >= _MEMBERS_FROM:
        member_id, member_epoch = reader.nullable_string(), reader.int32()
    partitions = _read_partitions(version, reader)
    reader.skip_tags()
    return GroupQuery(group_id, partitions, member_id, member_epoch)


def _read_partitions(version: int, reader: Reader) -> tuple[tuple[str, int], ...] | None:
    count = reader.nullable_count() if version >= _GROUP_CODE_FROM else reader.count()
    if count is None:
        return None
    found: list[tuple[str, int]] = []
    for _ in range(count):
        topic = reader.string()
        indexes = reader.int32s()
        reader.skip_tags()
        found += [(topic, index) for index in indexes]
    return tuple(found)


def _encode_request(version: int, request: FetchOffsets) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _GROUPS_FROM:
        writer.count(len(request.groups))
    elif len(request.groups) != 1:
        raise UnsupportedVersion(f"several groups need OffsetFetch version {_GROUPS_FROM}")
    if request.require_stable and version < _STABLE_FROM:
        raise UnsupportedVersion(f"require_stable needs OffsetFetch version {_STABLE_FROM}")
    for each in request.groups:
        writer.string(each.group_id)
        if version >= _MEMBERS_FROM:
            writer.string(each.member_id)
            writer.int32(each.member_epoch)
        _write_partitions(version, writer, each)
        if version >= _GROUPS_FROM:
            writer.no_tags()
    if version >= _STABLE_FROM:
        writer.int8(request.require_stable)
    writer.no_tags()
    return writer.message()


def _write_partitions(version: int, writer: Writer, query: GroupQuery) -> None:
    if query.partitions is None:
        if version < _GROUP_CODE_FROM:
            raise UnsupportedVersion(f"all partitions need OffsetFetch version {_GROUP_CODE_FROM}")
        writer.count(-1)
        return
    topics = grouped(query.partitions, lambda each: each[0])
    writer.count(len(topics))
    for topic, partitions in topics.items():
        writer.string(topic)
        writer.int32s(tuple([index for _, index in partitions]))
        writer.no_tags()


# -- responses -------------------------------------------------------------------------------------------


def _encode_response(version: int, answer: FetchOffsetsAnswer, throttle_ms: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    if version >= _GROUPS_FROM:
        writer.count(len(answer.groups))
        for each in answer.groups:
            writer.string(each.group_id)
            _write_offsets(version, writer, () if each.code else each.offsets)
            writer.int16(each.code)
            writer.no_tags()
    else:
        invariant(len(answer.groups) == 1, "an answer about one group", count=len(answer.groups))
        _write_offsets(version, writer, answer.groups[0].offsets)
        if version >= _GROUP_CODE_FROM:
            writer.int16(answer.groups[0].code)
    writer.no_tags()
    return writer.message()


def _write_offsets(version: int, writer: Writer, offsets: tuple[FetchedOffset, ...]) -> None:
    topics = grouped(offsets, lambda each: each.topic)
    writer.count(len(topics))
    for topic, rows in topics.items():
        writer.string(topic)
        writer.count(len(rows))
        for each in rows:
            if version >= _EPOCHS_FROM:
                writer.pack(_OFFSET_WITH_EPOCH, each.partition, each.offset, each.leader_epoch)
            else:
                writer.pack(_OFFSET, each.partition, each.offset)
            writer.string(each.metadata)
            writer.int16(each.code)
            writer.no_tags()
        writer.no_tags()


def refused(query: GroupQuery, code: ErrorCode) -> FetchedGroup:
    """A group without offsets, whose partitions have the code, too."""
    rows = tuple([FetchedOffset(topic, index, code=code) for topic, index in query.partitions or ()])
    return FetchedGroup(query.group_id, rows, code)


def _refusal(version: int, request: FetchOffsets | None, error: ApiError, throttle_ms: int) -> bytes:
    queries = request.groups if request is not None else ()
    if version < _GROUPS_FROM and not queries:
        queries = (GroupQuery("", ()),)
    groups = tuple([refused(each, error.code) for each in queries])
    return _encode_response(version, FetchOffsetsAnswer(groups), throttle_ms)


def _unanswered(request: FetchOffsets, outcome: FetchOffsetsAnswer | ApiError) -> Unanswered | None:
    if isinstance(outcome, ApiError) and outcome.code in _ELSEWHERE:
        return Unanswered(f"OffsetFetch needs the group's coordinator: {outcome}")
    return None


def _decode_response(version: int, body: Buffer) -> FetchOffsetsAnswer:
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body, flexible=flexible, elements_max=ANSWER_ELEMENTS_MAX)
    answer = read(f"OffsetFetch answer v{version}", reader, lambda reader: _read_response(version, reader))
    if version < _GROUPS_FROM:
        raise_for(answer.groups[0].code)
    return answer


def _read_response(version: int, reader: Reader) -> FetchOffsetsAnswer:
    if version >= _THROTTLE_FROM:
        reader.int32()
    groups: list[FetchedGroup] = []
    if version >= _GROUPS_FROM:
        for _ in range(reader.count()):
            group_id = reader.string()
            rows = _read_offsets(version, reader)
            groups.append(FetchedGroup(group_id, rows, code_of(reader.int16())))
            reader.skip_tags()
    else:
        rows = _read_offsets(version, reader)
        code = reader.int16() if version >= _GROUP_CODE_FROM else 0
        groups.append(FetchedGroup("", rows, code_of(code)))
    reader.skip_tags()
    reader.finish()
    return FetchOffsetsAnswer(tuple(groups))


def _read_offsets(version: int, reader: Reader) -> tuple[FetchedOffset, ...]:
    found: list[FetchedOffset] = []
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            if version >= _EPOCHS_FROM:
                partition, offset, leader_epoch = reader.fields(_OFFSET_WITH_EPOCH)
            else:
                (partition, offset), leader_epoch = reader.fields(_OFFSET), -1
            metadata, code = reader.nullable_string() or "", code_of(reader.int16())
            reader.skip_tags()
            found.append(FetchedOffset(topic, partition, offset, leader_epoch, metadata, code))
        reader.skip_tags()
    return tuple(found)


OFFSET_FETCH: Final[Api[FetchOffsets, FetchOffsetsAnswer]] = Api(
    key=9,
    name="OffsetFetch",
    versions=range(1, 10),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    unanswered=_unanswered,
)
