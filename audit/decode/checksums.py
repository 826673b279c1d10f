"""CRC-32C of many batches at once: what a record batch says of its own bytes.

Large batches go through the ``crc32c`` library one by one: the checksum outweighs the call. Of tiny ones the
call outweighs the checksum, but they come in thousands of one size that differ in a few bytes only, and the
CRC is linear: of two messages of one length, ``crc(a) ^ crc(b)`` is the sum of what each byte of ``a ^ b``
gives at its distance from the end. So one is computed, and the others from the columns that differ.

Source   Castagnoli's polynomial 0x1EDC6F41, reflected; RFC 3720 B.4.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from numpy.lib.stride_tricks import sliding_window_view

from fencepost.audit.decode.files import Bytes

_POLYNOMIAL: Final = 0x82F63B78
_SMALL_BYTES_MAX: Final = 256  # of a batch that is summed by columns
_GROUP_MIN: Final = 256  # batches of one size that are worth it


def checksums(
    buffer: Bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """CRC-32C of ``buffer[start:end]`` for each pair."""
    computed = np.empty(len(starts), np.uint32)
    lengths = ends - starts
    small = lengths <= _SMALL_BYTES_MAX
    if small.sum() >= _GROUP_MIN:
        counts = np.bincount(lengths[small], minlength=_SMALL_BYTES_MAX + 1)
        grouped = (counts >= _GROUP_MIN)[np.where(small, lengths, 0)] & small
        for length in np.flatnonzero(counts >= _GROUP_MIN).tolist():
            chosen = np.flatnonzero(lengths == length)
            computed[chosen] = _by_columns(buffer, starts[chosen], length)
        rest = np.flatnonzero(~grouped)
    else:
        rest = np.arange(len(starts))
    view = buffer.data
    pairs = zip(starts[rest].tolist(), ends[rest].tolist(), strict=True)
    computed[rest] = np.fromiter((crc32c(view[start:end]) for start, end in pairs), np.uint32, len(rest))
    return computed


def _by_columns(buffer: Bytes, starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint32]:
    """Of messages that are all ``length`` bytes long."""
    rows = sliding_window_view(buffer, length)[starts]
    differing = rows ^ rows[0]
    computed = np.full(len(starts), crc32c(rows[0].tobytes()), np.uint32)
    for column in np.flatnonzero(np.bitwise_or.reduce(differing, axis=0)).tolist():
        computed ^= _CONTRIBUTIONS[length - 1 - column][differing[:, column]]
    return computed


def _contributions() -> npt.NDArray[np.uint32]:
    """By distance from the message's end and by byte: what that byte adds to the CRC."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    table = np.empty((_SMALL_BYTES_MAX, 256), np.uint32)
    table[0] = first
    for distance in range(1, _SMALL_BYTES_MAX):
        before = table[distance - 1]
        table[distance] = (before >> 8) ^ first[before & 0xFF]
    return table


_CONTRIBUTIONS: Final = _contributions()
