"""UnregisterBroker, API key 64, version 0: an operator removes a broker that will not come back."""

from typing import Final

from fencepost.controller.brokers import UnregisterBroker
from fencepost.controller.errors import ApiError
from fencepost.records.types import BrokerId
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

_REQUEST: Final = Message(64, "request")
_RESPONSE: Final = Message(64, "response")


def _decode_request(version: int, body: Buffer) -> UnregisterBroker:
    return UnregisterBroker(BrokerId(_REQUEST.decode(version, body)["broker_id"]))


def _encode_request(version: int, request: UnregisterBroker) -> bytes:
    return _REQUEST.encode(version, {"broker_id": request.broker_id})


def _encode_response(version: int, response: None, throttle_ms: int) -> bytes:
    done = {"throttle_time_ms": throttle_ms, "error_code": 0, "error_message": None}
    return _RESPONSE.encode(version, done)


def _refusal(version: int, request: UnregisterBroker | None, error: ApiError, throttle_ms: int) -> bytes:
    message = message_of(error)
    refused = {"throttle_time_ms": throttle_ms, "error_code": error.code, "error_message": message}
    return _RESPONSE.encode(version, refused)


def _decode_response(version: int, body: Buffer) -> None:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])


UNREGISTER_BROKER: Final[Api[UnregisterBroker, None]] = Api(
    key=64,
    name="UnregisterBroker",
    versions=range(1),
    flexible_from=0,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # one number
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
