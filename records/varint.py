"""Kafka's varints: seven bits in a byte, the lowest first; the high bit says that another byte follows.

Unsigned   lengths, counts and tags of flexible messages (KIP-482): 32 bits, at most five bytes.
Signed     the numbers of records in a batch: 64 bits, zigzag (0, -1, 1, -2, ...), at most ten bytes.
Bounds     more bits or bytes are corrupt. An encoding longer than its number needs is read, as Kafka does.
In place   who reads many varints may look at one of a single byte itself; longer ones are read here only.
Source     Kafka ByteUtils.
"""

from typing import Final, TypeAlias

from fencepost.records.invariant import CorruptData

UNSIGNED_BYTES_MAX: Final = 5
SIGNED_BYTES_MAX: Final = 10
UNSIGNED_MAX: Final = 2**32 - 1
SIGNED_KNOWN: Final = 8192  # numbers from 0 on whose signed varints, of one or two bytes, are in a table
_ZIGZAG_MAX: Final = 2**64 - 1

_SHIFTS_32: Final = tuple(range(7, 7 * UNSIGNED_BYTES_MAX, 7))
_SHIFTS_64: Final = tuple(range(7, 7 * SIGNED_BYTES_MAX, 7))

Buffer: TypeAlias = bytes | bytearray | memoryview


def read_unsigned(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number, and the position after it. Raises CorruptData."""
    try:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return byte, position
        number = byte & 0x7F
        for shift in _SHIFTS_32:
            byte = buffer[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > UNSIGNED_MAX:
                    break
                return number, position
    except IndexError:
        raise CorruptData(f"bytes end inside a varint at position {position}") from None
    raise CorruptData(f"a varint of more than 32 bits ends at position {position}")


def read_signed(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number, and the position after it. Raises CorruptData."""
    try:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position
        number = byte & 0x7F
        for shift in _SHIFTS_64:
            byte = buffer[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > _ZIGZAG_MAX:
                    break
                return (number >> 1) ^ -(number & 1), position
    except IndexError:
        raise CorruptData(f"bytes end inside a varint at position {position}") from None
    raise CorruptData(f"a varint of more than 64 bits ends at position {position}")


def _encode(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


UNSIGNED: Final = tuple(map(_encode, range(128)))
"""The unsigned varints of one byte, by number."""

SIGNED: Final = tuple(_encode(2 * number) for number in range(SIGNED_KNOWN))
"""The signed varints of the numbers below SIGNED_KNOWN, by number."""


def unsigned(number: int) -> bytes:
    """Inverse of ``read_unsigned``; ``number`` is not negative."""
    return UNSIGNED[number] if number < 0x80 else _encode(number)


def signed(number: int) -> bytes:
    """Inverse of ``read_signed``."""
    return SIGNED[number] if 0 <= number < SIGNED_KNOWN else _encode((number << 1) ^ (number >> 63))
