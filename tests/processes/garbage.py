"""Bytes that no honest peer or client sends, from a seed; and what it takes to send thousands of them."""

import asyncio
import os
import pickle
import struct
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import uvloop

from fencepost.quorum.handshake import PROTOCOL, Hello, Proof, Refused, Welcome, prove
from fencepost.records.levels import LEVEL_MAX

AT_ONCE = 32  # below what a Raft port takes of the unauthenticated, so that each is looked at
SECONDS_MAX = 120.0
BYTES_MAX = 2_000
KAFKA_VERSIONS = {67: 0, 62: 4, 63: 1, 64: 0, 55: 2, 60: 2, 18: 4, 3: 12, 10: 4, 22: 5}

_HANDSHAKE = msgspec.msgpack.Decoder(Hello | Proof | Welcome | Refused)


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, proof: Path) -> None:
        self.proof = str(proof)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.mkdir, (self.proof,)


def pickles(rng: Random, count: int, proof: Path) -> list[bytes]:
    """Of every protocol, with and without a length before them."""

    def one() -> bytes:
        fill = {
            rng.random(): [rng.getrandbits(64), "x" * rng.randrange(100)] for _ in range(rng.randrange(9))
        }
        pickled = pickle.dumps([Bomb(proof), fill], protocol=rng.randrange(pickle.HIGHEST_PROTOCOL + 1))
        return _maybe_framed(rng, pickled)

    return [one() for _ in range(count)]


def huge_frames(rng: Random, count: int) -> list[bytes]:
    """They claim 2 GiB and more, or less than nothing."""
    claims = (2**31 - 1, 2**31, 2**32 - 1, 2**31 + 2**30)
    return [struct.pack(">I", rng.choice(claims)) + rng.randbytes(rng.randrange(100)) for _ in range(count)]


def noise(rng: Random, count: int) -> list[bytes]:
    """Random bytes: as they are, as a frame, or as the body of a Kafka request that is served."""

    def one() -> bytes:
        raw = rng.randbytes(rng.randrange(1, BYTES_MAX))
        if rng.random() < 0.3:
            key, version = rng.choice(list(KAFKA_VERSIONS.items()))
            raw = struct.pack(">hhih", key, version, rng.getrandbits(31), -1) + b"\0" + raw
            return struct.pack(">I", len(raw)) + raw
        return _maybe_framed(rng, raw)

    return [one() for _ in range(count)]


def _maybe_framed(rng: Random, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content if rng.random() < 0.5 else content


def send_each(address: tuple[str, int], payloads: Iterable[bytes]) -> None:
    """Every payload on a connection of its own, until the other side closes it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_send_each(address, list(payloads)))


async def _send_each(address: tuple[str, int], payloads: list[bytes]) -> None:
    waiting = iter(payloads)

    async def send_some() -> None:
        loop = asyncio.get_running_loop()
        for payload in waiting:
            _, thrower = await loop.create_connection(lambda: _Thrower(payload), *address)  # noqa: B023
            await thrower.closed

    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(send_some())


class _Thrower(asyncio.Protocol):
    """Writes and says that no more will come, so that what waits for the rest of a frame ends, too."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._payload)  # type: ignore[attr-defined]
        transport.write_eof()  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set_result(None)


class Impostor:
    """Speaks the handshake of ``quorum/links.py`` as some node; with the secret, or without."""

    def __init__(self, cluster_id: str, node_id: int, directory_id: uuid.UUID, secret: bytes) -> None:
        self._secret = secret
        self._hello = Hello(
            PROTOCOL, cluster_id, node_id, directory_id, os.urandom(16), {}, ("127.0.0.1", 1), b"", LEVEL_MAX
        )

    async def say_each(self, address: tuple[str, int], payloads: list[bytes]) -> set[str]:
        """Say one after the other, each on a connection of its own. How they ended."""
        return {await self._say(address, payload) for payload in payloads}

    async def _say(self, address: tuple[str, int], payload: bytes) -> str:
        """Shake hands; if that works, send the payload. How it ended: ``closed`` or a refusal's reason."""
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(_frame(self._hello))
            theirs = await _next(reader)
            if not isinstance(theirs, Hello):
                return getattr(theirs, "reason", "closed")
            writer.write(_frame(Proof(prove(self._secret, b"dial", self._hello, theirs))))
            answer = await _next(reader)
            if not isinstance(answer, Welcome):
                return getattr(answer, "reason", "closed")
            writer.write(payload)
            writer.write_eof()
            await reader.read()
            return "heard"
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"
        finally:
            writer.close()


def _frame(message: Any) -> bytes:
    encoded = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(encoded)) + encoded


async def _next(reader: asyncio.StreamReader) -> Any:
    (size,) = struct.unpack(">I", await reader.readexactly(4))
    return _HANDSHAKE.decode(await reader.readexactly(size))


GARBAGE: dict[str, Callable[[Random, int, Path], list[bytes]]] = {
    "pickles": pickles,
    "frames-of-2-GiB": lambda rng, count, _proof: huge_frames(rng, count),
    "random-bytes": lambda rng, count, _proof: noise(rng, count),
}
