"""Descriptions of transactions, for tools and people.

Deviation   a start time and a running time are those of an open transaction alone; Kafka keeps the last
            one's in CompleteX and finds that an id in Empty has run since 1970.
Source      KIP-664, KIP-994, KIP-1152; Kafka DescribeTransactions, ListTransactions; docs/kafka-notes.md B7.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import re2

from fencepost.controller.errors import ErrorCode, InvalidRegularExpression
from fencepost.controller.transactions.ending import with_markers
from fencepost.controller.transactions.pairs import has_two
from fencepost.controller.transactions.states import (
    DEADLINES,
    NEVER_MS,
    PREPARED_STATES,
    STATE_OF_NAME,
    TRANSACTIONS,
    State,
    Transaction,
    get,
)
from fencepost.controller.view import View
from fencepost.records.transaction_log import NO_EPOCH, NO_PRODUCER_ID, TopicPartitions
from fencepost.records.types import ProducerId

DESCRIBED_PARTITIONS_MAX: Final = 10_000
"""Partitions in one answer, and at most those of one transaction more."""

PATTERN_CHARACTERS_MAX: Final = 1000  # of ListTransactions' pattern; RE2 takes time linear in the id
OPEN_STATES: Final = PREPARED_STATES | {State.ONGOING}


class DescribeTransactions(msgspec.Struct, frozen=True):
    """A request for the state of some transactions (API key 65)."""

    transactional_ids: tuple[str, ...]


class DescribedTransaction(msgspec.Struct, frozen=True):
    """One id. With an ``error_code`` the rest says nothing. ``partitions``: whose marker is still missing."""

    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    transaction_timeout_ms: int = 0
    started_ms: int = -1
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: tuple[TopicPartitions, ...] = ()


class DescribeTransactionsAnswer(msgspec.Struct, frozen=True):
    """One for each id, in the order of the request."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactions(msgspec.Struct, frozen=True):
    """API key 66. Empty filters let all pass; the filters are ANDed.

    ``duration_ms``   from version 1 on: open for longer than that; -1: all.
    ``pattern``       from version 2 on: the whole id matches this RE2 expression; None or "": all.
    ``may_see``       of an authorizer, never of the client: the ids that it may know of. None: all. It is
                      called on the thread that reads.
    """

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[ProducerId, ...] = ()
    duration_ms: int = -1
    pattern: str | None = None
    may_see: Callable[[str], bool] | None = None


class ListedTransaction(msgspec.Struct, frozen=True):
    """The row of one transactional id in a list.

    ``two_phase_ms``   for how long a transaction of two-phase commit is open; -1: there is none.
    ``is_kept``        a new instance keeps what another one left open (KIP-939).
    """

    transactional_id: str
    producer_id: ProducerId
    state: str
    two_phase_ms: int = -1
    is_kept: bool = False


class ListTransactionsAnswer(msgspec.Struct, frozen=True):
    """``unknown_state_filters``: names of the request that are no state."""

    unknown_state_filters: tuple[str, ...]
    transactions: tuple[ListedTransaction, ...]


