"""ZooKeeper's serialization: fixed-width big-endian numbers, counted bytes. Every length is checked.

Source      ZooKeeper BinaryInputArchive; zookeeper.jute.
"""

import struct
from typing import Final

from fencepost.records.invariant import CorruptData

_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")


class EndOfBytes(CorruptData):
    """A value reaches past the end of the bytes."""


class Reader:
    """Reads values one after another. Raises EndOfBytes past the end, CorruptData for a length below -1."""

    __slots__ = ("_content", "position")

    def __init__(self, content: bytes, position: int = 0) -> None:
        self._content = content
        self.position = position

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self._content) - self.position

    def i32(self) -> int:
        """Read a signed 32-bit number, big-endian."""
        return self._number(_I32)

    def i64(self) -> int:
        """Read a signed 64-bit number, big-endian."""
        return self._number(_I64)

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read several numbers of one layout."""
        end = self.position + layout.size
        if end > len(self._content):
            raise EndOfBytes(f"{layout.size} bytes expected at {self.position}, {self.left} are left")
        found = layout.unpack_from(self._content, self.position)
        self.position = end
        return found

    def buffer(self) -> bytes | None:
        """Counted bytes; -1 is null."""
        length = self.i32()
        if length == -1:
            return None
        if length < 0:
            raise CorruptData(f"length {length} at {self.position - _I32.size}")
        end = self.position + length
        if end > len(self._content):
            raise EndOfBytes(f"{length} bytes expected at {self.position}, {self.left} are left")
        found = self._content[self.position : end]
        self.position = end
        return found

    def text(self) -> str:
        """Counted bytes of UTF-8, never null."""
        begins = self.position
        content = self.buffer()
        try:
            if content is not None:
                return content.decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"text at {begins} is no UTF-8: {error}") from error
        raise CorruptData(f"null at {begins}, a text expected")

    def boolean(self) -> bool:
        """Read a boolean of one byte."""
        if self.left < 1:
            raise EndOfBytes(f"one byte expected at {self.position}")
        self.position += 1
        return self._content[self.position - 1] != 0

    def count(self) -> int:
        """How many items follow; -1, which is null, is none."""
        found = self.i32()
        if found < -1 or found > self.left:  # an item has at least one byte
            raise CorruptData(f"{found} items at {self.position - _I32.size}, {self.left} bytes are left")
        return max(found, 0)

    def _number(self, layout: struct.Struct) -> int:
        end = self.position + layout.size
        if end > len(self._content):
            raise EndOfBytes(f"{layout.size} bytes expected at {self.position}, {self.left} are left")
        (found,) = layout.unpack_from(self._content, self.position)
        self.position = end
        return int(found)
