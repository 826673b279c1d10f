"""Law: of a transactional id only pairs that were given out are ever accepted, whatever is presented.

A walk over two ids. Requests of every version name pairs that were given out, retired ones, pairs of the
other id and invented ones; transactions time out, leaders change with their clocks, ids expire. Some walks
begin with rows that older versions left. After each step:

Accepted   a pair that was accepted was the answer to a request of that id before, and is not 32767.
Current    what a row says of its last transaction names such a pair; a pair that was left never comes back.
Alive      a producer that presents the newest pair that it was given goes on, unless a new instance began.
Sound      no decision and no replay violates an invariant.

A failure prints its seed: ``Walk(seed).run()`` replays it.
"""

from random import Random
from typing import Any, Final

import msgspec
import pytest

from fencepost.controller.errors import ApiError, ConcurrentTransactions, ErrorCode, TransactionTimedOut
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.states import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    PREPARED_STATES,
    State,
    Transaction,
    get,
)
from fencepost.records.invariant import InvariantViolation
from fencepost.records.transaction_log import TransactionStateRecord, decode_transaction, encode_transaction
from fencepost.records.types import Term
from tests.controller.transactions.worlds import (
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    Coordinator,
    partitions,
    transaction,
)
from tests.examples import seeds
from tests.together import table

Pair = tuple[int, int]
NONE: Final[Pair] = (-1, -1)
IDS: Final = ("payments", "refunds")
EDGES: Final = (0, 1, 32764, 32765, 32766, 32767)
DAY_MS: Final = 24 * 3_600_000
STEPS: Final = 400
WALKS: Final = 90
WALKS_TOGETHER: Final = 30  # each of the rows to begin with, three times

TIMED_OUT: Final = {"epoch": 32767, "instance_epoch": 32760, "last_producer_epoch": 32766, "timed_out": True}
FENCED: Final = {"epoch": 32767, "instance_epoch": 32767, "init_version": -1}
OLD_ROWS: Final = (
    transaction(State.COMPLETE_ABORT, **TIMED_OUT),
    transaction(State.ONGOING, **TIMED_OUT),
    transaction(State.PREPARE_ABORT, **TIMED_OUT),
    transaction(State.PREPARE_COMMIT, **TIMED_OUT),
    transaction(State.COMPLETE_COMMIT, **TIMED_OUT),
    transaction(State.COMPLETE_ABORT, **FENCED),
    transaction(State.ONGOING, **FENCED),
    transaction(State.ONGOING, **{**TIMED_OUT, "timed_out": False}),
)
"""What the version before accepted 32767 for. 32766 was given out, unless a new instance had begun."""


