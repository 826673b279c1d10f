"""What clients sent and received, one JSON line per attempt; every figure of ``bench`` is counted from it.

Line      {"client", "node", "sent_ns", "received_ns", "outcome", "start", "len"}
Outcome   ``ok``: the block [start, start + len) is the client's. ``refused:CODE``: certainly not done, with
          Kafka's error code. ``unknown``: no answer in time, a connection that ended, or error 7, which
          says that it is unknown; ``received_ns`` is when the client gave up. start and len: null but for ok.
Clock     nanoseconds of CLOCK_MONOTONIC: one clock for all processes of a machine.
"""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

import msgspec

from fencepost.cluster.console import Unreadable

OK: Final = "ok"
UNKNOWN: Final = "unknown"
REFUSED: Final = "refused:"

_LENGTH_BITS: Final = 31  # a length is an int32, not negative
_ROW_BITS: Final = 8
ROWS_MAX: Final = 1 << _ROW_BITS


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One request that was sent, and what became of it."""

    client: int
    node: int
    sent_ns: int
    received_ns: int
    outcome: str
    start: int | None = None
    length: int | None = msgspec.field(name="len", default=None)


_DECODER: Final = msgspec.json.Decoder(Attempt)


def read_history(file: Path) -> Iterator[Attempt]:
    """The attempts of a file, line by line. Raises Unreadable, naming the line."""
    number = 0
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):  # noqa: B007 - for the message
                yield _DECODER.decode(line)
    except (OSError, msgspec.DecodeError) as error:
        raise Unreadable(f"{file}, line {number}: {error}") from error


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of load. What is received in [begin_ns, end_ns) is measured; before it is warm-up."""

    row: int  # below ROWS_MAX
    started_ns: int  # before the first request was sent
    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class Count:
    """What one row's attempts come to."""

    latencies_ns: "array[int]" = field(default_factory=lambda: array("q"))  # of the measured successes
    outcomes: Counter[str] = field(default_factory=Counter)  # of all attempts
    duplicates: int = 0  # blocks that overlap one given out before, of this row or another


def count_rows(attempts: Iterable[Attempt], slices: Sequence[Slice], row_count: int) -> list[Count]:
    """Sort attempts into rows by the slice they were sent in. ``slices`` are in order of time."""
    counts = [Count() for _ in range(row_count)]
    started = [each.started_ns for each in slices]
    blocks: list[int] = []
    for attempt in attempts:
        piece = slices[max(0, bisect_right(started, attempt.sent_ns) - 1)]
        count = counts[piece.row]
        count.outcomes[attempt.outcome] += 1
        if attempt.outcome != OK:
            continue
        if piece.begin_ns <= attempt.received_ns < piece.end_ns:
            count.latencies_ns.append(attempt.received_ns - attempt.sent_ns)
        blocks.append(_pack(attempt, piece.row))
    for row, duplicates in duplicates_by_row(blocks).items():
        counts[row].duplicates = duplicates
    return counts


def count_duplicates(attempts: Iterable[Attempt]) -> int:
    """How many blocks overlap one that begins before them, or where they do."""
    blocks = [_pack(attempt, 0) for attempt in attempts if attempt.outcome == OK]
    return duplicates_by_row(blocks).total()


def duplicates_by_row(blocks: list[int]) -> Counter[int]:
    """Sorts ``blocks`` in place. Half-open: [0, 10) and [10, 20) do not overlap."""
    blocks.sort()
    found: Counter[int] = Counter()
    end = -1
    for block in blocks:
        start = block >> (_LENGTH_BITS + _ROW_BITS)
        length = (block >> _ROW_BITS) & ((1 << _LENGTH_BITS) - 1)
        if start < end:
            found[block & (ROWS_MAX - 1)] += 1
        end = max(end, start + length)
    return found


def _pack(attempt: Attempt, row: int) -> int:
    """A block as one integer that sorts by start: a tenth of the memory of a tuple, for millions of them."""
    start, length = attempt.start, attempt.length
    if start is None or length is None or start < 0 or not 0 < length < 1 << _LENGTH_BITS:
        raise Unreadable(f"a success without a block: start {start}, len {length}")
    return (start << _LENGTH_BITS | length) << _ROW_BITS | row


def first_successes(attempts: Iterable[Attempt], after_ns: Sequence[int]) -> list[int | None]:
    """For each moment (ascending), when the first success of any request sent after it was received."""
    first: list[int | None] = [None] * len(after_ns)
    for attempt in attempts:
        if attempt.outcome != OK:
            continue
        for position in range(bisect_right(after_ns, attempt.sent_ns - 1) - 1, -1, -1):
            known = first[position]
            if known is not None and known <= attempt.received_ns:
                break  # and so for all earlier moments
            first[position] = attempt.received_ns
    return first


def percentile(sorted_values: Sequence[float], fraction: float) -> float | None:
    """The smallest value that at least ``fraction`` of all are not above (nearest rank); None of nothing."""
    if not sorted_values:
        return None
    return sorted_values[max(1, ceil(fraction * len(sorted_values))) - 1]
