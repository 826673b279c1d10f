"""ListGroups, API key 16, versions 0-5: the coordinator's groups.

1   throttle_time_ms      3   flexible      4   states_filter, group_state (KIP-518)
5   types_filter, group_type (KIP-848)

A node that coordinates nothing has an empty list: admin clients send this to every broker, and take an error
of one for that of all.
"""

from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.describe import CLASSIC, ListedGroup, ListGroups, ListGroupsAnswer
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, Buffer, Message
from fencepost.wire.steps import Steps, completed

ROWS_AT_ONCE_MAX: Final = 2_000
"""Groups that are written in one step of the loop."""

_THROTTLE_FROM: Final = 1
_FLEXIBLE_FROM: Final = 3
_STATE_FROM: Final = 4
_TYPE_FROM: Final = 5
_REQUEST: Final = Message(16, "request")
_RESPONSE: Final = Message(16, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> ListGroups:
    message = _REQUEST.decode(version, body)
    return ListGroups(message.get("states_filter", ()), message.get("types_filter", ()))


def _encode_request(version: int, request: ListGroups) -> bytes:
    return _REQUEST.encode(version, {"states_filter": request.states, "types_filter": request.types})


def _encode_response(version: int, answer: ListGroupsAnswer, throttle_ms: int) -> bytes:
    return b"".join(completed(_encode_steps(version, answer, throttle_ms)))


def _encode_steps(version: int, answer: ListGroupsAnswer, throttle_ms: int) -> Steps[list[bytes]]:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: ListGroups | None, error: ApiError, throttle_ms: int) -> bytes:
    code = 0 if error.code == ErrorCode.NOT_COORDINATOR else int(error.code)
    return b"".join(completed(_encode(version, ListGroupsAnswer(()), throttle_ms, error_code=code)))


def _encode(
    version: int, answer: ListGroupsAnswer, throttle_ms: int, *, error_code: int
) -> Steps[list[bytes]]:
    """By hand: there may be a hundred thousand rows, so each step joins its own."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    steps: list[bytes] = []
    if version >= _THROTTLE_FROM:
        writer.int32(throttle_ms)
    writer.int16(error_code)
    writer.count(len(answer.groups))
    for number, each in enumerate(answer.groups):
        if number and number % ROWS_AT_ONCE_MAX == 0:
            steps.append(writer.message())
            writer.parts.clear()
            yield
        writer.string(each.group_id)
        writer.string(each.protocol_type)
        if version >= _STATE_FROM:
            writer.string(each.state)
        if version >= _TYPE_FROM:
            writer.string(each.group_type)
        writer.no_tags()
    writer.no_tags()
    return [*steps, writer.message()]


def _decode_response(version: int, body: Buffer) -> ListGroupsAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    listed = tuple(
        ListedGroup(
            each["group_id"],
            each["protocol_type"],
            each.get("group_state", ""),
            each.get("group_type", CLASSIC),
        )
        for each in message["groups"]
    )
    return ListGroupsAnswer(listed)


LIST_GROUPS: Final[Api[ListGroups, ListGroupsAnswer]] = Api(
    key=16,
    name="ListGroups",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=SMALL,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    encode_steps=_encode_steps,
)
