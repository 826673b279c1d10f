"""UpdateFeatures, API key 57, versions 0-2: raise or lower finalized features. Flexible in every version.

1   upgrade_type in place of allow_downgrade; validate_only
2   no results: an error is said of the whole request, as it is in our answers of the other versions
"""

from typing import Any, Final

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.feature_updates import (
    Direction,
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesAnswer,
)
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

_REQUEST: Final = Message(57, "request", elements_max=1_000)
_RESPONSE: Final = Message(57, "response")
_TYPED_FROM: Final = 1
_PLAIN_FROM: Final = 2
_TIMEOUT_MS: Final = 60_000  # Kafka's default; ours are decided at once


def _decode_request(version: int, body: Buffer) -> UpdateFeatures:
    message = _REQUEST.decode(version, body)
    updates = []
    for each in message["feature_updates"]:
        if version >= _TYPED_FROM:
            direction = each["upgrade_type"]
        else:
            direction = Direction.UNSAFE_DOWNGRADE if each["allow_downgrade"] else Direction.UPGRADE
        if direction not in set(Direction):
            raise InvalidRequest(f"upgrade type {direction} of {each['feature']!r}: expected 1, 2 or 3")
        updates.append(FeatureUpdate(each["feature"], each["max_version_level"], Direction(direction)))
    return UpdateFeatures(tuple(updates), message.get("validate_only", False))


def _encode_request(version: int, request: UpdateFeatures) -> bytes:
    updates = tuple(
        {
            "feature": each.name,
            "max_version_level": each.level,
            "upgrade_type": int(each.direction),
            "allow_downgrade": each.direction != Direction.UPGRADE,
        }
        for each in request.updates
    )
    content = {"timeout_ms": _TIMEOUT_MS, "feature_updates": updates, "validate_only": request.validate_only}
    return _REQUEST.encode(version, content)


def _encode_response(version: int, answer: UpdateFeaturesAnswer, throttle_ms: int) -> bytes:
    results = tuple({"feature": name, "error_code": 0, "error_message": None} for name in answer.names)
    return _encode(version, throttle_ms, 0, None, results)


def _refusal(version: int, request: UpdateFeatures | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, error.code, message_of(error), ())


def _encode(
    version: int, throttle_ms: int, code: int, text: str | None, results: tuple[dict[str, Any], ...]
) -> bytes:
    return _RESPONSE.encode(
        version,
        {"throttle_time_ms": throttle_ms, "error_code": code, "error_message": text, "results": results},
    )


def _decode_response(version: int, body: Buffer) -> UpdateFeaturesAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    results = message.get("results", ())
    for each in results:
        raise_for(each["error_code"], each["error_message"])
    return UpdateFeaturesAnswer(tuple(each["feature"] for each in results))


UPDATE_FEATURES: Final[Api[UpdateFeatures, UpdateFeaturesAnswer]] = Api(
    key=57,
    name="UpdateFeatures",
    versions=range(3),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # up to UPDATES_MAX names
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
