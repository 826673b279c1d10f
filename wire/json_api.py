"""Private APIs whose bodies are one JSON document each, described by msgspec structs. Version 0 only.

request     length i32 | JSON
response    throttle ms i32 | error i16 | message string | length i32 | JSON; none with an error
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from controller.errors import ApiError, InvalidRequest
from records.invariant import CorruptData
from wire.dispatch import NEVER_FLEXIBLE, Api
from wire.errors import message_of, raise_for
from wire.schema import Buffer

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

JSON_BYTES_MAX: Final = 64 * 1024

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihh")  # throttle ms | error | bytes of the message


def json_api(
    key: int,
    name: str,
    request_type: type[Q],
    response_type: type[R],
    *,
    require: Callable[[Q], None] = lambda _request: None,
) -> Api[Q, R]:
    """The API of a key. ``require`` raises InvalidRequest for a request that can be read but not be meant."""

    def decode_request(version: int, body: Buffer) -> Q:
        raw, end = _block(name, body, 0)
        if end != len(body):
            raise CorruptData(f"{name}: {len(body) - end} bytes too many")
        try:
            request = msgspec.json.decode(raw, type=request_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{name}: {error}") from error
        require(request)
        return request

    def decode_response(version: int, body: Buffer) -> R:
        try:
            _, code, length = _HEAD.unpack_from(body)
        except struct.error as error:
            raise CorruptData(f"{name}: {error}") from error
        start = _HEAD.size + max(0, length)
        if start > len(body):
            raise CorruptData(f"{name}: a message of {length} bytes, past the end")
        raise_for(code, bytes(body[_HEAD.size : start]).decode("utf-8", "replace"))
        raw, _ = _block(name, body, start)
        try:
            return msgspec.json.decode(raw, type=response_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptData(f"{name}: {error}") from error

    return Api(
        key=key,
        name=name,
        versions=range(1),
        flexible_from=NEVER_FLEXIBLE,
        decode_request=decode_request,
        encode_response=_encode_response,
        refusal=_refusal,
        encode_request=_encode_request,
        decode_response=decode_response,
    )


def _encode_request(version: int, request: msgspec.Struct) -> bytes:
    raw = msgspec.json.encode(request)
    return _LENGTH.pack(len(raw)) + raw


def _encode_response(version: int, response: msgspec.Struct, throttle_ms: int) -> bytes:
    raw = msgspec.json.encode(response)
    return _HEAD.pack(throttle_ms, 0, 0) + _LENGTH.pack(len(raw)) + raw


def _refusal(version: int, request: object, error: ApiError, throttle_ms: int) -> bytes:
    message = message_of(error).encode()
    return _HEAD.pack(throttle_ms, error.code, len(message)) + message + _LENGTH.pack(0)


def _block(name: str, body: Buffer, position: int) -> tuple[Any, int]:
    """The length-prefixed bytes at ``position``, and where they end. Raises CorruptData."""
    try:
        (length,) = _LENGTH.unpack_from(body, position)
    except struct.error as error:
        raise CorruptData(f"{name}: {error}") from error
    end = position + _LENGTH.size + length
    if not 0 <= length <= JSON_BYTES_MAX or end > len(body):
        raise CorruptData(f"{name}: {length} bytes of JSON, {len(body) - position - _LENGTH.size} are there")
    return bytes(body[position + _LENGTH.size : end]), end
