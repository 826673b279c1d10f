"""SaslHandshake, API key 17, versions 0-1: a client names its SASL mechanism.

0   the tokens that follow are bare frames, without headers
1   the tokens travel in SaslAuthenticate (36)
A refusal lists the mechanisms that would have done.
"""

from dataclasses import dataclass
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, CONTROLLER, NEVER_FLEXIBLE, Api
from fencepost.wire.errors import UnsupportedSaslMechanism, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

_REQUEST: Final = Message(17, "request")
_RESPONSE: Final = Message(17, "response")


@dataclass(frozen=True, slots=True)
class SaslHandshake:
    """``tokens_are_bare`` is version 0 of the request."""

    mechanism: str
    tokens_are_bare: bool = False


@dataclass(frozen=True, slots=True)
class SaslMechanisms:
    """The mechanisms that the server knows."""

    mechanisms: tuple[str, ...]


def _decode_request(version: int, body: Buffer) -> SaslHandshake:
    return SaslHandshake(_REQUEST.decode(version, body)["mechanism"], tokens_are_bare=version == 0)


def _encode_request(version: int, request: SaslHandshake) -> bytes:
    return _REQUEST.encode(version, {"mechanism": request.mechanism})


def _encode_response(version: int, response: SaslMechanisms, throttle_ms: int) -> bytes:
    return _RESPONSE.encode(version, {"error_code": 0, "mechanisms": response.mechanisms})


def _refusal(version: int, request: SaslHandshake | None, error: ApiError, throttle_ms: int) -> bytes:
    known = error.enabled if isinstance(error, UnsupportedSaslMechanism) else ()
    return _RESPONSE.encode(version, {"error_code": error.code, "mechanisms": known})


def _decode_response(version: int, body: Buffer) -> SaslMechanisms:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], f"the server knows {', '.join(message['mechanisms']) or 'no mechanism'}")
    return SaslMechanisms(message["mechanisms"])


SASL_HANDSHAKE: Final[Api[SaslHandshake, SaslMechanisms]] = Api(
    key=17,
    name="SaslHandshake",
    versions=range(2),
    flexible_from=NEVER_FLEXIBLE,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # a mechanism's name
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
