"""Migrate: the JSON as it is documented, there and back, and what is refused."""

import json
import struct

import pytest

from fencepost.controller.errors import InvalidRequest, NotController
from fencepost.records.invariant import CorruptData
from fencepost.wire.k20021_migrate import (
    COMMANDS,
    MIGRATE,
    LoggedFence,
    Migrate,
    Migrated,
    SeenZnode,
    Stopped,
)
from fencepost.wire.private_api import JSON_BYTES_MAX
from tests.together import table


def framed(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


WHOLE = Migrated(
    phase="quorum",
    next_command="finalize",
    blocking=("the fence is gone",),
    ways=("fencepost migrate rollback",),
    standing_still=(101, 102),
    floor=5000,
    producer_id_end=9000,
    ensemble="zk",
    fence=LoggedFence(4999, 7),
    zookeeper=SeenZnode(8, 4999, is_fenced=True),
    progress="fence: 3 tries",
    dry_run=True,
    message="done",
)


@pytest.mark.parametrize(
    ("request_", "document"),
    [
        pytest.param(
            Migrate("status"),
            {"command": "status"},
            id="status-as-a-controller-of-before-reads-it",
        ),
        pytest.param(
            Migrate("import", dry_run=True, at_least=7000, stopped=Stopped("zk", 4999, is_stopped=True)),
            {
                "command": "import",
                "dry_run": True,
                "at_least": 7000,
                "stopped": {"ensemble": "zk", "block_end": 4999, "is_stopped": True},
            },
            id="import-from-files",
        ),
        pytest.param(
            Migrate("finalize", no_block_yet=True, zookeeper_is_stopped=True),
            {"command": "finalize", "no_block_yet": True, "zookeeper_is_stopped": True},
            id="the-operators-words",
        ),
    ],
)
def test_a_request_as_documented(request_: Migrate, document: dict[str, object]) -> None:
    body = MIGRATE.encode_request(0, request_)
    assert json.loads(body[4:]) == document
    assert MIGRATE.decode_request(0, body) == request_


@table("command", COMMANDS)
def test_a_request_says_no_more_than_it_must(command: str) -> None:
    body = framed(json.dumps({"command": command}).encode())
    assert MIGRATE.decode_request(0, memoryview(body)) == Migrate(command)


def test_an_answer_as_documented() -> None:
    body = MIGRATE.encode_response(0, WHOLE, 0)
    assert json.loads(body[12:]) == {
        "phase": "quorum",
        "next_command": "finalize",
        "blocking": ["the fence is gone"],
        "ways": ["fencepost migrate rollback"],
        "standing_still": [101, 102],
        "floor": 5000,
        "producer_id_end": 9000,
        "ensemble": "zk",
        "fence": {"block_end": 4999, "zk_version": 7},
        "zookeeper": {"version": 8, "block_end": 4999, "is_fenced": True},
        "progress": "fence: 3 tries",
        "dry_run": True,
        "message": "done",
    }
    assert MIGRATE.decode_response(0, memoryview(body)) == WHOLE


def test_a_refusal_keeps_its_words() -> None:
    body = MIGRATE.refusal(0, None, NotController("ask node 2"), 0)
    with pytest.raises(NotController, match="ask node 2"):
        MIGRATE.decode_response(0, body)


@table(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"command":"burn"}',
        b'{"command":"fence","force":true}',
        b'{"command":7}',
        b"\xff",
    ],
    ids=["empty", "a-list", "no-command", "unknown-command", "unknown-field", "a-number", "not-utf-8"],
)
def test_a_request_that_makes_no_sense_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        MIGRATE.decode_request(0, framed(raw))


@table(
    "body",
    [b"", b"\0\0\0", struct.pack(">i", -1), struct.pack(">i", 3) + b"{}", framed(b"{}") + b"x"],
    ids=["empty", "no-length", "negative", "cut-off", "a-byte-too-many"],
)
def test_a_body_that_is_not_as_long_as_it_says_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptData):
        MIGRATE.decode_request(0, body)


def test_so_much_json_and_no_more() -> None:
    padding = b" " * (JSON_BYTES_MAX - len(b'{"command":"status"}'))
    assert MIGRATE.decode_request(0, framed(b'{"command":"status"}' + padding)) == Migrate("status")
    with pytest.raises(CorruptData, match="bytes of JSON"):
        MIGRATE.decode_request(0, framed(b'{"command":"status"}' + padding + b" "))


@pytest.mark.parametrize(
    "body",
    [b"", b"\0" * 7, struct.pack(">ihh", 0, 0, 9) + b"x", struct.pack(">ihh", 0, 0, 0) + framed(b"{")],
    ids=["empty", "no-head", "message-cut-off", "half-a-document"],
)
def test_an_answer_that_cannot_be_read_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptData):
        MIGRATE.decode_response(0, body)
