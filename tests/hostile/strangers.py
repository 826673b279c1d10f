"""What a stranger says on Raft's port: handshakes with something wrong in them, and noise."""

import struct
import uuid
from collections.abc import Iterator
from random import Random

import msgspec

from fencepost.quorum.handshake import PROTOCOL, Hello, Proof
from tests.hostile.sender import Connection


def raft_connections(rng: Random, cluster_id: str, frames: int) -> Iterator[Connection]:
    """So many connections, each of one hostile handshake."""
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
        yield Connection([raw[: rng.randrange(1, len(raw))] if rng.random() < 0.2 else raw])
