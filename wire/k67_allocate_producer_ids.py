"""AllocateProducerIds, API key 67, version 0: a broker requests its next block of producer ids.

The hot path, so the codec is written by hand; tests hold it byte-equal to kio. A request with tagged
fields, which no client sends yet, takes the long way through the schema.
Source      KIP-730; ThrottleTimeMs is what shipped and the proposal lacks (docs/kafka-notes.md A3).
"""

import struct
from typing import Final

from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.dispatch import CONTROLLER, Api
from fencepost.wire.errors import raise_for
from fencepost.wire.request_limits import SMALL
from fencepost.wire.schema import Buffer, Message

_REQUEST: Final = struct.Struct(">iqB")  # broker id | broker epoch | no tagged fields
_RESPONSE: Final = struct.Struct(">ihqiB")  # throttle ms | error | first | length | no tagged fields
_FRAMED: Final = struct.Struct(">iiBihqiB")  # size | correlation id | no tagged fields | the response
_REQUEST_SCHEMA: Final = Message(67, "request")
_RESPONSE_SCHEMA: Final = Message(67, "response")


def _decode_request(version: int, body: Buffer) -> AllocateProducerIds:
    if len(body) == _REQUEST.size:
        broker_id, broker_epoch, tags = _REQUEST.unpack(body)
        if tags == 0:
            return AllocateProducerIds(broker_id, broker_epoch)
    message = _REQUEST_SCHEMA.decode(version, body)
    return AllocateProducerIds(BrokerId(message["broker_id"]), BrokerEpoch(message["broker_epoch"]))


def _encode_response(version: int, block: ProducerIdBlock, throttle_ms: int) -> bytes:
    return _RESPONSE.pack(throttle_ms, 0, block.first, block.length, 0)


def _frame_response(version: int, correlation_id: int, block: ProducerIdBlock, throttle_ms: int) -> bytes:
    return _FRAMED.pack(_FRAMED.size - 4, correlation_id, 0, throttle_ms, 0, block.first, block.length, 0)


def _refusal(version: int, request: AllocateProducerIds | None, error: ApiError, throttle_ms: int) -> bytes:
    return _RESPONSE.pack(throttle_ms, error.code, 0, 0, 0)


def _encode_request(version: int, request: AllocateProducerIds) -> bytes:
    return _REQUEST.pack(request.broker_id, request.broker_epoch, 0)


def _decode_response(version: int, body: Buffer) -> ProducerIdBlock:
    if len(body) == _RESPONSE.size:
        _, code, first, length, tags = _RESPONSE.unpack(body)
        if tags == 0:
            raise_for(code)
            return ProducerIdBlock(first, length)
    message = _RESPONSE_SCHEMA.decode(version, body)
    raise_for(message["error_code"])
    return ProducerIdBlock(ProducerId(message["producer_id_start"]), message["producer_id_len"])


ALLOCATE_PRODUCER_IDS: Final[Api[AllocateProducerIds, ProducerIdBlock]] = Api(
    key=67,
    name="AllocateProducerIds",
    versions=range(1),
    flexible_from=0,
    listeners=(CONTROLLER,),
    request_bytes_max=SMALL,  # two numbers
    decode_request=_decode_request,
    encode_response=_encode_response,
    refusal=_refusal,
    encode_request=_encode_request,
    decode_response=_decode_response,
    frame_response=_frame_response,
)
