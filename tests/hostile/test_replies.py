"""A reply whose content no encoder expects leaves, or closes its own connection: nothing else ever happens.

Goal        text that is not Unicode, messages of 40 KiB, negative and huge numbers, nulls, long lists, in
            every place of every API's response and in every refusal.
Method      the reply that ships, on a pretended connection; one place of a sample is changed at a time.
"""

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from fencepost.controller.errors import ApiError, ErrorCode, InvalidRequest, UnknownServerError
from fencepost.wire.dispatch import Api
from fencepost.wire.limited_log import LINES_MAX
from fencepost.wire.listener import Listener
from fencepost.wire.server_connection import ServerConnection
from fencepost.wire.server_reply import ServerReply
from tests.hostile.largest import names_of
from tests.hostile.test_decoders import everything
from tests.together import table
from tests.wire.every_api import EVERY_API, SERVICE_APIS
from tests.wire.sample_messages import SAMPLES
from tests.wire.stage import capturing_log
from tests.wire.test_listener import Clock, Wire

SURROGATE = "\ud800"
TEXTS = (SURROGATE, "x" * 40_000, "\0", "", None)
NUMBERS = (-1, -(2**15), 2**15, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**70, None)
MESSAGES = (SURROGATE, "m" * 40_000, "é" * 40_000, "", f"{SURROGATE} in the middle", "\0")


def variants(value: Any) -> Iterator[Any]:
    """The value with one of its places changed, for each place and each change."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from NUMBERS
    elif isinstance(value, str):
        yield from TEXTS
    elif isinstance(value, bytes):
        yield from (b"", b"\xff" * 40_000, None)
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        yield from ((), value * 300, None)
        for position, element in enumerate(value[:1]):
            for other in variants(element):
                yield (*value[:position], other, *value[position + 1 :])
    else:
        for name in names_of(value):
            for other in variants(getattr(value, name)):
                yield replaced(value, name, other)


def replaced(value: Any, name: str, other: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: other})
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **{name: other})
    return value._replace(**{name: other})


class Stand:
    """A listener with every API, and a new connection for every reply."""

    def __init__(self) -> None:
        log, self.events = capturing_log()
        self.failed: list[str] = []
        self.listener = Listener(everything(), name="X", log=log, count_failed=self.failed.append)

    def give(self, api: Api[Any, Any], version: int, request: Any, outcome: Any) -> Wire:
        """What came of it: one reply written, or the connection closed."""
        wire = Wire()
        clock = Clock()
        connection = ServerConnection(self.listener, cast(asyncio.AbstractEventLoop, clock))
        connection.connection_made(cast(asyncio.Transport, wire))
        connection._busy = True
        reply = ServerReply(connection, api, version, 7)
        reply.request = request
        reply(outcome)
        while clock.run_soon():  # a long response is encoded in steps
            pass
        assert len(wire.written) <= 1
        assert wire.written or wire.closed or not connection._busy, "the client waits for ever"
        connection.connection_lost(None)
        return wire


def served(api: Api[Any, Any]) -> range:
    return range(max(api.versions[0], api.served_from), api.versions[-1] + 1)


@table("api", EVERY_API, ids=lambda api: api.name)
def test_a_response_leaves_or_costs_its_connection(api: Api[Any, Any]) -> None:
    stand = Stand()
    request, response = SAMPLES[api.key]
    for version in served(api):
        assert stand.give(api, version, request, response).closed is False
    before = len(stand.failed)
    closed = 0
    for version in (served(api)[0], served(api)[-1]):
        for outcome in variants(response):
            closed += stand.give(api, version, request, outcome).closed
    assert len(stand.failed) - before == closed, "each is counted"
    assert {event["event"] for event in stand.events} <= {
        "connection_closed", "request_failed", "log_lines_suppressed",
    }  # fmt: skip
    assert len(stand.events) <= 3 * LINES_MAX


@table("read", [True, False], ids=["request-read", "request-not-read"])
@table("api", EVERY_API, ids=lambda api: api.name)
def test_a_refusal_always_leaves(api: Api[Any, Any], read: bool) -> None:
    """Whatever its message quotes of what a client sent; with the request that it refuses, and without."""
    stand = Stand()
    request = SAMPLES[api.key][0] if read else None
    for version in served(api):
        for message in MESSAGES:
            for error in refusals(message):
                wire = stand.give(api, version, request, error)
                assert wire.written or api.unanswered is not None, (version, message[:20])
    assert stand.failed == []


def refusals(message: str) -> Iterator[ApiError]:
    yield InvalidRequest(message)
    yield UnknownServerError(message)
    listed = ApiError(message)
    listed.code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    yield listed


@table("api", SERVICE_APIS, ids=lambda api: api.name)
def test_what_a_request_quotes_may_stand_in_its_refusal(api: Api[Any, Any]) -> None:
    """A refusal repeats names of the request: those are what a decoder lets through, so UTF-8 at most."""
    stand = Stand()
    request = SAMPLES[api.key][0]
    for version in (served(api)[0], served(api)[-1]):
        for other in variants(request):
            try:
                body = api.encode_request(version, other)
                decoded = api.decode_request(version, body)
            except Exception:  # noqa: BLE001, S112 - no client can send it
                continue
            wire = stand.give(api, version, decoded, InvalidRequest("no"))
            assert wire.written or api.unanswered is not None
    assert stand.failed == []
