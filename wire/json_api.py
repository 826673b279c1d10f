"""Private APIs whose bodies are one JSON document each, described by msgspec structs. Version 0 only.

request     length i32 | JSON
response    throttle ms i32 | error i16 | message string | length i32 | JSON; none with an error
Unknown     members of a document are passed over, so that it may grow without a new version.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.records.invariant import CorruptData
from fencepost.wire.dispatch import NEVER_FLEXIBLE, Api, ListenerKind
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

JSON_BYTES_MAX: Final = 64 * 1024
LIST_BYTES_MAX: Final = 4 * 1024 * 1024  # of a response that lists what a node has

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihh")  # throttle ms | error | bytes of the message


def json_api(
    key: int,
    name: str,
    request_type: type[Q],
    response_type: type[R],
    listeners: tuple[ListenerKind, ...],
    *,
    require: Callable[[Q], None] = lambda _request: None,
    response_bytes_max: int = JSON_BYTES_MAX,
) -> Api[Q, R]:
    """The API of a key. ``require`` raises InvalidRequest for a request that can be read but not be meant."""

    def decode_request(version: int, body: Buffer) -> Q:
        raw = _document(name, body, 0, JSON_BYTES_MAX)
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
        raw = _document(name, body, start, response_bytes_max)
        try:
            return msgspec.json.decode(raw, type=response_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptData(f"{name}: {error}") from error

    return Api(
        key=key,
        name=name,
        versions=range(1),
        flexible_from=NEVER_FLEXIBLE,
        listeners=listeners,
        request_bytes_max=2 * SMALL,  # JSON of 64 KiB
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


def _document(name: str, body: Buffer, position: int, bytes_max: int) -> bytes:
    """The length-prefixed bytes from ``position`` to the end. Raises CorruptData."""
    try:
        (length,) = _LENGTH.unpack_from(body, position)
    except struct.error as error:
        raise CorruptData(f"{name}: {error}") from error
    document = bytes(body[position + _LENGTH.size :])
    if length != len(document) or length > bytes_max:
        raise CorruptData(f"{name}: {length} bytes of JSON, {len(document)} are there")
    return document
