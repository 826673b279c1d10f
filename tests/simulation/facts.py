"""What is known of transactions beside the log: what partitions appended, and what producers were told.

A *purpose* is one transaction as its client means it. Every batch carries its purpose and a number that no
other batch has, so that each partition tells what became of each.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.records.transaction_log import NO_PRODUCER_ID, TransactionStateRecord
from fencepost.records.types import ImageVersion, LogIndex, ProducerId

Place = int  # a partition of the one topic
Pair = tuple[ProducerId, int]  # producer id, epoch


class Purpose(NamedTuple):
    """Names one transaction of one client."""

    transactional_id: str
    number: int


class Wrote(NamedTuple):
    """A partition appended a batch."""

    place: Place
    pair: Pair
    purpose: Purpose
    number: int


class Marked(NamedTuple):
    """A partition appended a marker. ``closed``: the purposes whose batches it ended."""

    place: Place
    pair: Pair
    committed: bool
    version: ImageVersion
    closed: tuple[Purpose, ...]


class PassedOver(NamedTuple):
    """A partition answered a marker NONE and appended nothing. ``still_open``: of that very transaction."""

    place: Place
    pair: Pair
    version: ImageVersion
    still_open: tuple[Purpose, ...]


class MarkedByHand(NamedTuple):
    """A partition appended a marker that is not the coordinator's."""

    place: Place
    pair: Pair
    closed: tuple[Purpose, ...]


class Identified(NamedTuple):
    """An InitProducerId was answered with a pair. ``ongoing``: the producer id of what was kept, or -1."""

    transactional_id: str
    pair: Pair
    ongoing: ProducerId = NO_PRODUCER_ID


class Given(NamedTuple):
    """An EndTxn of transactions V2 was answered with the pair of the next transaction."""

    transactional_id: str
    pair: Pair


class Refused(NamedTuple):
    """The coordinator said that a pair is fenced or unknown: the newest that its instance was answered."""

    transactional_id: str
    pair: Pair


class Asked(NamedTuple):
    """A client is about to end a transaction so."""

    purpose: Purpose
    committed: bool


class Ended(NamedTuple):
    """A client was told that its transaction ended so."""

    purpose: Purpose
    committed: bool


class Acknowledged(NamedTuple):
    """A client was told that a batch of its is in the log."""

    place: Place
    purpose: Purpose
    number: int


Fact = (
    Wrote | Marked | PassedOver | MarkedByHand | Identified | Given | Refused | Asked | Ended | Acknowledged
)


class Prepared(NamedTuple):
    """A PrepareX of the committed log."""

    record: TransactionStateRecord
    version: ImageVersion


@dataclass(slots=True)
class TransactionFacts:
    """All that was seen so far; the invariants write it down as they judge it."""

    judged: LogIndex = LogIndex(0)  # entries up to here
    current: dict[str, Pair] = field(default_factory=dict)  # by transactional id
    left: dict[str, set[Pair]] = field(default_factory=dict)
    owners: dict[ProducerId, str] = field(default_factory=dict)
    floors: dict[ProducerId, tuple[str, int]] = field(default_factory=dict)  # below it everything is fenced
    taken_over: dict[str, Pair] = field(default_factory=dict)  # the newest pair that another instance fenced
    open: dict[str, Pair] = field(default_factory=dict)  # the transaction's pair, while one is open
    preparing: dict[str, Prepared] = field(default_factory=dict)
    prepared: dict[tuple[ProducerId, ImageVersion], Prepared] = field(default_factory=dict)
    marked: set[tuple[Place, ProducerId, ImageVersion]] = field(default_factory=set)
    written: set[tuple[Place, int]] = field(default_factory=set)  # place and number
    acknowledged: dict[Purpose, set[tuple[Place, int]]] = field(default_factory=dict)
    asked: dict[Purpose, bool] = field(default_factory=dict)
    ended: dict[Purpose, bool] = field(default_factory=dict)
    outcomes: dict[Purpose, bool] = field(default_factory=dict)
    ending: dict[str, set[Purpose]] = field(default_factory=dict)  # by id: they have it, no CompleteX yet
    over: set[Purpose] = field(default_factory=set)  # they have an outcome, and its CompleteX is in the log
