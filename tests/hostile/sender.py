"""Sends hostile frames over real sockets: several on a connection, whole or cut, in one write or in two.

Each frame is looked at: frames behind one that closed its connection, or that was not answered in QUIET_S,
are sent again on another connection.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple, cast

import uvloop

from tests.hostile.messages import Messages

AT_ONCE: Final = 128  # connections: most of them wait for QUIET_S
STRANGERS_AT_ONCE: Final = 24  # below what a Raft port takes of the unauthenticated
FRAMES_MAX: Final = 8  # of one connection
QUIET_S: Final = 0.25  # without a byte from the other side: then the sender says that no more will come
CONNECTION_S_MAX: Final = 30.0

Address = tuple[str, int]
_REPLY: Final = struct.Struct(">ii")  # length | correlation id
_CORRELATION_AT: Final = 8
_KEY_AT: Final = 4


class Connection(NamedTuple):
    """What one connection sends. ``login`` goes first; ``cut``: the last frame is not whole."""

    frames: Sequence[bytes]
    login: bytes = b""
    cut: bool = False


class Tally(NamedTuple):
    """``endings`` of connections; ``answered``: replies by API key, those to a login left out."""

    endings: Counter[str]
    answered: Counter[int]

    def add(self, other: "Tally") -> None:
        """Count the other's, too."""
        self.endings.update(other.endings)
        self.answered.update(other.answered)


class _Throw(asyncio.Protocol):
    """Writes all frames and reads replies, until each has one, the other side closes, or nothing comes."""

    def __init__(self, connection: Connection, cut_at: int) -> None:
        self._raw = connection.login + b"".join(connection.frames)
        self._cut_at = cut_at
        self._loop = asyncio.get_running_loop()
        self._asked = {frame[_CORRELATION_AT:][:4]: n for n, frame in enumerate(connection.frames)}
        self._last = -1 if connection.cut else len(connection.frames) - 1
        self._received = bytearray()
        self._quiet: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self.replied: set[int] = set()
        self.any_bytes = False
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        for part in (self._raw[: self._cut_at], self._raw[self._cut_at :]):
            if part:
                self._transport.write(part)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self.any_bytes = True
        self._received += data
        position = 0
        while len(self._received) - position >= _REPLY.size:
            size, _ = _REPLY.unpack_from(self._received, position)
            if len(self._received) - position < 4 + size:
                break
            number = self._asked.get(bytes(self._received[position + 4 : position + 8]))
            position += 4 + size
            if number is not None:
                self.replied.add(number)
        del self._received[:position]
        if self._last in self.replied:
            self._transport.abort()
        else:
            self._wait()

    def _wait(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(QUIET_S, self._end)

    def _end(self) -> None:
        if not self._transport.is_closing():
            self._transport.write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        if not self.ended.done():
            self.ended.set_result(None)


def send(
    addresses: Sequence[Address], connections: Iterator[Connection], rng: Random, at_once: int = AT_ONCE
) -> Tally:
    """One connection after the other, ``at_once`` at a time. How they ended."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_send(addresses, connections, rng, at_once))


async def _send(
    addresses: Sequence[Address], connections: Iterator[Connection], rng: Random, at_once: int
) -> Tally:
    tally = Tally(Counter(), Counter())
    numbers = iter(range(2**31))

    async def work() -> None:
        for connection in connections:
            left = connection
            while left.frames:
                number = next(numbers)
                source = (f"127.0.0.{2 + number // 5000 % 200}", 0)  # or the ports of one address run out
                address = addresses[number % len(addresses)]
                looked_at = await _once(left, address, source, tally, rng)
                left = left._replace(frames=left.frames[looked_at:])

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return tally


async def _once(connection: Connection, address: Address, source: Address, tally: Tally, rng: Random) -> int:
    """One connection's life; how many of its frames were looked at."""
    size = len(connection.login) + sum(map(len, connection.frames))
    throw = _Throw(connection, rng.randrange(size + 1) if rng.random() < 0.3 else size)
    endings = tally.endings
    try:
        await asyncio.get_running_loop().create_connection(lambda: throw, *address, local_addr=source)
        async with asyncio.timeout(CONNECTION_S_MAX):
            await throw.ended
    except ConnectionError:
        endings["refused"] += 1
        return len(connection.frames)
    except TimeoutError:
        endings["stays open"] += 1
        return len(connection.frames)
    tally.answered.update(
        int.from_bytes(connection.frames[n][_KEY_AT:][:2], "big", signed=True) for n in throw.replied
    )
    endings["answered" if throw.replied or throw.any_bytes else "closed"] += 1
    return max(throw.replied, default=-1) + 2


def kafka_connections(
    rng: Random, messages: Messages, frames: int, login: bytes = b""
) -> Iterator[Connection]:
    """Connections with so many frames in all. With a ``login`` half of them begin with it."""
    sent = 0
    while sent < frames:
        count = min(1 if rng.random() < 0.4 else rng.randrange(2, FRAMES_MAX + 1), frames - sent)
        several = [messages.frame() for _ in range(count)]
        cut = rng.random() < 0.15
        if cut:
            several[-1] = several[-1][: rng.randrange(1, len(several[-1]))]
        yield Connection(several, login if rng.random() < 0.5 else b"", cut)
        sent += count
