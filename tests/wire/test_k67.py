"""The hand-written codec of AllocateProducerIds is byte-equal to kio's."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.schema import Message
from tests.wire.every_api import kios_request, kios_response

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(INT32, INT64)
def test_the_hand_written_request_is_kios(broker_id: int, epoch: int) -> None:
    said = AllocateProducerIds(BrokerId(broker_id), BrokerEpoch(epoch))
    body = ALLOCATE_PRODUCER_IDS.encode_request(0, said)
    assert body == Message(67, "request").encode(0, {"broker_id": broker_id, "broker_epoch": epoch})
    entity, _ = kios_request(67, 0, body)
    assert (entity.broker_id, entity.broker_epoch) == (broker_id, epoch)
    assert ALLOCATE_PRODUCER_IDS.decode_request(0, body) == said
    assert ALLOCATE_PRODUCER_IDS.decode_request(0, body[:-1] + b"\x01\x09\x01x") == said  # the long way


@given(INT64, INT32, INT32)
def test_the_hand_written_answer_is_kios(first: int, length: int, throttle_ms: int) -> None:
    said = ProducerIdBlock(ProducerId(first), length)
    body = ALLOCATE_PRODUCER_IDS.encode_response(0, said, throttle_ms)
    whole = {"producer_id_start": first, "producer_id_len": length, "throttle_time_ms": throttle_ms}
    assert body == Message(67, "response").encode(0, {**whole, "error_code": 0})
    entity, _ = kios_response(67, 0, body)
    assert (entity.producer_id_start, entity.producer_id_len) == (first, length)
    assert entity.throttle_time == timedelta(milliseconds=throttle_ms)
    assert ALLOCATE_PRODUCER_IDS.decode_response(0, body) == said
    assert ALLOCATE_PRODUCER_IDS.decode_response(0, body[:-1] + b"\x01\x09\x01x") == said
