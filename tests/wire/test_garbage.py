"""Garbage from the network disturbs nobody: a live listener, ten thousand of each kind, one healthy client.

Goal        whatever bytes arrive, their own connection is closed or answered; the healthy connection gets an
            answer to every request all the while; nothing reaches the event loop's exception handler; no
            pickle is ever loaded.
Method      seeded garbage, each piece on a connection of its own, a hundred at a time.
Replay      the seed is in the test's id; a failure names the piece.
"""

import asyncio
import itertools
import pickle
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from controller.errors import InvalidRequest
from tests.wire.every_api import EVERY_API
from tests.wire.stage import ASK, Blocks, blocks_service, framed, listening
from wire.client import Connection
from wire.dispatch import Api, Context, Endpoint, Reply, Service
from wire.frame import raw_frame
from wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from wire.limited_log import INTERVAL_S, LINES_MAX

AT_ONCE = 100
Garbage = Iterator[bytes]


def _refuse(request: Any, context: Context, reply: Reply) -> None:
    reply(InvalidRequest("no"))


def _everything() -> Service:
    """All APIs, so that random bodies meet every reader; the listener has four of its own."""
    service: dict[int, tuple[Api[Any, Any], Endpoint]] = {
        api.key: (api, _refuse) for api in EVERY_API if api.key not in (17, 18, 36, 20037)
    }
    return {**service, **blocks_service(Blocks())}


def random_frames(rng: random.Random, count: int) -> Garbage:
    """Half of them plausible: a header that is served, then a random body."""
    for _ in range(count):
        body = rng.randbytes(rng.randrange(80))
        if rng.random() < 0.3:  # small numbers look like lengths and tags
            body = bytes(rng.choice((0, 1, 2, 3, 7, 127, 128, 255)) for _ in range(rng.randrange(60)))
        if rng.random() < 0.5:
            yield raw_frame(body)
            continue
        api = rng.choice(EVERY_API)
        version = rng.choice((*api.versions, rng.randrange(-(2**15), 2**15)))
        yield framed(api.key, version, body, flexible=version >= api.flexible_from)


class Trap:
    """A pickle that leaves a file behind when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self._path,))


def pickles(rng: random.Random, count: int, trap: Path) -> Garbage:
    """Every protocol; each loads the trap."""
    for _ in range(count):
        payload = (
            Trap(trap),
            rng.randbytes(rng.randrange(40)),
            rng.randrange(2**70),
            "x" * rng.randrange(40),
        )
        yield pickle.dumps(payload, protocol=rng.randrange(pickle.HIGHEST_PROTOCOL + 1))


def framed_pickles(rng: random.Random, count: int, trap: Path) -> Garbage:
    return map(raw_frame, pickles(rng, count, trap))


def claims_of_2_gib(rng: random.Random, count: int) -> Garbage:
    for _ in range(count):
        yield struct.pack(">i", 2**31 - 1 - rng.randrange(2**16)) + rng.randbytes(rng.randrange(200))


class Vandal(asyncio.Protocol):
    """Sends one piece of garbage and waits for the end."""

    def __init__(self, garbage: bytes, *, finishes: bool) -> None:
        self._garbage = garbage
        self._finishes = finishes
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        stream.write(self._garbage)
        if self._finishes:
            stream.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def vandalize(port: int, garbage: bytes, source: str, *, finishes: bool) -> None:
    loop = asyncio.get_running_loop()
    vandal = Vandal(garbage, finishes=finishes)
    await loop.create_connection(lambda: vandal, "127.0.0.1", port, local_addr=(source, 0))
    try:
        async with asyncio.timeout(30):
            await vandal.ended
    except TimeoutError:
        pytest.fail(f"the connection stays open after {garbage!r}")


class Healthy:
    """A client that asks for blocks all the while."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.firsts: list[int] = []
        self.stops = False

    async def run(self) -> None:
        while not self.stops:
            block = await self._connection.call(ALLOCATE_PRODUCER_IDS, ASK, timeout_s=30)
            self.firsts.append(block.first)


async def storm(garbage: Garbage, *, finishes: bool, reason: str = "") -> tuple[int, int]:
    """Send it all. Gives the number of pieces, and of connections closed for it, each for that reason."""
    begun_s = time.monotonic()
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with listening(_everything()) as (listener, events):
        healthy = Healthy(await Connection.open("127.0.0.1", listener.port))
        running = asyncio.create_task(healthy.run())
        pieces = 0
        while batch := list(itertools.islice(garbage, AT_ONCE)):
            answered = len(healthy.firsts)
            source = f"127.0.0.{2 + pieces // AT_ONCE % 200}"  # so that ports do not run out
            port = listener.port
            await asyncio.gather(*(vandalize(port, each, source, finishes=finishes) for each in batch))
            pieces += len(batch)
            assert not running.done()
            while len(healthy.firsts) == answered:
                await asyncio.sleep(0)
        healthy.stops = True
        await running
        assert healthy.firsts == sorted(set(healthy.firsts))
        assert len(listener._connections) == 1
        healthy._connection.close()
    assert unhandled == []
    assert {each["event"] for each in events} <= {"connection_closed", "log_lines_suppressed"}
    closed = sum(each["lines"] if each["event"] == "log_lines_suppressed" else 1 for each in events)
    lines_max = LINES_MAX + 1
    assert len(events) <= lines_max * (2 + int((time.monotonic() - begun_s) / INTERVAL_S))
    assert all(reason in each["reason"] for each in events if "reason" in each)
    return pieces, closed


COUNT = 10_000
LIE = "expected 0 to 104857600"
SEEDS = [pytest.param(1, id="seed-1"), pytest.param(7, id="seed-7", marks=pytest.mark.slow)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_frames(seed: int) -> None:
    pieces, closed = uvloop.run(storm(random_frames(random.Random(seed), COUNT), finishes=True))
    assert pieces == COUNT
    assert COUNT / 2 < closed <= COUNT  # some are requests by chance, and are answered


@pytest.mark.parametrize("seed", SEEDS)
def test_pickles_as_frames(seed: int, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    pieces, closed = uvloop.run(storm(framed_pickles(random.Random(seed), COUNT, trap), finishes=False))
    assert (pieces, closed) == (COUNT, COUNT)
    assert not trap.exists()
    pickle.loads(next(pickles(random.Random(seed), 1, trap)))
    assert trap.exists()  # the trap would have worked


@pytest.mark.parametrize("seed", SEEDS)
def test_pickles_as_a_stream(seed: int, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    pieces, closed = uvloop.run(storm(pickles(random.Random(seed), COUNT, trap), finishes=False))
    assert (pieces, closed) == (COUNT, COUNT)
    assert not trap.exists()


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_that_claim_2_gib(seed: int) -> None:
    pieces, closed = uvloop.run(
        storm(claims_of_2_gib(random.Random(seed), COUNT), finishes=False, reason=LIE)
    )
    assert (pieces, closed) == (COUNT, COUNT)
