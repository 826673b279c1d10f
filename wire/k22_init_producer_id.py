"""InitProducerId, API key 22, versions 0-5: a producer asks who it is.

2   flexible
3   producer_id and producer_epoch of a producer that goes on (KIP-360); -1 if it is new
4   may be answered with PRODUCER_FENCED, 5 with TRANSACTION_ABORTABLE
Version 6 (two-phase commit) is not stable in Kafka and not served yet.
"""

from dataclasses import dataclass
from typing import Final

from controller.errors import ApiError
from records.types import ProducerId
from wire.dispatch import Api
from wire.errors import raise_for
from wire.schema import Buffer, Message

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = -1

_REQUEST: Final = Message(22, "request")
_RESPONSE: Final = Message(22, "response")


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """``transactional_id`` None: idempotent only; its timeout then means nothing (librdkafka sends -1)."""

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class InitProducerIdAnswer:
    """Who the producer is from now on."""

    producer_id: ProducerId
    producer_epoch: int


def _decode_request(version: int, body: Buffer) -> InitProducerId:
    return InitProducerId(**_REQUEST.decode(version, body))


def _encode_request(version: int, request: InitProducerId) -> bytes:
    return _REQUEST.encode(
        version,
        {
            "transactional_id": request.transactional_id,
            "transaction_timeout_ms": request.transaction_timeout_ms,
            "producer_id": request.producer_id,
            "producer_epoch": request.producer_epoch,
        },
    )


def _encode_response(version: int, answer: InitProducerIdAnswer, throttle_ms: int) -> bytes:
    return _encode(version, answer, throttle_ms, error_code=0)


def _refusal(version: int, request: InitProducerId | None, error: ApiError, throttle_ms: int) -> bytes:
    nobody = InitProducerIdAnswer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return _encode(version, nobody, throttle_ms, error_code=error.code)


def _encode(version: int, answer: InitProducerIdAnswer, throttle_ms: int, *, error_code: int) -> bytes:
    return _RESPONSE.encode(
        version,
        {
            "throttle_time_ms": throttle_ms,
            "error_code": error_code,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        },
    )


def _decode_response(version: int, body: Buffer) -> InitProducerIdAnswer:
    message = _RESPONSE.decode(version, body)
    raise_for(message["error_code"])
    return InitProducerIdAnswer(message["producer_id"], message["producer_epoch"])


INIT_PRODUCER_ID: Final[Api[InitProducerId, InitProducerIdAnswer]] = Api(
    key=22,
    name="InitProducerId",
    versions=range(6),
    flexible_from=2,
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
)
