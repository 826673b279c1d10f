"""AlterUserScramCredentials, API key 51, version 0: set and remove users' SCRAM credentials.

Each user has its own error. A credential comes salted: the password itself is never sent.
"""

from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.scram_types import (
    AlterScram,
    AlterScramAnswer,
    ScramDeletion,
    ScramUpsertion,
    UserAltered,
)
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_if_elsewhere
from fencepost.wire.request_limits import TOPIC_LISTS
from fencepost.wire.schema import NAMED_ELEMENTS_MAX, Buffer, Message

_REQUEST: Final = Message(51, "request", elements_max=NAMED_ELEMENTS_MAX)
_RESPONSE: Final = Message(51, "response", elements_max=2 * NAMED_ELEMENTS_MAX)


def _decode_request(version: int, body: Buffer) -> AlterScram:
    message = _REQUEST.decode(version, body)
    return AlterScram(
        tuple(ScramDeletion(each["name"], each["mechanism"]) for each in message["deletions"]),
        tuple(
            ScramUpsertion(
                each["name"],
                each["mechanism"],
                each["iterations"],
                bytes(each["salt"]),
                bytes(each["salted_password"]),
            )
            for each in message["upsertions"]
        ),
    )


def _encode_request(version: int, request: AlterScram) -> bytes:
    deletions = tuple({"name": each.name, "mechanism": each.mechanism} for each in request.deletions)
    upsertions = tuple(
        {
            "name": each.name,
            "mechanism": each.mechanism,
            "iterations": each.iterations,
            "salt": each.salt,
            "salted_password": each.salted_password,
        }
        for each in request.upsertions
    )
    return _REQUEST.encode(version, {"deletions": deletions, "upsertions": upsertions})


def _encode_response(version: int, answer: AlterScramAnswer, throttle_ms: int) -> bytes:
    results = tuple(
        {"user": each.user, "error_code": each.error_code, "error_message": each.error_message}
        for each in answer.results
    )
    return _RESPONSE.encode(version, {"throttle_time_ms": throttle_ms, "results": results})


def _refusal(version: int, request: AlterScram | None, error: ApiError, throttle_ms: int) -> bytes:
    users = ("",) if request is None else request.users
    rows = tuple(UserAltered(user, error.code, message_of(error)) for user in users)
    return _encode_response(version, AlterScramAnswer(rows), throttle_ms)


def _decode_response(version: int, body: Buffer) -> AlterScramAnswer:
    rows = _RESPONSE.decode(version, body)["results"]
    raise_if_elsewhere(each["error_code"] for each in rows)
    return AlterScramAnswer(
        tuple(UserAltered(each["user"], each["error_code"], each["error_message"]) for each in rows)
    )


ALTER_USER_SCRAM_CREDENTIALS: Final[Api[AlterScram, AlterScramAnswer]] = Api(
    key=51,
    name="AlterUserScramCredentials",
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
