"""A peer that knows the cluster's secret and finishes the handshake as a voter, then sends damaged frames.

What it sends is no message: a frame that is one may lie, and a voter is trusted not to (docs/limits.md).
"""

import asyncio
import struct
import uuid
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.quorum.handshake import (
    PROTOCOL,
    Hello,
    Proof,
    Welcome,
    decode_handshake,
    encode_handshake,
    prove,
)
from fencepost.quorum.messages import (
    CHUNK_BYTES_MAX,
    FRAME_BYTES_MAX,
    Ack,
    AppendEntries,
    Behind,
    Message,
    NewerTerm,
    RequestVote,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    decode,
    encode,
)
from fencepost.records.batch import BatchRecord, encode_batch
from fencepost.records.entry import Entry, encode_entry
from fencepost.records.invariant import CorruptData
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.types import ImageVersion, Log, NodeId, ProposalNumber, Term

CLOSED_S_MAX: Final = 10.0  # from a damaged frame to the end of its connection
ENTRY_SHARE: Final = 0.1  # of the frames: what decides about the others is the decoder itself
TRIES_MAX: Final = 1_000  # for a change that makes a frame no message
NESTED: Final = b"\x91" * 5_000
WRONG: Final[tuple[Any, ...]] = (
    None, True, -1, 2**31, 2**63, 2**64 - 1, -(2**63), 1.5, "", "x" * 100_000, b"", b"\xff" * 1_000, [], [[]],
    {}, {1: 2}, [(b"\0", 1, 1)] * 2_000, [(b"\2", 6, 2)], b"\0" * (CHUNK_BYTES_MAX + 1),
)  # fmt: skip


def _entry(rng: Random) -> bytes:
    batch = encode_batch([BatchRecord(None, rng.randbytes(40))], timestamp_ms=1_763_600_000_000)
    entry = Entry(ImageVersion(5), Term(2), NodeId(1), ProposalNumber(9), ((Log.METADATA, batch),))
    return b"\0" + encode_entry(entry)


def samples(rng: Random) -> tuple[Message, ...]:
    """One of each message."""
    return (
        AppendEntries(3, 5, 5, 2, [(_entry(rng), 6, 2), (b"\1", 7, 3)]),
        Behind(3, 100),
        Ack(3, 9, False, True, (128, b"d" * 16), 7, 1_763_600_000_000, [(64, b"e" * 16)]),
        RequestVote(3, 7, 3, uuid.UUID(int=0xD1)),
        Vote(3),
        TimeoutNow(3),
        NewerTerm(3),
        SnapshotBegin(3, "00000000000000000005-0000000003", b"{}"),
        SnapshotChunk(3, "00000000000000000005-0000000003", "state", 0, b"rows"),
        SnapshotAck(3, "00000000000000000005-0000000003", "state", 4, "no", False),
    )


def is_message(frame: bytes) -> bool:
    """It can be decoded. Raises whatever ``decode`` raises but CorruptData."""
    try:
        decode(frame)
    except CorruptData:
        return False
    return True


def changed(rng: Random, message: Message) -> bytes:
    """A message with something wrong in it, or a wrong length before it."""
    raw = encode(message)
    fields: list[Any] = msgspec.msgpack.decode(raw)
    match rng.randrange(7):
        case 0:
            raw = raw[: rng.randrange(len(raw))]
        case 1:
            fields[rng.randrange(len(fields))] = rng.choice(WRONG)
            raw = msgspec.msgpack.encode(fields)
        case 2:
            fields[0] = rng.choice((0, 11, -1, 2**63, "hello", None))
            raw = msgspec.msgpack.encode(fields)
        case 3:
            raw = msgspec.msgpack.encode(fields[: rng.randrange(len(fields))])
        case 4:
            huge_list, huge_text = b"\xdd\xff\xff\xff\xff", raw[:1] + b"\xdb\x7f\xff\xff\xff"
            raw = rng.choice((NESTED, raw[:2] + NESTED, huge_list, huge_text))
        case 5:
            return struct.pack(">I", rng.choice((FRAME_BYTES_MAX + 1, 2**31, 2**32 - 1))) + raw
        case _:
            raw = rng.randbytes(rng.randrange(200))
    return struct.pack(">I", len(raw)) + raw


def damaged_entry(rng: Random) -> bytes:
    """A message whose one entry has a bit changed that the CRC of its batch covers."""
    command = bytearray(_entry(rng))
    command[-rng.randrange(1, 41)] ^= 1 << rng.randrange(8)
    raw = encode(AppendEntries(3, 5, 5, 2, [(bytes(command), 6, 2)]))
    return struct.pack(">I", len(raw)) + raw


def damaged(rng: Random) -> bytes:
    """A frame with its length that is no message."""
    if rng.random() < ENTRY_SHARE:
        return damaged_entry(rng)
    for _ in range(TRIES_MAX):
        raw = changed(rng, rng.choice(samples(rng)))
        if int.from_bytes(raw[:4], "big") > FRAME_BYTES_MAX or not is_message(raw[4:]):
            return raw
    raise AssertionError("every change is a message")


class Voter(NamedTuple):
    """Who the peer says it is, and what it knows."""

    cluster_id: str
    secret: bytes
    node_id: int
    directory_id: uuid.UUID
    controller: tuple[str, int]


def send_as(voter: Voter, addresses: Sequence[tuple[str, int]], rng: Random, frames: int) -> Counter[str]:
    """So many damaged frames, each on a connection of its own, to one address after the other."""
    return asyncio.run(_send_as(voter, addresses, rng, frames))


async def _send_as(
    voter: Voter, addresses: Sequence[tuple[str, int]], rng: Random, frames: int
) -> Counter[str]:
    endings: Counter[str] = Counter()
    for number in range(frames):
        endings[await _once(voter, addresses[number % len(addresses)], damaged(rng))] += 1
    return endings


async def _once(voter: Voter, address: tuple[str, int], frame: bytes) -> str:
    reader, writer = await asyncio.open_connection(*address)
    try:
        await shake_hands(voter, reader, writer)
        writer.write(frame)
        async with asyncio.timeout(CLOSED_S_MAX):
            await reader.read()
    except (asyncio.IncompleteReadError, ConnectionError):
        return "closed in the handshake"
    except TimeoutError:
        return "stays open"
    finally:
        writer.close()
    return "closed after the frame"


async def shake_hands(voter: Voter, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The dialler's side of quorum/handshake.py. Raises IncompleteReadError if the acceptor closes."""
    who = (voter.cluster_id, voter.node_id, voter.directory_id)
    ours = Hello(PROTOCOL, *who, bytes(16), {}, voter.controller, log_level_max=LEVEL_MAX)
    writer.write(_framed(encode_handshake(ours)))
    theirs = await _read(reader)
    assert isinstance(theirs, Hello), theirs
    writer.write(_framed(encode_handshake(Proof(prove(voter.secret, b"dial", ours, theirs)))))
    assert isinstance(await _read(reader), Welcome)


async def _read(reader: asyncio.StreamReader) -> object:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return decode_handshake(await reader.readexactly(size))


def _framed(frame: bytes) -> bytes:
    return struct.pack(">I", len(frame)) + frame
