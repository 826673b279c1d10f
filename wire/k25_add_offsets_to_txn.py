"""AddOffsetsToTxn, API key 25, versions 0-4: a transaction will commit offsets of a group.

2   may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
3   flexible
4   may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.groups.offset_messages import AddOffsets
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, Api
from fencepost.wire.errors import gated, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

_FENCED_FROM: Final = 2
_FLEXIBLE_FROM: Final = 3
_ABORTABLE_FROM: Final = 4
_PRODUCER: Final = struct.Struct(">qh")  # producer id | producer epoch
_ANSWER: Final = struct.Struct(">ih")  # throttle ms | error


def _decode_request(version: int, body: Buffer) -> AddOffsets:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"AddOffsetsToTxn v{version}", reader, _read_request)


def _read_request(reader: Reader) -> AddOffsets:
    transactional_id = reader.string()
    producer_id, producer_epoch = reader.fields(_PRODUCER)
    group_id = reader.string()
    reader.skip_tags()
    return AddOffsets(transactional_id, producer_id, producer_epoch, group_id)


def _encode_request(version: int, request: AddOffsets) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.transactional_id)
    writer.pack(_PRODUCER, request.producer_id, request.producer_epoch)
    writer.string(request.group_id)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: None, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, error_code=0)


def _refusal(version: int, request: AddOffsets | None, error: ApiError, throttle_ms: int) -> bytes:
    code = gated(error.code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)
    return _encode(version, throttle_ms, error_code=code)


def _encode(version: int, throttle_ms: int, *, error_code: int) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.pack(_ANSWER, throttle_ms, error_code)
    writer.no_tags()
    return writer.message()


def _decode_response(version: int, body: Buffer) -> None:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    raise_for(read(f"AddOffsetsToTxn answer v{version}", reader, _read_code))


def _read_code(reader: Reader) -> int:
    error_code: int = reader.fields(_ANSWER)[1]
    reader.skip_tags()
    reader.finish()
    return error_code


ADD_OFFSETS_TO_TXN: Final[Api[AddOffsets, None]] = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions=range(5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER,),
    request_bytes_max=SMALL,  # one transactional id, one group id
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
