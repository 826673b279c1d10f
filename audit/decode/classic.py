"""Kafka's older messages, without compact lengths and tags: what its coordinators wrote first and still do.

Every read is checked against the bytes that are there: the only exception is CorruptData.
Source   Kafka protocol guide (INT16, STRING, ARRAY before KIP-482).
"""

import struct
from typing import Final

from fencepost.records.invariant import CorruptData

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class UnknownVersion(CorruptData):
    """A record in a version that is newer than this reader."""


class Cursor:
    """Bytes, read from ``at`` on."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self._raw = raw
        self._at = at

    def _number(self, layout: struct.Struct) -> int:
        end = self._at + layout.size
        if end > len(self._raw):
            raise CorruptData(f"bytes end inside {layout.size} bytes at {self._at}")
        number: int = layout.unpack_from(self._raw, self._at)[0]
        self._at = end
        return number

    def int8(self) -> int:
        """Read a signed 8-bit number."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read a signed 16-bit number, big-endian."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read a signed 32-bit number, big-endian."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read a signed 64-bit number, big-endian."""
        return self._number(_INT64)

    def string(self) -> str:
        """A length of two bytes and UTF-8."""
        length = self.int16()
        end = self._at + length
        if length < 0 or end > len(self._raw):
            raise CorruptData(f"a string of {length} bytes at {self._at} of {len(self._raw)}")
        try:
            text = self._raw[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"a string at {self._at} is not UTF-8: {error}") from error
        self._at = end
        return text

    def count(self) -> int:
        """Of an array's items, each of which takes a byte at least; 0 for null."""
        count = self.int32()
        if count > len(self._raw) - self._at:
            raise CorruptData(f"an array of {count} items at {self._at} of {len(self._raw)}")
        return max(count, 0)

    def end(self) -> None:
        """Raise CorruptData if bytes follow."""
        if self._at != len(self._raw):
            raise CorruptData(f"{len(self._raw) - self._at} bytes after a message of {self._at}")
