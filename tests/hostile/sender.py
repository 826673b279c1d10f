"""Sends hostile frames over real sockets: several on a connection, whole or cut, in one write or in two."""

import asyncio
import struct
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, cast

import msgspec
import uvloop

from quorum.handshake import PROTOCOL, Hello, Proof, Refused, Welcome
from tests.hostile.messages import Messages

AT_ONCE: Final = 24  # connections; below what a Raft port takes of the unauthenticated
FRAMES_MAX: Final = 8  # of one connection
CONNECTION_S_MAX: Final = 30.0
HANDSHAKE = Hello | Proof | Welcome | Refused

Address = tuple[str, int]


class _Throw(asyncio.Protocol):
    """Writes, says that no more will come, and counts the bytes that come back until the end."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts
        self.received = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        for part in self._parts:
            stream.write(part)
        stream.write_eof()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def send(addresses: Sequence[Address], connections: Iterator[Sequence[bytes]]) -> Counter[str]:
    """One connection after the other, AT_ONCE at a time. How they ended."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_send(addresses, connections))


async def _send(addresses: Sequence[Address], connections: Iterator[Sequence[bytes]]) -> Counter[str]:
    endings: Counter[str] = Counter()
    numbered = enumerate(connections)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for number, parts in numbered:
            throw = _Throw(parts)
            source = (f"127.0.0.{2 + number // 5000 % 200}", 0)  # or the ports of one address run out
            try:
                await loop.create_connection(
                    lambda: throw,  # noqa: B023
                    *addresses[number % len(addresses)],
                    local_addr=source,
                )
                async with asyncio.timeout(CONNECTION_S_MAX):
                    await throw.ended
            except ConnectionError:
                endings["refused"] += 1
            except TimeoutError:
                endings["stays open"] += 1
            else:
                endings["answered" if throw.received else "closed"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return endings


def kafka_connections(rng: Random, messages: Messages, frames: int) -> Iterator[list[bytes]]:
    """Connections with so many frames in all."""
    sent = 0
    while sent < frames:
        count = min(1 if rng.random() < 0.4 else rng.randrange(2, FRAMES_MAX + 1), frames - sent)
        raw = b"".join(messages.frame() for _ in range(count))
        if rng.random() < 0.15:
            raw = raw[: rng.randrange(len(raw) + 1)]
        cut = rng.randrange(len(raw) + 1) if rng.random() < 0.3 else len(raw)
        yield [part for part in (raw[:cut], raw[cut:]) if part]
        sent += count


def raft_connections(rng: Random, cluster_id: str, frames: int) -> Iterator[list[bytes]]:
    """As ``kafka_connections``: handshakes of strangers with something wrong in them, and noise."""
    for _ in range(frames):
        hello = Hello(
            rng.choice((PROTOCOL, PROTOCOL, "", "fencepost-0", "x" * 300)),
            rng.choice((cluster_id, cluster_id, "", "other", "x" * 3000)),
            rng.choice((1, 2, 3, 4, 0, -1, 2**31, 2**63 - 1)),
            uuid.UUID(int=rng.getrandbits(128)),
            rng.randbytes(rng.choice((16, 16, 0, 1, 64))),
            {rng.choice((1, 2, 3, -1)): uuid.UUID(int=rng.getrandbits(128)) for _ in range(rng.randrange(4))},
            ("127.0.0.1", rng.choice((1, 0, -1, 65_536))),
            log_level_max=rng.choice((None, 0, 1, -1, 2**40)),
        )
        said = [msgspec.msgpack.encode(hello)]
        if rng.random() < 0.5:
            said.append(msgspec.msgpack.encode(Proof(rng.randbytes(rng.choice((32, 0, 1000))))))
        if rng.random() < 0.2:
            said.append(rng.randbytes(rng.randrange(300)))
        raw = b"".join(struct.pack(">I", len(each)) + each for each in said)
        if rng.random() < 0.5:
            flipped = bytearray(raw)
            for _ in range(rng.randrange(1, 5)):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            raw = bytes(flipped)
        yield [raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.2 else raw]
