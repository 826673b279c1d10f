"""Checksums over what a node's store holds: the image's rows together, each journal entry, term and vote.

Rows      a sum of one hash for each row, modulo 2^128: a row that is written adds its new hash and takes the
          old one away, so saving an image costs two hashes a row, whatever the image's size. Row keys count
          without their generation: equal images have equal sums.
Seal      in meta: the sum with all of meta that it belongs to, under a CRC-32C, in each transaction that
          changes one of them. What of meta differs from it is put right. It is there twice: where one
          has a wrong CRC the other counts, and no image is taken because its seal cannot be read.
Entries   in a table of their own: the CRC-32C of index, term and command of each journal entry.
Ballot    a copy of term and vote in meta, under a CRC-32C: if the two differ, the copy is right.
Earlier   versions read past all of this, and write without it. A header and an applied index that are both
          newer than the seal's are theirs: the image is taken as it is, and sealed anew. Those that seal
          leave the copy as it was: it counts for the image that it is of, and for no other.
Level     from ``SEALED_IMAGES`` on, by the image's own row, every version that can have written it seals:
          without a seal, or with one of an older image, it is damaged. That row alone says so.
"""

import enum
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import msgspec
from crc32c import crc32c

from fencepost.controller import levels
from fencepost.controller.view import View
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.records.levels import SEALED_IMAGES
from fencepost.snapshots.reader import APPLIED, Reader
from fencepost.snapshots.rows import decode_header, row_key

T = TypeVar("T")

SEAL: Final = "image.seal"
SEAL_COPY: Final = "image.seal.copy"
BALLOT: Final = "raft.ballot"
HEADER: Final = "header"
IMAGE_NAMES: Final = (HEADER, APPLIED)
NOT_SEALED: Final = frozenset({SEAL, SEAL_COPY, BALLOT, "raft.term", "raft.vote"})
SUM_BYTES: Final = 16
MODULUS: Final = 1 << 8 * SUM_BYTES
GENERATION_BYTES: Final = 4
"""Of a row's key in the store: it is not hashed."""
KEY_BYTES_MAX: Final = 511  # LMDB's
_LENGTHS: Final = tuple(
    max(0, size - GENERATION_BYTES).to_bytes(2, "big") for size in range(KEY_BYTES_MAX + 1)
)
"""What a row's hash begins with, by its key's length in the store: the length without the generation."""
_new_hasher: Final = blake2b(digest_size=SUM_BYTES).copy  # takes two thirds of the time of a call


class StoreDamaged(Exception):
    """A store is not what was written, and cannot be made so here: the votes given with it are forgotten."""


class SealBroken(CorruptData):
    """The rows of an image are not those that were sealed, or its seal and the copy of it cannot be read."""


class Verdict(enum.Enum):
    """What a look at the image found."""

    SOUND = "sound"
    UNSEALED = "unsealed"  # by an earlier version, or by none yet: taken as it is
    DAMAGED = "damaged"


class Seal(NamedTuple):
    """The raw values of meta by name, but for ``NOT_SEALED``, and the sum of the image's rows."""

    meta: dict[str, bytes]
    rows: int

    def encode(self) -> bytes:
        """Inverse of ``read_seal``."""
        return _sealed(msgspec.msgpack.encode((self.meta, self.rows.to_bytes(SUM_BYTES, "big"))))

    def is_of(self, meta: dict[str, bytes]) -> bool:
        """Made for the image that ``meta`` has now, unless a byte changed."""
        return all(self.meta.get(name) == meta.get(name) for name in IMAGE_NAMES)


def read_seal(raw: bytes | None) -> Seal | None:
    """None if there is none, or its own checksum is wrong: it says nothing then."""
    content = _decoded(raw, tuple[dict[str, bytes], bytes])
    return None if content is None else Seal(content[0], int.from_bytes(content[1], "big"))


def seal_of(meta: dict[str, bytes], raw: bytes | None, copy: bytes | None) -> Seal | None:
    """The seal of the image that ``meta`` has, or its copy where the seal itself is broken.

    None if there is no seal: a new store, or an earlier version's. Raises SealBroken if it is broken, and
    the copy is, too, or is of another image: an earlier version wrote since.
    """
    if raw is None:
        return None
    seal = read_seal(raw)
    if seal is not None:
        return seal
    seal = read_seal(copy)
    if seal is None or not seal.is_of(meta):
        raise SealBroken("its seal cannot be read, and there is no copy of that")
    return seal


