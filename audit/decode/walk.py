"""Where the batches of a segment begin, and what to make of bytes that are no batch.

Walk        a batch begins where the one before it ended. One that could begin there has magic 2, a possible
            length and an offset that the segment could hold; its checksum is not verified.
Broken      where no batch can begin, the one before it is looked at again: if its checksum is wrong, its
            length may be what is wrong, and the break is at its start; unless the length that lies at the
            break leads to a sound batch. Then every position after the break is tried until a batch is
            found whose checksum is right: what lies between is ``Unreadable``.
Torn        a batch that the file ends in, if no sound batch follows and its checksum does not fit the bytes
            that are there. Zeros up to the end of the file are preallocated. Both are ``Stop``, not rows:
            a writer that is at work leaves the same.
Consistent  spans depend on the bytes alone, not on windows: a walk that starts at a sound batch gives
            what a walk from 0 gives from there on.

Source      Kafka FileRecords, DefaultRecordBatch; LogSegment.canConvertToRelativeOffset (an offset is at most
            2^31 - 1 above its segment's base).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from fencepost.audit.decode.files import Bytes, OpenFile
from fencepost.records.batch_layout import (
    CHECKED_AT,
    CRC_AT,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_COUNTS_FROM,
    MAGIC,
    MAGIC_AT,
    field,
    size_at,
)

BATCH_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka takes no request above ``socket.request.max.bytes``, by default this; no batch is larger."""

SEARCH_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024  # of checksums in one search for the next batch: a second
USUAL_BYTES_MAX: Final = 1024 * 1024  # of a batch: Kafka's ``message.max.bytes`` unless it is set
WINDOW_BYTES: Final = 8 * 1024 * 1024  # read at a time; more only for a batch that is larger
OFFSETS_MAX: Final = 2**31  # of one segment
_FIRST_BYTES: Final = 64 * 1024  # read first after a break: there may be many, each near the one before
_AHEAD_BYTES: Final = CRC_AT  # offset, length, leader epoch, magic: what tells a batch from no batch
_OLD_MAGICS: Final = (0, 1)
_ALIKE_MIN: Final = 16  # batches of one size in a row, from which on they are counted together
_ALIKE_WORTH: Final = 64  # so many that counting them together took less time than one by one
_LENGTH: Final = field("length")

Positions = npt.NDArray[np.int64]


class Walk(NamedTuple):
    """Batches of a buffer.

    ``stop``  why it went no further than ``stop_position``: "end" (of the file), "more" (the bytes go on past
              the buffer; ``needed`` of them from there on are enough), "torn" (the file ends in a batch) or
              "broken" (no batch can begin there).
    """

    positions: Positions
    stop: str
    stop_position: int
    needed: int = 0


class Bounds(NamedTuple):
    """The base offsets that batches of a segment may have, both inclusive."""

    lowest: int
    highest: int

    @classmethod
    def of(cls, segment_base: int | None) -> "Bounds":
        """Of a segment by its name; without a name any offset."""
        if segment_base is None:
            return cls(0, 2**63 - 1)
        return cls(segment_base, min(segment_base + OFFSETS_MAX, 2**63 - 1))


class Run(NamedTuple):
    """Batches one after another: ``positions`` in ``buffer``, which begins at ``origin`` of the file.

    The buffer is overwritten by the next span.
    """

    buffer: Bytes
    origin: int
    positions: Positions
    end: int  # in the file: where the last of them ends


class Unreadable(NamedTuple):
    """``size`` bytes from ``position`` of the file on that are no batch."""

    position: int
    size: int
    reason: str


class Stop(NamedTuple):
    """Where the batches of a file end, and why: "end", "preallocated", "torn", or "unreadable"."""

    valid_end: int
    stop: str
    reason: str | None = None


Span = Run | Unreadable | Stop
ANY: Final = Bounds.of(None)


def walk(buffer: Bytes, start: int, end_of_file: bool, bounds: Bounds = ANY) -> Walk:
    """The whole batches from ``start`` on, each of which may be one by its header. Checksums are not read."""
    found, reached = _by_length(buffer, start, end_of_file)
    if len(found):
        ahead = found[found + _AHEAD_BYTES <= len(buffer)]
        wrong = np.flatnonzero(~_possible(buffer, ahead, bounds))
        if len(wrong):
            return Walk(found[: wrong[0]], "broken", int(found[wrong[0]]))
    return _stopped(buffer, found, reached, end_of_file, bounds)


def _stopped(buffer: Bytes, found: Positions, reached: int, end_of_file: bool, bounds: Bounds) -> Walk:
    there = len(buffer) - reached
    if there == 0 and end_of_file:
        return Walk(found, "end", reached)
    if there >= _AHEAD_BYTES:
        if not _possible(buffer, np.array([reached]), bounds)[0]:
            return Walk(found, "broken", reached)
        size = _size(buffer, reached)
        if size < HEADER_BYTES or size > BATCH_BYTES_MAX:
            return Walk(found, "broken", reached)
    else:
        size = _AHEAD_BYTES
    if end_of_file:
        return Walk(found, "torn", reached)
    return Walk(found, "more", reached, size + _AHEAD_BYTES)


