"""DeleteGroups, API key 42, versions 0-2: forget groups without members, and their offsets.

2   flexible
"""

from typing import Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.offset_messages import DeleteGroups, DeleteGroupsAnswer
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import code_of
from fencepost.wire.request_limits import TRANSACTION_LISTS
from fencepost.wire.schema import LOOKED_UP_ELEMENTS_MAX, Buffer, Message

_FLEXIBLE_FROM: Final = 2
_REQUEST: Final = Message(42, "request", elements_max=LOOKED_UP_ELEMENTS_MAX)
_RESPONSE: Final = Message(42, "response")


def _decode_request(version: int, body: Buffer) -> DeleteGroups:
    return DeleteGroups(_REQUEST.decode(version, body)["groups_names"])


def _encode_request(version: int, request: DeleteGroups) -> bytes:
    return _REQUEST.encode(version, {"groups_names": request.group_ids})


def _encode_response(version: int, answer: DeleteGroupsAnswer, throttle_ms: int) -> bytes:
    """By hand: a request may have thousands of groups."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.count(len(answer.results))
    for group_id, code in answer.results:
        writer.string(group_id)
        writer.int16(code)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: DeleteGroups | None, error: ApiError, throttle_ms: int) -> bytes:
    group_ids = request.group_ids if request is not None else ()
    refused: tuple[tuple[str, ErrorCode], ...] = tuple((each, error.code) for each in group_ids)
    return _encode_response(version, DeleteGroupsAnswer(refused), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DeleteGroupsAnswer:
    rows = _RESPONSE.decode(version, body)["results"]
    return DeleteGroupsAnswer(tuple((each["group_id"], code_of(each["error_code"])) for each in rows))


DELETE_GROUPS: Final[Api[DeleteGroups, DeleteGroupsAnswer]] = Api(
    key=42,
    name="DeleteGroups",
    versions=range(3),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=TRANSACTION_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
