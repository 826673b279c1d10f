"""The checksum of how a file begins: as it is read, or kept while the file is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from fencepost.records.named_errors import naming

_PIECE_BYTES: Final = 1024 * 1024


class Summed(NamedTuple):
    """The first ``size`` bytes of a file have this CRC-32C."""

    size: int
    crc: int

    def followed_by(self, content: bytes | bytearray | memoryview) -> "Summed":
        """The sum with the bytes that come next."""
        return Summed(self.size + len(content), crc32c(content, self.crc))


NOT_SUMMED: Final = Summed(0, 0)


def read_sum(path: Path, before: Summed, size: int, pace: Callable[[int], None] = lambda _: None) -> Summed:
    """The sum of a file's first ``size`` bytes, or of fewer at its end, of which ``before`` covers the first.

    ``pace`` is called after each piece that is read, with its bytes. Raises OSError.
    """
    at, crc = before if before.size <= size else NOT_SUMMED
    with naming(path), path.open("rb") as file:
        file.seek(at)
        while at < size and (piece := file.read(min(_PIECE_BYTES, size - at))):
            crc = crc32c(piece, crc)
            at += len(piece)
            pace(len(piece))
    return Summed(at, crc)
