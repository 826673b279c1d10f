"""Laws of the coordinator, in any history: many producers with one id, retries, zombies, timeouts, expiry.

A client here knows only the pairs that it was answered with, some of which it never saw (a lost answer), and
asks with any of them at any time. What is checked after every step:

I6      a client's pair that the id once left is never current again, also after the id expired and came back.
Mine    a pair is answered to one instance only: an instance begins where no epoch was given, and goes on
        where it asked with a pair of its own.
Alone   only the newest instance is ever let into a transaction.
I7      every transaction has exactly one outcome, that of its PrepareX.
Index   DEADLINES, UPDATES and PREPARED are what a scan over all rows says.
Kept    what an instance kept stays as it was, its partitions and its pair, until it ends; two-phase commit
        has no timeout.
Follow  a node that reads the log's bytes holds the same rows.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.controller.errors import ApiError
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.markers import decide_complete
from fencepost.controller.transactions.pairs import client_pair, has_two, transaction_pair
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    DEADLINES,
    EXPIRABLE_STATES,
    NEVER_MS,
    PREPARED,
    PREPARED_STATES,
    TRANSACTION_TABLES,
    TRANSACTIONS,
    UPDATES,
    State,
    Transaction,
    get,
)
from fencepost.controller.view import Overlay, Table, View
from fencepost.records.transaction_log import decode_transaction, encode_transaction
from fencepost.records.types import ImageVersion
from tests.controller.transactions.worlds import (
    AUDIT,
    ID,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    partitions,
    place,
    transaction,
)
from tests.examples import examples

NO_NODE = (-1, -1)
EPOCHS = [0, 1, 32763, 32764, 32765, 32766]
Pair = tuple[int, int]


class History:
    """A coordinator, what its clients were answered, and a follower."""

    def __init__(self, epoch: int | None, first_fresh: int) -> None:
        self.coordinator = Coordinator(next_producer_id=first_fresh)
        self.follower = Overlay(Coordinator().view)
        self.owners: dict[Pair, int] = {}
        self.instance = 0
        self.fenced = -1  # instances up to this one are: a record that says so is in the log
        self.left: set[Pair] = set()
        self.current: Pair | None = None
        self.outcomes: dict[int, State] = {}
        self.versions: list[ImageVersion] = []
        self.timed_out: set[Pair] = set()
        self.markers: dict[int, Pair] = {}
        if epoch is not None:
            row = transaction(State.EMPTY, 42, epoch)
            place(self.coordinator.view, row)
            place(self.follower, row)
            self.owners[42, epoch] = 0
        self.seen = 0

    def held(self, back: int) -> Pair:
        """A pair that some client was answered, so many before the newest."""
        pairs = [NO_NODE, *self.owners]
        return pairs[-1 - back % len(pairs)]

    # -- what may happen -------------------------------------------------------------------------------

    def init(self, pair: Pair, two_phase: bool = False) -> None:
        known = get(self.coordinator.view, ID) is not None
        begins = pair == NO_NODE or not known
        written = len(self.coordinator.written)
        try:
            answer = self.coordinator.init(
                *pair, timeout_ms=TIMEOUT_MS, two_phase=two_phase, init_version=6 if two_phase else 4
            )
        finally:
            if begins and len(self.coordinator.written) > written:
                self.fenced = self.instance
        if begins:
            self.instance += 1
        self.answered(answer, self.instance if begins else self.owners[pair])

    def keep(self, two_phase: bool) -> None:
        before = get(self.coordinator.view, ID)
        answer = self.coordinator.keep(two_phase=two_phase)
        self.fenced = self.instance
        self.instance += 1
        self.answered(answer[:2], self.instance)
        row = self.coordinator.row()
        if before is None or before.state is not State.ONGOING:
            assert answer[2:] == NO_NODE
            return
        assert answer[2:] == transaction_pair(before) == transaction_pair(row)
        assert (row.state, row.partitions, row.started_ms) == (
            before.state,
            before.partitions,
            before.started_ms,
        )

    def answered(self, pair: Pair, instance: int) -> None:
        assert pair[1] <= CLIENT_EPOCH_MAX, "32767 is never given"
        assert instance > self.fenced, "an older instance got a pair"
        assert self.owners.setdefault(pair, instance) == instance, f"{pair} belongs to another instance"

    def add(self, pair: Pair, index: int) -> None:
        before = get(self.coordinator.view, ID)
        answer = self.coordinator.add(*pair, partitions(ORDERS, index), partitions(AUDIT, 0))
        assert before is None or not has_two(before), "added to what was kept"
        assert all(code == 0 for _, codes in answer.errors for _, code in codes)
        self.let_in(pair)

    def let_in(self, pair: Pair) -> None:
        assert self.owners[pair] > self.fenced, "an older instance was let in"
        assert pair not in self.timed_out, "an epoch that timed out was let in"

    def end(self, pair: Pair, committed: bool, bumps_epoch: bool) -> None:
        written = len(self.coordinator.written)
        answer = self.coordinator.end(*pair, committed=committed, bumps_epoch=bumps_epoch)
        if answer is not None:
            self.answered(answer, self.owners[pair])
        row = self.coordinator.row()
        if bumps_epoch and not committed and row.state is State.EMPTY:
            return  # a retry after an abort that was not the producer's: the epoch of that abort is given out
        if len(self.coordinator.written) > written:  # else it is a retry: V2's may follow a timeout's abort
            self.let_in(pair)
        wanted = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
            if committed
            else (
                State.PREPARE_ABORT,
                State.COMPLETE_ABORT,
            )
        )
        assert row.state in wanted

    def complete(self) -> None:
        before = get(self.coordinator.view, ID)
        if before is not None:
            self.versions.append(before.prepared_version)
        ended = self.coordinator.complete()
        assert ended == (before is not None and before.state in PREPARED_STATES)
        if before is not None and ended:
            outcome = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}
            assert self.coordinator.row().state is outcome[before.state]

    def complete_late(self, number: int) -> None:
        """The answer to markers of an earlier transaction arrives once more."""
        if self.versions:
            version = self.versions[number % len(self.versions)]
            late = decide_complete(self.coordinator.view, ID, version, now_ms=self.coordinator.now_ms)
            assert not self.coordinator.applied(late), "late markers ended a transaction"

    def wait(self, ms: int) -> None:
        before = get(self.coordinator.view, ID)
        if self.coordinator.time_out(ms) and before is not None:
            self.timed_out.add(client_pair(before))
            assert not before.is_two_phase, "it has no timeout"

    def expire(self) -> None:
        self.coordinator.expire(TIMEOUT_MS // 2)

    # -- what is checked -------------------------------------------------------------------------------

    def check(self, before: Transaction | None) -> None:
        self._follow()
        row = get(self.coordinator.view, ID)
        current = None if row is None else client_pair(row)
        if current != self.current:
            if self.current is not None:
                self.left.add(self.current)
            self.current = current
        assert current not in self.left, "I6"
        if row is not None and row.state in PREPARED_STATES:
            outcome = self.outcomes.setdefault(row.prepared_version, row.state)
            assert outcome is row.state, "I7"
            marked = self.markers.setdefault(row.prepared_version, transaction_pair(row))
            assert marked == transaction_pair(row), "one transaction, one pair of its markers"
            if before is not None and before.state is State.ONGOING:
                assert marked[0] == before.producer_id, "markers of another producer than the batches"
                assert marked[1] - before.producer_epoch in (0, 1)
                assert marked[1] > before.producer_epoch or not has_two(before), (
                    "the first instance is fenced"
                )
        if before is not None and row is not None and before.state in PREPARED_STATES and row != before:
            assert (before.state, row.state) in (
                (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
                (State.PREPARE_ABORT, State.COMPLETE_ABORT),
            ), "I7"
        assert indexes(self.coordinator.view) == scanned(self.coordinator.view)

    def _follow(self) -> None:
        new = self.coordinator.written[self.seen :]
        self.seen += len(new)
        header = self.coordinator.view.header
        self.follower.header = header if not new else _before(self.coordinator)
        for record in new:
            read = decode_transaction(*encode_transaction(record))
            assert read == record
            replay_record(self.follower, read)
        tables: tuple[Table[Any, Any], ...] = TRANSACTION_TABLES
        for table in tables:
            assert list(self.follower.items(table)) == list(self.coordinator.view.items(table))


def _before(coordinator: Coordinator) -> Any:
    """The header as it was when the last entry was applied."""
    header = coordinator.view.header
    return type(header)(type(header.version)(header.version - 1), *_rest(header))


def _rest(header: Any) -> tuple[Any, ...]:
    return header.controller_epoch, header.leader_id, header.log_ends


def indexes(view: View) -> list[list[Any]]:
    return [list(view.items(DEADLINES)), list(view.items(UPDATES)), list(view.items(PREPARED))]


def scanned(view: View) -> list[list[Any]]:
    """What the indexes should hold, from every row."""
    rows = [row for _, row in view.items(TRANSACTIONS)]
    open_ = [row for row in rows if row.state is State.ONGOING]
    closed = [row for row in rows if row.state in EXPIRABLE_STATES]
    return [
        sorted(
            (
                (
                    NEVER_MS if row.is_two_phase else row.started_ms + row.transaction_timeout_ms,
                    row.transactional_id,
                ),
                row.started_ms,
            )
            for row in open_
        ),
        sorted(((row.updated_ms, row.transactional_id), True) for row in closed),
        sorted((row.transactional_id, row.prepared_version) for row in rows if row.state in PREPARED_STATES),
    ]


# -- histories -------------------------------------------------------------------------------------------

Step = Callable[[History], None]
back = st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2]) | st.integers(0, 1000)
"""Which pair: 0 the newest that a client was answered, 1 the one before it, and so on."""


def _asks(number: int) -> Step:
    return lambda history: history.init(history.held(number))


def _starts(two_phase: bool) -> Step:
    return lambda history: history.init(NO_NODE, two_phase)


def _keeps(two_phase: bool) -> Step:
    return lambda history: history.keep(two_phase)


def _adds(number: int, index: int) -> Step:
    return lambda history: history.add(history.held(number), index)


def _ends(number: int, committed: bool, bumps_epoch: bool) -> Step:
    return lambda history: history.end(history.held(number), committed, bumps_epoch)


def _time_passes(ms: int) -> Step:
    return lambda history: history.wait(ms)


def _late_markers(number: int) -> Step:
    return lambda history: history.complete_late(number)


begins = st.builds(_adds, back, st.integers(0, 3))
completes = st.just(History.complete)
steps: st.SearchStrategy[Step] = st.one_of(
    begins,
    begins,
    completes,
    completes,
    st.builds(_starts, st.booleans()),
    st.builds(_keeps, st.booleans()),
    st.builds(_keeps, st.booleans()),
    st.builds(_asks, back),
    st.builds(_ends, back, st.booleans(), st.booleans()),
    st.builds(_time_passes, st.sampled_from([0, 1, TIMEOUT_MS // 2, TIMEOUT_MS, TIMEOUT_MS])),
    st.builds(_late_markers, st.integers(0, 1000)),
    st.just(History.expire),
)


@settings(max_examples=examples(300))
@given(
    st.none() | st.sampled_from(EPOCHS),
    st.sampled_from([1000, 2**63 - 1000]),
    st.lists(steps, min_size=20, max_size=100),
)
def test_the_laws_hold_in_any_history(epoch: int | None, first_fresh: int, taken: list[Step]) -> None:
    history = History(epoch, first_fresh)
    history.check(None)
    for step in taken:
        before = get(history.coordinator.view, ID)
        with suppress(ApiError):
            step(history)
        history.check(before)
