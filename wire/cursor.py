"""Reading and writing the messages of hot paths field by field, without trusting a byte.

``fencepost.wire.schema`` reads any message from kio's description, at tens of microseconds for one with
arrays in arrays. Here the codec of one API is written out, one path for all its versions; tests hold it equal
to kio's. Bounds as in ``fencepost.wire.schema``: nothing is reserved for what an array claims, each element
is counted.
"""

import struct
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, TypeVar

from fencepost.records.invariant import CorruptData
from fencepost.records.varint import read_unsigned, unsigned
from fencepost.wire.schema import ELEMENTS_MAX, Buffer
from fencepost.wire.steps import Steps

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

VIEW_BYTES_MIN: Final = 64 * 1024
"""Of records that stay where they are in their message."""

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_NO_UUID: Final = bytes(16)


class Reader:
    """A position in one message. Its methods raise what ``read`` turns into CorruptData."""

    __slots__ = ("_buffer", "_elements_max", "_end", "_left", "flexible", "position")

    def __init__(self, buffer: Buffer, *, flexible: bool, elements_max: int = ELEMENTS_MAX) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._elements_max = self._left = elements_max
        self.flexible = flexible
        self.position = 0

    @property
    def bytes_left(self) -> int:
        """How many bytes are not read yet."""
        return self._end - self.position

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several fixed fields at once."""
        position = self.position
        self.position = position + layout.size
        return layout.unpack_from(self._buffer, position)

    def int8(self) -> int:
        """Read a signed 8-bit number."""
        value: int = self.fields(_INT8)[0]
        return value

    def int16(self) -> int:
        """Read a signed 16-bit number, big-endian."""
        position = self.position
        self.position = position + 2
        value: int = _INT16.unpack_from(self._buffer, position)[0]
        return value

    def int32(self) -> int:
        """Read a signed 32-bit number, big-endian."""
        position = self.position
        self.position = position + 4
        value: int = _INT32.unpack_from(self._buffer, position)[0]
        return value

    def int64(self) -> int:
        """Read a signed 64-bit number, big-endian."""
        position = self.position
        self.position = position + 8
        value: int = _INT64.unpack_from(self._buffer, position)[0]
        return value

    def uuid(self) -> uuid.UUID | None:
        """Sixteen bytes; all zero is None."""
        raw = bytes(self.take(16))
        return None if raw == _NO_UUID else uuid.UUID(bytes=raw)

    def string(self) -> str:
        """UTF-8 with its length, compact if flexible. Null is corrupt."""
        text = self.nullable_string()
        if text is None:
            raise CorruptData(f"a string is null at byte {self.position}")
        return text

    def nullable_string(self) -> str | None:
        """UTF-8 with its length, compact if flexible."""
        size = self._varint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        position = self.position
        end = self.position = position + size
        if end > self._end:
            raise CorruptData(f"{size} bytes at byte {position} pass the end of the message")
        return str(self._buffer[position:end], "utf-8")

    def records(self) -> bytes | None:
        """Bytes with their length, compact if flexible: the one copy that is made of them."""
        found = self.records_in_place()
        return None if found is None else bytes(found)

    def records_in_place(self) -> Buffer | None:
        """The same, but VIEW_BYTES_MIN and more of a message that is a view are not copied.

        They keep the whole message in memory. To copy 80 MB takes 45 ms, most of it to get the pages.
        """
        size = self._varint() - 1 if self.flexible else self.int32()
        if size < 0:
            return None
        found = self.take(size)
        return bytes(found) if size < VIEW_BYTES_MIN else found

    def count(self) -> int:
        """How many elements an array has; they are counted against the bound. Null is corrupt."""
        count = self.nullable_count()
        if count is None:
            raise CorruptData(f"an array is null at byte {self.position}")
        return count

    def nullable_count(self) -> int | None:
        """As ``count``, None for a null array."""
        count = self._varint() - 1 if self.flexible else self.int32()
        if count < 0:
            return None
        self._left -= count
        if self._left < 0:
            self._spend(0)
        return count

    def int32s(self) -> tuple[int, ...]:
        """Read an array of int32."""
        count = self.count()
        position = self.position
        if count == 0:
            return ()
        if count == 1:
            self.position = position + 4
            return _INT32.unpack_from(self._buffer, position)
        self.position = position + 4 * count
        if self.position > self._end:  # before the format is made: it is as long as the array claims
            raise CorruptData(f"an array of {count} numbers passes the end of the message")
        return struct.unpack_from(f">{count}i", self._buffer, position)

    def skip_tags(self) -> None:
        """Past the tagged fields of a structure, if it can have any."""
        if not self.flexible:
            return
        if self._buffer[self.position] == 0:  # there are none, as almost always
            self.position += 1
        else:
            self.tags({})

    def tags(self, known: Mapping[int, Callable[["Reader"], Any]]) -> dict[int, Any]:
        """The tagged fields that are known, by tag; all others are skipped. Only if flexible."""
        found: dict[int, Any] = {}
        count = self._varint()
        self._spend(count)
        for _ in range(count):
            tag = self._varint()
            size = self._varint()
            end = self.position + size
            if end > self._end:
                raise CorruptData(f"tag {tag} claims {size} bytes, past the end of the message")
            read_value = known.get(tag)
            if read_value is not None:
                found[tag] = read_value(self)
                if self.position != end:
                    raise CorruptData(f"tag {tag} claims {size} bytes, read to {self.position}, not {end}")
            self.position = end
        return found

    def take(self, size: int) -> Buffer:
        """So many bytes, not copied."""
        position = self.position
        end = self.position = position + size
        if end > self._end:
            raise CorruptData(f"{size} bytes at byte {position} pass the end of the message")
        return self._buffer[position:end]

    def finish(self) -> None:
        """Raise CorruptData if bytes are left."""
        if self.position != self._end:
            raise CorruptData(f"{self.bytes_left} bytes too many")

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise CorruptData(f"more than {self._elements_max} elements in one message")

    def _varint(self) -> int:
        buffer, position = self._buffer, self.position
        byte = buffer[position]
        if byte < 0x80:
            self.position = position + 1
            return byte
        number, self.position = read_unsigned(buffer, position)
        return number


def read(name: str, reader: Reader, decode: Callable[[Reader], T]) -> T:
    """What ``decode`` makes of the message. Raises CorruptData for bytes that are not what they claim."""
    try:
        return decode(reader)
    except (struct.error, IndexError, UnicodeDecodeError, CorruptData) as error:
        raise _corrupt(name, reader, error) from error


def read_in_steps(name: str, reader: Reader, steps: Steps[T]) -> Steps[T]:
    """The same of a message that is decoded in steps."""
    try:
        return (yield from steps)
    except (struct.error, IndexError, UnicodeDecodeError, CorruptData) as error:
        raise _corrupt(name, reader, error) from error


def _corrupt(name: str, reader: Reader, error: Exception) -> CorruptData:
    where = "" if isinstance(error, CorruptData) else f", at byte {reader.position}"
    return CorruptData(f"{name}{where}: {error}")


class Writer:
    """Writes the pieces of one message; ``Reader``'s inverse. struct.error: a value of ours is too large."""

    __slots__ = ("_flexible", "parts")

    def __init__(self, *, flexible: bool) -> None:
        self._flexible = flexible
        self.parts: list[bytes] = []

    def message(self) -> bytes:
        """The whole message, joined once."""
        return b"".join(self.parts)

    def pack(self, layout: struct.Struct, *values: int) -> None:
        """Several fixed fields at once."""
        self.parts.append(layout.pack(*values))

    def int8(self, value: int) -> None:
        """Write a signed 8-bit number."""
        self.parts.append(_INT8.pack(value))

    def int16(self, value: int) -> None:
        """Write a signed 16-bit number, big-endian."""
        self.parts.append(_INT16.pack(value))

    def int32(self, value: int) -> None:
        """Write a signed 32-bit number, big-endian."""
        self.parts.append(_INT32.pack(value))

    def int64(self, value: int) -> None:
        """Write a signed 64-bit number, big-endian."""
        self.parts.append(_INT64.pack(value))

    def uuid(self, value: uuid.UUID | None) -> None:
        """Sixteen bytes; None is all zero."""
        self.parts.append(_NO_UUID if value is None else value.bytes)

    def string(self, text: str | None) -> None:
        """UTF-8 with its length, compact if flexible."""
        if text is None:
            self.parts.append(b"\0" if self._flexible else b"\xff\xff")
            return
        encoded = text.encode()
        self.parts.append(unsigned(len(encoded) + 1) if self._flexible else _INT16.pack(len(encoded)))
        self.parts.append(encoded)

    def records(self, records: Buffer | None) -> None:
        """Bytes with their length, compact if flexible; not copied before ``message``."""
        size = -1 if records is None else len(records)
        self.parts.append(unsigned(size + 1) if self._flexible else _INT32.pack(size))
        if records:
            self.parts.append(bytes(records))

    def count(self, count: int) -> None:
        """How many elements follow; -1 for a null array."""
        self.parts.append(unsigned(count + 1) if self._flexible else _INT32.pack(count))

    def int32s(self, numbers: tuple[int, ...]) -> None:
        """Write an array of int32."""
        self.count(len(numbers))
        if not numbers:
            return
        self.parts.append(struct.pack(f">{len(numbers)}i", *numbers))

    def no_tags(self) -> None:
        """The end of a structure, if it could have tagged fields."""
        if self._flexible:
            self.parts.append(b"\0")


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The rows of each key together, both in the order they first came in."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
