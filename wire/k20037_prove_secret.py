"""ProveSecret, API key 20037, version 0: two nodes of one cluster prove that they know its secret.

A private API, called twice on a connection. First without a proof: the server answers with a nonce and a
proof of its own. Then the same fields with the client's proof: from then on the connection is proved. What
that means, and why it cannot be used on another connection: wire/secret_proof.py.

request     node id i32 | compact cluster id | compact role | compact nonce | compact proof: empty at first
response    throttle ms i32 | error i16 | compact message | node id i32 | compact cluster id | compact nonce |
            compact proof   (the last two empty the second time)
Refused     58 where the secret or the cluster is another one; 42 for what is out of order.
"""

import struct
from typing import Final

import msgspec

from fencepost.controller.errors import ApiError
from fencepost.records.invariant import CorruptData
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, NEVER_FLEXIBLE, Api
from fencepost.wire.errors import message_of, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

FIELD_BYTES_MAX: Final = 256
"""Of a cluster id, a role, a nonce or a proof: all are below 64."""

_HEAD: Final = struct.Struct(">ih")  # throttle ms | error


class ProveSecret(msgspec.Struct, frozen=True):
    """Who asks, and as what; with a ``proof`` the second time."""

    node_id: int
    cluster_id: str
    role: str
    nonce: bytes
    proof: bytes = b""


class SecretProved(msgspec.Struct, frozen=True):
    """Who answers. The first time with a nonce and a proof."""

    node_id: int
    cluster_id: str
    nonce: bytes = b""
    proof: bytes = b""


def _decode_request(version: int, body: Buffer) -> ProveSecret:
    return read("ProveSecret", Reader(body, flexible=True), _read_request)


def _read_request(reader: Reader) -> ProveSecret:
    request = ProveSecret(reader.int32(), _text(reader), _text(reader), _bounded(reader), _bounded(reader))
    reader.finish()
    return request


def _text(reader: Reader) -> str:
    text = reader.string()
    if len(text) > FIELD_BYTES_MAX:
        raise CorruptData(f"a field of {len(text)} characters, at most {FIELD_BYTES_MAX} are expected")
    return text


def _bounded(reader: Reader) -> bytes:
    raw = reader.records()
    if raw is None or len(raw) > FIELD_BYTES_MAX:
        size = "none" if raw is None else f"{len(raw)} bytes"
        raise CorruptData(f"expected up to {FIELD_BYTES_MAX} bytes, got {size}")
    return raw


def _encode_request(version: int, request: ProveSecret) -> bytes:
    writer = Writer(flexible=True)
    writer.int32(request.node_id)
    writer.string(request.cluster_id)
    writer.string(request.role)
    writer.records(request.nonce)
    writer.records(request.proof)
    return writer.message()


def _encode(answer: SecretProved, throttle_ms: int, code: int, message: str) -> bytes:
    writer = Writer(flexible=True)
    writer.pack(_HEAD, throttle_ms, code)
    writer.string(message)
    writer.int32(answer.node_id)
    writer.string(answer.cluster_id)
    writer.records(answer.nonce)
    writer.records(answer.proof)
    return writer.message()


def _encode_response(version: int, answer: SecretProved, throttle_ms: int) -> bytes:
    return _encode(answer, throttle_ms, 0, "")


def _refusal(version: int, request: ProveSecret | None, error: ApiError, throttle_ms: int) -> bytes:
    return _encode(SecretProved(-1, ""), throttle_ms, error.code, message_of(error))


def _decode_response(version: int, body: Buffer) -> SecretProved:
    code, message, answer = read("ProveSecret answer", Reader(body, flexible=True), _read_answer)
    raise_for(code, message)
    return answer


def _read_answer(reader: Reader) -> tuple[int, str, SecretProved]:
    _, code = reader.fields(_HEAD)
    message = reader.string()
    answer = SecretProved(reader.int32(), _text(reader), _bounded(reader), _bounded(reader))
    reader.finish()
    return code, message, answer


PROVE_SECRET: Final[Api[ProveSecret, SecretProved]] = Api(
    key=20037,
    name="ProveSecret",
    versions=range(1),
    flexible_from=NEVER_FLEXIBLE,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # three short fields
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
