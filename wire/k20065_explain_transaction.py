"""ExplainTransaction, API key 20065, version 0: why a transaction is where it is, in a sentence.

A private API, for ``fencepost transactions describe``: Kafka's DescribeTransactions (65) has no place for it,
and what is not asked for disturbs no client.

request     length i16 | transactional id
response    throttle ms i32 | error i16 | length i16 | message | length i32 |
            {"explanation": "...",
             "fences": [{"at_ms": 1760000000000, "cause": "new instance", "producer_id": 42,
                         "epoch": 3,                  the epoch that may not write any more
                         "client_id": "orders-2"}],   who fenced it; the newest last
             "set_aside": [...]}                       its rows of ListSetAside (20066)
Refused     as in DescribeTransactions: 105 for an unknown id, 16 and 14 where it is not coordinated.
"""

import struct
from typing import Final

import msgspec

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.records.invariant import CorruptData
from fencepost.wire.dispatch import BROKER, CONTROLLER, NEVER_FLEXIBLE, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.k20066_list_set_aside import SetAside
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

JSON_BYTES_MAX: Final = 64 * 1024
ID_BYTES_MAX: Final = 32_767  # an int16; how long an id may be is the coordinator's to say

_ID_LENGTH: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihh")  # throttle ms | error | bytes of the message


class ExplainTransaction(msgspec.Struct, frozen=True):
    """API key 20065."""

    transactional_id: str


class FenceTold(msgspec.Struct, frozen=True):
    """A fence of the id's bounded history."""

    at_ms: int
    cause: str
    producer_id: int
    epoch: int
    client_id: str = ""


class Explanation(msgspec.Struct, frozen=True):
    """What the coordinator says about it."""

    explanation: str
    fences: tuple[FenceTold, ...] = ()
    set_aside: tuple[SetAside, ...] = ()


def _decode_request(version: int, body: Buffer) -> ExplainTransaction:
    raw = bytes(body)
    try:
        (length,) = _ID_LENGTH.unpack_from(raw)
    except struct.error as error:
        raise CorruptData(f"ExplainTransaction: {error}") from error
    if length < 0 or _ID_LENGTH.size + length != len(raw):
        raise CorruptData(f"ExplainTransaction: an id of {length} bytes in a message of {len(raw)}")
    try:
        return ExplainTransaction(raw[_ID_LENGTH.size :].decode())
    except UnicodeDecodeError as error:
        raise CorruptData(f"ExplainTransaction: {error}") from error


def _encode_request(version: int, request: ExplainTransaction) -> bytes:
    raw = request.transactional_id.encode()
    if len(raw) > ID_BYTES_MAX:
        raise InvalidRequest(f"a transactional id of {len(raw)} bytes, at most {ID_BYTES_MAX} can be sent")
    return _ID_LENGTH.pack(len(raw)) + raw


def _encode_response(version: int, response: Explanation, throttle_ms: int) -> bytes:
    raw = msgspec.json.encode(response)
    return _HEAD.pack(throttle_ms, 0, 0) + _LENGTH.pack(len(raw)) + raw


def _refusal(version: int, request: ExplainTransaction | None, error: ApiError, throttle_ms: int) -> bytes:
    message = message_of(error).encode()
    return _HEAD.pack(throttle_ms, error.code, len(message)) + message + _LENGTH.pack(0)


def _decode_response(version: int, body: Buffer) -> Explanation:
    raw = bytes(body)
    try:
        _, code, message_length = _HEAD.unpack_from(raw)
        start = _HEAD.size + max(0, message_length)
        (length,) = _LENGTH.unpack_from(raw, start)
    except struct.error as error:
        raise CorruptData(f"ExplainTransaction: {error}") from error
    raise_for(code, raw[_HEAD.size : start].decode("utf-8", "replace"))
    document = raw[start + _LENGTH.size :]
    if length != len(document) or length > JSON_BYTES_MAX:
        raise CorruptData(f"ExplainTransaction: {length} bytes of JSON, {len(document)} are there")
    try:
        return msgspec.json.decode(document, type=Explanation)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptData(f"ExplainTransaction: {error}") from error


EXPLAIN_TRANSACTION: Final[Api[ExplainTransaction, Explanation]] = Api(
    key=20065,
    name="ExplainTransaction",
    versions=range(1),
    flexible_from=NEVER_FLEXIBLE,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=2 * SMALL,  # an id of 32 KiB
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