class Walk:
    """One coordinator and what its clients were answered."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        epoch = self.rng.choice((0, 5, 32764, 32765, 32766))
        rows = (None, transaction(epoch=epoch), *OLD_ROWS)
        row = rows[seed % len(rows)]
        self.coordinator = Coordinator(*([] if row is None else [row]))
        self.given: dict[str, list[Pair]] = {each: [] for each in IDS}
        self.alive: dict[str, bool] = dict.fromkeys(IDS, False)  # its newest pair may go on
        self.left: set[Pair] = set()
        self.before: dict[str, Transaction | None] = {each: get(self.coordinator.view, each) for each in IDS}
        self.accepted = 0
        if row is not None:
            last = min(row.producer_epoch, CLIENT_EPOCH_MAX)
            first = min(row.instance_epoch, last)
            self.given[IDS[0]] += [(42, epoch) for epoch in range(first, last + 1)]
            self.alive[IDS[0]] = row.init_version >= 0

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        for of in IDS:
            if self.alive[of]:
                self.recover(of)
                self.coordinator.add(*self.given[of][-1], of=of)
        assert self.accepted > 20, "the walk never came far"
        assert all(len(self.given[of]) > 5 for of in IDS)

    # -- what may happen -------------------------------------------------------------------------------

    def step(self) -> None:
        of = self.rng.choice(IDS)
        happens = self.rng.choices(
            (self.init, self.begin, self.add, self.verify, self.end, self.complete, self.wait, self.fail_over,
             self.expire),
            (4, 2, 8, 3, 6, 8, 4, 1, 0.2),
        )[0]  # fmt: skip
        try:
            happens(of)
        except ApiError:
            return
        finally:
            self.check()

    def pair(self, of: str) -> Pair:
        """Given out, retired, of the other id, or invented around them."""
        other = IDS[1 - IDS.index(of)]
        known = [pair for pair in (*self.given[of][-3:], self.of_row(of)) if pair is not None]
        mine = self.rng.choice(known or [(42, 0)])
        return self.rng.choices(
            (
                self.given[of][-1] if self.given[of] else mine,
                self.rng.choice(self.given[of] or [mine]),
                self.rng.choice(self.given[other] or [mine]),
                (mine[0], mine[1] + self.rng.choice((-2, -1, 1, 2))),
                (mine[0], self.rng.choice(EDGES)),
                (self.rng.randrange(5000), self.rng.choice(EDGES)),
                self.of_row(of) or mine,
            ),
            (10, 1, 1, 2, 2, 1, 2),
        )[0]

    def of_row(self, of: str) -> Pair | None:
        row = get(self.coordinator.view, of)
        return None if row is None else (row.producer_id, row.producer_epoch)

    def begin(self, of: str) -> None:
        self.init(of, NONE)

    def init(self, of: str, pair: Pair | None = None) -> None:
        pair = self.pair(of) if pair is None else pair
        pair = pair if -1 <= pair[1] <= EPOCH_MAX else NONE
        known = get(self.coordinator.view, of) is not None
        written = len(self.coordinator.written)
        try:
            answer = self.coordinator.init(*pair, of=of, init_version=self.rng.choice((0, 2, 3, 4, 5)))
        except ConcurrentTransactions:
            if len(self.coordinator.written) > written:  # it aborts what is open
                self.accept(of, pair, begins=pair == NONE)
            raise
        self.accept(of, pair, begins=pair == NONE or not known)
        self.answered(of, answer)

    def accept(self, of: str, pair: Pair, *, begins: bool = False) -> None:
        self.accepted += 1
        assert pair[1] < EPOCH_MAX, "32767 was accepted"
        if begins:
            self.alive[of] = False
            return
        assert pair in self.given[of], f"{pair} was never given out to {of}"

    def answered(self, of: str, pair: Pair) -> None:
        assert 0 <= pair[1] <= CLIENT_EPOCH_MAX, f"{pair} was given out"
        assert pair not in self.given[IDS[1 - IDS.index(of)]], "two ids have one pair"
        if pair in self.given[of]:
            self.given[of].remove(pair)
        self.given[of].append(pair)
        self.alive[of] = True

    def add(self, of: str) -> None:
        pair = self.pair(of)
        answer = self.coordinator.add(*pair, partitions(ORDERS, self.rng.randrange(4)), of=of)
        if all(code == ErrorCode.NONE for _, codes in answer.errors for _, code in codes):
            self.accept(of, pair)

    def verify(self, of: str) -> None:
        pair = self.pair(of)
        self.coordinator.verify(*pair, partitions(ORDERS, 0), of=of)
        self.accept(of, pair)

    def end(self, of: str) -> None:
        pair, version = self.pair(of), self.rng.choice((0, 1, 2, 3, 4, 4, 4, 5))
        committed = self.rng.random() < 0.5
        answer = self.coordinator.end(
            *pair, committed=committed, of=of, knows_abortable=version >= 4, bumps_epoch=version >= 5
        )
        self.accept(of, pair)
        if answer is not None:
            self.answered(of, answer)

    def complete(self, of: str) -> None:
        self.coordinator.complete(of)

    def wait(self, _of: str) -> None:
        self.coordinator.time_out(self.rng.choice((0, 1000, TIMEOUT_MS, TIMEOUT_MS)), grace_ms=1000)

    def fail_over(self, _of: str) -> None:
        """Another leader, with a clock of its own."""
        header = self.coordinator.view.header
        self.coordinator.view.header = msgspec.structs.replace(
            header, controller_epoch=Term(header.controller_epoch + 1)
        )
        jump_ms = self.rng.choice((0, 0, 1000, -1000, 8 * DAY_MS, -8 * DAY_MS))
        self.coordinator.now_ms = max(NOW_MS // 2, self.coordinator.now_ms + jump_ms)
        self.coordinator.activated_ms = self.coordinator.now_ms

    def expire(self, of: str) -> None:
        self.coordinator.expire(0)
        for each in IDS:
            if get(self.coordinator.view, each) is None:
                self.alive[each] = False

    # -- what is checked -------------------------------------------------------------------------------

    def check(self) -> None:
        for record in self.coordinator.written:
            assert decode_transaction(*encode_transaction(record)) == record
        self.coordinator.written.clear()
        for of in IDS:
            before, row = self.before[of], get(self.coordinator.view, of)
            self.before[of] = row
            if row == before:
                continue
            if before is not None and (row is None or pair_of(row) != pair_of(before)):
                self.left.add(pair_of(before))
            if row is None:
                continue
            assert pair_of(row) not in self.left, f"{pair_of(row)} came back"
            by_producer = row.state in (State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT)
            if by_producer and row.producer_epoch < EPOCH_MAX:
                assert pair_of(row) in self.given[of], f"{row} has a pair that was never given out"

    def recover(self, of: str) -> None:
        """Present the newest pair, as a producer does that lost an answer, until it is answered."""
        for _ in range(3):
            try:
                self.init(of, self.given[of][-1])
                return
            except ConcurrentTransactions:
                self.coordinator.complete(of)
        pytest.fail(f"{of} did not recover: {get(self.coordinator.view, of)}")


def pair_of(row: Transaction) -> Pair:
    return row.producer_id, row.producer_epoch


@pytest.mark.parametrize("first_seed", seeds(range(0, WALKS, WALKS_TOGETHER), 1), ids="from-seed-{}".format)
def test_only_pairs_that_were_given_out_are_accepted(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + WALKS_TOGETHER):
        try:
            Walk(seed).run()
        except (AssertionError, InvariantViolation) as failure:
            failure.add_note(f"Walk({seed}).run()")
            raise


# -- rows that older versions left -----------------------------------------------------------------------


def old_rows(*states: State) -> list[Any]:
    return [pytest.param(row, id=_named(row)) for row in OLD_ROWS if row.state in states]


def _named(row: Transaction) -> str:
    by = "timeout" if row.timed_out else "new-instance" if row.init_version < 0 else "init"
    return f"{row.state.wire_name}-{by}"


@pytest.mark.parametrize("row", old_rows(State.ONGOING))
def test_a_transaction_left_open_at_32767_times_out_without_a_bump(row: Transaction) -> None:
    coordinator = Coordinator(row)
    assert coordinator.time_out(TIMEOUT_MS) == (row.transactional_id,)
    aborted = coordinator.row()
    assert (aborted.state, pair_of(aborted)) == (State.PREPARE_ABORT, (42, 32767))
    assert (aborted.instance_epoch, aborted.last_producer_epoch) == (
        row.instance_epoch,
        row.last_producer_epoch,
    )
    assert coordinator.complete()
    with pytest.raises(ApiError):
        coordinator.add(42, 32767)
    assert coordinator.init() == (1000, 0)


KEY = "0000000974696d65642d6f7574"
VALUE = (
    "000100000000000000007fff000013880102076f726465727303000000000000000100000001a20308f382000001a20308f38205e8"
    "07027ffee907027ffeea07020004eb07be0109000001a20308bfbd0000000000000000007ff70472617700000001a20308bfe1000000"
    "0000000000007ff80472617700000001a20308c00f0000000000000000007ff90472617700000001a20308c03c000000000000000000"
    "7ffa0472617700000001a20308c06d0000000000000000007ffb0472617700000001a20308c0a50000000000000000007ffc04726177"
    "00000001a20308c0ba0000000000000000007ffd0472617700000001a20308d61c0100000000000000007ffe0100ec070101"
)
"""A record that commit d5d9294 wrote: AddPartitionsToTxn with 32767, after requests up to 32766 and a
timeout. Its node halted on it 5 s later, and at every start."""


def test_a_record_of_the_version_before_heals() -> None:
    record = decode_transaction(bytes.fromhex(KEY), bytes.fromhex(VALUE))
    assert isinstance(record, TransactionStateRecord)
    coordinator = Coordinator()
    replay_record(coordinator.view, msgspec.structs.replace(record, status=State.EMPTY))
    replay_record(coordinator.view, record)
    coordinator.now_ms = record.started_ms + record.transaction_timeout_ms
    assert coordinator.time_out() == ("timed-out",)
    assert coordinator.complete("timed-out")
    with pytest.raises(TransactionTimedOut):
        coordinator.end(0, 32766, committed=True, of="timed-out")
    assert coordinator.init(0, 32766, of="timed-out") == (1000, 0)
    coordinator.add(1000, 0, of="timed-out")


@table("row", old_rows(*State))
@table(
    "ask",
    [
        pytest.param(lambda coordinator: coordinator.add(42, 32767), id="add"),
        pytest.param(lambda coordinator: coordinator.verify(42, 32767, partitions(ORDERS, 0)), id="verify"),
        pytest.param(lambda coordinator: coordinator.end(42, 32767, committed=True), id="commit"),
        pytest.param(lambda coordinator: coordinator.end(42, 32767, committed=False), id="abort"),
        pytest.param(
            lambda coordinator: coordinator.end(42, 32767, committed=False, bumps_epoch=True), id="v2"
        ),
        pytest.param(lambda coordinator: coordinator.init(42, 32767), id="init"),
    ],
)
def test_32767_is_refused_in_every_state(row: Transaction, ask: Any) -> None:
    coordinator = Coordinator(row)
    with pytest.raises(ApiError) as refused:
        ask(coordinator)
    assert refused.value.code == ErrorCode.PRODUCER_FENCED
    assert coordinator.written == []


@table("row", old_rows(*State))
def test_the_holder_of_32766_goes_on_after_an_old_row_unless_it_was_fenced(row: Transaction) -> None:
    coordinator = Coordinator(row)
    if row.init_version < 0:
        with pytest.raises(ApiError) as refused:
            coordinator.init(42, 32766)
        assert refused.value.code == ErrorCode.PRODUCER_FENCED
        return
    if row.state is State.ONGOING or row.state in PREPARED_STATES:
        with pytest.raises(ConcurrentTransactions):
            coordinator.init(42, 32766)
        assert coordinator.row().state in PREPARED_STATES
        assert coordinator.complete()
    for _ in range(2):
        assert coordinator.init(42, 32766) == (1000, 0)
    coordinator.add(1000, 0)
