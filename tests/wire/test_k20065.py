"""ExplainTransaction: the bytes as they are documented, there and back, and what is refused."""

import json
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.errors import InvalidRequest, TransactionalIdNotFound
from fencepost.records.invariant import CorruptData
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    Assignment,
    ExplainTransaction,
    Explanation,
    FenceExplained,
    PendingOffset,
    PendingOffsets,
)
from fencepost.wire.k20066_list_set_aside import WEDGED, SetAside
from tests.together import table

API = EXPLAIN_TRANSACTION
ID_BYTES_MAX = 2**15 - 1  # of a length of 16 bits
WEDGE = SetAside(
    kind=WEDGED, concern="marker", key="tx", reason="why", since_ms=5, partition="orders-0", code=47
)
EXPLAINED = Explanation(
    "It is open.", (FenceExplained(1_760_000_000_000, "new instance", 42, 3, "orders-2"),), (WEDGE,)
)
DOCUMENT = {
    "explanation": "It is open.",
    "fences": [
        {"at_ms": 1_760_000_000_000, "cause": "new instance", "producer_id": 42, "epoch": 3,
         "client_id": "orders-2", "later_producer_id": -1, "later_epoch": -1, "timeout_ms": -1},
    ],
    "set_aside": [
        {"kind": "wedged", "concern": "marker", "key": "tx", "reason": "why", "since_ms": 5,
         "partition": "orders-0", "code": 47},
    ],
}  # fmt: skip


def test_the_bytes_are_as_documented() -> None:
    assert API.encode_request(0, ExplainTransaction("tx")) == b"\0\2tx"
    raw = API.encode_response(0, EXPLAINED, 7)
    assert struct.unpack_from(">ihhi", raw) == (7, 0, 0, len(raw) - 12)
    assert json.loads(raw[12:]) == DOCUMENT


@given(st.text(max_size=40))
def test_a_request_comes_back(transactional_id: str) -> None:
    request = ExplainTransaction(transactional_id)
    assert API.decode_request(0, API.encode_request(0, request)) == request


def test_an_answer_comes_back() -> None:
    assert API.decode_response(0, API.encode_response(0, EXPLAINED, 0)) == EXPLAINED


def test_pending_offsets_come_back_and_are_absent_where_there_are_none() -> None:
    pending = PendingOffsets((PendingOffset("readers", "orders", 0, 7),), 1)
    answer = msgspec.structs.replace(EXPLAINED, pending=pending)
    raw = API.encode_response(0, answer, 0)
    listed = {"group_id": "readers", "topic": "orders", "partition": 0, "offset": 7}
    assert json.loads(raw[12:]) == DOCUMENT | {"pending": {"offsets": [listed], "count": 1}}
    assert API.decode_response(0, raw) == answer
    assert b"pending" not in API.encode_response(0, EXPLAINED, 0), "as older nodes answer"


def test_assignments_come_back_and_are_absent_where_there_are_none() -> None:
    answer = msgspec.structs.replace(EXPLAINED, assignments=(Assignment("readers", 7, ("orders-0",), 3),))
    raw = API.encode_response(0, answer, 0)
    listed = {"group_id": "readers", "generation": 7, "partitions": ["orders-0"], "count": 3}
    assert json.loads(raw[12:]) == DOCUMENT | {"assignments": [listed]}
    assert API.decode_response(0, raw) == answer
    assert b"assignments" not in API.encode_response(0, EXPLAINED, 0), "as older nodes answer"


def test_a_refusal_comes_back_with_its_words() -> None:
    error = TransactionalIdNotFound("tx is not known")
    with pytest.raises(TransactionalIdNotFound, match="tx is not known"):
        API.decode_response(0, API.refusal(0, None, error, 0))


@table(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\3tx", id="too-short"),
        pytest.param(b"\0\1tx", id="too-long"),
        pytest.param(b"\xff\xff", id="null"),
        pytest.param(b"\0\1\xff", id="no-utf-8"),
    ],
)
def test_an_unreadable_request_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptData):
        API.decode_request(0, body)


@given(st.binary(max_size=60))
def test_an_unreadable_answer_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptData):
        API.decode_response(0, b"\0\0\0\0\0\0" + body)


def test_an_id_that_no_message_holds_is_refused() -> None:
    longest = ExplainTransaction("x" * ID_BYTES_MAX)
    assert API.decode_request(0, API.encode_request(0, longest)) == longest
    with pytest.raises(InvalidRequest):
        API.encode_request(0, ExplainTransaction("x" * (ID_BYTES_MAX + 1)))
