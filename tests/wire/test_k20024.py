"""AnnouncePartitions comes back as it was, and no bytes make its reader do more than refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller.errors import ClusterAuthorizationFailed
from fencepost.records.invariant import CorruptData
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS, Announcement, AnnouncePartitions

API = ANNOUNCE_PARTITIONS

i64 = st.integers(-(2**63), 2**63 - 1)
topics = st.lists(
    st.tuples(st.text(max_size=20), st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)), max_size=3
).map(tuple)
announcements = st.builds(Announcement, i64, st.integers(-(2**15), 2**15 - 1), i64, topics)
requests = st.lists(announcements, max_size=4).map(tuple).map(AnnouncePartitions)


@given(requests)
def test_a_request_comes_back(request_: AnnouncePartitions) -> None:
    assert API.decode_request(0, API.encode_request(0, request_)) == request_


@given(requests, st.data())
def test_a_cut_or_changed_request_is_corrupt_or_another_one(
    request_: AnnouncePartitions, data: st.DataObject
) -> None:
    raw = bytearray(API.encode_request(0, request_))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        read = API.decode_request(0, cut)
    except CorruptData:
        return
    assert isinstance(read, AnnouncePartitions)


def test_the_answer_is_done_or_a_refusal() -> None:
    assert API.decode_response(0, API.encode_response(0, None, 7)) is None
    refused = API.refusal(0, None, ClusterAuthorizationFailed(principal="User:x", operation="Y"), 0)
    with pytest.raises(ClusterAuthorizationFailed):
        API.decode_response(0, refused)
    with pytest.raises(CorruptData):
        API.decode_response(0, b"\0")
