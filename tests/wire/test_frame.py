"""Frames and headers: any cut of the stream gives the same frames, and no length is trusted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1 import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2 import RequestHeader as KioHeaderV2
from kio.serial import entity_reader
from kio.static.primitive import i16, i32

from fencepost.records.invariant import CorruptData
from fencepost.wire import frame
from fencepost.wire.frame import RequestHeader, Splitter
from tests.together import table

HEADERS = st.builds(
    RequestHeader,
    st.integers(0, 100),
    st.integers(0, 20),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=50),
)


@given(st.lists(st.binary(max_size=50), max_size=20), st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame.raw_frame(body) for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    splitter = Splitter()
    found = []
    for first, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        splitter.feed(stream[first:end])
        if data.draw(st.booleans()):
            while (each := splitter.next_frame()) is not None:
                found.append(each)
    while (each := splitter.next_frame()) is not None:
        found.append(each)
    assert found == bodies
    assert splitter.buffered == 0


@table(
    ("size", "fits"),
    [
        pytest.param(0, True, id="empty"),
        pytest.param(100, True, id="at-the-bound"),
        pytest.param(101, False, id="one-past-the-bound"),
        pytest.param(2**31 - 1, False, id="2-gib"),
        pytest.param(-1, False, id="negative"),
        pytest.param(-(2**31), False, id="most-negative"),
    ],
)
def test_a_length_is_checked_before_its_bytes_come(size: int, fits: bool) -> None:
    splitter = Splitter(100)
    splitter.feed(struct.pack(">i", size))
    if fits:
        assert splitter.next_frame() == (b"" if size == 0 else None)
    else:
        with pytest.raises(CorruptData, match="expected 0 to 100"):
            splitter.next_frame()


def test_a_large_frame_in_small_pieces_is_gathered_without_recopying() -> None:
    splitter = Splitter()
    stream = frame.raw_frame(bytes(8 * 1024 * 1024))
    for first in range(0, len(stream), 1024):  # quadratic copying would move 32 GiB here
        splitter.feed(stream[first : first + 1024])
    body = splitter.next_frame()
    assert body is not None
    assert len(body) == 8 * 1024 * 1024


@given(HEADERS, st.booleans(), st.binary(max_size=20))
def test_request_headers_are_kafkas(header: RequestHeader, flexible: bool, body: bytes) -> None:
    splitter = Splitter()
    splitter.feed(frame.request_frame(header, body, flexible=flexible))
    cut = splitter.next_frame()
    assert cut is not None
    assert frame.parse_request_prefix(cut) == header[:3]
    parsed, start = frame.parse_request_header(cut, flexible=flexible)
    assert (parsed, cut[start:]) == (header, body)
    kind: type[KioHeaderV1 | KioHeaderV2] = KioHeaderV2 if flexible else KioHeaderV1
    expected = kind(
        request_api_key=i16(header.api_key),
        request_api_version=i16(header.api_version),
        correlation_id=i32(header.correlation_id),
        client_id=header.client_id,
    )
    assert entity_reader(kind)(cut, 0) == (expected, start)


@given(st.integers(-(2**31), 2**31 - 1), st.booleans(), st.binary(max_size=20))
def test_response_headers_round_trip(correlation_id: int, tagged: bool, body: bytes) -> None:
    framed = frame.response_frame(correlation_id, body, tagged=tagged)
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    found, start = frame.parse_response_header(framed[4:], tagged=tagged)
    assert (found, framed[4 + start :]) == (correlation_id, body)


PREFIX = struct.pack(">hhi", 67, 0, 7)


@table(
    ("raw", "reason"),
    [
        pytest.param(b"", "at least 8", id="nothing"),
        pytest.param(PREFIX[:7], "at least 8", id="prefix-cut"),
        pytest.param(PREFIX, "at least 10", id="no-client-id"),
        pytest.param(PREFIX + b"\x00\x05abcd", "claims 5 bytes", id="client-id-cut"),
        pytest.param(PREFIX + b"\x7f\xffab", "claims 32767 bytes", id="client-id-longest-claim"),
        pytest.param(PREFIX + b"\x00\x01\xff\x00", "not UTF-8", id="client-id-not-utf-8"),
        pytest.param(PREFIX + b"\xff\xff", "tagged fields", id="no-tags"),
        pytest.param(PREFIX + b"\xff\xff\x21", "at most 32", id="one-tag-too-many"),
        pytest.param(PREFIX + b"\xff\xff\x01\x00\x05a", "past the end", id="tag-past-the-end"),
        pytest.param(PREFIX + b"\xff\xff\x01\x00\xff\xff\xff\xff\x07", "past the end", id="tag-of-2-gib"),
        pytest.param(PREFIX + b"\xff\xff\xff\xff\xff\xff\xff", "tagged fields", id="endless-varint"),
    ],
)
def test_a_malformed_header_is_corrupt(raw: bytes, reason: str) -> None:
    with pytest.raises(CorruptData, match=reason):
        frame.parse_request_header(raw, flexible=True)


@pytest.mark.parametrize(
    ("raw", "client_id", "start"),
    [
        pytest.param(b"\xff\xff\x00", None, 11, id="null-client-id"),
        pytest.param(b"\x80\x00\x00", None, 11, id="any-negative-length-is-null"),
        pytest.param(b"\x00\x00\x00", "", 11, id="empty-client-id"),
        pytest.param(b"\x00\x01a\x02\x05\x01x\x07\x00", "a", 17, id="unknown-tags-are-skipped"),
    ],
)
def test_a_header_is_read(raw: bytes, client_id: str | None, start: int) -> None:
    header, found = frame.parse_request_header(PREFIX + raw, flexible=True)
    assert header == RequestHeader(67, 0, 7, client_id)
    assert found == start


@pytest.mark.parametrize("raw", [b"", b"\0\0\0", b"\0\0\0\x01"], ids=["nothing", "cut", "no-tags"])
def test_a_malformed_response_header_is_corrupt(raw: bytes) -> None:
    with pytest.raises(CorruptData):
        frame.parse_response_header(raw, tagged=True)
