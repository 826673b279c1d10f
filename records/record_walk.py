"""The records of a batch as bytes, walked over without making objects of them.

A producer's batch is stored as it came, so nothing but its layout is looked at: that the records are as
many and as long as they say, with consecutive offsets. Times are for the search of a record by its time.

Source   Kafka DefaultRecord (readFrom) and LogValidator: the same layout is demanded.
"""

from collections.abc import Iterator
from typing import Final

from records.batch import HEADERS_MAX
from records.invariant import CorruptData

_VARINT_SHIFTS: Final = (7, 14, 21, 28, 35, 42, 49, 56, 63)


def check_records(body: bytes, position: int, count: int) -> None:
    """Demand that ``count`` records with offset deltas 0, 1, 2, ... lie from ``position`` to the end.

    Raises   CorruptData.
    """
    try:
        for delta in range(count):
            position = _check_record(body, position, delta)
    except IndexError:
        raise CorruptData("a record ends past the batch") from None
    if position != len(body):
        raise CorruptData(f"{len(body) - position} bytes after the last record")


def record_times(body: bytes, position: int, count: int) -> Iterator[tuple[int, int]]:
    """Offset delta and timestamp delta of each record of a checked batch, in order. Raises CorruptData."""
    try:
        for _ in range(count):
            length, start = _varint(body, position)
            timestamp_delta, at = _varint(body, start + 1)
            offset_delta, _ = _varint(body, at)
            yield offset_delta, timestamp_delta
            position = start + length
    except IndexError:
        raise CorruptData("a record ends past the batch") from None


def _check_record(body: bytes, position: int, expected_delta: int) -> int:
    """The position after a record. One-byte varints, the rule in small records, are read in place."""
    length = body[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = _varint(body, position)
    end = position + length
    position += 1  # attributes: unused
    if body[position] < 0x80:
        position += 1
    else:
        _, position = _varint(body, position)
    delta = body[position]
    if delta < 0x80:
        delta = (delta >> 1) ^ -(delta & 1)
        position += 1
    else:
        delta, position = _varint(body, position)
    if delta != expected_delta:
        raise CorruptData(f"a record has offset delta {delta}, expected {expected_delta}")
    position = _after_sized(body, position)
    position = _after_sized(body, position)
    if body[position] == 0:
        position += 1
    else:
        position = _after_headers(body, position)
    if position != end:
        raise CorruptData(f"record {expected_delta} is {position - end} bytes longer than it says")
    return position


def _after_sized(body: bytes, position: int) -> int:
    length = body[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = _varint(body, position)
    if length < 0:
        if length == -1:
            return position
        raise CorruptData(f"length {length} at byte {position}")
    return position + length


def _after_headers(body: bytes, position: int) -> int:
    count, position = _varint(body, position)
    if not 0 <= count <= HEADERS_MAX:
        raise CorruptData(f"{count} headers before byte {position}, expected 0 to {HEADERS_MAX}")
    for _ in range(count):
        length, start = _varint(body, position)
        if length < 0:
            raise CorruptData(f"a header without a name at byte {position}")
        position = _after_sized(body, start + length)
    return position


def _varint(body: bytes, position: int) -> tuple[int, int]:
    byte = body[position]
    number = byte & 0x7F
    if byte >= 0x80:
        for shift in _VARINT_SHIFTS:
            position += 1
            byte = body[position]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise CorruptData(f"a varint of more than 64 bits at byte {position}")
    return (number >> 1) ^ -(number & 1), position + 1
