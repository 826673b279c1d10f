"""Whole batches among bytes that lead nowhere: with a right checksum, and an offset that may come there.

They prove that the bytes before them are no torn end, which a crash leaves, but damage.
"""

import mmap
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from fencepost.records.batch import batch_header, checked_header
from fencepost.records.batch_layout import HEADER_BYTES, field, size_at
from fencepost.records.invariant import CorruptData
from fencepost.records.types import Offset

SEARCHED_BYTES_MAX: Final = 4 * 1024**3
"""Of checksums while whole batches are searched for. Bytes made to look like headers could ask for more: what
is left unsearched counts as damage, which cuts nothing."""

AHEAD_MAX: Final = 2**32
"""How far above the expected offset a batch behind the bad place may begin: more is chance, not a batch."""

_LIKE_A_HEADER: Final = re.compile(rb"(?s)(?=\0.{7}[\0-\x06].{7}\x02.{4}\0)")
"""At any byte: an offset below 2^56, a length below 2^27, magic 2, attributes below 256."""

_BASE_OFFSET: Final = field("base_offset")

Content: TypeAlias = bytes | mmap.mmap


def whole_from(content: Content, position: int, expected: Offset) -> Iterator[tuple[Offset, Offset]]:
    """First offset and end of each whole batch from ``position`` on, bad bytes passed over."""
    while (found := first_whole(content, position, expected)) is not None:
        at, base = found
        header = batch_header(content[at : at + HEADER_BYTES])
        yield base, header.end
        position, expected = at + header.size, header.end


def first_whole(content: Content, position: int, expected: Offset) -> tuple[int, Offset] | None:
    """Position and base offset of the first whole batch at a position, whatever its offset, or behind it."""
    left, begin = SEARCHED_BYTES_MAX, position
    for found in _LIKE_A_HEADER.finditer(content, position):
        at = found.start()
        (base,) = _BASE_OFFSET.unpack_from(content, at)
        if at != begin and not expected <= base < expected + AHEAD_MAX:
            continue
        size = size_at(content[at : at + HEADER_BYTES], 0)
        if at + size > len(content):
            continue
        left -= size
        if left < 0:
            return at, Offset(base)
        try:
            checked_header(content[at : at + size])
        except CorruptData:
            continue
        return at, Offset(base)
    return None