def describe(
    view: View, transactional_id: str, marked: Callable[[str], frozenset[tuple[str, int]]] | None = None
) -> DescribedTransaction:
    """One id. ``marked``: of an id in PrepareX, the partitions whose marker is known to be written."""
    if not transactional_id:
        return DescribedTransaction(transactional_id, ErrorCode.INVALID_REQUEST)
    row = get(view, transactional_id)
    if row is None:
        return DescribedTransaction(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    partitions = row.partitions
    if marked is not None and row.state in PREPARED_STATES:
        partitions = without(with_markers(partitions), marked(transactional_id))
    return DescribedTransaction(
        transactional_id=transactional_id,
        state=row.state.wire_name,
        transaction_timeout_ms=row.transaction_timeout_ms,
        started_ms=row.started_ms if row.state in OPEN_STATES else -1,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        partitions=partitions,
    )


def describe_many(
    view: View,
    transactional_ids: Sequence[str],
    marked: Callable[[str], frozenset[tuple[str, int]]] | None = None,
) -> tuple[DescribedTransaction, ...]:
    """Each id in order. Ids past DESCRIBED_PARTITIONS_MAX partitions are answered 14, which clients retry.

    Kafka's admin client sends a new request for those ids alone.
    """
    rows: list[DescribedTransaction] = []
    partitions = 0
    for each in transactional_ids:
        if partitions >= DESCRIBED_PARTITIONS_MAX:
            rows.append(DescribedTransaction(each, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            continue
        row = describe(view, each, marked)
        partitions += sum(len(topic.partition_ids) for topic in row.partitions)
        rows.append(row)
    return tuple(rows)


def without(
    partitions: tuple[TopicPartitions, ...], gone: frozenset[tuple[str, int]]
) -> tuple[TopicPartitions, ...]:
    """``partitions`` that are not in ``gone``, in their order; a topic without any is left out."""
    rest = []
    for each in partitions:
        indexes = tuple(index for index in each.partition_ids if (each.topic, index) not in gone)
        if indexes:
            rest.append(TopicPartitions(each.topic, indexes))
    return tuple(rest)


class Selection:
    """The filters of a ListTransactions, ready to be applied to rows."""

    def __init__(self, request: ListTransactions) -> None:
        """Compile the filters. Raises InvalidRegularExpression."""
        named = {name: STATE_OF_NAME.get(name) for name in request.state_filters}
        self.unknown_state_filters = tuple(name for name, state in named.items() if state is None)
        self._states = frozenset(state for state in named.values() if state is not None) if named else None
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_ms
        self._pattern = _compiled(request.pattern) if request.pattern else None
        self._may_see = request.may_see

    def takes(self, row: Transaction, now_ms: int) -> bool:
        """The row passes every filter."""
        if self._states is not None and row.state not in self._states:
            return False
        if self._producer_ids and row.producer_id not in self._producer_ids:
            return False
        if self._duration_ms >= 0:
            if row.state not in OPEN_STATES or now_ms - row.started_ms <= self._duration_ms:
                return False
        if self._pattern is not None and self._pattern.fullmatch(row.transactional_id) is None:
            return False
        return self._may_see is None or self._may_see(row.transactional_id)


def _compiled(pattern: str) -> Any:
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidRegularExpression(
            f"a pattern of {len(pattern)} characters; at most {PATTERN_CHARACTERS_MAX} are taken"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegularExpression(f"{pattern!r} is no RE2 expression: {error}") from error


def list_slice(
    view: View, selection: Selection, *, after: str | None, rows_max: int, now_ms: int
) -> tuple[tuple[ListedTransaction, ...], str | None]:
    """Those selected of the next ``rows_max`` ids beyond ``after``, and where to go on; None at the end."""
    listed = []
    last, walked = None, 0
    for transactional_id, row in islice(view.scan(TRANSACTIONS, after), rows_max):
        last, walked = transactional_id, walked + 1
        if selection.takes(row, now_ms):
            listed.append(_listed(row, now_ms))
    return tuple(listed), last if walked == rows_max else None


def _listed(row: Transaction, now_ms: int) -> ListedTransaction:
    is_open = row.state in OPEN_STATES
    return ListedTransaction(
        row.transactional_id,
        row.producer_id,
        row.state.wire_name,
        max(0, now_ms - row.started_ms) if is_open and row.is_two_phase else -1,
        row.state is State.ONGOING and has_two(row),
    )


class OpenTimes(NamedTuple):
    """Open transactions: for how long the oldest is open, and those of two-phase commit apart."""

    longest_ms: int = 0
    two_phase: int = 0
    two_phase_longest_ms: int = 0


def open_time_slice(
    view: View, so_far: OpenTimes, *, after: tuple[int, str] | None, rows_max: int, now_ms: int
) -> tuple[OpenTimes, tuple[int, str] | None]:
    """``so_far`` with the next ``rows_max`` open transactions, and where to go on.

    Row 939.9: after the last slice they are the metrics, active-transaction-open-time-max first.
    """
    longest_ms, two_phase, two_phase_longest_ms = so_far
    last, walked = None, 0
    for key, started_ms in islice(view.scan(DEADLINES, after), rows_max):
        last, walked = key, walked + 1
        longest_ms = max(longest_ms, now_ms - started_ms)
        if key[0] == NEVER_MS:
            two_phase, two_phase_longest_ms = two_phase + 1, max(two_phase_longest_ms, now_ms - started_ms)
    times = OpenTimes(longest_ms, two_phase, two_phase_longest_ms)
    return times, last if walked == rows_max else None
