"""Hostile requests meet every decoder, and hostile responses every client's: refused, answered or closed.

Goal        nothing but CorruptData and ApiError comes out of a decoder, whatever the bytes; so no line says
            that a request failed, and the loop's exception handler is never reached.
Method      the connection that ships, on a pretended socket; all APIs; frames of ``tests.hostile.messages``.
Replay      the seed is in the test's id.
"""

import asyncio
import dataclasses
import random
from typing import Any, cast

import pytest

from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.wire.auth import Logins
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply, Service
from fencepost.wire.frame import DETACHED_BYTES_MIN
from fencepost.wire.limited_log import LINES_MAX
from fencepost.wire.listener import Listener
from fencepost.wire.registry import APIS
from fencepost.wire.server_connection import ServerConnection
from tests.examples import share
from tests.hostile.largest import largest
from tests.hostile.messages import Messages
from tests.secret import known_secret
from tests.together import table
from tests.wire.every_api import EVERY_API, OWN_APIS, SERVICE_APIS
from tests.wire.sample_messages import SAMPLES
from tests.wire.stage import allocate, capturing_log, framed
from tests.wire.test_listener import Clock, Wire

LOGIN = framed(17, 1, b"\0\5PLAIN", flexible=False) + framed(
    36, 1, b"\0\0\0\x0d\0alice\0secret", flexible=False
)
FRAMES = max(300 * len(SERVICE_APIS), share(20_000))  # with fewer some decoder lets nothing through
CONNECTION_FRAMES_MAX = 4
RESPONSES = 60  # per API and version

SEEDS = [
    pytest.param(1, id="seed-1"),
    *(pytest.param(seed, id=f"seed-{seed}", marks=pytest.mark.slow) for seed in range(2, 8)),
]


