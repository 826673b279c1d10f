"""Private APIs whose messages are one JSON document: the shape that they share.

request     length i32 | JSON
response    throttle ms i32 | error i16 | length i16 | message | length i32 | JSON (empty with an error)
Unknown     members of a document are passed over, so that it may grow without a new version.
"""

import struct
from typing import Final, TypeVar

import msgspec

from controller.errors import ApiError, InvalidRequest
from records.invariant import CorruptData
from wire.dispatch import NEVER_FLEXIBLE, Api
from wire.errors import message_of, raise_for
from wire.schema import Buffer

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

REQUEST_BYTES_MAX: Final = 64 * 1024
RESPONSE_BYTES_MAX: Final = 4 * 1024 * 1024

_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihh")  # throttle ms | error | bytes of the message


def json_api(key: int, name: str, request_type: type[Q], response_type: type[R]) -> Api[Q, R]:
    """The codec of one key, in its version 0."""

    def decode_request(version: int, body: Buffer) -> Q:
        raw = _document(name, bytes(body), 0, REQUEST_BYTES_MAX)
        try:
            return msgspec.json.decode(raw, type=request_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"{name}: {error}") from error

    def encode_request(version: int, request: Q) -> bytes:
        raw = msgspec.json.encode(request)
        return _LENGTH.pack(len(raw)) + raw

    def encode_response(version: int, response: R, throttle_ms: int) -> bytes:
        raw = msgspec.json.encode(response)
        return _HEAD.pack(throttle_ms, 0, 0) + _LENGTH.pack(len(raw)) + raw

    def refusal(version: int, request: Q | None, error: ApiError, throttle_ms: int) -> bytes:
        message = message_of(error).encode()
        return _HEAD.pack(throttle_ms, error.code, len(message)) + message + _LENGTH.pack(0)

    def decode_response(version: int, body: Buffer) -> R:
        raw = bytes(body)
        try:
            _, code, length = _HEAD.unpack_from(raw)
        except struct.error as error:
            raise CorruptData(f"{name}: {error}") from error
        start = _HEAD.size + max(0, length)
        raise_for(code, raw[_HEAD.size : start].decode("utf-8", "replace"))
        document = _document(name, raw, start, RESPONSE_BYTES_MAX)
        try:
            return msgspec.json.decode(document, type=response_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptData(f"{name}: {error}") from error

    return Api(
        key=key,
        name=name,
        versions=range(1),
        flexible_from=NEVER_FLEXIBLE,
        decode_request=decode_request,
        encode_response=encode_response,
        refusal=refusal,
        encode_request=encode_request,
        decode_response=decode_response,
    )


def _document(name: str, raw: bytes, position: int, bytes_max: int) -> bytes:
    """The length-prefixed bytes from ``position`` to the end. Raises CorruptData."""
    try:
        (length,) = _LENGTH.unpack_from(raw, position)
    except struct.error as error:
        raise CorruptData(f"{name}: {error}") from error
    document = raw[position + _LENGTH.size :]
    if length != len(document) or length > bytes_max:
        raise CorruptData(f"{name}: {length} bytes of JSON, {len(document)} are there")
    return document
