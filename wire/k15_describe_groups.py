"""DescribeGroups, API key 15, versions 0-6: groups and their members.

1   throttle_time_ms                     3   authorized_operations of groups that are described (KIP-430)
4   group_instance_id of members         5   flexible
6   GROUP_ID_NOT_FOUND with a message for an unknown group (KIP-1043); below, its state is Dead
"""

from typing import Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.describe import (
    NO_OPERATIONS,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsAnswer,
)
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import code_of, message_of
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX, Buffer, Message

_THROTTLE_FROM: Final = 1
_OPERATIONS_FROM: Final = 3
_INSTANCE_FROM: Final = 4
_FLEXIBLE_FROM: Final = 5
_NOT_FOUND_FROM: Final = 6
_REQUEST: Final = Message(15, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(15, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> DescribeGroups:
    message = _REQUEST.decode(version, body)
    return DescribeGroups(message["groups"], message.get("include_authorized_operations", False))


def _encode_request(version: int, request: DescribeGroups) -> bytes:
    return _REQUEST.encode(
        version,
        {
            "groups": request.group_ids,
            "include_authorized_operations": request.include_authorized_operations,
        },
    )


def _encode_response(version: int, answer: DescribeGroupsAnswer, throttle_ms: int) -> bytes:
    """By hand: a group may have thousands of members."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    writer.count(len(answer.groups))
    for each in answer.groups:
        _write(version, writer, each)
    writer.no_tags()
    return writer.message()


def _write(version: int, writer: Writer, group: DescribedGroup) -> None:
    is_unknown = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and version < _NOT_FOUND_FROM
    code = ErrorCode.NONE if is_unknown else group.error_code
    writer.int16(code)
    if version >= _NOT_FOUND_FROM:
        writer.string(group.error_message)
    for text in (group.group_id, group.state, group.protocol_type, group.protocol):
        writer.string(text)
    writer.count(len(group.members))
    for each in group.members:
        writer.string(each.member_id)
        if version >= _INSTANCE_FROM:
            writer.string(each.instance_id)
        writer.string(each.client_id)
        writer.string(each.client_host)
        writer.records(each.metadata)
        writer.records(each.assignment)
        writer.no_tags()
    if version >= _OPERATIONS_FROM:
        writer.int32(group.authorized_operations if code == ErrorCode.NONE else NO_OPERATIONS)
    writer.no_tags()


def _refusal(version: int, request: DescribeGroups | None, error: ApiError, throttle_ms: int) -> bytes:
    group_ids = request.group_ids if request is not None else ()
    rows = tuple(DescribedGroup(each, error.code, message_of(error)) for each in group_ids)
    return _encode_response(version, DescribeGroupsAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DescribeGroupsAnswer:
    rows = _RESPONSE.decode(version, body)["groups"]
    return DescribeGroupsAnswer(tuple(_described(each) for each in rows))


def _described(row: dict[str, Any]) -> DescribedGroup:
    return DescribedGroup(
        row["group_id"],
        code_of(row["error_code"]),
        row.get("error_message"),
        row["group_state"],
        row["protocol_type"],
        row["protocol_data"],
        tuple(
            DescribedMember(
                each["member_id"],
                each.get("group_instance_id"),
                each["client_id"],
                each["client_host"],
                each["member_metadata"],
                each["member_assignment"],
            )
            for each in row["members"]
        ),
        row.get("authorized_operations", NO_OPERATIONS),
    )


DESCRIBE_GROUPS: Final[Api[DescribeGroups, DescribeGroupsAnswer]] = Api(
    key=15,
    name="DescribeGroups",
    versions=range(7),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TRANSACTION_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
