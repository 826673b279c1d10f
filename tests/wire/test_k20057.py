"""LogLevels: the JSON as it is documented, there and back, and what is refused."""

import json
import struct

import pytest

from fencepost.controller.errors import InvalidRequest
from fencepost.controller.levels import LogLevels, VoterLevel
from fencepost.records.invariant import CorruptData
from fencepost.wire.k20057_log_levels import LOG_LEVELS, AskLogLevels
from fencepost.wire.private_api import JSON_BYTES_MAX
from tests.together import table


def framed(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


@pytest.mark.parametrize("level", [None, 0, 1, 2**15 - 1])
def test_a_request_as_documented(level: int | None) -> None:
    body = LOG_LEVELS.encode_request(0, AskLogLevels(level))
    assert json.loads(body[4:]) == {"log_level": level}
    assert LOG_LEVELS.decode_request(0, body) == AskLogLevels(level)


def test_a_response_as_documented() -> None:
    levels = LogLevels(log_level=0, log_level_max=1, voters=(VoterLevel(1, 1), VoterLevel(2, None)))
    body = LOG_LEVELS.encode_response(0, levels, 0)
    assert json.loads(body[12:]) == {
        "log_level": 0,
        "log_level_max": 1,
        "voters": [{"node_id": 1, "log_level_max": 1}, {"node_id": 2, "log_level_max": None}],
    }
    assert LOG_LEVELS.decode_response(0, body) == levels


def test_a_refusal_has_its_reason() -> None:
    body = LOG_LEVELS.refusal(0, None, InvalidRequest("node 3 is not connected"), 0)
    with pytest.raises(InvalidRequest, match="node 3 is not connected"):
        LOG_LEVELS.decode_response(0, body)


BAD = [
    pytest.param(b'{"log_level": "1"}', id="text"),
    pytest.param(b'{"log_level": 1.5}', id="a-fraction"),
    pytest.param(b'{"level": 1}', id="another-name"),
    pytest.param(b"[1]", id="no-object"),
    pytest.param(b"\xff", id="no-json"),
]


@table("raw", BAD)
def test_a_request_that_cannot_be_meant_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match="LogLevels"):
        LOG_LEVELS.decode_request(0, framed(raw))


@pytest.mark.parametrize("body", [b"", b"\0\0\0", framed(b"{}") + b"x", framed(b"{}")[:-1]], ids=repr)
def test_bytes_that_are_no_request_are_named(body: bytes) -> None:
    with pytest.raises(CorruptData, match="LogLevels"):
        LOG_LEVELS.decode_request(0, body)


@pytest.mark.parametrize("more", [0, 1])
def test_a_request_has_a_limit(more: int) -> None:
    body = framed(b'{"log_level": 1}'.ljust(JSON_BYTES_MAX + more))
    if more:
        with pytest.raises(CorruptData, match="bytes of JSON"):
            LOG_LEVELS.decode_request(0, body)
    else:
        assert LOG_LEVELS.decode_request(0, body) == AskLogLevels(1)
