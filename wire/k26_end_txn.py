"""EndTxn, API key 26, versions 0-5: commit or abort.

2   may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
3   flexible
4   may be answered with TRANSACTION_ABORTABLE
5   each transaction has an epoch of its own (KIP-890): the answer has the pair of the next one
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.controller.transactions.end_txn import EndTxn, EndTxnAnswer
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from fencepost.records.types import ProducerId
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
_NEXT: Final = struct.Struct(">qh")  # producer id | producer epoch, of the next transaction
_NEXT_ANSWER: Final = struct.Struct(">ihqhB")


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


def _newest_for(request: EndTxn) -> int:
    return _BUMPING_FROM if request.bumps_epoch else _BUMPING_FROM - 1


def _encode_request(version: int, request: EndTxn) -> bytes:
    if request.bumps_epoch and version < _BUMPING_FROM:
        raise UnsupportedVersion(f"an EndTxn that bumps the epoch needs version {_BUMPING_FROM}")
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.string(request.transactional_id)
    writer.pack(_END, request.producer_id, request.producer_epoch, request.committed)
    writer.no_tags()
    return writer.message()


def _encode_response(version: int, answer: EndTxnAnswer | None, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: EndTxn | None, error: ApiError, throttle_ms: int) -> bytes:
    code = gated(error.code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)
    return _encode(version, None, throttle_ms, error_code=code)


def _encode(version: int, answer: EndTxnAnswer | None, throttle_ms: int, *, error_code: int) -> bytes:
    if version >= _BUMPING_FROM:
        pair = (NO_PRODUCER_ID, NO_EPOCH) if answer is None else (answer.producer_id, answer.producer_epoch)
        return _NEXT_ANSWER.pack(throttle_ms, error_code, *pair, 0)
    if version >= _FLEXIBLE_FROM:
        return _TAGGED_ANSWER.pack(throttle_ms, error_code, 0)
    return _ANSWER.pack(throttle_ms, error_code)


def _decode_response(version: int, body: Buffer) -> EndTxnAnswer | None:
    reader = Reader(body, flexible=version >= _FLEXIBLE_FROM)
    error_code, answer = read(
        f"EndTxn answer v{version}", reader, lambda reader: _read_answer(version, reader)
    )
    raise_for(error_code)
    return answer


def _read_answer(version: int, reader: Reader) -> tuple[int, EndTxnAnswer | None]:
    error_code: int = reader.fields(_ANSWER)[1]
    answer = None
    if version >= _BUMPING_FROM:
        producer_id, producer_epoch = reader.fields(_NEXT)
        answer = EndTxnAnswer(ProducerId(producer_id), producer_epoch)
    reader.skip_tags()
    reader.finish()
    return error_code, answer


END_TXN: Final[Api[EndTxn, EndTxnAnswer | None]] = Api(
    key=26,
    name="EndTxn",
    versions=range(6),
    flexible_from=_FLEXIBLE_FROM,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # one transactional id
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
)
