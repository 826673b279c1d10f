"""EndTxn, API key 26, versions 0-4: commit or abort.

2   may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
3   flexible
4   may be answered with TRANSACTION_ABORTABLE
Version 5, after which each transaction has an epoch of its own (KIP-890), is not served yet.
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.wire.cursor import Reader, Writer, read
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import gated, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer

_FLEXIBLE_FROM: Final = 3
_FENCED_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_BUMPING_FROM: Final = 5  # from it on the sender uses transactions V2
_END: Final = struct.Struct(">qh?")  # producer id | producer epoch | committed
_ANSWER: Final = struct.Struct(">ih")  # throttle ms | error
_TAGGED_ANSWER: Final = struct.Struct(">ihB")


def _decode_request(version: int, body: Buffer) -> EndTxn:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    return read(f"EndTxn v{version}", reader, lambda reader: _read(version, reader))


def _read(version: int, reader: Reader) -> EndTxn:
    transactional_id = reader.string()
    producer_id, producer_epoch, committed = reader.fields(_END)
    reader.skip_tags()
    return EndTxn(
        transactional_id,
        producer_id,
        producer_epoch,
        committed,
        knows_abortable=version >= _ABORTABLE_FROM,
        bumps_epoch=version >= _BUMPING_FROM,
    )


def _encode_request(version: int, request: EndTxn) -> bytes:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.transactional_id)
    writer.pack(_END, request.producer_id, request.producer_epoch, request.committed)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: EndTxnAnswer | None, throttle_ms: int) -> bytes:
    return _encode(version, throttle_ms, error_code=0)


def _refusal(version: int, request: EndTxn | None, error: ApiError, throttle_ms: int) -> bytes:
    code = gated(error.code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)
    return _encode(version, throttle_ms, error_code=code)


def _encode(version: int, throttle_ms: int, *, error_code: int) -> bytes:
    if version >= _FLEXIBLE_FROM:
        return _TAGGED_ANSWER.pack(throttle_ms, error_code, 0)
    return _ANSWER.pack(throttle_ms, error_code)


def _decode_response(version: int, body: Buffer) -> EndTxnAnswer | None:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    raise_for(read(f"EndTxn answer v{version}", reader, _read_code))
    return None


def _read_code(reader: Reader) -> int:
    error_code: int = reader.fields(_ANSWER)[1]
    reader.skip_tags()
    reader.finish()
    return error_code


END_TXN: Final[Api[EndTxn, EndTxnAnswer | None]] = Api(
    key=26,
    name="EndTxn",
    versions=range(5),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # one transactional id
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
