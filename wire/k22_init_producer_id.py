"""InitProducerId, API key 22, versions 0-6: a producer requests its producer id and epoch.

2   flexible
3   producer_id and producer_epoch of a producer that goes on (KIP-360); -1 if it is new
4   may be answered with PRODUCER_FENCED; below, INVALID_PRODUCER_EPOCH says it
5   may be answered with TRANSACTION_ABORTABLE; below, INVALID_TXN_STATE says it
6   two-phase commit (KIP-939), and a transaction that is open may be kept; the answer has its pair. Kafka
    serves this version only with ``unstable.api.versions.enable``
"""

from typing import Final

from fencepost.controller.errors import ApiError, UnsupportedVersion
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID
from fencepost.wire.dispatch import BROKER, CONTROLLER, Api
from fencepost.wire.errors import gated, raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

__all__ = [
    "INIT_PRODUCER_ID",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "InitProducerId",
    "InitProducerIdAnswer",
]

NO_PRODUCER_EPOCH: Final = NO_EPOCH

_FENCED_FROM: Final = 4
_ABORTABLE_FROM: Final = 5
_TWO_PHASE_FROM: Final = 6
_REQUEST: Final = Message(22, "request")
_RESPONSE: Final = Message(22, "response")


def _decode_request(version: int, body: Buffer) -> InitProducerId:
    message = _REQUEST.decode(version, body)
    return InitProducerId(
        message["transactional_id"],
        message["transaction_timeout_ms"],
        message.get("producer_id", NO_PRODUCER_ID),
        message.get("producer_epoch", NO_PRODUCER_EPOCH),
        version,
        enables_two_phase=message.get("enable2_pc", False),
        keeps_prepared=message.get("keep_prepared_txn", False),
    )


def _newest_for(request: InitProducerId) -> int:
    two_phase = request.enables_two_phase or request.keeps_prepared
    return _TWO_PHASE_FROM if two_phase else _TWO_PHASE_FROM - 1


def _encode_request(version: int, request: InitProducerId) -> bytes:
    if version < _TWO_PHASE_FROM == _newest_for(request):
        raise UnsupportedVersion(
            f"two-phase commit, and keeping what is open, need version {_TWO_PHASE_FROM}"
        )
    return _REQUEST.encode(
        version,
        {
            "transactional_id": request.transactional_id,
            "transaction_timeout_ms": request.transaction_timeout_ms,
            "producer_id": request.producer_id,
            "producer_epoch": request.producer_epoch,
            "enable2_pc": request.enables_two_phase,
            "keep_prepared_txn": request.keeps_prepared,
        },
    )


def _encode_response(version: int, answer: InitProducerIdAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: InitProducerId | None, error: ApiError, throttle_ms: int) -> bytes:
    none_given = InitProducerIdAnswer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    code = gated(error.code, version, fenced_from=_FENCED_FROM, abortable_from=_ABORTABLE_FROM)
    return _encode(version, none_given, throttle_ms, error_code=code)


def _encode(version: int, answer: InitProducerIdAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    return _RESPONSE.encode(
        version,
        {
            "throttle_time_ms": throttle_ms,
            "error_code": error_code,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
            "ongoing_txn_producer_id": answer.ongoing_producer_id,
            "ongoing_txn_producer_epoch": answer.ongoing_producer_epoch,
        },
    )


def _decode_response(version: int, body: Buffer) -> InitProducerIdAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    return InitProducerIdAnswer(
        message["producer_id"],
        message["producer_epoch"],
        message.get("ongoing_txn_producer_id", NO_PRODUCER_ID),
        message.get("ongoing_txn_producer_epoch", NO_PRODUCER_EPOCH),
    )


INIT_PRODUCER_ID: Final[Api[InitProducerId, InitProducerIdAnswer]] = Api(
    key=22,
    name="InitProducerId",
    versions=range(7),
    flexible_from=2,
    listeners=(BROKER, CONTROLLER),
    request_bytes_max=SMALL,  # one transactional id
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    newest_for=_newest_for,
)