def _by_length(buffer: Bytes, start: int, end_of_file: bool) -> tuple[Positions, int]:
    """By lengths alone: the batches that are there whole, and where the first one that is not begins."""
    limit = len(buffer) - (0 if end_of_file else _AHEAD_BYTES)
    last_header = len(buffer) - LEADER_EPOCH_AT
    unpack, content = _LENGTH.unpack_from, buffer.data
    parts: list[Positions] = []
    positions: list[int] = []
    position, alike, size_before = start, 0, 0
    alike_min = _ALIKE_MIN
    while position <= last_header:
        size = unpack(content, position + LENGTH_AT)[0] + LENGTH_COUNTS_FROM
        after = position + size
        if size < HEADER_BYTES or size > BATCH_BYTES_MAX or after > limit:
            break
        positions.append(position)
        position = after
        if size != size_before:
            size_before, alike = size, 0
            continue
        alike += 1
        if alike == alike_min:
            alike = 0
            count = _count_alike(buffer, position, size, limit)
            alike_min = _ALIKE_MIN if count > _ALIKE_WORTH else 4 * alike_min
            if count:
                parts += (np.array(positions, np.int64), position + size * np.arange(count, dtype=np.int64))
                positions = []
                position += count * size
    parts.append(np.array(positions, np.int64))
    return np.concatenate(parts), position


def _count_alike(buffer: Bytes, position: int, size: int, limit: int) -> int:
    """How many batches of ``size`` bytes, by their length, follow one another from ``position`` on."""
    most = (limit - position) // size
    counted = 0
    step = _ALIKE_MIN
    expected = np.frombuffer(_LENGTH.pack(size - LENGTH_COUNTS_FROM), np.uint8)
    while counted < most:
        step = min(step * 4, most - counted)
        lengths = as_strided(buffer[position + counted * size + LENGTH_AT :], (step, 4), (size, 1))
        other = np.flatnonzero((lengths != expected).any(axis=1))
        if len(other):
            return counted + int(other[0])
        counted += step
    return counted


def _possible(buffer: Bytes, positions: Positions, bounds: Bounds) -> npt.NDArray[np.bool_]:
    """Where a batch may begin by its magic and offset; ``_AHEAD_BYTES`` are there of each."""
    if len(positions) == 0:
        return np.zeros(0, np.bool_)
    offsets = sliding_window_view(buffer, 8)[positions].view(">i8")[:, 0].astype(np.int64)
    in_bounds = (offsets >= bounds.lowest) & (offsets <= bounds.highest)
    possible: npt.NDArray[np.bool_] = in_bounds & (buffer[positions + MAGIC_AT] == MAGIC)
    return possible


def spans(opened: OpenFile, start: int, bounds: Bounds = ANY) -> Iterator[Span]:
    """The file from ``start``, where a batch begins, to its end; the last span is a Stop. Raises OSError."""
    position, wanted = start, WINDOW_BYTES
    window = np.empty(min(WINDOW_BYTES, max(0, opened.size - start)), np.uint8)
    while True:
        buffer = opened.read(position, wanted, window)
        if len(buffer) < min(wanted, opened.size - position):
            yield Stop(position, "unreadable", "the file became shorter while it was read")
            return
        at_end = position + len(buffer) >= opened.size
        walked = walk(buffer, 0, at_end, bounds)
        wanted = min(2 * wanted, WINDOW_BYTES)
        if walked.stop == "more" and not len(walked.positions):
            wanted = max(walked.needed, wanted)
            continue
        positions, stop_position = walked.positions, walked.stop_position
        if _led_astray(opened, buffer, position, walked, bounds):
            stop_position = int(positions[-1])
            positions = positions[:-1]
        if len(positions):
            yield Run(buffer, position, positions, position + stop_position)
        position += stop_position
        if walked.stop == "end":
            yield Stop(position, "end")
            return
        if walked.stop != "more":
            broken = _after_break(opened, position, bounds, torn=walked.stop == "torn")
            yield broken
            if isinstance(broken, Stop):
                return
            position += broken.size
            wanted = min(_FIRST_BYTES, WINDOW_BYTES)


def _led_astray(opened: OpenFile, buffer: Bytes, origin: int, walked: Walk, bounds: Bounds) -> bool:
    """Whether it is the length of the last batch before a break that is wrong."""
    if walked.stop not in {"broken", "torn"} or not len(walked.positions):
        return False
    last = int(walked.positions[-1])
    if _is_sound(buffer, last):
        return False
    if walked.stop == "torn":
        return _ends_the_file(opened, origin + last)
    return not _leads_on(opened, origin + walked.stop_position, bounds)


def _leads_on(opened: OpenFile, position: int, bounds: Bounds) -> bool:
    """Whether the length that lies at ``position`` is right, going by where it leads to."""
    head = opened.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return False
    after = position + _size(head, 0)
    return after > position and (after == opened.size or is_sound_at(opened, after, bounds))