def is_always_sealed(view: View) -> bool:
    """By the level in force: no version that can have written this image left it without a seal."""
    try:
        return levels.in_force(view) >= SEALED_IMAGES
    except (CorruptData, msgspec.DecodeError):
        return True  # no version wrote such a row


def judge(seal: Seal | None, now: Seal, *, must_be_sealed: bool = False) -> Verdict:
    """What is in the store, ``now``, against what was sealed."""
    unsealed = Verdict.DAMAGED if must_be_sealed else Verdict.UNSEALED
    try:
        decode_header(now.meta.get(HEADER))
    except InvariantViolation:
        return Verdict.DAMAGED
    if seal is None:
        return unsealed
    if seal.is_of(now.meta):
        return Verdict.SOUND if seal.rows == now.rows else Verdict.DAMAGED
    return unsealed if _is_newer(seal.meta, now.meta) else Verdict.DAMAGED


def row_hash(key: bytes, value: bytes) -> int:
    """Of one row; ``key`` as it lies in the store."""
    content = b"".join((_LENGTHS[len(key)], key[GENERATION_BYTES:], value))
    hasher = _new_hasher()
    hasher.update(content)
    return int.from_bytes(hasher.digest(), "big")


def sum_of_rows(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Of keys and values as they lie in the store, not yet reduced by ``MODULUS``: some 1 us for each."""
    total, new_hasher, number, lengths, at = 0, _new_hasher, int.from_bytes, _LENGTHS, GENERATION_BYTES
    for key, value in rows:
        hasher = new_hasher()
        hasher.update(lengths[len(key)] + key[at:] + value)
        total += number(hasher.digest(), "big")
    return total


def require_sealed(reader: Reader) -> None:
    """Read every row of a store as of its last flush. Raises SealBroken."""
    meta = {name: raw for name in IMAGE_NAMES if (raw := reader.meta_get(name)) is not None}
    seal = seal_of(meta, reader.meta_get(SEAL), reader.meta_get(SEAL_COPY))
    if seal is None and is_always_sealed(reader):
        raise SealBroken("it has no seal, and at its log level each version writes one")
    if seal is None:
        return  # nothing was verified at the start, either
    if not seal.is_of(meta):
        raise SealBroken("its header or applied index is not the one that it was sealed with")
    found = sum(row_hash(row_key(0, name, key), value) for name, key, value in reader.rows())
    if found % MODULUS != seal.rows:
        raise SealBroken("a copy of its rows does not have the checksum that they were written with")


def entry_sum(key: bytes, value: bytes) -> bytes:
    """Of one journal entry as it lies in the store."""
    return crc32c(value, crc32c(key)).to_bytes(4, "big")


def encode_ballot(term: int, vote: int | None) -> bytes:
    """The copy of term and vote."""
    return _sealed(msgspec.msgpack.encode((term, vote)))


def ballot_copy(raw: bytes | None) -> tuple[int, int | None] | None:
    """Inverse of ``encode_ballot``; None if there is none, or its checksum is wrong."""
    return _decoded(raw, tuple[int, int | None])


def ballot(raw: bytes | None, term: int, vote: int | None) -> tuple[int, int | None]:
    """Term and vote that count: the copy's, unless an earlier version went on from there."""
    kept = ballot_copy(raw)
    if kept is None:
        return term, vote
    goes_on = term > kept[0] or (term == kept[0] and kept[1] is None)
    return (term, vote) if goes_on else kept


def _is_newer(before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """An earlier version went on: header and applied index are both behind the sealed ones."""
    try:
        header_is_newer = decode_header(before.get(HEADER)).version < decode_header(after.get(HEADER)).version
        return header_is_newer and _position(before.get(APPLIED)) < _position(after.get(APPLIED))
    except (InvariantViolation, msgspec.DecodeError):
        return False


def _position(applied: bytes | None) -> tuple[int, int]:
    return (0, 0) if applied is None else msgspec.msgpack.decode(applied, type=tuple[int, int])


def _sealed(content: bytes) -> bytes:
    return crc32c(content).to_bytes(4, "big") + content


def _decoded(raw: bytes | None, of: type[T]) -> T | None:
    """What was sealed; None of a value that is not, or is another name's."""
    if raw is None or crc32c(raw[4:]) != int.from_bytes(raw[:4], "big"):
        return None
    try:
        return msgspec.msgpack.decode(raw[4:], type=of)
    except msgspec.DecodeError:
        return None
