"""The file ``<base offset>.checksums`` beside a segment: checksums of its batches and of its three indexes.

Written     with each producer snapshot, before it, of what lies before its offset; a full segment's stays.
Why         a record batch's own checksum does not cover its offset, length and leader epoch, and Kafka's
            indexes have none: without an entry of ``.txnindex`` consumers are given aborted records.
Indexes     that are not as they were summed are made again from the batches before they are used.
Batches     of which fewer are there than were summed are damage. Their bytes are compared by
            ``storage verify`` and ``storage repair``, not at a start.
Layout      version i16 = 1 | four times (bytes u64 | CRC-32C u32): .log, .index, .timeindex, .txnindex |
            CRC-32C u32 of all before. Big-endian. Bytes 2^64 - 1: that file was not summed.
Earlier     versions neither write nor read the file; what they append lies behind what is summed.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.broker.log.checkpoints import replace_file

SUFFIX: Final = ".checksums"
VERSION: Final = 1
NOT_SUMMED: Final = 2**64 - 1
SUMMED_AT_ONCE_MAX: Final = 256 * 1024 * 1024
"""Of batches that no sum covers: more is left unsummed, or a process that ends would read old logs."""

_PART: Final = struct.Struct(">QI")
_HEAD: Final = struct.Struct(">h")
_CRC: Final = struct.Struct(">I")
_PIECE_BYTES: Final = 1024 * 1024


class Summed(NamedTuple):
    """The first ``size`` bytes of a file have this CRC-32C."""

    size: int
    crc: int


UNKNOWN: Final = Summed(NOT_SUMMED, 0)


class SegmentSums(NamedTuple):
    """What was summed of a segment's files."""

    batches: Summed
    offsets: Summed
    times: Summed
    aborts: Summed


NOTHING: Final = SegmentSums(Summed(0, 0), Summed(0, 0), Summed(0, 0), Summed(0, 0))


def sums_path(segment: Path) -> Path:
    """The file of the segment's sums."""
    return segment.with_suffix(SUFFIX)


def load_sums(segment: Path) -> SegmentSums | None:
    """None: there is no file, or it is no use."""
    try:
        raw = sums_path(segment).read_bytes()
    except FileNotFoundError:
        return None
    size = _HEAD.size + 4 * _PART.size
    if len(raw) != size + _CRC.size or _CRC.unpack_from(raw, size)[0] != crc32c(raw[:size]):
        return None
    if _HEAD.unpack_from(raw)[0] != VERSION:
        return None
    return SegmentSums(*(Summed(*_PART.unpack_from(raw, _HEAD.size + n * _PART.size)) for n in range(4)))


def save_sums(segment: Path, sums: SegmentSums) -> None:
    """Replace the file. Not flushed: half of one has a wrong checksum. Raises OSError."""
    raw = _HEAD.pack(VERSION) + b"".join(_PART.pack(*part) for part in sums)
    replace_file(sums_path(segment), raw + _CRC.pack(crc32c(raw)))


def extended(path: Path, before: Summed, size: int) -> Summed:
    """The sum of a file's first ``size`` bytes, of which ``before`` covers the first ones. Raises OSError."""
    if before == UNKNOWN or not 0 <= size - before.size <= SUMMED_AT_ONCE_MAX:
        return UNKNOWN
    at, crc = before
    with path.open("rb") as file:
        file.seek(at)
        while at < size:
            piece = file.read(min(_PIECE_BYTES, size - at))
            if not piece:
                return UNKNOWN  # cut meanwhile
            crc = crc32c(piece, crc)
            at += len(piece)
    return Summed(size, crc)


def is_as_summed(path: Path, expected: Summed) -> bool:
    """The file begins with the bytes that were summed; also if they are not known. Raises OSError."""
    if expected == UNKNOWN:
        return True
    try:
        if path.stat().st_size < expected.size:
            return False
    except FileNotFoundError:
        return False
    at, crc = 0, 0
    with path.open("rb") as file:
        while at < expected.size and (piece := file.read(min(_PIECE_BYTES, expected.size - at))):
            crc = crc32c(piece, crc)
            at += len(piece)
    return (at, crc) == expected