def _after_break(opened: OpenFile, position: int, bounds: Bounds, *, torn: bool) -> Unreadable | Stop:
    if _is_zero(opened, position):
        return Stop(position, "preallocated", f"{opened.size - position} zero bytes")
    reason = _reason(opened.read(position, HEADER_BYTES), opened.size - position, bounds)
    following = _next_sound(opened, position + 1, bounds)
    if following is not None:
        return Unreadable(position, following - position, reason)
    if torn and not _ends_the_file(opened, position):
        return Stop(position, "torn", reason)
    if position == opened.size:
        return Stop(position, "end")
    return Unreadable(position, opened.size - position, reason)


def _is_zero(opened: OpenFile, position: int) -> bool:
    wanted = min(_FIRST_BYTES, WINDOW_BYTES)
    while position < opened.size:
        buffer = opened.read(position, wanted)
        if not len(buffer) or buffer.any():
            return False
        position += len(buffer)
        wanted = min(2 * wanted, WINDOW_BYTES)
    return True


def _ends_the_file(opened: OpenFile, position: int) -> bool:
    """Whether a batch ends where the file ends, whatever it says, going by its checksum."""
    there = opened.size - position
    if not HEADER_BYTES <= there <= BATCH_BYTES_MAX:
        return False
    return _crc_fits(opened.read(position, there), 0, there)


def _reason(head: Bytes, there: int, bounds: Bounds) -> str:
    if len(head) < _AHEAD_BYTES:
        return f"{there} bytes, a batch takes at least {HEADER_BYTES}"
    offset = int.from_bytes(head[:8].tobytes(), signed=True)
    size, magic = _size(head, 0), int(head[MAGIC_AT])
    if magic in _OLD_MAGICS:
        return f"magic {magic}, expected {MAGIC}: messages as they were before Kafka 0.11 are not read"
    if magic != MAGIC:
        return f"magic {magic}, expected {MAGIC}"
    if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
        return f"a batch of {size} bytes, expected {HEADER_BYTES} to {BATCH_BYTES_MAX}"
    if not bounds.lowest <= offset <= bounds.highest:
        return f"offset {offset}, expected {bounds.lowest} to {bounds.highest}"
    if size > there:
        return f"a batch of {size} bytes, of which {there} are there"
    return f"a batch of {size} bytes with a wrong checksum, and no batch after it"


def _next_sound(opened: OpenFile, position: int, bounds: Bounds) -> int | None:
    """The first position from ``position`` on where a batch begins whose checksum is right.

    Bytes can be made to look like the headers of many large batches: of those that are larger than usual no
    more are tried than ``SEARCH_BYTES_MAX`` bytes of, or a search would not end.
    """
    wanted, left = min(_FIRST_BYTES, WINDOW_BYTES), SEARCH_BYTES_MAX
    while position + HEADER_BYTES <= opened.size:
        buffer = opened.read(position, max(wanted, HEADER_BYTES))
        wanted = min(2 * wanted, WINDOW_BYTES)
        if len(buffer) < HEADER_BYTES:
            return None
        for candidate in _candidates(buffer, bounds):
            at = position + candidate
            size = _size(buffer, candidate)
            if at + size > opened.size or size > max(left, USUAL_BYTES_MAX):
                continue
            left -= size
            whole = buffer[candidate : candidate + size]
            if len(whole) < size:
                whole = opened.read(at, size)
            if len(whole) == size and _crc_fits(whole, 0, size):
                return at
        position += len(buffer) - HEADER_BYTES + 1
    return None


def _candidates(buffer: Bytes, bounds: Bounds) -> list[int]:
    """Where in ``buffer`` a header lies that a batch of these bounds may have."""
    magics = np.flatnonzero(buffer[MAGIC_AT : len(buffer) - (HEADER_BYTES - MAGIC_AT) + 1] == MAGIC)
    magics = magics[_possible(buffer, magics, bounds)]
    if not len(magics):
        return []
    lengths = sliding_window_view(buffer, 4)[magics + LENGTH_AT].view(">i4")[:, 0].astype(np.int64)
    sizes = lengths + LENGTH_COUNTS_FROM
    chosen: list[int] = magics[(sizes >= HEADER_BYTES) & (sizes <= BATCH_BYTES_MAX)].tolist()
    return chosen


def _size(buffer: Bytes, position: int) -> int:
    return size_at(buffer.data, position)


def _is_sound(buffer: Bytes, position: int) -> bool:
    return _crc_fits(buffer, position, position + _size(buffer, position))


def _crc_fits(buffer: Bytes, position: int, end: int) -> bool:
    written = int.from_bytes(buffer[position + CRC_AT : position + CHECKED_AT].tobytes())
    return written == crc32c(buffer.data[position + CHECKED_AT : end])


def is_sound_at(opened: OpenFile, position: int, bounds: Bounds) -> bool:
    """Whether a batch begins at ``position`` that lies in the file whole and whose checksum is right."""
    head = opened.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES or not _possible(head, np.array([0]), bounds)[0]:
        return False
    size = _size(head, 0)
    if not HEADER_BYTES <= size <= min(BATCH_BYTES_MAX, opened.size - position):
        return False
    return _crc_fits(opened.read(position, size), 0, size)
