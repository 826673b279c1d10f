"""The private APIs whose messages are JSON: as documented, there and back, and what is refused."""

import json
import struct
from typing import Any

import pytest

from fencepost.controller.errors import InvalidRequest, TransactionalIdNotFound
from fencepost.records.invariant import CorruptData
from fencepost.wire.dispatch import Api
from fencepost.wire.k20027_force_markers import FORCE_MARKERS, ForcedMarkers, ForceMarkers
from fencepost.wire.k20066_list_set_aside import (
    LIST_SET_ASIDE,
    WEDGED,
    ListSetAside,
    SetAside,
    SetAsideList,
)
from fencepost.wire.private_api import JSON_BYTES_MAX, LIST_BYTES_MAX
from tests.together import table

ROW = SetAside(
    kind=WEDGED, concern="marker", key="orders-1", reason="why", since_ms=5, partition="p-3", code=47
)
DOCUMENTS: list[Any] = [
    pytest.param(
        LIST_SET_ASIDE,
        (ListSetAside(), {}),
        (
            SetAsideList((ROW,), 1),
            {
                "rows": [
                    {"kind": "wedged", "concern": "marker", "key": "orders-1", "partition": "p-3", "code": 47,
                     "reason": "why", "since_ms": 5}
                ],
                "total": 1,
            },
        ),
        id="20066",
    ),
    pytest.param(
        FORCE_MARKERS,
        (ForceMarkers("orders-1"), {"transactional_id": "orders-1"}),
        (ForcedMarkers(("p-3",)), {"partitions": ["p-3"]}),
        id="20027",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("api", "asked", "answered"), DOCUMENTS)
def test_the_bytes_are_as_documented(
    api: Api[Any, Any], asked: tuple[Any, Any], answered: tuple[Any, Any]
) -> None:
    raw = api.encode_request(0, asked[0])
    assert struct.unpack_from(">i", raw) == (len(raw) - 4,)
    assert json.loads(raw[4:]) == asked[1]
    assert api.decode_request(0, raw) == asked[0]
    raw = api.encode_response(0, answered[0], 7)
    assert struct.unpack_from(">ihhi", raw) == (7, 0, 0, len(raw) - 12)
    assert json.loads(raw[12:]) == answered[1]
    assert api.decode_response(0, raw) == answered[0]


def test_members_of_a_later_version_are_passed_over() -> None:
    raw = json.dumps({"transactional_id": "a", "how": "gently"}).encode()
    assert FORCE_MARKERS.decode_request(0, struct.pack(">i", len(raw)) + raw) == ForceMarkers("a")


def test_a_refusal_says_why() -> None:
    raw = FORCE_MARKERS.refusal(0, None, TransactionalIdNotFound("no such id"), 3)
    with pytest.raises(TransactionalIdNotFound, match="no such id"):
        FORCE_MARKERS.decode_response(0, raw)


@table(
    ("raw", "refusal"),
    [
        pytest.param(b"", CorruptData, id="empty"),
        pytest.param(struct.pack(">i", 3) + b"{}", CorruptData, id="a-length-past-the-end"),
        pytest.param(struct.pack(">i", 1) + b"{}", CorruptData, id="bytes-too-many"),
        pytest.param(struct.pack(">i", -1), CorruptData, id="a-negative-length"),
        pytest.param(struct.pack(">i", 2) + b"{}", InvalidRequest, id="a-member-is-missing"),
        pytest.param(struct.pack(">i", 2) + b"no", InvalidRequest, id="no-json"),
    ],
)
def test_what_is_no_request(raw: bytes, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        FORCE_MARKERS.decode_request(0, raw)


@pytest.mark.parametrize("past", [0, 1], ids=["at-the-bound", "one-past"])
def test_documents_have_a_bound(past: int) -> None:
    def padded(size: int, document: bytes) -> bytes:
        return document + b" " * (size + past - len(document))

    asked = padded(JSON_BYTES_MAX, b'{"transactional_id": "a"}')
    answered = padded(LIST_BYTES_MAX, b"{}")
    request = struct.pack(">i", len(asked)) + asked
    response = struct.pack(">ihhi", 0, 0, 0, len(answered)) + answered
    if past:
        with pytest.raises(CorruptData):
            FORCE_MARKERS.decode_request(0, request)
        with pytest.raises(CorruptData):
            FORCE_MARKERS.decode_response(0, response)
    else:
        assert FORCE_MARKERS.decode_request(0, request) == ForceMarkers("a")
        assert FORCE_MARKERS.decode_response(0, response) == ForcedMarkers()


@pytest.mark.parametrize("raw", [b"", struct.pack(">ihh", 0, 0, 0), struct.pack(">ihhi", 0, 0, 0, 2) + b"[]"])
def test_what_is_no_answer_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptData):
        FORCE_MARKERS.decode_response(0, raw)
