"""DescribeClientQuotas, API key 48, versions 0-1: quotas of clients, of which there are none here.

1   flexible
``kafka-configs --describe --entity-type users`` sends it before it describes users' SCRAM credentials.
"""

from typing import Final

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message


class QuotaComponent(msgspec.Struct, frozen=True):
    """A filter. ``match_type``: 0 the name in ``match``, 1 the default, 2 any name."""

    entity_type: str
    match_type: int
    match: str | None = None


class DescribeClientQuotas(msgspec.Struct, frozen=True):
    """API key 48. ``strict``: only entities that have no other component."""

    components: tuple[QuotaComponent, ...] = ()
    strict: bool = False


class NoQuotas(msgspec.Struct, frozen=True):
    """The answer: no entity has a quota."""


NO_QUOTAS: Final = NoQuotas()
_REQUEST: Final = Message(48, "request", elements_max=1_000)
_RESPONSE: Final = Message(48, "response")


def _decode_request(version: int, body: Buffer) -> DescribeClientQuotas:
    message = _REQUEST.decode(version, body)
    components = tuple(
        QuotaComponent(each["entity_type"], each["match_type"], each["match"])
        for each in message["components"]
    )
    return DescribeClientQuotas(components, message["strict"])


def _encode_request(version: int, request: DescribeClientQuotas) -> bytes:
    components = tuple(
        {"entity_type": each.entity_type, "match_type": each.match_type, "match": each.match}
        for each in request.components
    )
    return _REQUEST.encode(version, {"components": components, "strict": request.strict})


def _encode_response(version: int, _answer: NoQuotas, throttle_ms: int) -> bytes:
    fields = {"throttle_time_ms": throttle_ms, "error_code": 0, "error_message": None}
    return _RESPONSE.encode(version, {**fields, "entries": ()})


def _refusal(version: int, _request: DescribeClientQuotas | None, error: ApiError, throttle_ms: int) -> bytes:
    fields = {"throttle_time_ms": throttle_ms, "error_code": error.code, "error_message": message_of(error)}
    return _RESPONSE.encode(version, {**fields, "entries": None})


def _decode_response(version: int, body: Buffer) -> NoQuotas:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"], message["error_message"])
    return NO_QUOTAS


DESCRIBE_CLIENT_QUOTAS: Final[Api[DescribeClientQuotas, NoQuotas]] = Api(
    key=48,
    name="DescribeClientQuotas",
    versions=range(2),
    flexible_from=1,
    listeners=(BROKER,),
    request_bytes_max=SMALL,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
