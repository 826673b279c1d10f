"""Messages: byte for byte what kio writes, in every served version, and safe where kio's reader is not."""

import io
import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Literal

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_writer

from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.wire.dispatch import Api
from fencepost.wire.k00_produce import PRODUCE
from fencepost.wire.k01_fetch import FETCH
from fencepost.wire.schema import ELEMENTS_MAX, Message
from tests.examples import examples
from tests.together import table
from tests.wire.entities import any_entity
from tests.wire.every_api import KAFKA_APIS

BY_HAND = (PRODUCE, FETCH)  # their records are no field of the schema's
SCHEMAS: Final[Mapping[Literal["request", "response"], Callable[[int, int], type[Any]]]] = {
    "request": load_request_schema,
    "response": load_response_schema,
}


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in KAFKA_APIS if api not in BY_HAND])
@settings(max_examples=examples(10))
@given(rng=st.randoms(use_true_random=True))
def test_what_kio_writes_is_read_and_written_back(api: Api[Any, Any], rng: Random) -> None:
    """In every version: a message of each, both ways."""
    for version in api.versions:
        for kind, schema_of in SCHEMAS.items():
            entity = any_entity(schema_of(api.key, version), rng)
            note(f"version {version}, {kind}")
            buffer = io.BytesIO()
            entity_writer(type(entity))(buffer, entity)
            raw = buffer.getvalue()
            message = Message(api.key, kind)
            decoded = message.decode(version, memoryview(raw))
            assert message.encode(version, decoded) == raw


@pytest.mark.parametrize(
    ("body", "topics"),
    [
        pytest.param(b"\x01" + b"\x01\x01\x00" + b"\x02\x05\x01x\x63\x00", (), id="unknown-tags-are-skipped"),
        pytest.param(b"\x00" + b"\x01\x01\x00" + b"\x00", None, id="null-array"),
        pytest.param(b"\x00\x00\x00\x00\x01\x00\x00\x00", None, id="librdkafkas-three-bytes-too-many"),
    ],
)
def test_a_message_is_read(body: bytes, topics: object) -> None:
    assert Message(3, "request").decode(9, body)["topics"] == topics


@table(
    ("body", "reason"),
    [
        pytest.param(b"", "exhausted", id="nothing"),
        pytest.param(b"\x01\x01\x01\x00", "exhausted", id="cut"),
        pytest.param(b"\xff\xff\xff\xff\x07", "more than 20000", id="an-array-of-2-gib"),
        pytest.param(b"\xff\xff\xff\xff\x0f" + b"\xff" * 20, "more than 20000", id="an-array-of-4-gib"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff", "Varint", id="endless-varint"),
        pytest.param(b"\x01\x05\x01\x00\x00", "oolean", id="a-boolean-of-5"),
        pytest.param(b"\x02\x03\xff\xfe\x00\x01\x01\x00\x00", "UTF-8", id="not-utf-8"),
        pytest.param(b"\x02\x00\x00\x01\x01\x00\x00", "null", id="a-null-name"),
        pytest.param(b"\x01\x01\x01\x00\x01\x00\x09x", "past the end", id="tag-past-the-end"),
        pytest.param(b"\x01\x01\x01\x00\xff\xff\x7f", "more than 20000", id="too-many-tags"),
    ],
)
def test_a_malformed_message_is_corrupt(body: bytes, reason: str) -> None:
    with pytest.raises(CorruptData, match=reason):
        Message(3, "request").decode(9, body)


def test_bytes_after_a_response_are_corrupt() -> None:
    body = Message(64, "response").encode(0, {"throttle_time_ms": 0, "error_code": 0, "error_message": None})
    with pytest.raises(CorruptData, match="1 bytes too many"):
        Message(64, "response").decode(0, body + b"x")


def test_a_tag_whose_length_lies_is_corrupt() -> None:
    heartbeat = struct.pack(">iqq??", 1, 2, 3, False, False)
    lies = heartbeat + b"\x01\x00\x05\x01abcd"  # offline_log_dirs: one byte of array, five claimed
    with pytest.raises(CorruptData, match="claims 5 bytes, has 1"):
        Message(63, "request").decode(1, lies)


@pytest.mark.parametrize("count", [ELEMENTS_MAX, ELEMENTS_MAX + 1], ids=["at-the-bound", "one-past"])
def test_elements_are_bounded(count: int) -> None:
    body = struct.pack(">i", count) + b"\x00\x00" * count
    if count > ELEMENTS_MAX:
        with pytest.raises(CorruptData, match="more than 20000 elements"):
            Message(3, "request").decode(0, body)
    else:
        assert len(Message(3, "request").decode(0, body)["topics"]) == count


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({}, id="missing"),
        pytest.param({"broker_id": 2**31, "broker_epoch": 0}, id="out-of-range"),
        pytest.param({"broker_id": None, "broker_epoch": 0}, id="null"),
    ],
)
def test_what_cannot_be_said_is_our_bug(message: dict[str, Any]) -> None:
    with pytest.raises(InvariantViolation):
        Message(67, "request").encode(0, message)
