"""The records of a batch as bytes, walked over without making objects of them.

A producer's batch is stored as it came, so nothing but its layout is looked at: that the records are as
many and as long as they say, with consecutive offsets. Times are for the search of a record by its time.
A walk can stop and go on: who holds an event loop counts its steps.

Source   Kafka DefaultRecord (readFrom) and LogValidator: the same layout is demanded.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from fencepost.records.batch import HEADERS_MAX
from fencepost.records.invariant import CorruptData
from fencepost.records.varint import SIGNED, SIGNED_KNOWN, read_signed

Body: TypeAlias = bytes | bytearray

_NULL: Final = 0x01  # the length -1
_NO_BYTE: Final = -1
_ALL: Final = 2**63  # steps: more than any bytes can hold


class Walked(NamedTuple):
    """How far a walk came. It is over when ``next_delta`` is the count of the records."""

    position: int
    next_delta: int
    steps_left: int


def check_records(body: Body, position: int, count: int, *, keyed: bool = False) -> None:
    """Demand that ``count`` records with offset deltas 0, 1, 2, ... lie from ``position`` to the end.

    keyed    each has a key.

    Raises   CorruptData.
    """
    check_end(body, walk(body, position, 0, count, _ALL, keyed=keyed))


def check_end(body: Body, walked: Walked) -> None:
    """Demand that the last record ends where ``body`` does. Raises CorruptData."""
    if walked.position != len(body):
        raise CorruptData(f"{len(body) - walked.position} bytes after the last record")


def walk(body: Body, position: int, delta: int, count: int, steps: int, *, keyed: bool = False) -> Walked:
    """Check the records from number ``delta`` at ``position`` on, as far as ``steps`` go.

    ``keyed``: each must have a key.

    A record is a step, and each of its headers: the walk ends after the record that takes the last one, so
    at most HEADERS_MAX steps later. Varints of one byte, and lengths of two, are read in place.
    Raises   CorruptData.
    """
    null, after_key = (_NO_BYTE, _after_key) if keyed else (_NULL, _after_sized)
    try:
        while delta < count and steps > 0:
            length = body[position]
            if length < 0x80:
                end = position + 1 + ((length >> 1) ^ -(length & 1))
                position += 1
            elif not length & 1 and (high := body[position + 1]) < 0x80:
                position += 2
                end = position + ((high << 7 | length & 0x7F) >> 1)
            else:
                length, position = read_signed(body, position)
                end = position + length
            position += 1  # attributes: unused
            if body[position] < 0x80:
                position += 1
            else:
                _, position = read_signed(body, position)
            expected = SIGNED[delta] if delta < SIGNED_KNOWN else b""
            if expected and body.startswith(expected, position):
                position += len(expected)
            else:
                position = _after_delta(body, position, delta)
            position = position + 1 if body[position] == null else after_key(body, position)
            length = body[position]
            if length >= 0x80 and not length & 1 and (high := body[position + 1]) < 0x80:
                position += 2 + ((high << 7 | length & 0x7F) >> 1)
            else:
                position = _after_sized(body, position)
            if body[position] == 0:
                position += 1
            else:
                headers, position = read_signed(body, position)
                position = _after_headers(body, position, headers)
                steps -= headers
            if position != end:
                raise CorruptData(f"record {delta} is {position - end} bytes longer than it says")
            delta += 1
            steps -= 1
    except IndexError:
        raise CorruptData("a record ends past the batch") from None
    return Walked(position, delta, steps)


def record_times(body: Body, position: int, count: int) -> Iterator[tuple[int, int]]:
    """Offset delta and timestamp delta of each record of a checked batch, in order. Raises CorruptData."""
    try:
        for _ in range(count):
            length, start = read_signed(body, position)
            timestamp_delta, at = read_signed(body, start + 1)
            offset_delta, _ = read_signed(body, at)
            yield offset_delta, timestamp_delta
            position = start + length
    except IndexError:
        raise CorruptData("a record ends past the batch") from None


def _after_delta(body: Body, position: int, expected: int) -> int:
    delta, position = read_signed(body, position)
    if delta != expected:
        raise CorruptData(f"a record has offset delta {delta}, expected {expected}")
    return position


def _after_key(body: Body, position: int) -> int:
    if read_signed(body, position)[0] < 0:
        raise CorruptData("a record has no key; a compacted topic takes none without one")
    return _after_sized(body, position)


def _after_sized(body: Body, position: int) -> int:
    length = body[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = read_signed(body, position)
    if length < 0:
        if length == -1:
            return position
        raise CorruptData(f"length {length} at byte {position}")
    return position + length


def _after_headers(body: Body, position: int, count: int) -> int:
    if not 0 <= count <= HEADERS_MAX:
        raise CorruptData(f"{count} headers before byte {position}, expected 0 to {HEADERS_MAX}")
    for _ in range(count):
        length = body[position]
        if length < 0x80 and not length & 1:
            position += 1 + (length >> 1)
        else:
            length, position = read_signed(body, position)
            if length < 0:
                raise CorruptData(f"a header without a name at byte {position}")
            position += length
        position = _after_sized(body, position)
    return position
