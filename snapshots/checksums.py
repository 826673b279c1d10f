"""The file ``<base offset>.checksums`` beside a segment: checksums of its batches and of its indexes.

Says        how the files begin: bytes appended later change nothing of it. What is cut or replaced has its
            sums forgotten first, durably (``forget_sums``).
Of          partitions' segments (broker/log/segment_sums.py), and of archives', which have no indexes
            (segments.py). A record batch's own checksum does not cover its offset, length and leader epoch.
Owner       of the segment, as long as the batches are as they were summed here.
Layout      version i16 = 2 | base offset i64 | topic id, 16 bytes | partition i32 | snapshot's offset i64 |
            CRC-32C u32 of the snapshot's file | four times (bytes u64 | CRC-32C u32), of .log, .index,
            .timeindex, .txnindex | CRC-32C u32 of all before. Big-endian. 0 bytes: that file is not summed.
            2^64 - 1: it is being made again. Partition or offset -1: not known. Version 1 has neither owner
            nor snapshot. A torn file, another version's, or that of another base offset says nothing.
Earlier     versions, but for 1, neither write nor read the file; what they append lies behind what is summed.
            To those that know version 1 alone version 2 says nothing; they write 1 in its place.
"""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from fencepost.records.types import Offset
from fencepost.snapshots.file_sums import NOT_SUMMED, Summed, read_sum
from fencepost.snapshots.flushes import replace_file, sync_path
from fencepost.snapshots.reads import read_if_there

SUFFIX: Final = ".checksums"
VERSION: Final = 2

_PART: Final = struct.Struct(">QI")
_HEAD: Final = struct.Struct(">hq")
_SAYS: Final = struct.Struct(">16siqI")
_CRC: Final = struct.Struct(">I")

MADE_AGAIN: Final = Summed(2**64 - 1, 0)  # no file is like that


class SegmentSums(NamedTuple):
    """What was summed of a segment's files."""

    batches: Summed
    offsets: Summed
    times: Summed
    aborts: Summed


NOTHING: Final = SegmentSums(NOT_SUMMED, NOT_SUMMED, NOT_SUMMED, NOT_SUMMED)


class Owner(NamedTuple):
    """The partition that a segment is of."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.partition} of topic id {self.topic_id}"


_NO_OWNER: Final = Owner(UUID(int=0), -1)


class Content(NamedTuple):
    """What a file of sums says."""

    sums: SegmentSums = NOTHING
    owner: Owner | None = None
    snapshot: tuple[Offset, int] | None = None  # of the producers: its offset, the CRC-32C of its file


def sums_path(segment: Path) -> Path:
    """The file of the segment's sums."""
    return segment.with_suffix(SUFFIX)


def load_sums(segment: Path) -> SegmentSums:
    """What the file says; NOTHING if there is none, or it is no use."""
    return read_sums(sums_path(segment), int(segment.stem))


def read_sums(path: Path, base: int) -> SegmentSums:
    """What a file says, if it is of the segment that begins at offset ``base``; else NOTHING."""
    return read_content(path, base).sums


def read_content(path: Path, base: int) -> Content:
    """As ``read_sums``, with what else the file says."""
    try:
        raw = path.read_bytes()
    except OSError:  # it only adds to what is checked
        return Content()
    version, parts_at = VERSION, _HEAD.size + _SAYS.size
    if len(raw) == parts_at - _SAYS.size + 4 * _PART.size + _CRC.size:
        version, parts_at = 1, _HEAD.size
    size = parts_at + 4 * _PART.size
    if len(raw) != size + _CRC.size or _CRC.unpack_from(raw, size)[0] != crc32c(raw[:size]):
        return Content()
    if _HEAD.unpack_from(raw) != (version, base):
        return Content()
    sums = SegmentSums(*(Summed(*_PART.unpack_from(raw, parts_at + n * _PART.size)) for n in range(4)))
    if version == 1:
        return Content(sums)
    topic_id, partition, offset, crc = _SAYS.unpack_from(raw, _HEAD.size)
    owner = Owner(UUID(bytes=topic_id), partition) if partition >= 0 else None
    return Content(sums, owner, (Offset(offset), crc) if offset >= 0 else None)


def is_torn(segment: Path) -> bool:
    """The file is there, and its checksum is wrong. Raises OSError."""
    raw = read_if_there(sums_path(segment))
    if raw is None:
        return False
    content, crc = raw[: -_CRC.size], raw[-_CRC.size :]
    return len(crc) < _CRC.size or _CRC.unpack(crc)[0] != crc32c(content)


def torn_sums(segments: Iterable[Path]) -> str | None:
    """A sentence about files of sums whose own checksum is wrong; None: there are none. Raises OSError."""
    names = [sums_path(segment).name for segment in segments if is_torn(segment)]
    if not names:
        return None
    return f"{', '.join(names)}: torn, or changed; what it said of its segment is not compared"


def write_content(path: Path, base: int, content: Content, *, durable: bool) -> None:
    """Replace the file of the segment that begins at offset ``base``. Raises OSError."""
    owner, snapshot = content.owner or _NO_OWNER, content.snapshot or (-1, 0)
    raw = _HEAD.pack(VERSION, base) + _SAYS.pack(owner.topic_id.bytes, owner.partition, *snapshot)
    raw += b"".join(_PART.pack(*part) for part in content.sums)
    replace_file(path, raw + _CRC.pack(crc32c(raw)), durable=durable)


def forget_sums(segment: Path) -> None:
    """Before any of the segment's files is cut or replaced: no crash brings the sums back. Raises OSError."""
    if sums_path(segment).exists():
        sums_path(segment).unlink()
        sync_path(segment.parent)


def is_as_summed(path: Path, expected: Summed, pace: Callable[[int], None] = lambda _: None) -> bool:
    """The file begins with the bytes that were summed. Raises OSError.

    ``pace`` is called after each piece that is read, with its bytes.
    """
    try:
        if path.stat().st_size < expected.size:
            return False
    except FileNotFoundError:
        return expected == NOT_SUMMED
    return read_sum(path, NOT_SUMMED, expected.size, pace) == expected
