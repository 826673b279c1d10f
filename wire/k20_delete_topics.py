"""DeleteTopics, API key 20, versions 1-6.

4   flexible      5   error_message      6   a topic may be named by its id alone
"""

import uuid
from typing import Final

from fencepost.controller.errors import ApiError, InvalidRequest, UnsupportedVersion
from fencepost.controller.topics import DeleteTopics, DeleteTopicsAnswer, TopicDeleted
from fencepost.wire.cursor import Writer
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import code_of, message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_NAMES
from fencepost.wire.schema import NAMED_ELEMENTS_MAX, Buffer, Message

_FLEXIBLE_FROM: Final = 4
_MESSAGE_FROM: Final = 5
_BY_TOPIC_ID_FROM: Final = 6
_NO_ID: Final = uuid.UUID(int=0)
_REQUEST: Final = Message(20, "request", elements_max=NAMED_ELEMENTS_MAX)
_RESPONSE: Final = Message(20, "response")


def _decode_request(version: int, body: Buffer) -> DeleteTopics:
    message = _REQUEST.decode(version, body)
    if version < _BY_TOPIC_ID_FROM:
        return DeleteTopics(names=message["topic_names"], timeout_ms=message["timeout_ms"])
    topics = message["topics"]
    for each in topics:
        if (each["name"] is None) == (each["topic_id"] is None):
            raise InvalidRequest(f"a topic to delete has a name or an id, not {each!r}")
    return DeleteTopics(
        tuple(each["name"] for each in topics if each["name"] is not None),
        tuple(each["topic_id"] for each in topics if each["name"] is None),
        message["timeout_ms"],
    )


def _encode_request(version: int, request: DeleteTopics) -> bytes:
    if request.ids and version < _BY_TOPIC_ID_FROM:
        raise UnsupportedVersion(f"topics by id need version {_BY_TOPIC_ID_FROM}, this is {version}")
    topics = [{"name": name, "topic_id": None} for name in request.names]
    by_id = [{"name": None, "topic_id": topic_id} for topic_id in request.ids]
    message = {
        "topic_names": request.names,
        "topics": (*topics, *by_id),
        "timeout_ms": request.timeout_ms,
    }
    return _REQUEST.encode(version, message)


def _encode_response(version: int, answer: DeleteTopicsAnswer, throttle_ms: int) -> bytes:
    """By hand: a refusal names each topic of the request."""
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(throttle_ms)
    writer.count(len(answer.topics))
    for each in answer.topics:
        writer.string(each.name if version >= _BY_TOPIC_ID_FROM else each.name or "")
        if version >= _BY_TOPIC_ID_FROM:
            writer.uuid(each.topic_id)
        writer.int16(each.error_code)
        if version >= _MESSAGE_FROM:
            writer.string(each.error_message)
        writer.no_tags()
    writer.no_tags()
    return writer.message()


def _refusal(version: int, request: DeleteTopics | None, error: ApiError, throttle_ms: int) -> bytes:
    names, ids = (request.names, request.ids) if request is not None else ((), ())
    rows = [TopicDeleted(name, _NO_ID, error.code, message_of(error)) for name in names]
    rows += [TopicDeleted(None, topic_id, error.code, message_of(error)) for topic_id in ids]
    return _encode_response(version, DeleteTopicsAnswer(tuple(rows)), throttle_ms)


def _decode_response(version: int, body: Buffer) -> DeleteTopicsAnswer:
    responses = _RESPONSE.decode(version, body)["responses"]
    raise_if_elsewhere(each["error_code"] for each in responses)
    rows = (
        TopicDeleted(
            each["name"],
            each.get("topic_id") or _NO_ID,
            code_of(each["error_code"]),
            each.get("error_message"),
        )
        for each in responses
    )
    return DeleteTopicsAnswer(tuple(rows))


DELETE_TOPICS: Final[Api[DeleteTopics, DeleteTopicsAnswer]] = Api(
    key=20,
    name="DeleteTopics",
    versions=range(1, 7),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_NAMES,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
