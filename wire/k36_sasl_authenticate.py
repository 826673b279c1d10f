"""SaslAuthenticate, API key 36, versions 0-2: one SASL token there, one back.

1   session_lifetime: how long the login counts (connections.max.reauth.ms); 0: as long as the connection
2   flexible
"""

from dataclasses import dataclass, field
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

_REQUEST: Final = Message(36, "request")
_RESPONSE: Final = Message(36, "response")


@dataclass(frozen=True, slots=True)
class SaslAuthenticate:
    """The client's token. It holds a password and is never shown."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SaslAuthenticated:
    """The server's token; empty for PLAIN. ``lifetime_ms`` comes with the last one; 0: no limit."""

    token: bytes = b""
    lifetime_ms: int = 0


def _decode_request(version: int, body: Buffer) -> SaslAuthenticate:
    return SaslAuthenticate(_REQUEST.decode(version, body)["auth_bytes"])


def _encode_request(version: int, request: SaslAuthenticate) -> bytes:
    return _REQUEST.encode(version, {"auth_bytes": request.token})


def _encode_response(version: int, response: SaslAuthenticated, throttle_ms: int) -> bytes:
    message = {"error_code": 0, "error_message": None, "auth_bytes": response.token}
    return _RESPONSE.encode(version, {**message, "session_lifetime_ms": response.lifetime_ms})


def _refusal(version: int, request: SaslAuthenticate | None, error: ApiError, throttle_ms: int) -> bytes:
    message = {"error_code": error.code, "error_message": message_of(error), "auth_bytes": b""}
    return _RESPONSE.encode(version, message)


def _decode_response(version: int, body: Buffer) -> SaslAuthenticated:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return SaslAuthenticated(message["auth_bytes"], message.get("session_lifetime_ms", 0))


SASL_AUTHENTICATE: Final[Api[SaslAuthenticate, SaslAuthenticated]] = Api(
    key=36,
    name="SaslAuthenticate",
    versions=range(3),
    flexible_from=2,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=2 * SMALL,  # a token of 64 KiB
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
