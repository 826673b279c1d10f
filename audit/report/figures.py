"""What a report shows besides the verdict: numbers that were summed up where the rows are.

Time      bins of one width over the time that the logs tell of; a bin is half-open.
Bounds    a chart has at most ``BINS_MAX`` bins and ``SERIES_MAX`` series, a list ``ROWS_MAX`` rows.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

BINS_MAX: Final = 60  # bars that a page of ordinary width can show apart
SERIES_MAX: Final = 7  # brokers with a colour of their own; the others are one series
ROWS_MAX: Final = 200  # of the newest fences, and of the oldest open transactions

PRODUCER_ID_END_MAX: Final = 2**63 - 1  # Kafka's ids are int64; a block's end is exclusive
SECONDS_A_YEAR: Final = 365.25 * 86_400


class Bins(NamedTuple):
    """``bin_count`` spans of ``width_ms`` milliseconds, the first from ``first_ms`` on."""

    first_ms: int
    width_ms: int
    bin_count: int


class Series(NamedTuple):
    """Values of one line of a chart, one per bin."""

    label: str
    values: tuple[int, ...]


class Chart(NamedTuple):
    """Series over the same bins."""

    bins: Bins
    series: tuple[Series, ...]


class Histogram(NamedTuple):
    """Counts per class; ``ends`` are the exclusive upper bounds in ms, of which the last is not kept to."""

    ends: tuple[int, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdSpace:
    """Producer ids given out so far. Times are those of the first and the last block in the log."""

    end: int  # the first id that was never given out
    block_count: int
    given_out: int  # in the blocks that are known, ids counted once per block
    broker_count: int
    first_ms: int | None
    last_ms: int | None
    fastest: float  # ids a second, in the bin with the most

    @property
    def mean(self) -> float:
        """Ids a second, over the time between the first and the last block; 0 where that is no time."""
        if self.first_ms is None or self.last_ms is None or self.last_ms <= self.first_ms:
            return 0.0
        return self.given_out / ((self.last_ms - self.first_ms) / 1000)

    def years_left(self, rate: float) -> float | None:
        """Until there is no id left, at ``rate`` ids a second; None: never, at this rate."""
        if rate <= 0:
            return None
        return (PRODUCER_ID_END_MAX - self.end) / rate / SECONDS_A_YEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Of ended transactions, from start to the record that completes them, in milliseconds."""

    committed: int
    aborted: int
    p50: float
    p90: float
    p99: float
    longest: int
    histogram: Histogram


class Fence(NamedTuple):
    """A producer that lost its id's current epoch: which, when, why and to whom."""

    at_ms: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    cause: str
    by: str


class OpenTransaction(NamedTuple):
    """A transaction without an end in the logs."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    started_ms: int
    timeout_ms: int
    partitions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of them; None or empty where the logs hold nothing of the kind."""

    ids: IdSpace | None = None
    allocation: Chart | None = None  # ids per broker and bin
    durations: Durations | None = None
    open_over_time: Chart | None = None  # one series: the most that were open at once in each bin
    open_now: tuple[OpenTransaction, ...] = ()
    fences: tuple[Fence, ...] = ()  # the newest first
    fence_causes: tuple[tuple[str, int], ...] = ()  # cause, how many; the most frequent first