class Echo:
    """Replies with a sample, or refuses."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.served = 0

    def __call__(self, request: Any, context: Context, reply: Reply[Any]) -> None:
        self.served += 1
        reply(InvalidRequest("no") if self.served % 2 else SAMPLES[self.key][1])


def receive(connection: ServerConnection, clock: Clock, data: bytes) -> None:
    """Bytes arrive, and are worked off however long the machine lets the connection wait."""
    connection.data_received(data)
    while clock.run_soon():
        pass


def everything() -> Service:
    service: dict[int, tuple[Api[Any, Any], Endpoint[Any, Any]]] = {
        api.key: (api, Echo(api.key)) for api in SERVICE_APIS
    }
    return service


@pytest.mark.parametrize("sasl", [False, True], ids=["open", "sasl"])
@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_requests_are_answered_or_close_their_connection(seed: int, sasl: bool) -> None:
    rng = random.Random(seed)
    log, events = capturing_log()
    service = everything()
    options: dict[str, Any] = {}
    if sasl:
        options = {"security_protocol": "SASL_PLAINTEXT", "logins": Logins({"alice": "secret"})}
    listener = Listener(service, name="X", log=log, **options)
    messages = Messages(rng)
    answered = closed = 0
    sent = 0
    while sent < FRAMES:
        wire, clock = Wire(), Clock()
        connection = ServerConnection(listener, cast(asyncio.AbstractEventLoop, clock))
        connection.connection_made(cast(asyncio.Transport, wire))
        frames = [messages.frame() for _ in range(rng.randrange(1, CONNECTION_FRAMES_MAX + 1))]
        raw = b"".join(frames)
        cut = rng.randrange(len(raw) + 1) if rng.random() < 0.5 else len(raw)
        for part in (raw[:cut], raw[cut:]):
            if part and not wire.closed:
                receive(connection, clock, part)
        for _, callback, timer in clock.timers[:]:  # a refused login is answered after a while
            if not timer.cancelled:
                callback()
        sent += len(frames)
        answered += len(wire.written)
        closed += wire.closed
        connection.connection_lost(None)
    assert {event["event"] for event in events} <= {"connection_closed", "log_lines_suppressed"}
    assert len(events) <= 2 * LINES_MAX
    assert answered > (0 if sasl else FRAMES / 20)
    assert closed > FRAMES / 20
    if not sasl:
        served = {key for key, (_, endpoint) in service.items() if cast(Echo, endpoint).served}
        assert served == set(service), "every decoder let something through"


@table("login", [False, True], ids=["at-once", "logged-in"])
@table("api", OWN_APIS, ids=lambda api: api.name)
def test_the_listeners_own_requests_at_their_limits(api: Api[Any, Any], login: bool) -> None:
    """Each is answered or closes its connection."""
    log, events = capturing_log()
    listener = Listener(
        everything(),
        name="X",
        log=log,
        secret=known_secret(),
        security_protocol="SASL_PLAINTEXT",
        logins=Logins({"alice": "secret"}, ("PLAIN",)),
    )
    for each in largest(api):
        for version in api.versions:
            wire, clock = Wire(), Clock()
            connection = ServerConnection(listener, cast(asyncio.AbstractEventLoop, clock))
            connection.connection_made(cast(asyncio.Transport, wire))
            if login:
                receive(connection, clock, LOGIN)
            before = len(wire.written)
            body = api.encode_request(version, each.request)
            receive(connection, clock, framed(api.key, version, body, flexible=version >= api.flexible_from))
            for _, callback, timer in clock.timers[:]:
                if not timer.cancelled:
                    callback()
            assert len(wire.written) > before or wire.closed, (each.title, version)
            connection.connection_lost(None)
    assert {event["event"] for event in events} <= {"connection_closed", "log_lines_suppressed"}


class Halts(Exception):
    """What a store raises."""


@table("sasl", [False, True], ids=["open", "sasl"])
@table(
    "error",
    [RecursionError(), KeyError("x"), InvariantViolation("bug"), Halts()],
    ids=lambda error: type(error).__name__,
)
def test_a_decoder_that_fails_costs_its_connection(error: Exception, sasl: bool) -> None:
    """It would be our bug; the node goes on, unless the failure is one that halts."""

    def fail(version: int, body: Any) -> Any:
        raise error

    log, events = capturing_log()
    failed: list[str] = []
    broken = dataclasses.replace(APIS[67], decode_request=fail)
    service: Service = {67: (broken, Echo(67))}
    options: dict[str, Any] = {}
    if sasl:
        options = {"security_protocol": "SASL_PLAINTEXT", "logins": Logins({"alice": "secret"})}
    listener = Listener(service, name="X", log=log, count_failed=failed.append, halting=(Halts,), **options)
    wire = Wire()
    clock = Clock()
    connection = ServerConnection(listener, cast(asyncio.AbstractEventLoop, clock))
    connection.connection_made(cast(asyncio.Transport, wire))
    if sasl:
        receive(connection, clock, LOGIN)
    if isinstance(error, Halts):
        with pytest.raises(Halts):
            receive(connection, clock, allocate())
        return
    receive(connection, clock, allocate())
    assert wire.closed
    assert failed == ["AllocateProducerIds"]
    assert [event["event"] for event in events] == ["request_failed", "connection_closed"]


@table("api", EVERY_API, ids=lambda api: api.name)
def test_hostile_responses_are_corrupt_or_an_error_or_read(api: Api[Any, Any]) -> None:
    """Of a broker that any client registered, or of what listens at its address."""
    rng = random.Random(api.key)
    messages = Messages(rng)
    for version in range(max(api.versions[0], api.served_from), api.versions[-1] + 1):
        sample = api.encode_response(version, SAMPLES[api.key][1], 0)
        for _ in range(RESPONSES):
            raw = sample
            for _ in range(rng.randrange(1, 4)):
                raw = messages.corrupted(raw)
            try:
                api.decode_response(version, raw)
            except (CorruptData, ApiError):
                pass


READ_BYTES = 65_536  # a frame that comes in pieces is put together


@pytest.mark.parametrize("api", SERVICE_APIS, ids=lambda api: api.name)
def test_the_largest_requests_that_fit_are_read(api: Api[Any, Any]) -> None:
    """Put together from many reads: none closes its connection, and each reaches what serves it."""
    log, events = capturing_log()
    echo = Echo(api.key)
    listener = Listener({api.key: (api, echo)}, name="X", log=log)
    count = 0
    for each in largest(api):
        version = api.versions[-1] if each.version is None else each.version
        body = api.encode_request(version, each.request)
        if len(body) < DETACHED_BYTES_MIN:
            continue
        raw = framed(api.key, version, body, flexible=version >= api.flexible_from)
        connection = ServerConnection(listener, cast(asyncio.AbstractEventLoop, Clock()))
        connection.connection_made(cast(asyncio.Transport, Wire()))
        for first in range(0, len(raw), READ_BYTES):
            connection.data_received(raw[first : first + READ_BYTES])
        count += 1
        assert echo.served == count, (each.title, version, events)
        connection.connection_lost(None)
