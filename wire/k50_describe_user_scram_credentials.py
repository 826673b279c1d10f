"""DescribeUserScramCredentials, API key 50, version 0: users' mechanisms and iterations, nothing secret."""

from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.scram_types import DescribeScram, DescribeScramAnswer, UserDescribed
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import ANSWER_ELEMENTS_MAX, NAMED_ELEMENTS_MAX, Buffer, Message

_REQUEST: Final = Message(50, "request", elements_max=NAMED_ELEMENTS_MAX)
_RESPONSE: Final = Message(50, "response", elements_max=ANSWER_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> DescribeScram:
    users = _REQUEST.decode(version, body)["users"]
    return DescribeScram(None if users is None else tuple(each["name"] for each in users))


def _encode_request(version: int, request: DescribeScram) -> bytes:
    users = None if request.users is None else tuple({"name": each} for each in request.users)
    return _REQUEST.encode(version, {"users": users})


def _encode_response(version: int, answer: DescribeScramAnswer, throttle_ms: int) -> bytes:
    results = tuple(
        {
            "user": each.user,
            "error_code": each.error_code,
            "error_message": each.error_message,
            "credential_infos": tuple(
                {"mechanism": mechanism, "iterations": iterations}
                for mechanism, iterations in each.credentials
            ),
        }
        for each in answer.results
    )
    fields = {"throttle_time_ms": throttle_ms, "error_code": 0, "error_message": None}
    return _RESPONSE.encode(version, {**fields, "results": results})


def _refusal(version: int, _request: DescribeScram | None, error: ApiError, throttle_ms: int) -> bytes:
    fields = {"throttle_time_ms": throttle_ms, "error_code": error.code, "error_message": message_of(error)}
    return _RESPONSE.encode(version, {**fields, "results": ()})


def _decode_response(version: int, body: Buffer) -> DescribeScramAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return DescribeScramAnswer(
        tuple(
            UserDescribed(
                each["user"],
                tuple((one["mechanism"], one["iterations"]) for one in each["credential_infos"]),
                each["error_code"],
                each["error_message"],
            )
            for each in message["results"]
        )
    )


DESCRIBE_USER_SCRAM_CREDENTIALS: Final[Api[DescribeScram, DescribeScramAnswer]] = Api(
    key=50,
    name="DescribeUserScramCredentials",
    versions=range(1),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=TOPIC_LISTS,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
